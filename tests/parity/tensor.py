"""Tensors: conversion, printing and errors."""

import copy
import pickle

import numpy as np

VALUES = {
    "int": 1,
    "float": 1.5,
    "bool": True,
    "str": "ab",
    "bytes": b"ab",
    "complex": 1 + 2j,
    "ints": [1, 2],
    "int and float": [1, 2.5],
    "nested": [[1, 2], [3, 4]],
    "deep": [[[1]], [[2]]],
    "empty": [],
    "two empty": [[], []],
    "beyond int32": 2**31,
    "below int32": -(2**31) - 1,
    "one beyond int32": [2**31, 1],
    "float and large int": [1.5, 2**40],
    "numpy float32": np.float32(1.5),
    "numpy float64": np.float64(1.5),
    "numpy int64": np.int64(3),
    "numpy uint8": np.uint8(3),
    "numpy float16": np.float16(1),
    "numpy array": np.array([1.0, 2.0]),
    "numpy empty": np.zeros((0, 3)),
    "numpy big-endian": np.array([1, 2], dtype=">i4"),
    "numpy texts": np.array(["a", "bc"]),
    "numpy bytes": np.array([b"a", b"bc"]),
    "numpy object texts": np.array(["a", b"b"], dtype=object),
    "numpy object ints": np.array([1, 2], dtype=object),
    "numpy object none": np.array([1, None], dtype=object),
    "list of float64": [np.float64(1), 2.0],
    "list of int64": [np.int64(1), 2],
    "int before float64": [1, np.float64(2)],
    "list of int8": [np.int8(1)],
    "list of float16": [np.float16(1)],
    "list of int arrays": [np.array([1, 2]), np.array([3, 4])],
    "list of float arrays": [np.array([1.0]), [2.0]],
    "list of complex64": [np.complex64(1)],
    "list of numpy bool": [True, np.bool_(False)],
    "list of large int64": [np.int64(2**40)],
    "list of uneven arrays": [np.array([1, 2]), np.array([1])],
    "ragged": [[1, 2], [3]],
    "scalar then list": [1, [2]],
    "list then scalar": [[1], 2],
    "deep list then scalar": [[[1]], [2]],
    "scalar list scalar": [1, [2], 3],
    "filled then empty": [[1], []],
    "ragged texts": [["a"], ["b", "c"]],
    "bool then int": [True, 1],
    "bool then float": [True, 1.5],
    "int then bool": [1, True],
    "float then bool": [1.5, True],
    "int, float, bool": [1, 1.5, True],
    "int then complex": [1, 2j],
    "float then complex": [1.5, 2j],
    "complex then int": [1j, 1],
    "none": None,
    "int then none": [1, None],
    "nested none": [[1, 2], [3, None]],
    "text then none": ["a", None],
    "text then int": ["a", 1],
    "int then text": [1, "a"],
    "text then bool": ["a", True],
    "set": {1, 2},
    "dict": {"a": 1},
    "range": range(3),
    "tuple": (1, 2),
    "nan": float("nan"),
    "infinities": [float("inf"), -1.0],
    "texts": [["a", "b"], ["c", "d"]],
    "unicode": "é",
    "null byte": b"a\0b",
    "datetime": [np.datetime64("2020")],
}

TYPED = [
    *((1, "float32"), (1.5, "int32"), (1.0, "int32"), ([1.0, 2.0], "int32"), (True, "float32"), (True, "int32")),
    *(
        (1, "bool"),
        ("a", "int32"),
        (1, "string"),
        (1.5, "complex64"),
        (1, "complex64"),
        ([1], "string"),
        (1.5, "string"),
    ),
    *(([True], "float32"), ([True, False], "int32"), (True, "int64"), (True, "complex64"), ([1], "bool"), (0, "bool")),
    *((True, "string"), ([True, 1], "int32"), ([True, 1.5], "float32"), ([1, True], "float32"), ([1, 2.5], "int32")),
    *(
        (1, "bfloat16"),
        ([1.5, 2.3], "bfloat16"),
        (70000.0, "float16"),
        (1, "nope"),
        (2**70, "float32"),
        (None, "float32"),
    ),
    *((np.array([1.5]), "int32"), (np.array([1.5]), "float32"), (np.array([1]), "float32"), (np.float32(1.5), "int32")),
    *((np.array([True]), "float32"), (np.array([1]), "bool"), (np.array([300]), "int8"), ([np.float32(1.5)], "int32")),
    *(([np.int64(1)], "float32"), (["1"], "int32"), ([None], "int32"), ([1, [2]], "int32")),
    *((np.int64(2), "float32"), (np.float64(1.7), "float16"), (np.bool_(True), "float32")),
]


