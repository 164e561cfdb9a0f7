"""``tf.experimental.numpy``: values, dtypes and errors; what changes tensors for good runs in a process of its own."""

import functools
import json
import os
import subprocess
import sys

import numpy as np


def programs(tf):
    tnp = tf.experimental.numpy
    made = {}
    for name in UNARY:
        made[name] = _each(getattr(tnp, name), [[0.25, 0.5], np.float32([0.5, 0.75]), [1 + 2j]])
    for name in OF_INTEGERS:
        made[f"{name} of integers"] = _each(getattr(tnp, name), [[-2, 3], 1, True])
    for name in BINARY:
        pairs = [
            ([7, -7], [2, 3]),
            ([1.5, -2.0], [2.0, 0.5]),
            (np.int32([5]), np.float32([2])),
            (3, 2.5),
            (True, False),
        ]
        made[name] = _each(lambda pair, name=name: getattr(tnp, name)(*pair), pairs)
    for name in REDUCTIONS:
        arrays = [[[1, 2], [3, 4]], [1.5, 2.5], np.float32([[1, 2]]), [True, False], np.int8([3, 4])]
        made[name] = _each(getattr(tnp, name), arrays)
        made[f"{name} of an axis"] = _each(lambda a, name=name: getattr(tnp, name)(a, axis=1), arrays[:1])
    for group in (_types, _creation, _structure, _taking, _products, _errors, _draws):
        made |= group(tf, tnp)
    return made | _traced(tf, tnp) | {label: lambda label=label: _enabled(tf.__name__)[label] for label in ENABLED}


UNARY = (
    *("abs", "negative", "sign", "square", "conj", "imag", "positive", "exp", "exp2", "expm1", "log", "log2", "log10"),
    *(
        "sqrt",
        "sin",
        "arctan",
        "sinc",
        "deg2rad",
        "angle",
        "signbit",
        "isreal",
        "iscomplex",
    ),
    *("iscomplexobj", "reciprocal", "ceil", "floor", "fix", "cbrt", "isfinite", "isnan"),
)
OF_INTEGERS = (
    *("abs", "negative", "sign", "square", "conj", "signbit", "bitwise_not", "logical_not", "ravel", "atleast_2d"),
    *("atleast_3d", "cumsum", "cumprod", "nonzero", "shape", "ones_like", "zeros_like", "diagflat", "isscalar", "ndim"),
    *("transpose", "count_nonzero", "argsort", "sort"),
)
BINARY = (
    *(
        "add",
        "subtract",
        "multiply",
        "divide",
        "floor_divide",
        "mod",
        "divmod",
        "power",
        "maximum",
        "minimum",
        "arctan2",
    ),
    *("equal", "less", "greater_equal", "logical_and", "logical_xor", "isclose", "array_equal", "nextafter", "append"),
    *("gcd", "lcm", "bitwise_and", "bitwise_xor", "kron"),
)
REDUCTIONS = (
    *("sum", "prod", "mean", "std", "var", "max", "amin", "ptp", "all", "any", "argmax", "argmin"),
    "cumsum",
)


def _each(function, values):
    def run():
        return [_answer(function, value) for value in values]

    return run


def _answer(function, value):
    try:
        return function(value)
    except Exception as error:
        return type(error).__name__


def _types(tf, tnp):
    return {
        "dtypes": lambda: [tnp.asarray(x).dtype for x in (1, 1.0, 1j, True, "a", b"b", [1, 2.5], np.int8(3), 2**63)],
        "result_type": lambda: [
            tnp.result_type(tf.int32, tf.float32),
            tnp.result_type(np.int8, 1.5),
            tnp.result_type([1, 2.0]),
            tnp.result_type(),
        ],
        "promote_types": lambda: tnp.promote_types(tf.int32, np.float32),
        "of one dtype": lambda: tnp.array([1, 2], dtype=tnp.float32),
        "cut to integers": lambda: tnp.array([1.7, -2.7], dtype=int),
        "ndmin": lambda: tnp.array([1, 2], ndmin=3),
        "a tensor": lambda: tnp.asarray(tf.constant([1, 2])),
        "a Variable": lambda: tnp.asarray(tf.Variable([1, 2])),
        "constants": lambda: [tnp.pi, tnp.e, tnp.inf, tnp.newaxis, tnp.int_, tnp.float_, tnp.ndarray is tf.Tensor],
        "finfo": lambda: (tnp.finfo(tf.float32).bits, tnp.iinfo(np.int8).max, tnp.issubdtype(np.int8, np.integer)),
    }


