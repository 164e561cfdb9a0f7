"""Gradients as a pass over stock Relax functions, and the stock ops' translation against TVM's own results."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvtf as tf
from tvtf import passes
from tvtf.ir.interpreter import evaluate

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same, alone or in company."""
    rng.bit_generator.state = np.random.default_rng(0).bit_generator.state


def module(build, *shapes, names=None, dtype="float32"):
    """A module whose ``main`` is ``build`` over parameters of the given shapes."""
    builder = relax.BlockBuilder()
    names = names or [f"p{i}" for i in range(len(shapes))]
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
    params = [relax.Var(n, relax.TensorType(s, d)) for n, s, d in zip(names, shapes, dtypes)]
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(build(*params))
        builder.emit_func_output(output)
    return builder.get()


def stock(mod, *arrays):
    """TVM's own compiled result."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a) for a in arrays))
    return [t.numpy() for t in found] if not hasattr(found, "numpy") else [found.numpy()]


def translated(mod, *arrays, name="main"):
    return [t.numpy() for t in evaluate(passes.to_dialect(mod), name, [tf.constant(a) for a in arrays])]


def drawn(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(np.float32)


op = relax.op
POSITIVE = {"log", "sqrt", "rsqrt", "acosh"}
UNIT = {"acos", "asin", "atanh"}
UNARY = [
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor", "log"),
    *("negative", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
]
BINARY = [
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "floor_divide", "floor_mod", "atan2"),
]
COMPARE = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("name", UNARY)
def test_unary_ops(name):
    low, high = (1.1, 2.0) if name in POSITIVE else (-0.9, 0.9) if name in UNIT else (-2.0, 2.0)
    x = drawn(3, 4, low=low, high=high)
    mod = module(getattr(op, name), (3, 4))
    np.testing.assert_allclose(translated(mod, x), stock(mod, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BINARY + COMPARE)
def test_binary_ops(name):
    x, y = drawn(3, 4, low=0.5), drawn(4, low=0.5)
    x[0] = y
    mod = module(getattr(op, name), (3, 4), (4,))
    np.testing.assert_allclose(translated(mod, x, y), stock(mod, x, y), rtol=1e-5, atol=1e-6)


OTHERS = {
    "sum": (lambda x: op.sum(x, axis=[1]), (3, 4)),
    "sum of all": (lambda x: op.sum(x), (3, 4)),
    "mean kept": (lambda x: op.mean(x, axis=[-1], keepdims=True), (3, 4)),
    "max": (lambda x: op.max(x, axis=[0]), (3, 4)),
    "prod": (lambda x: op.prod(x, axis=[0, 1]), (3, 4)),
    "variance": (lambda x: op.variance(x, axis=[1]), (3, 4)),
    "std": (lambda x: op.std(x, axis=[1]), (3, 4)),
    "argmax": (lambda x: op.argmax(x, axis=1), (3, 4)),
    "argmin": (lambda x: op.argmin(x, axis=0), (3, 4)),
    "argmax kept": (lambda x: op.argmax(x, axis=1, keepdims=True), (3, 4)),
    "argmax of all": (lambda x: op.argmax(x), (3, 4)),
    "reshape": (lambda x: op.reshape(x, (2, -1)), (3, 4)),
    "flatten": (lambda x: op.flatten(x), (3, 4)),
    "squeeze": (lambda x: op.squeeze(x, [1]), (3, 1, 4)),
    "expand_dims": (lambda x: op.expand_dims(x, [0, 2]), (3, 4)),
    "broadcast_to": (lambda x: op.broadcast_to(x, (2, 3, 4)), (3, 4)),
    "permute_dims": (lambda x: op.permute_dims(x, [2, 0, 1]), (2, 3, 4)),
    "permute_dims reversed": (lambda x: op.permute_dims(x), (2, 3, 4)),
    "concat": (lambda x: op.concat([x, x], axis=1), (3, 4)),
    "concat flat": (lambda x: op.concat([x, x], axis=-1), (3,)),
    "stack": (lambda x: op.stack([x, x], axis=1), (3, 4)),
    "split": (lambda x: op.split(x, 2, axis=1)[1], (3, 4)),
    "split at": (lambda x: op.split(x, [1, 3], axis=1)[1], (3, 4)),
    "astype": (lambda x: op.astype(x, "int32"), (3, 4)),
    "clip": (lambda x: op.clip(x, -0.5, 0.5), (3, 4)),
    "take": (lambda x: op.take(x, relax.const(np.array([2, 0], np.int64)), axis=0), (3, 4)),
    "take flat": (lambda x: op.take(x, relax.const(np.array([2, 0], np.int64))), (4,)),
    "min": (lambda x: op.min(x, axis=[0]), (3, 4)),
    "ones": (lambda x: op.add(x, op.ones((3, 4), "float32")), (3, 4)),
    "zeros_like": (lambda x: op.add(x, op.zeros_like(x)), (3, 4)),
    "full_like": (lambda x: op.add(x, op.full_like(x, relax.const(2.5))), (3, 4)),
    "max_pool3d": (lambda x: op.nn.max_pool3d(x, (2, 2, 2), strides=(2, 2, 2)), (1, 2, 4, 4, 4)),
    "zeros": (lambda x: op.add(x, op.zeros((3, 4), "float32")), (3, 4)),
    "ones_like": (lambda x: op.add(x, op.ones_like(x)), (3, 4)),
    "full": (lambda x: op.add(x, op.full((3, 4), relax.const(2.5), "float32")), (3, 4)),
    "where": (lambda x: op.where(op.greater(x, relax.const(0.0)), x, op.negative(x)), (3, 4)),
    "relu": (op.nn.relu, (3, 4)),
    "relu6": (op.nn.relu6, (3, 4)),
    "silu": (op.nn.silu, (3, 4)),
    "selu": (op.nn.selu, (3, 4)),
    "softplus": (op.nn.softplus, (3, 4)),
    "gelu": (op.nn.gelu, (3, 4)),
    "gelu_tanh": (op.nn.gelu_tanh, (3, 4)),
    "leakyrelu": (lambda x: op.nn.leakyrelu(x, 0.3), (3, 4)),
    "softmax": (lambda x: op.nn.softmax(x, axis=0), (3, 4)),
    "log_softmax": (lambda x: op.nn.log_softmax(x), (3, 4)),
    "batch_flatten": (op.nn.batch_flatten, (2, 3, 4)),
    "max_pool2d": (lambda x: op.nn.max_pool2d(x, (2, 2), strides=(2, 2)), (1, 2, 6, 6)),
    "max_pool2d padded": (lambda x: op.nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1)), (1, 2, 6, 6)),
    "max_pool1d NWC": (lambda x: op.nn.max_pool1d(x, 2, strides=2, layout="NWC"), (1, 6, 2)),
    "max_pool2d ceil": (lambda x: op.nn.max_pool2d(x, (2, 2), strides=(2, 2), ceil_mode=True), (1, 2, 5, 5)),
}


@pytest.mark.parametrize("label", OTHERS)
def test_other_ops(label):
    build, shape = OTHERS[label]
    x = drawn(*shape)
    mod = module(build, shape)
    for found, expected in zip(translated(mod, x), stock(mod, x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


CONVOLUTIONS = {
    "conv1d": (lambda x, w: op.nn.conv1d(x, w, strides=2, padding=1), (1, 3, 8), (4, 3, 3)),
    "conv2d": (lambda x, w: op.nn.conv2d(x, w, strides=(2, 1), padding=(1, 0, 2, 1)), (1, 3, 8, 7), (4, 3, 3, 2)),
    "conv2d dilated": (lambda x, w: op.nn.conv2d(x, w, dilation=(2, 2)), (1, 3, 8, 8), (4, 3, 3, 3)),
    "conv2d groups": (lambda x, w: op.nn.conv2d(x, w, groups=2), (1, 4, 6, 6), (4, 2, 3, 3)),
    "conv2d NHWC": (
        lambda x, w: op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        (1, 6, 6, 3),
        (3, 3, 3, 4),
    ),
    "conv3d": (op.nn.conv3d, (1, 2, 4, 5, 6), (3, 2, 2, 2, 2)),
    "matmul": (op.matmul, (3, 4), (4, 5)),
    "matmul batched": (op.matmul, (2, 3, 4), (2, 4, 5)),
    "matmul broadcast": (op.matmul, (2, 3, 4), (4, 5)),
    "matmul vector": (op.matmul, (3, 4), (4,)),
    "vector matmul": (op.matmul, (4,), (4, 5)),
    "cross entropy": (op.nn.cross_entropy_with_logits, (3, 4), (3, 4)),
    "cross entropy of one": (op.nn.cross_entropy_with_logits, (4,), (4,)),
}


@pytest.mark.parametrize("label", CONVOLUTIONS)
def test_ops_of_two(label):
    build, *shapes = CONVOLUTIONS[label]
    arrays = [drawn(*s) for s in shapes]
    mod = module(build, *shapes)
    (found,), (expected,) = translated(mod, *arrays), stock(mod, *arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_every_translation_is_tested():
    from tvtf.passes.graph.import_relax import STOCK

    source = Path(__file__).read_text()
    names = {n.rpartition(".")[2] for n in STOCK}
    tested = {n for n in names if n in UNARY + BINARY + COMPARE or f".{n}(" in source or f".{n}," in source}
    logical = {"logical_and", "logical_or", "logical_not", "logical_xor"}
    assert names - tested - logical == set()


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "logical_not"])
def test_logical_ops(name):
    arrays = [np.array([True, True, False, False]), np.array([True, False, True, False])][
        : 1 if name == "logical_not" else 2
    ]
    mod = module(getattr(op, name), *[(4,)] * len(arrays), dtype="bool")
    np.testing.assert_array_equal(translated(mod, *arrays), stock(mod, *arrays))


def test_an_unknown_op_is_named():
    mod = module(lambda x: op.sort(x, axis=0), (4,))
    with pytest.raises(tf.errors.UnimplementedError) as caught:
        passes.to_dialect(mod)
    assert str(caught.value) == (
        "the stock Relax op relax.sort has no translation into tvtf: R.sort(p0, axis=0, descending=False)"
    )


def test_dilated_pooling_is_rejected():
    with pytest.raises(
        tf.errors.UnimplementedError, match="dilated pooling has no translation into tvtf: R.nn.max_pool2d"
    ):
        passes.to_dialect(module(lambda x: op.nn.max_pool2d(x, (2, 2), dilation=(2, 2)), (1, 2, 6, 6)))


def test_another_layout_of_the_result():
    mod = module(lambda x, w: op.nn.conv2d(x, w, out_layout="NHWC"), (1, 3, 6, 6), (4, 3, 3, 3))
    plain = module(op.nn.conv2d, (1, 3, 6, 6), (4, 3, 3, 3))
    arrays = drawn(1, 3, 6, 6), drawn(4, 3, 3, 3)
    np.testing.assert_allclose(
        translated(mod, *arrays)[0], stock(plain, *arrays)[0].transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5
    )


# -- gradients


def adjoint(mod, *arrays, **options):
    found = passes.gradient(mod, **options)
    return [t.numpy() for t in evaluate(found, "main_adjoint", [tf.constant(a) for a in arrays])]


def loss(x, w):
    return op.sum(op.square(op.tanh(op.matmul(x, w))))


def numeric(f, arrays, which, step=1e-3):
    wide = [a.astype(np.float64) for a in arrays]
    found = np.zeros(arrays[which].shape)
    for index in np.ndindex(*found.shape):
        for sign in 1, -1:
            shifted = [a.copy() for a in wide]
            shifted[which][index] += sign * step
            found[index] += sign * f(*shifted) / (2 * step)
    return found


def test_gradients_are_the_differences():
    x, w = drawn(2, 3), drawn(3, 2)
    value, dx, dw = adjoint(module(loss, (2, 3), (3, 2)), x, w)

    def f(x, w):
        return (np.tanh(x @ w) ** 2).sum()

    np.testing.assert_allclose(value, f(x, w), rtol=1e-5)
    np.testing.assert_allclose(dx, numeric(f, [x, w], 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dw, numeric(f, [x, w], 1), rtol=1e-4, atol=1e-5)


def test_wrt_by_name_and_position():
    mod = module(loss, (2, 3), (3, 2), names=["x", "w"])
    arrays = drawn(2, 3), drawn(3, 2)
    _, both_x, both_w = adjoint(mod, *arrays)
    np.testing.assert_array_equal(adjoint(mod, *arrays, wrt=["w"])[1], both_w)
    np.testing.assert_array_equal(adjoint(mod, *arrays, wrt=[0])[1], both_x)
    assert [a.shape for a in adjoint(mod, *arrays, wrt=["w", 0])] == [(), (3, 2), (2, 3)]
    assert len(adjoint(mod, *arrays, wrt=[])) == 1


@pytest.mark.parametrize("wrt", ["y", 2, -1])
def test_wrt_of_nothing(wrt):
    with pytest.raises(ValueError) as caught:
        passes.gradient(module(loss, (2, 3), (3, 2), names=["x", "w"]), wrt=[wrt])
    assert str(caught.value) == f"wrt={wrt!r} is not a parameter of the function, whose parameters are ['x', 'w']"


def test_a_failed_pass_leaves_no_tape():
    from tvtf.core.thread_state import state

    with pytest.raises(tf.errors.UnimplementedError):
        passes.gradient(module(lambda x: op.sort(x), (4,)))
    assert (state.trace, state.tapes) == (None, [])
    assert (tf.constant(1.0) + 1.0).numpy() == 2.0


def test_integers_have_no_gradient():
    mod = module(lambda x, i: op.multiply(x, op.astype(i, "float32")), (2,), (2,), dtype=["float32", "int32"])
    x, i = drawn(2), np.array([2, 3], np.int32)
    value, dx = adjoint(mod, x, i)
    np.testing.assert_allclose(dx, [2.0, 3.0])


def test_a_parameter_without_influence_gets_zeros():
    value, dx, dy = adjoint(module(lambda x, y: op.negative(x), (2,), (3,)), drawn(2), drawn(3))
    assert (dx.tolist(), dy.tolist()) == ([-1.0, -1.0], [0.0, 0.0, 0.0])


def test_symbolic_dims():
    n = tvm.tirx.Var("n", "int64")
    mod = module(lambda x: op.sum(op.multiply(x, op.sin(x))), (n, 3))
    for size in 1, 4:
        x = drawn(size, 3)
        _, dx = adjoint(mod, x)
        np.testing.assert_allclose(dx, np.sin(x) + x * np.cos(x), rtol=1e-5)


def test_the_adjoint_compiles():
    from tvtf.core.dlpack_view import tensor_of, to_handle
    from tvtf.frontend.function.executor import executable_for

    mod = passes.gradient(module(loss, (2, 3), (3, 2)))
    arrays = drawn(2, 3), drawn(3, 2)
    alone = tvm.IRModule({tvm.relax.GlobalVar("main"): mod["main_adjoint"].with_attr("global_symbol", "main")})
    found = [tensor_of(t).numpy() for t in executable_for(alone).function()(*map(to_handle, arrays))]
    expected = [t.numpy() for t in evaluate(mod, "main_adjoint", [tf.constant(a) for a in arrays])]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_gradient_of_a_gradient():
    once = passes.gradient(module(lambda x: op.sum(op.multiply(x, op.multiply(x, x))), (3,)), wrt=[0])
    inner = tvm.IRModule({tvm.relax.GlobalVar("main"): once["main_adjoint"]})
    x = drawn(3)
    _, first, second = adjoint(inner, x)
    np.testing.assert_allclose(first, 3 * x**2, rtol=1e-5)
    np.testing.assert_allclose(second, 3 * x**2 + 6 * x, rtol=1e-4)
