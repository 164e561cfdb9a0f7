"""Functions that TensorFlow 1 had under other names or with other arguments: ``reduce_sum(x, keep_dims=...)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import agree_dim, agree_shape, as_shape, brackets
from tvtf.core.tensor import convert_to_tensor, to_array
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.frontend.host.python_call import numpy_function
from tvtf.ops.operands import operands
from tvtf.v1.registry import Alias, tf_, v1


def renamed(target: str, renames: dict[str, str], order: str | None = None) -> Callable[..., Any]:
    """``target`` under TensorFlow 1's names of arguments; ``order`` is that of positional ones where it differs."""
    positions = order.split() if order else None

    def run(*args: Any, **kwargs: Any) -> Any:
        function = tf_(target)
        if positions:
            kwargs = dict(zip(positions, args)) | kwargs
            args = ()
        given: dict[str, Any] = {}
        for name, value in kwargs.items():
            new = renames.get(name, name)
            if not new or (name != new and value is None):
                continue
            if new in given and name != new:
                raise ValueError(f"Cannot specify both '{name}' and '{new}'")
            given[new] = value
        return function(*args, **given)

    run.__name__ = target.rpartition(".")[2]
    run.target = target  # type: ignore[attr-defined]
    return run


_REDUCING = {"keep_dims": "keepdims", "reduction_indices": "axis"}
for _name in ["sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "std", "variance"]:
    _path = f"math.reduce_{_name}"
    v1(f"reduce_{_name}", _path)(renamed(_path, _REDUCING))
v1("count_nonzero", "math.count_nonzero")(
    renamed(
        "math.count_nonzero", _REDUCING | {"input_tensor": "input"}, "input axis keepdims dtype name reduction_indices"
    )
)
v1("reduce_join", "strings.reduce_join")(
    renamed("strings.reduce_join", {**_REDUCING}, "inputs axis keep_dims separator name reduction_indices")
)
for _name in ("argmax", "argmin"):
    v1(_name, f"math.{_name}")(renamed(f"math.{_name}", {"dimension": "axis"}, "input axis name dimension output_type"))
    v1(_name.replace("arg", "arg_"))(
        renamed(f"math.{_name}", {"dimension": "axis"}, "input dimension output_type name")
    )
v1("expand_dims")(renamed("expand_dims", {"dim": "axis"}, "input axis name dim"))
v1("squeeze")(renamed("squeeze", {"squeeze_dims": "axis"}, "input axis name squeeze_dims"))
v1("norm", "linalg.norm")(renamed("norm", {"keep_dims": "keepdims"}, "tensor ord axis keepdims name keep_dims"))
v1("reverse_sequence")(
    renamed(
        "reverse_sequence",
        {"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
        "input seq_lengths seq_axis batch_axis name seq_dim batch_dim",
    )
)
v1("gather")(renamed("gather", {}, "params indices validate_indices name axis batch_dims"))
v1("transpose")(renamed("transpose", {}, "a perm name conjugate"))
v1("map_fn")(
    renamed(
        "map_fn", {}, "fn elems dtype parallel_iterations back_prop swap_memory infer_shape name fn_output_signature"
    )
)
v1("scalar_mul", "math.scalar_mul")(lambda scalar, x, name=None: scalar * convert_to_tensor(x))
v1("confusion_matrix", "math.confusion_matrix")(
    renamed("math.confusion_matrix", {}, "labels predictions num_classes dtype name weights")
)
v1("pad")(renamed("pad", {}, "tensor paddings mode name constant_values"))
v1("zeros_like")(lambda tensor, dtype=None, name=None, optimize=True: tf_("zeros_like")(tensor, dtype))
v1("ones_like")(lambda tensor, dtype=None, name=None, optimize=True: tf_("ones_like")(tensor, dtype))
v1("to_float")(lambda x, name="ToFloat": tf_("cast")(x, "float32"))

ALIASES = {
    "log": "math.log",
    "mod": "math.floormod",
    "floormod": "math.floormod",
    "truncatediv": "truncatediv",
    "xlogy": "math.xlogy",
    "bincount": "math.bincount",
    "linalg.logdet": "linalg.logdet",
    "spectral.fft": "signal.fft",
    "spectral.rfft": "signal.rfft",
    "random_poisson": "random.poisson",
    "string_to_number": "strings.to_number",
    "serialize_sparse": "io.serialize_sparse",
    "serialize_many_sparse": "io.serialize_many_sparse",
    "sparse_add": "sparse.add",
    "sparse_concat": "sparse.concat",
    "sparse_split": "sparse.split",
    "sparse_reduce_max": "sparse.reduce_max",
    "sparse_reduce_sum": "sparse.reduce_sum",
    "sparse.matmul": "sparse.sparse_dense_matmul",
    "sparse_segment_sum": "sparse.segment_sum",
    "sparse_segment_mean": "sparse.segment_mean",
    "sparse_segment_sqrt_n": "sparse.segment_sqrt_n",
    "space_to_depth": "nn.space_to_depth",
    "depth_to_space": "nn.depth_to_space",
    "dequantize": "quantization.dequantize",
    "random.set_random_seed": "random.set_seed",
    "random.stateless_multinomial": "random.stateless_categorical",
    "image.resize_image_with_crop_or_pad": "image.resize_with_crop_or_pad",
    "image.transpose_image": "image.transpose",
    "image.resize_image_with_pad": "image.resize_with_pad",
    "decode_raw_v1": "io.decode_raw",
    "python_io.TFRecordWriter": "io.TFRecordWriter",
    "python_io.TFRecordOptions": "io.TFRecordOptions",
    "assert_rank_at_least": "debugging.assert_rank_at_least",
    "assert_none_equal": "debugging.assert_none_equal",
    "DeviceSpec": "DeviceSpec",
    "quantize_v2": "quantization.quantize",
}
"""TensorFlow 1's path -> that of the same in TensorFlow 2."""


for _name, _target in ALIASES.items():
    v1(_name)(Alias(_target))
for _name in (
    *(
        "positive",
        "negative",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "equal",
        "near",
        "non_negative",
        "non_positive",
    ),
    *("integer", "type", "scalar", "rank_in", "same_float_dtype", "proper_iterable"),
):
    v1(f"assert_{_name}")(Alias(f"debugging.assert_{_name}"))
v1("debugging.assert_equal")(Alias("debugging.assert_equal"))


v1("floor_div")(Alias("math.floordiv"))


@v1("constant")
def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = "Const", verify_shape: bool = False) -> Any:
    """As ``tf.constant``; in a graph the last element is repeated as often as ``shape`` asks for.

    Raises:
      TypeError: ``verify_shape``, and the value has another shape; ValueError: it has more elements in a graph.
    """
    make = tf_("constant")
    if shape is None:
        return make(value, dtype, name=name)
    array = to_array(value, None if dtype is None else as_dtype(dtype))
    wanted = tuple(int(d or 0) for d in as_shape(shape).as_list())
    in_graph = state.trace is not None and state.trace.has_keys
    if verify_shape and array.shape != wanted:
        given = "Tensor's shape:" if in_graph else f"Tensor {array} (converted from {value}) with shape"
        raise TypeError(f"Expected {given} {wanted}, but got {'' if in_graph else 'shape '}{array.shape}.")
    if in_graph and array.size != 1:
        return make(_filled(array, math.prod(wanted)), shape=wanted, name=name)
    return make(value, dtype, shape, name=name)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """Its elements in a row, the last one as often as need be; zeros where there is none."""
    if array.size > size > 0:
        raise ValueError(f"Too many elements provided. Takes at most {size}, but got {array.size}.")
    flat = array.reshape(-1)[:size]
    last = flat[-1:] if array.size else np.zeros(1, array.dtype)
    return np.concatenate([flat, np.repeat(last, size - array.size)])


@v1("div")
def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Python 2's division: of integers rounded down."""
    x = convert_to_tensor(x)
    return tf_("floordiv")(x, y) if x.dtype.is_integer else tf_("divide")(x, y)


@v1("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """As ``tf.where``, but nothing is broadcast: ``condition`` may be one truth for all, or a vector with one for each row.

    Raises:
      InvalidArgumentError: (ValueError while tracing) shapes that differ otherwise.
    """
    if x is None or y is None:
        return tf_("where")(condition, x, y)
    truth = convert_to_tensor(condition, "bool")
    first, second = operands(x, y)
    if truth.ndim:
        _require_selectable(truth, first, second)
    if truth.ndim == 1:
        truth = tf_("reshape")(truth, [-1, *[1] * (first.ndim - 1)])
    return tf_("where")(truth, first, second)


def _require_selectable(truth: Any, x: Any, y: Any) -> None:
    shapes = truth._type.shape, x._type.shape, y._type.shape
    shown = [brackets(shape) for shape in shapes]
    wrong = None
    if not x.ndim:
        wrong = "'then' must be at least a vector, but saw shape: []"
    elif not agree_shape(*shapes[1:]):
        wrong = f"'then' and 'else' must have the same size.  but received: {shown[1]} vs. {shown[2]}"
    elif truth.ndim == 1 and not agree_dim(shapes[0][0], shapes[1][0]):
        wrong = f"Number of batches of 'then' must match size of 'cond', but saw: {shapes[1][0]} vs. {shapes[0][0]}"
    elif truth.ndim > 1 and not agree_shape(*shapes[:2]):
        wrong = (
            "Inputs to operation Select of type Select must have the same size and shape.  "
            f"Input 0: {shown[0]} != input 1: {shown[1]}"
        )
    if wrong:
        raise ArgumentError(wrong).told_by("Select")


@v1("cond")
def cond(
    pred: Any,
    true_fn: Any = None,
    false_fn: Any = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Any = None,
    fn2: Any = None,
) -> Any:
    """As ``tf.cond``; one value in a list comes bare unless ``strict``."""
    result = tf_("cond")(pred, true_fn or fn1, false_fn or fn2)
    return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 and not strict else result


@v1("case")
def case(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case"
) -> Any:
    """As ``tf.case``; a dict will do, too."""
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    pairs = [(p.deref() if hasattr(p, "deref") else p, fn) for p, fn in pairs]
    return tf_("case")(pairs, default, exclusive)


@v1("Print")
def print_tensor(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """``input_``; when it is computed, ``data`` are printed to stderr."""
    count = iter(range(first_n if first_n is not None and first_n >= 0 else 2**62))
    most = 3 if summarize is None else summarize

    def show(*arrays: Any) -> list[Any]:
        import sys

        if next(count, None) is not None:
            sys.stderr.write((message or "") + "".join(f"[{_some(a, most)}]" for a in arrays) + "\n")
        return []

    tensors = [convert_to_tensor(x) for x in data]
    with tf_("control_dependencies")([_ran(numpy_function, show, tensors)]):
        return tf_("identity")(input_)


def _ran(function: Any, show: Any, tensors: Any) -> Any:
    def run(*arrays: Any) -> Any:
        show(*arrays)
        import numpy as np

        return np.array(True)

    return function(run, tensors, TensorSpec([], as_dtype("bool")))


def _some(array: Any, most: int) -> str:
    flat = array.reshape(-1)
    shown = [_text(v) for v in (flat if most < 0 else flat[:most])]
    return " ".join(shown) + ("..." if 0 <= most < flat.size else "")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return (
        f"{float(value):g}"
        if not isinstance(value, (bool, int)) and value.dtype.kind == "f"
        else str(value).lower()
        if str(value) in ("True", "False")
        else str(value)
    )


@v1("verify_tensor_all_finite", "debugging.assert_all_finite")
def verify_tensor_all_finite(
    t: Any = None, msg: Any = None, name: Any = None, x: Any = None, message: Any = None
) -> Any:
    """``t``, with an error where an element is not finite."""
    return tf_("debugging.check_numerics")(x if t is None else t, message or msg or "")


@v1("py_func")
def py_func(func: Any, inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:  # noqa: N803
    """A function on arrays as an op; what it gives is of unknown shape."""
    return tf_("numpy_function")(func, inp, Tout, stateful)


@v1("substr", "strings.substr")
def substr(input: Any, pos: Any, len: Any, name: Any = None, unit: str = "BYTE") -> Any:  # noqa: A002
    """As ``tf.strings.substr``."""
    return tf_("strings.substr")(input, pos, len, unit)


@v1("string_join")
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Any:
    """As ``tf.strings.join``."""
    return tf_("strings.join")(inputs, separator)


@v1("string_split")
def string_split(
    source: Any = None,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    **_: Any,
) -> Any:
    """The words of texts as a sparse tensor; ``delimiter`` is a set of characters."""
    cut = delimiter if delimiter is not None else sep
    if cut is None:
        found = tf_("strings.split")(source)
    else:
        texts = convert_to_tensor(source)
        for char in cut[1:]:
            texts = tf_("strings.regex_replace")(texts, _escaped(char), cut[0])
        found = tf_("strings.split")(texts, cut[:1]) if cut else tf_("strings.bytes_split")(texts)
        if skip_empty:
            found = tf_("ragged.boolean_mask")(found, tf_("math.not_equal")(found, ""))
    return found if result_type == "RaggedTensor" else found.to_sparse()


def _escaped(char: str) -> str:
    import re

    return re.escape(char)


@v1("strings.split")
def strings_split(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: Any = None,
) -> Any:  # noqa: A002
    """The words of texts, as a sparse tensor by default."""
    found = tf_("strings.split")(convert_to_tensor(source if input is None else input), sep, maxsplit)
    if not hasattr(found, "to_sparse"):
        found = tf_("RaggedTensor").from_tensor(found[None])
    return found if result_type == "RaggedTensor" else found.to_sparse()


@v1("string_to_hash_bucket", "strings.to_hash_bucket")
def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: Any = None, name: Any = None, input: Any = None
) -> Any:  # noqa: A002
    """As ``tf.strings.to_hash_bucket``."""
    return tf_("strings.to_hash_bucket")(string_tensor if input is None else input, num_buckets)


@v1("decode_raw", "io.decode_raw")
def decode_raw(
    input_bytes: Any = None, out_type: Any = None, little_endian: bool = True, name: Any = None, bytes: Any = None
) -> Any:  # noqa: A002
    """As ``tf.io.decode_raw``."""
    return tf_("io.decode_raw")(bytes if input_bytes is None else input_bytes, out_type, little_endian)


@v1("decode_csv", "io.decode_csv")
def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: Any = None,
    na_value: str = "",
    select_cols: Any = None,
) -> Any:
    """As ``tf.io.decode_csv``."""
    return tf_("io.decode_csv")(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols)


@v1("parse_single_example", "io.parse_single_example")
def parse_single_example(serialized: Any, features: Any, name: Any = None, example_names: Any = None) -> Any:
    """As ``tf.io.parse_single_example``."""
    return tf_("io.parse_single_example")(serialized, features)


@v1("parse_example", "io.parse_example")
def parse_example(serialized: Any, features: Any, name: Any = None, example_names: Any = None) -> Any:
    """As ``tf.io.parse_example``."""
    return tf_("io.parse_example")(serialized, features, example_names)


@v1("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: Any = None,
) -> Any:
    """A dense tensor that has values at indices."""
    indices = convert_to_tensor(sparse_indices)
    values = convert_to_tensor(sparse_values)
    places = tf_("reshape")(indices, [1, 1]) if indices.shape.rank == 0 else indices
    places = places[:, None] if places.shape.rank == 1 else places
    rows = tf_("broadcast_to")(values, tf_("shape")(places)[:1])
    filled = tf_("fill")(output_shape, convert_to_tensor(default_value, values.dtype))
    return tf_("tensor_scatter_nd_update")(filled, places, rows)


@v1("setdiff1d")
def setdiff1d(x: Any, y: Any, index_dtype: Any = "int32", name: Any = None) -> Any:
    """The values of ``x`` that ``y`` lacks, and where they are."""
    x, y = (tf_("reshape")(v, [-1]) for v in operands(x, y))
    kept = tf_("math.logical_not")(tf_("reduce_any")(tf_("equal")(x[:, None], y[None, :]), axis=1))
    places = tf_("reshape")(tf_("where")(kept), [-1])
    return tf_("gather")(x, places), tf_("cast")(places, as_dtype(index_dtype))


@v1("multinomial", "random.multinomial")
def multinomial(logits: Any, num_samples: Any, seed: Any = None, name: Any = None, output_dtype: Any = None) -> Any:
    """As ``tf.random.categorical``."""
    return tf_("random.categorical")(logits, num_samples, output_dtype or "int64", seed)


@v1("while_loop")
def while_loop(
    cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
    swap_memory: bool = False, name: Any = None, maximum_iterations: Any = None, return_same_structure: bool = False,
) -> Any:  # fmt: skip
    """As ``tf.while_loop``; one variable comes back bare."""
    found = tf_("while_loop")(
        cond,
        lambda *v: _listed(body(*v)),
        loop_vars,
        shape_invariants=shape_invariants,
        maximum_iterations=maximum_iterations,
    )
    single = isinstance(found, (list, tuple)) and len(found) == 1 and not return_same_structure
    return found[0] if single else found


def _listed(found: Any) -> Any:
    return found if isinstance(found, (list, tuple)) else [found]


@v1("batch_to_space_nd", "manip.batch_to_space_nd")
def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: Any = None) -> Any:  # noqa: A002
    """As ``tf.batch_to_space``."""
    return tf_("batch_to_space")(input, block_shape, crops)


@v1("space_to_batch")
def space_to_batch(
    input: Any, paddings: Any = None, block_size: Any = None, name: Any = None, block_shape: Any = None
) -> Any:  # noqa: A002
    """As ``tf.space_to_batch``, with one size for both dims."""
    return tf_("space_to_batch")(input, [block_size] * 2 if block_shape is None else block_shape, paddings)


@v1("batch_gather")
def batch_gather(params: Any, indices: Any, name: Any = None) -> Any:
    """As ``tf.gather`` with the batch dims of the indices."""
    indices = convert_to_tensor(indices)
    return tf_("gather")(params, indices, axis=indices.shape.rank - 1, batch_dims=indices.shape.rank - 1)


@v1("hessians")
def hessians(ys: Any, xs: Any, name: str = "hessians", **_: Any) -> list[Any]:
    """The matrices of second derivatives of the sum of ``ys`` by each of ``xs``."""
    from tvtf.v1.names import gradients

    found = []
    for x in xs if isinstance(xs, (list, tuple)) else [xs]:
        first = gradients(ys, [x])[0]
        shape = x.shape.as_list()
        flat = tf_("reshape")(first, [-1])
        rows = [gradients(flat[i], [x])[0] for i in range(flat.shape[0])]
        found.append(tf_("reshape")(tf_("stack")(rows), [*shape, *shape]))
    return found


@v1("sparse_matmul")
def sparse_matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, *_: Any, **__: Any) -> Any:
    """As ``tf.matmul``."""
    return tf_("matmul")(a, b, transpose_a, transpose_b)


@v1("add_check_numerics_ops")
def add_check_numerics_ops() -> Any:
    """Refused."""
    raise NotImplementedError("use tf.debugging.enable_check_numerics(), or tf.debugging.check_numerics on a tensor")


@v1("sparse_reduce_sum_sparse")
def sparse_reduce_sum_sparse(sp_input: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
    """As ``tf.sparse.reduce_sum``, sparse."""
    return tf_("sparse.reduce_sum")(sp_input, axis, keepdims, output_is_sparse=True)


def _refused(path: str, reason: str) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError(f"tf.compat.v1.{path}: {reason}")

    refuse.__name__ = path.rpartition(".")[2]
    v1(path)(refuse)


_SAVED = "tvtf does not write graphs of TensorFlow 1: keep their variables with train.Saver, or save a tf.Module"
for _path in ("saved_model.simple_save", "saved_model.loader.load", "saved_model.load", "saved_model.Builder"):
    _refused(_path, _SAVED)
for _path in (
    "graph_util.convert_variables_to_constants",
    "graph_util.extract_sub_graph",
    "import_graph_def",
    "train.write_graph",
):
    _refused(_path, "tvtf does not run TensorFlow's GraphDefs: build the graph with the code that built it")