def _creation(tf, tnp):
    return {
        "zeros": lambda: [tnp.zeros([2]), tnp.zeros(2, int), tnp.empty([1, 2], np.float32), tnp.zeros([1], None)],
        "ones": lambda: [tnp.ones([2]), tnp.ones(2, bool), tnp.ones_like([1, 2], float)],
        "full": lambda: [tnp.full(2, 7), tnp.full([2, 1], [1.5]), tnp.full_like([1, 2], 2.5), tnp.full(2, 1, np.int8)],
        "eye": lambda: [
            tnp.eye(2),
            tnp.eye(2, 3, 1),
            tnp.eye(3, 2, -1, dtype=int),
            tnp.eye(2, k=5),
            tnp.identity(2, bool),
        ],
        "arange": lambda: [
            tnp.arange(3),
            tnp.arange(1, 2, 0.5),
            tnp.arange(3, 0, -1),
            tnp.arange(3, 1),
            tnp.arange(2.0),
        ],
        "linspace": lambda: [
            tnp.linspace(0, 1, 3),
            tnp.linspace(0.0, 1.0, 4, endpoint=False),
            tnp.linspace(0.0, 1.0, 3, retstep=True),
            tnp.linspace(tnp.array([0.0, 1.0]), 2.0, 3, axis=1),
        ],
        "logspace": lambda: [tnp.logspace(0, 2, 3), tnp.logspace(0.0, 1.0, 2, base=2.0)],
        "geomspace": lambda: [
            tnp.geomspace(1.0, 8.0, 4),
            tnp.geomspace(-1, -8, 4),
            tnp.geomspace(1, 8, 4, dtype=np.float32),
        ],
        "diag": lambda: [tnp.diag([1, 2]), tnp.diag([1.5], 1), tnp.diag([[1, 2], [3, 4]], -1), tnp.diag([[1, 2]], 5)],
        "diagonal": lambda: [
            tnp.diagonal(np.arange(8).reshape(2, 2, 2)),
            tnp.diagonal([[1, 2], [3, 4]], 1),
            tnp.diagonal([[1, 2], [3, 4]], 7),
        ],
        "tri": lambda: [
            tnp.tri(2),
            tnp.tri(2, 3, -1, int),
            tnp.tril([[1, 2], [3, 4]]),
            tnp.triu([[1.0, 2], [3, 4]], 1),
        ],
        "vander": lambda: [tnp.vander([1, 2, 3]), tnp.vander([1.0, 2.0], 3, increasing=True)],
        "ix_": lambda: tnp.ix_([0, 1], [True, False, True]),
        "diag_indices": lambda: tnp.diag_indices(2, 3),
    }