def shown(tf):
    """Tensors of every printed form."""
    return {
        "int": tf.constant(1),
        "float": tf.constant(1.5),
        "bool": tf.constant(True),
        "text": tf.constant("a"),
        "bytes": tf.constant(b"\xff"),
        "large": tf.constant(1e20),
        "tenth": tf.constant(0.1),
        "nan": tf.constant(float("nan")),
        "inf": tf.constant(float("inf")),
        "minus zero": tf.constant(-0.0),
        "small": tf.constant(1e-5),
        "2**24": tf.constant(16777216.0),
        "bfloat16": tf.constant(1.5, tf.bfloat16),
        "float16": tf.constant(1.5, tf.float16),
        "float64": tf.constant(1.5, tf.float64),
        "uint8": tf.constant(3, tf.uint8),
        "complex128": tf.constant(1 + 2j),
        "complex64": tf.constant(1 + 2j, tf.complex64),
        "int64": tf.constant(2**40, tf.int64),
        "ints": tf.constant([1, 2]),
        "bools": tf.constant([True, False]),
        "texts": tf.constant(["a", "bb"]),
        "text matrix": tf.constant([["a", "bb"], ["c", "d"]]),
        "matrix": tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        "bfloat16 vector": tf.constant([1.5, 2.5], tf.bfloat16),
        "bfloat16 matrix": tf.constant([[1.5], [2.5]], tf.bfloat16),
        "wide range": tf.constant([1e-10, 1e10]),
        "empty": tf.constant([], tf.float32),
        "empty 0x3": tf.zeros([0, 3]),
        "empty 2x0": tf.zeros([2, 0]),
        "long": tf.range(2000),
        "large matrix": tf.zeros([40, 40]),
        "cube": tf.ones([2, 2, 2]),
    }


def programs(tf):
    made = {f"constant {k}": lambda v=v: repr(tf.constant(v)) for k, v in VALUES.items()}
    for value, dtype in TYPED:
        made[f"constant {value!r} as {dtype}"] = lambda v=value, d=dtype: repr(tf.constant(v, dtype=d))
    for label, value in ("int", 1), ("float", 1.5), ("float64s", np.array([1.5])), ("tensor", tf.constant(1)):
        for dtype in "float32", "int32":
            made[f"convert {label} to {dtype}"] = lambda v=value, d=dtype: repr(tf.convert_to_tensor(v, dtype=d))
            made[f"convert {label} hint {dtype}"] = lambda v=value, d=dtype: repr(tf.convert_to_tensor(v, dtype_hint=d))
    for shape in (2,), (2, 3), (), (0,), 3:
        made[f"six values as {shape}"] = lambda s=shape: repr(tf.constant([1, 2, 3, 4, 5, 6], shape=s))
        made[f"one value as {shape}"] = lambda s=shape: repr(tf.constant(7, shape=s))
        made[f"list of one as {shape}"] = lambda s=shape: repr(tf.constant([7], shape=s))
    for label, tensor in shown(tf).items():
        made[f"repr {label}"] = lambda t=tensor: repr(t)
        made[f"str {label}"] = lambda t=tensor: str(t)
        made[f"format {label}"] = lambda t=tensor: f"{t}"
    return made | _python(tf) | _operators(tf) | _shapes(tf)


def _python(tf):
    t, s, n = tf.constant([1.0, 2.0]), tf.constant(3.14159), tf.constant(3)

    def numpy_is_a_copy():
        t.numpy()[0] = 99
        return t

    def source_is_copied():
        source = np.array([1.0, 2.0], np.float32)
        made = tf.constant(source), tf.convert_to_tensor(source)
        source[0] = 5
        return made

    def set_item():
        t[0] = 1.0

    return {
        "format .2f": lambda: f"{s:.2f}",
        "format 05d": lambda: f"{n:05d}",
        "format of a vector": lambda: f"{t:.2f}",
        "bool of a vector": lambda: bool(t),
        "bool of one element": lambda: bool(tf.constant([1.0])),
        "bool of nothing": lambda: bool(tf.constant([])),
        "bool of empty text": lambda: bool(tf.constant("")),
        "int of a vector": lambda: int(t),
        "int of a float": lambda: int(s),
        "float": lambda: float(s),
        "complex": lambda: complex(tf.constant(1j)),
        "index": lambda: [10, 20, 30, 40][n],
        "index by a vector": lambda: [10, 20][tf.constant([1])],
        "len": lambda: len(t),
        "len of a scalar": lambda: len(s),
        "iterate a scalar": lambda: list(s),
        "iterate": lambda: list(t),
        "iterate rows": lambda: list(tf.ones([2, 1])),
        "hash": lambda: hash(t),
        "as a key": lambda: {t: 1},
        "ref": lambda: (t.ref() == t.ref(), t.ref() == tf.constant([1.0, 2.0]).ref(), t.ref().deref() is t),
        "ref repr": lambda: repr(n.ref()),
        "numpy types": lambda: [
            type(x.numpy()).__name__ for x in (n, s, tf.constant("a"), tf.constant(True), t, tf.constant(["a"]))
        ],
        "numpy dtypes": lambda: [x.numpy().dtype for x in (n, s, tf.constant(True), t, tf.constant(["a"]))],
        "numpy is a copy": numpy_is_a_copy,
        "source is copied": source_is_copied,
        "asarray dtype": lambda: np.asarray(t, dtype=np.float64).dtype,
        "numpy function": lambda: type(np.add(t, 1)).__name__,
        "copy": lambda: copy.copy(t),
        "deepcopy": lambda: copy.deepcopy(t),
        "pickle": lambda: pickle.loads(pickle.dumps(t)),
        "set item": set_item,
        "shape": lambda: (t.shape, t.shape[0], t.ndim, t.dtype, repr(t.dtype)),
        "set_shape": lambda: t.set_shape([3]),
        "set_shape same": lambda: (t.set_shape([2]), t.set_shape([None])),
        "dlpack": lambda: np.from_dlpack(t),
        "contains": lambda: 1.0 in t,
    }


