"""Promotion by the table of weak types: NumPy's behavior in the modes "all" and "safe", each in a process of its own.

Source of the expressions: https://www.tensorflow.org/guide/tf_numpy_type_promotion
"""

import functools
import json
import os
import subprocess
import sys


def programs(tf):
    return {
        f"{mode}: {label}": functools.partial(lambda mode, label: _answers(tf.__name__, mode)[label], mode, label)
        for mode, labels in LABELS.items()
        for label in labels
    }


TYPES = {
    **{name: f"tf.constant(1, tf.{name})" for name in ("bool", "bfloat16", "float16", "float32", "float64")},
    **{f"{sign}int{bits}": f"tf.constant(1, tf.{sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{name: f"tf.constant(1, tf.{name})" for name in ("complex64", "complex128")},
    "weak int32": "tf.constant(1)",
    "weak float32": "tf.constant(1.5)",
    "weak float64": "tf.constant(1) / 2",
    "weak complex128": "tf.constant(1j)",
    "an int": "1",
    "a float": "1.5",
    "a complex": "1j",
    "a list": "[1, 2.5]",
    "an array": "np.array([1])",
}
TYPES["bool"] = "tf.constant(True)"
ROWS = [f"row({each!r})" for each in TYPES.values()]
"""The dtype, and whether it is weak, of the sum of each type with all others."""

OF_FLOATS = """
math.abs math.acos math.angle math.asin math.asinh math.atan math.atanh math.ceil math.conj math.cos math.cosh math.digamma
math.erf math.erfc math.erfinv math.exp math.expm1 math.floor math.imag math.lgamma math.log math.log1p
math.log_sigmoid math.ndtri math.negative math.real math.reciprocal math.reciprocal_no_nan math.reduce_euclidean_norm
math.reduce_logsumexp math.reduce_max math.reduce_mean math.reduce_min math.reduce_prod math.reduce_std math.reduce_sum
math.reduce_variance math.rint math.round math.rsqrt math.sigmoid math.sign math.sin math.sinh math.softplus
math.special.bessel_j0 math.special.bessel_j1 math.special.bessel_k0 math.special.bessel_k0e math.special.bessel_k1
math.special.bessel_k1e math.special.bessel_y0 math.special.bessel_y1 math.special.dawsn math.special.expint
math.special.fresnel_cos math.special.fresnel_sin math.special.spence math.sqrt math.square math.tan math.tanh
math.bessel_i0 math.bessel_i0e math.bessel_i1 math.bessel_i1e nn.elu nn.gelu nn.leaky_relu nn.log_softmax nn.relu nn.relu6
nn.selu nn.silu nn.softsign ones_like squeeze stop_gradient transpose zeros_like identity linalg.diag math.cumsum sort stack
shape
"""
OF_NUMPY = """
abs absolute amax amin angle arccos arcsin arcsinh arctan arctanh around array asanyarray asarray ascontiguousarray average
cbrt ceil conj conjugate copy cos cosh cumprod cumsum deg2rad diag diagflat diff empty_like exp exp2 expm1 fabs fix flatten
flip flipud floor imag log log10 log1p log2 max mean min nanmean negative ones_like positive prod rad2deg ravel real
reciprocal round signbit sin sinc sinh sort sqrt square squeeze std sum tan tanh transpose triu vander var zeros_like
"""
BINARY = """
add divide multiply subtract maximum minimum equal pow truediv math.floordiv math.floormod truncatediv math.divide_no_nan less
not_equal
"""
OF_FLOAT_PAIRS = "realdiv math.multiply_no_nan"
EXPRESSIONS = (
    *(
        "w",
        "str(w)",
        "f'{w}'",
        "w.dtype",
        "w.shape",
        "w.ndim",
        "int(w)",
        "float(f)",
        "bool(w)",
        "np.array(w)",
        "w.numpy()",
    ),
    *(
        "isinstance(w, tf.Tensor)",
        "tf.is_tensor(w)",
        "tf.nest.flatten(w)",
        "len(v)",
        "list(v)",
        "v[0]",
        "v[tf.constant(0)]",
    ),
    *("v.reshape((2, 1))", "tf.constant([[1, 2]]).T", "v.astype(np.int8)", "tf.constant([5.0, 10.0, 3])"),
    *(
        "w + f",
        "w / 2",
        "w // 2",
        "w % 2",
        "w ** 2",
        "2 ** f",
        "1 / w",
        "-w",
        "abs(w)",
        "~w",
        "w & 1",
        "w < 3",
        "w == 5",
    ),
    *(
        "np.array(2, np.int8) + w",
        "w + np.array(2, np.int8)",
        "[1, 2] + w",
        "w + [1, 2]",
        "i8.__add__(2.5)",
        "w + True",
    ),
    *(
        "True + w",
        "w + None",
        "tf.add('a', 'b')",
        "w + tf.ragged.constant([[1]])",
        "tf.add(w, tf.ragged.constant([[1]]))",
    ),
    *(
        "tf.constant('a')",
        "tf.constant(True)",
        "tf.constant(2**40)",
        "tf.constant(np.array(3))",
        "tf.constant(3, shape=[2])",
    ),
    *("tf.constant(5, tf.int32)", "tf.constant(i8, tf.float32)", "tf.constant(f, tf.int32)", "tf.constant(w, tf.int8)"),
    *(
        "tf.convert_to_tensor(3)",
        "tf.Variable(3)",
        "tf.Variable(w)",
        "tf.Variable(3) + 1.5",
        "tf.zeros([2])",
        "tf.range(3)",
    ),
    *("tf.Variable(2.0).assign_add(i8)", "tf.Variable(2).assign(2.5)", "tf.Variable(2, dtype=tf.int8).assign(w)"),
    *("tf.Variable(10).assign_sub(tf.constant(5, tf.int16))", "tf.Variable(1.0).assign(tf.constant(1, tf.int32))"),
    *("tf.matmul([[1, 2]], [[3.0], [4.0]])", "tnp.matmul([[1]], [[2.0]])", "tf.where(w > 3, w, w)"),
    *(
        "tf.stack([w, w])",
        "tf.concat([[1], [2]], 0)",
        "tf.add_n([w, w])",
        "tf.reduce_sum([w, w])",
        "tf.cast(w, tf.int8)",
    ),
    *("tf.reshape([1, 2], [2, 1])", "tf.expand_dims(w, 0)", "tf.clip_by_value(w, 1, 3)", "tf.bitwise.invert(3)"),
    *(
        "tf.math.scalar_mul(2, f)",
        "tf.math.scalar_mul(2.0, i8)",
        "tf.linalg.trace([[1, 2], [3, 4]])",
        "kind(tf.acosh(1.5))",
    ),
    *("tf.abs(tf.constant(1j))", "tf.linalg.matrix_transpose([[1, 2]])", "tf.linalg.diag_part([[1, 2], [3, 4]])"),
    *("tf.reduce_sum([1, 2], axis=0)", "tf.reduce_mean(input_tensor=[1.0])", "tf.debugging.check_numerics(f, 'wrong')"),
    *("tf.function(lambda x: x + 1)(w)", "tf.function(lambda: tf.constant(1))()", "tf.function(lambda x: x + 1.5)(i8)"),
    *("tf.map_fn(lambda x: x * 2, v)", "list(tf.data.Dataset.from_tensor_slices(v))", "gradient(w)", "gradient(f)"),
    *(
        "tnp.add(1, 2.0)",
        "tnp.add(w, i8)",
        "tnp.multiply(i8, 2.5)",
        "tnp.ones(3)",
        "tnp.arange(3)",
        "tnp.array([1, 2.0])",
    ),
    *("tnp.result_type(1, 2.0)", "tnp.promote_types(np.int8, np.float32)", "tnp.argsort([2, 1])", "tnp.sum(i8)"),
    *(
        "tnp.sum(f, dtype=np.float64)",
        "tnp.arange(1.5, dtype=tf.int64)",
        "tnp.repeat([1, 2], 2)",
        "tnp.moveaxis([[1]], 0, 1)",
    ),
    *(
        "tnp.full_like([1, 2], 3)",
        "tnp.rot90([[1, 2]])",
        "tnp.swapaxes([[1, 2]], 0, 1)",
        "tnp.diagonal([[1, 2], [3, 4]])",
    ),
)
IN_FLOATS = tuple(f"kind(tf.{name}([[0.5]]))" for name in OF_FLOATS.split()) + tuple(
    f"kind(tnp.{name}([[0.5]]))" for name in OF_NUMPY.split()
)
PAIRS = tuple(f"kind(tf.{name}({pair}))" for name in BINARY.split() for pair in ("3, 2", "i8, w")) + tuple(
    f"kind(tf.{name}({pair}))"
    for name in (BINARY + OF_FLOAT_PAIRS).split()
    for pair in ("3, f", "f, i8", "h, f", "1.5, d")
)
ONCE_TAKEN = ("constant(5)", "repr(constant(5) + constant(2))")
"""Calls of ``tf.constant`` that the program took before it set a mode."""
LABELS = {
    "all": (*EXPRESSIONS, *IN_FLOATS, *PAIRS, *ROWS, *ONCE_TAKEN),
    "safe": ROWS,
    "off": (*ROWS[:3], *ONCE_TAKEN),
    "legacy": (*ROWS[:3], *ONCE_TAKEN),
}
"""Mode -> expressions; "off" and "legacy" are set after the modes with weak types."""

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = sys.argv[1:]
import numpy as np, {name} as tf
from parity_support import answer
tnp, constant = tf.experimental.numpy, tf.constant
tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="all")
i8, h, d = tf.constant(1, tf.int8), tf.constant(1, tf.float16), tf.constant(1, tf.float64)
w, f, v = tf.constant(5), tf.constant(1.5), tf.constant([1, 2])
tnp.experimental_enable_numpy_behavior(dtype_conversion_mode={mode!r})

def kind(value):
    return value.dtype.name + ", weak" * ("weak=True" in repr(value))

def row(text):
    found = []
    for name, other in {types!r}.items():
        try:
            found.append(f"{{name}}: {{kind(tf.add(eval(text), eval(other)))}}")
        except Exception as error:
            found.append(f"{{name}}: {{type(error).__name__}}")
    return found

def gradient(x):
    x = tf.constant(float(x))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x * 2
    return tape.gradient(y, x)

print("ANSWERS" + json.dumps({{label: answer(lambda: repr(eval(label))) for label in {labels!r}}}))
"""


@functools.cache
def _answers(name, mode):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = PROGRAM.format(name=name, mode=mode, types=TYPES, labels=LABELS[mode])
    run = subprocess.run([sys.executable, "-c", program, tests], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.partition("ANSWERS")[2])