def _structure(tf, tnp):
    grid = np.arange(6).reshape(2, 3)
    cube = np.arange(8).reshape(2, 2, 2)
    return {
        "reshape": lambda: [tnp.reshape(grid, [3, 2], order="F"), tnp.reshape(grid, -1), tnp.flatten(grid, "F")],
        "axes": lambda: [
            tnp.swapaxes(grid, 0, 1),
            tnp.moveaxis(cube, 0, -1),
            tnp.moveaxis(cube, (0, 1), (1, 0)),
            tnp.transpose(cube, (1, 0, 2)),
            tnp.expand_dims(grid, 1),
            tnp.squeeze([[1]]),
        ],
        "turned elsewhere": lambda: tnp.rot90(cube, 1, (1, 2)),
        "flipped": lambda: [tnp.flip(grid), tnp.flip(grid, -1), tnp.flipud(grid), tnp.fliplr(grid)],
        "rolled": lambda: [tnp.roll(grid, 2), tnp.roll(grid, 1, 1)],
        "padded": lambda: [
            tnp.pad([1, 2], [[1, 2]], "constant", constant_values=9),
            tnp.pad([1, 2, 3], [[2, 1]], "reflect"),
        ],
        "tiled": lambda: [
            tnp.tile([1, 2], 2),
            tnp.tile(grid, [2]),
            tnp.tile([1, 2], [2, 1]),
            tnp.repeat(grid, 2),
            tnp.repeat(grid, [1, 2], 0),
        ],
        "stacked": lambda: [
            tnp.stack([[1], [2.5]]),
            tnp.hstack([[1], [2, 3]]),
            tnp.hstack([grid, grid]),
            tnp.vstack([[1, 2], [3, 4]]),
            tnp.dstack([[1, 2], [3, 4]]),
            tnp.concatenate([[1], [2.5]]),
            tnp.concatenate([grid, grid], axis=1),
            tnp.append([[1]], [[2]], axis=0),
        ],
        "split": lambda: [
            tnp.split([1, 2, 3, 4], 2),
            tnp.split([1, 2, 3, 4], [1, 3]),
            tnp.hsplit(tnp.array([1, 2]), 2),
            tnp.vsplit(tnp.array(grid), 2),
            tnp.dsplit(tnp.array(cube), [1]),
        ],
        "broadcast": lambda: [tnp.broadcast_to([1, 2], [2, 2]), tnp.broadcast_arrays([[1], [2]], [3.5, 4])],
        "clipped": lambda: [tnp.clip([1, 2, 3], 2, None), tnp.clip([1, 2, 3], None, 2), tnp.clip([1, 2, 3], 1.5, 2.5)],
    }


def _taking(tf, tnp):
    grid = np.arange(6).reshape(2, 3)
    return {
        "take": lambda: [
            tnp.take(grid, [0, 9]),
            tnp.take(grid, [4], mode="wrap", axis=1),
            tnp.take([1.5, 2], [[1], [0]]),
        ],
        "where": lambda: [tnp.where([True, False], 1, 2.5), tnp.where([0, 3, 4])],
        "select": lambda: tnp.select([[True, False], [True, True]], [[1, 2], [3, 4]], 9),
        "compress": lambda: [tnp.compress([True], grid, 0), tnp.compress([False, True], grid), tnp.compress([True], 5)],
        "sorted": lambda: [
            tnp.sort(grid[:, ::-1]),
            tnp.sort(grid[::-1], None),
            tnp.argsort(grid[::-1], 0),
            tnp.argsort(5),
        ],
        "diff": lambda: [
            tnp.diff([1, 4, 9]),
            tnp.diff(grid, axis=0),
            tnp.diff([True, False, False]),
            tnp.diff([1, 4, 9], 2),
        ],
        "polyval": lambda: [tnp.polyval([1, 2, 3], 2), tnp.polyval(3.5, [1.0, 2.0])],
        "nan": lambda: [
            tnp.nanmean([1.0, np.nan]),
            tnp.nansum([[np.nan, 2.0]], 1),
            tnp.nanprod([np.nan]),
            tnp.isclose(np.nan, np.nan, equal_nan=True),
        ],
        "infinite": lambda: [f(tnp.array([np.inf, -np.inf, 1.0])) for f in (tnp.isinf, tnp.isposinf, tnp.isneginf)],
        "infinite integers": lambda: tnp.isinf(tnp.array([1])),
    }


def _products(tf, tnp):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2)
    return {
        "dot": lambda: [
            tnp.dot(a, b),
            tnp.dot(a, [1, 2, 3]),
            tnp.dot(2, a),
            tnp.dot([1, 2], [3, 4]),
            tnp.vdot([1j], [1 + 1j]),
        ],
        "matmul": lambda: [
            tnp.matmul(a, b),
            tnp.matmul(a, [1.0, 2, 3]),
            tnp.matmul([1, 2], a),
            tnp.matmul(np.ones([2, 2, 3]), b),
        ],
        "inner": lambda: [tnp.inner(a, a), tnp.inner(2, a), tnp.tensordot(a, b), tnp.tensordot(a, b, 1)],
        "kron": lambda: [tnp.kron([1, 2], a), tnp.kron([[1], [2]], [3, 4])],
        "cross": lambda: [
            tnp.cross([1, 2, 3], [4, 5, 6.5]),
            tnp.cross([1, 2], [3, 4]),
            tnp.cross([1, 2], [3, 4, 5]),
            tnp.cross(b[:, :, None][:, :, [0, 0]], [[1.0, 2.0, 3.0]], axisa=0, axisc=0),
        ],
        "trace": lambda: [tnp.trace(a), tnp.trace(a, 1), tnp.trace(np.ones([2, 2, 2])), tnp.trace(np.int8([[1]]))],
        "einsum": lambda: [tnp.einsum("ij,jk", a, b), tnp.einsum("i,i", [1, 2], [1.5, 2], optimize="optimal")],
    }