def _operators(tf):
    t = tf.constant([1.0, 2.0])
    return {
        "== none": lambda: (tf.constant(1) == None, tf.constant(1) != None),  # noqa: E711
        "== number": lambda: tf.constant(1) == 1,
        "== float": lambda: tf.constant(1) == 1.5,
        "== text": lambda: tf.constant(1) == "a",
        "== other shape": lambda: tf.constant([1, 2]) == tf.constant([1, 2, 3]),
        "!= other shape": lambda: tf.constant([1, 2]) != tf.constant([1, 2, 3]),
        "== other dtype": lambda: tf.constant(1) == tf.constant(1.0),
        "array + tensor": lambda: repr(np.array([1.0, 2.0], np.float32) + t),
        "tensor + array": lambda: repr(t + np.array([1.0, 2.0])),
        "float64 + tensor": lambda: repr(np.float64(1) + t),
        "list + tensor": lambda: repr([1.0, 2.0] + t),
        "int + float": lambda: tf.constant(5) - 1.5,
        "float + bool": lambda: tf.constant(5.0) + True,
        "float - int tensor": lambda: 2.5 - tf.constant(5),
        "int64 + int32": lambda: tf.constant(1, tf.int64) + tf.constant(1),
        "int32 + large": lambda: tf.constant(1) + 2**40,
        "+ none": lambda: t + None,
        "+ dict": lambda: t + {"a": 1},
        "+ shapes": lambda: t + tf.constant([1.0, 2.0, 3.0]),
        "<<": lambda: tf.constant(5) << 1,
        "int / int": lambda: repr(tf.constant(5) / 2),
        "~": lambda: repr(~tf.constant(True)),
        "pow": lambda: (repr(t**2), repr(2**t)),
        "abs": lambda: repr(abs(-t)),
        "slice by float": lambda: t[1.0],
        "slice by text": lambda: t["a"],
        "slice out of range": lambda: t[5],
        "too many indices": lambda: t[0, 0],
        "pack shapes": lambda: repr(tf.convert_to_tensor([tf.constant([1.0]), tf.constant([1.0, 2.0])])),
        "pack": lambda: repr(tf.convert_to_tensor([[tf.constant(1.0), 2.0], [3.0, 4.0]])),
        "pack of another dtype": lambda: repr(tf.convert_to_tensor([tf.constant(1), 2.5])),
    }


def _shapes(tf):
    shape = tf.TensorShape
    return {
        "a shape as a tensor": lambda: [
            *(tf.constant(tf.TensorShape([2, 3])), tf.constant(tf.TensorShape([2]), tf.float32)),
            *(tf.convert_to_tensor(tf.TensorShape([]), tf.int64), tf.convert_to_tensor(tf.TensorShape([2**40]))),
            *(tf.reduce_prod(tf.TensorShape([2, 3])), tf.cast(tf.zeros([2, 3]).shape, tf.float32)),
            *(tf.stack([tf.TensorShape([2]), [3]]), tf.constant([1, 1]) * tf.TensorShape([2, 3])),
            tf.function(lambda x: tf.reduce_prod(x.shape) * 2, autograph=False)(tf.zeros([2, 3])),
        ],
        "a shape as a float": lambda: tf.convert_to_tensor(tf.TensorShape([2]), tf.float32),
        "an unknown shape as a tensor": lambda: tf.convert_to_tensor(tf.TensorShape([2, None])),
        "an unknown shape as a constant": lambda: tf.constant(tf.TensorShape([2, None])),
        "shapes": lambda: [shape([1, None]), str(shape(None)), str(shape([3])), shape([2, 3])[1:], shape([1]) + [3]],
        "shape equality": lambda: (shape([1, 2]) == [1, 2], shape([None]) == shape([None])),
        "shape of text": lambda: shape(["a"]),
        "negative shape": lambda: shape([-1]),
        "shape of float": lambda: shape([1.5]),
        "specs": lambda: [tf.TensorSpec([None, 3]), tf.TensorSpec(None), tf.TensorSpec([1]) == tf.TensorSpec([1])],
        "as_dtype": lambda: [tf.as_dtype(x) for x in ("float32", np.float64, float, 1, np.dtype("int8"))],
        "as_dtype unknown": lambda: tf.as_dtype("foo"),
        "as_dtype none": lambda: tf.as_dtype(None),
        "limits": lambda: (tf.float32.min, tf.float32.max, tf.int8.min, tf.float16.size, tf.bfloat16.max),
        "dtype equality": lambda: (tf.float32 == np.float32, tf.float32 == "float32", tf.int32 != tf.int64),
    }