def _errors(tf, tnp):
    return {
        "steps of nothing": lambda: tnp.arange(1, 2, 0),
        "order of reshape": lambda: tnp.reshape([1], [1], order="A"),
        "order of flatten": lambda: tnp.flatten([1], "Z"),
        "too few samples": lambda: tnp.linspace(0, 1, -1),
        "no arrays": lambda: tnp.concatenate([]),
        "one of two": lambda: tnp.where([True], 1),
        "kinds of sort": lambda: tnp.sort([1], kind="heapsort"),
        "kinds of argsort": lambda: tnp.argsort([1], kind="heapsort"),
        "padding": lambda: tnp.pad([1], [[1, 1]], "wrap"),
        "out of take": lambda: tnp.take([1], [0], out=1),
        "mode of take": lambda: tnp.take([1], [0], mode="raise"),
        "unequal lengths": lambda: tnp.select([[True]], [1, 2]),
        "no bounds": lambda: tnp.clip([1], None, None),
        "uneven": lambda: tnp.vsplit(tnp.array([1, 2, 3]), 2),
        "too deep": lambda: tnp.array(1, ndmin=33),
        "far axis": lambda: tnp.diff([1, 2], axis=1),
        "triangle of a row": lambda: tnp.tril([1, 2]),
        "casting": lambda: tnp.einsum("i->i", [1], casting="maybe"),
        "integers of randint": lambda: tnp.random.randint(1, 3, dtype=np.float32),
        "gcd of floats": lambda: tnp.gcd(1.5, 2),
    }


def _draws(tf, tnp):
    def drawn(function):
        def run():
            tnp.random.seed(3)
            return function()

        return run

    return {
        "randn": drawn(lambda: tnp.random.randn(2, 2)),
        "one": drawn(
            lambda: [tnp.random.randn(), tnp.random.standard_normal(2), tnp.random.random(), tnp.random.rand(2)]
        ),
        "uniform": drawn(lambda: [tnp.random.uniform(1, 2, [2]), tnp.random.uniform([0.0, 10.0], [1.0, 20.0])]),
        "randint": drawn(
            lambda: [
                tnp.random.randint(7),
                tnp.random.randint(2, 9, 3),
                tnp.random.randint(2, size=[2], dtype=np.int32),
            ]
        ),
        "poisson": drawn(lambda: [tnp.random.poisson(4.0, 3).dtype, tnp.random.poisson().shape]),
    }


def _traced(tf, tnp):
    def gradient(function, x):
        def run():
            t = tnp.array(x)
            with tf.GradientTape() as tape:
                tape.watch(t)
                y = function(t)
            return tape.gradient(y, t)

        return run

    def both(function, x):
        return [function(tnp.array(x)), tf.function(function)(tnp.array(x))]

    smooth = {
        "hypot": lambda x: tnp.hypot(x, 2.0),
        "clip": lambda x: tnp.clip(x, 0.5, 2.0),
        "kron": lambda x: tnp.kron(x, x),
        "take": lambda x: tnp.take(x, [1, 1]),
        "rot90": lambda x: tnp.rot90(tnp.outer(x, x)),
        "logaddexp": lambda x: tnp.logaddexp(x, 1.0),
        "tril": lambda x: tnp.tril(tnp.outer(x, x)),
    }
    made = {f"gradient of {name}": gradient(f, [1.0, 3.0]) for name, f in smooth.items()}
    return made | {f"{name}, traced": lambda f=f: both(f, [1.0, 3.0]) for name, f in smooth.items()}


ENABLED = (
    *(
        "f + 1",
        "f + 1.5",
        "i + 1",
        "i + 1.5",
        "1.5 + i",
        "i / 2",
        "i + f",
        "f + np.float64(1)",
        "np.ones(2) + f",
        "i == f",
    ),
    *(
        "f == None",
        "i - True",
        "(i > 1) | (i > 0)",
        "i**0.5",
        "i @ i",
        "+i",
        "i % 1.5",
        "i // 2",
        "f + [1, 2]",
        "[1, 2] - f",
    ),
    *(
        "tf.Variable([1, 2]) + f",
        "f.T",
        "f.size",
        "f.ndim",
        "f.tolist()",
        "f.reshape(2, 1)",
        "f.reshape((1, -1)).shape",
    ),
    *(
        "f.ravel()",
        "f.clip(0, 1.5)",
        "f.astype(np.int32)",
        "round(f, 1)",
        "f.max()",
        "f.mean()",
        "f.min(axis=0)",
        "f.sum()",
    ),
    *("f.transpose()", "f.flatten()", "f.data is f", "f[[1, 0]]", "f[i > 1]", "f[i - 1]", "f[0]", "f[(0,)]", "f[1.5]"),
    *(
        "f[np.array([True, False])]",
        "f[[True, False]]",
        "f[None, ..., tf.newaxis].shape",
        "c[1, tnp.newaxis, 1:3, ...]",
    ),
    *(
        "c[:, (True, False, True)]",
        "c[1, (0, 0, 1), tnp.asarray([0, 1, 1])]",
        "c[..., [0, -1]]",
        "c[[0, 1], :, [1, 2]]",
    ),
    *(
        "c[:, [[0, 1], [2, 0]], [1, 2]]",
        "c[[0, 1], ..., [1, 2]]",
        "c[..., [1, 0], [2, 2]]",
        "c[-1, [0], 1]",
        "c[[0, 1]].shape",
    ),
    *("c[:, [0, 1], 1]", "c[[1], 0, [2]]", "c[np.int8([1])].shape", "c[c > 20]"),
    "tf.function(lambda a, b: (a + b, a[[1, 0]], a.T, a.reshape(-1), -a))(i, f)",
    *(
        "tnp.average([1, 2, 3])",
        "tnp.average([[1, 2]], axis=1, weights=[[1, 3]])",
        "tnp.around([15, 25], -1)",
        "tnp.fix([2, -2])",
    ),
    *(
        "tnp.hypot(3, 4)",
        "tnp.heaviside([-1, 2], 3)",
        "tnp.nansum([1, 2])",
        "tnp.cbrt([8, -27])",
        "tnp.exp(1)",
        "tnp.isnan([1])",
    ),
    "tnp.take_along_axis(c, tnp.array([[[0]], [[1]]]), 1)",
    *(
        "tnp.angle([-1, 2])",
        "tnp.polyval([1, 2], [3, 4])",
        "tnp.geomspace(1, 8, 4)",
        "tnp.ptp([3, 1])",
        "tnp.sinc([0, 1])",
    ),
    "prefer_float32",
)

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = sys.argv[1:]
import numpy as np, {name} as tf
from parity_support import answer
tnp = tf.experimental.numpy
tnp.experimental_enable_numpy_behavior()
f, i, c = tf.constant([1.0, 2.0]), tf.constant([1, 2]), tnp.arange(24).reshape(2, 3, 4)
answers = {{label: answer(lambda: eval(label)) for label in {labels!r}}}
tnp.experimental_enable_numpy_behavior(prefer_float32=True)
answers["prefer_float32"] = str([(i + 1.5).dtype, tnp.asarray(1.0).dtype, tnp.add(1.0, 2.0).dtype, tnp.mean([1, 2]).dtype])
print("ANSWERS" + json.dumps(answers))
"""


@functools.cache
def _enabled(name):
    """The answers with NumPy's behavior enabled, which nothing takes back."""
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = PROGRAM.format(name=name, labels=ENABLED[:-1])
    run = subprocess.run([sys.executable, "-c", program, tests], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.partition("ANSWERS")[2])
