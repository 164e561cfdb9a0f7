"""Single primitives, about 4 MB each: how many bytes a second each moves, beside the same call in other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload

Shape = tuple[int, ...]
ITEM = 4


@dataclass(frozen=True)
class Operand:
    """Random float32 values in a range; int32 ones where ``dtype`` says so."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0
    dtype: str = "float32"

    def values(self, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        if self.dtype == "int32":
            return rng.integers(int(self.low), int(self.high), self.shape, "int32")
        return rng.uniform(self.low, self.high, self.shape).astype("float32")


@dataclass(frozen=True)
class Primitive:
    """One call: ``tensorflow(tf, *operands)`` and its like; ``written`` is the number of items in its results."""

    name: str
    operands: Sequence[Operand]
    tensorflow: Callable[..., Any]
    jax: Callable[..., Any] | None
    torch: Callable[..., Any] | None
    written: int

    @property
    def traffic(self) -> int:
        """Bytes that must at least move."""
        return ITEM * (self.written + sum(prod(operand.shape) for operand in self.operands))

    def workload(self) -> Workload:
        return Workload(
            f"one {self.name}",
            self.name,
            self.operands,
            self.operands,
            self._tensorflow,
            self.jax and self._jax,
            self._torch,
        )

    def _arrays(self) -> list[np.ndarray]:
        return [operand.values(seed) for seed, operand in enumerate(self.operands)]

    def _tensorflow(self, tf: Any, function: Any, _size: Any) -> Call:
        inputs = [tf.constant(array) for array in self._arrays()]
        compiled = function(lambda *tensors: self.tensorflow(tf, *tensors))
        return lambda: compiled(*inputs)

    def _jax(self, jax: Any, _size: Any) -> Call:
        inputs = [jax.numpy.asarray(array) for array in self._arrays()]
        compiled = jax.jit(lambda *arrays: self.jax(jax, *arrays))
        return lambda: jax.block_until_ready(compiled(*inputs))

    def _torch(self, torch: Any, compiled: Any, _size: Any) -> Call | None:
        if self.torch is None:
            return None
        inputs = [torch.from_numpy(array) for array in self._arrays()]
        run = compiled(lambda *tensors: self.torch(torch, *tensors))
        return torch.inference_mode()(lambda: run(*inputs))


SQUARE = (1000, 1003)


def unary(name: str, jax: str, torch: str, low: float = -2.0, high: float = 2.0) -> Primitive:
    """A function of one argument, by its name in each framework's namespace."""
    own, third, fourth = attrgetter(name), attrgetter(jax), attrgetter(torch)
    return Primitive(
        name.rpartition(".")[2],
        [Operand(SQUARE, low, high)],
        lambda tf, x: own(tf)(x),
        lambda jax, x: third(jax)(x),
        lambda torch, x: fourth(torch)(x),
        prod(SQUARE),
    )


ELEMENTWISE = [
    unary("exp", "numpy.exp", "exp"),
    unary("math.expm1", "numpy.expm1", "expm1"),
    unary("math.log", "numpy.log", "log", 0.1, 4),
    unary("math.log1p", "numpy.log1p", "log1p", -0.9, 4),
    unary("tanh", "numpy.tanh", "tanh"),
    unary("sigmoid", "nn.sigmoid", "sigmoid"),
    unary("sin", "numpy.sin", "sin"),
    unary("cos", "numpy.cos", "cos"),
    unary("math.tan", "numpy.tan", "tan"),
    unary("math.asin", "numpy.arcsin", "asin", -1, 1),
    unary("math.acos", "numpy.arccos", "acos", -1, 1),
    unary("math.atan", "numpy.arctan", "atan"),
    unary("math.sinh", "numpy.sinh", "sinh"),
    unary("math.cosh", "numpy.cosh", "cosh"),
    unary("math.asinh", "numpy.arcsinh", "asinh"),
    unary("math.acosh", "numpy.arccosh", "acosh", 1, 9),
    unary("math.atanh", "numpy.arctanh", "atanh", -0.99, 0.99),
    unary("math.erf", "scipy.special.erf", "erf"),
    unary("math.erfc", "scipy.special.erfc", "erfc"),
    unary("math.erfinv", "scipy.special.erfinv", "erfinv", -0.99, 0.99),
    unary("math.lgamma", "scipy.special.gammaln", "lgamma", 0.1, 9),
    unary("math.digamma", "scipy.special.digamma", "digamma", 0.1, 9),
    unary("sqrt", "numpy.sqrt", "sqrt", 0.1, 4),
    unary("math.rsqrt", "lax.rsqrt", "rsqrt", 0.1, 4),
    unary("nn.softplus", "nn.softplus", "nn.functional.softplus"),
    unary("nn.elu", "nn.elu", "nn.functional.elu"),
    unary("nn.selu", "nn.selu", "nn.functional.selu"),
    unary("nn.gelu", "nn.gelu", "nn.functional.gelu"),
    unary("nn.silu", "nn.silu", "nn.functional.silu"),
    unary("nn.relu", "nn.relu", "relu"),
    Primitive(
        "pow",
        [Operand(SQUARE, 0.1, 4), Operand(SQUARE)],
        lambda tf, x, y: tf.pow(x, y),
        lambda jax, x, y: jax.numpy.power(x, y),
        lambda torch, x, y: torch.pow(x, y),
        prod(SQUARE),
    ),
    Primitive(
        "atan2",
        [Operand(SQUARE), Operand(SQUARE)],
        lambda tf, x, y: tf.atan2(x, y),
        lambda jax, x, y: jax.numpy.arctan2(x, y),
        lambda torch, x, y: torch.atan2(x, y),
        prod(SQUARE),
    ),
    Primitive(
        "add",
        [Operand(SQUARE), Operand(SQUARE)],
        lambda tf, x, y: x + y,
        lambda jax, x, y: x + y,
        lambda torch, x, y: x + y,
        prod(SQUARE),
    ),
    Primitive(
        "floormod",
        [Operand(SQUARE), Operand(SQUARE)],
        lambda tf, x, y: tf.math.floormod(x, y),
        lambda jax, x, y: jax.numpy.mod(x, y),
        lambda torch, x, y: torch.remainder(x, y),
        prod(SQUARE),
    ),
]


def reduction(name: str, shape: Shape, axis: int | tuple[int, ...] | None, how: tuple[str, str, str]) -> Primitive:
    own, third, fourth = map(attrgetter, how)
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    kept = prod(size for place, size in enumerate(shape) if place not in [a % len(shape) for a in axes])
    return Primitive(
        f"{name} {'x'.join(map(str, shape))} over {'all' if axis is None else axis}",
        [Operand(shape)],
        lambda tf, x: own(tf)(x, axis),
        lambda jax, x: third(jax)(x, axis),
        lambda torch, x: fourth(torch)(x) if axis is None else fourth(torch)(x, axis),
        kept,
    )


SUM = ("reduce_sum", "numpy.sum", "sum")
LARGEST = ("reduce_max", "numpy.max", "amax")
SUMS = [
    (SQUARE, None), (SQUARE, 1), (SQUARE, 0), ((64, 256, 64), 1), ((64, 256, 64), (0, 2)), ((64, 256, 64), (0, 1)),
    ((250_000, 4), 1), ((250_000, 4), 0), ((4, 250_000), 1), ((4, 250_000), 0), ((100_000, 10), 1), ((40, 50), 1),
]  # fmt: skip
REDUCTIONS = [
    *(reduction("sum", shape, axis, SUM) for shape, axis in SUMS),
    *(reduction("max", shape, axis, LARGEST) for shape, axis in (SUMS[1], SUMS[2], SUMS[6])),
    reduction("mean", SQUARE, 1, ("reduce_mean", "numpy.mean", "mean")),
    reduction("prod", SQUARE, 1, ("reduce_prod", "numpy.prod", "prod")),
    reduction("argmax", SQUARE, 1, ("argmax", "numpy.argmax", "argmax")),
    reduction("argmax", SQUARE, 0, ("argmax", "numpy.argmax", "argmax")),
    reduction("argmin", (64, 256, 64), 1, ("argmin", "numpy.argmin", "argmin")),
    reduction("logsumexp", SQUARE, 1, ("reduce_logsumexp", "scipy.special.logsumexp", "logsumexp")),
    reduction("logsumexp", SQUARE, 0, ("reduce_logsumexp", "scipy.special.logsumexp", "logsumexp")),
]


def along(name: str, shape: Shape, axis: int, how: tuple[str, str, str]) -> Primitive:
    """A function of a tensor and an axis whose result has the tensor's shape."""
    own, third, fourth = map(attrgetter, how)
    return Primitive(
        f"{name} {'x'.join(map(str, shape))} along {axis}",
        [Operand(shape, 0.5, 1.5)],
        lambda tf, x: own(tf)(x, axis),
        lambda jax, x: third(jax)(x, axis),
        lambda torch, x: fourth(torch)(x, axis),
        prod(shape),
    )


def norm_gradient(tf: Any, x: Any, scale: Any, offset: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        mean, variance = tf.nn.moments(x, [0], keepdims=True)
        y = tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)
    return tape.gradient(y, x, output_gradients=x)


def loss_gradient(tf: Any, labels: Any, logits: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tape.gradient(loss, logits)


def jax_loss(jax: Any, labels: Any, logits: Any) -> Any:
    chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.sum()


def layer_norm(tf: Any, x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)


def jax_standard(jax: Any, x: Any, axis: int) -> Any:
    return (x - x.mean(axis, keepdims=True)) * jax.lax.rsqrt(x.var(axis, keepdims=True) + 1e-3)


def jax_norm_gradient(jax: Any, x: Any, scale: Any, offset: Any) -> Any:
    return jax.vjp(lambda x: jax_standard(jax, x, 0) * scale + offset, x)[1](x)[0]


ROWS = [
    *(along("softmax", shape, axis, ("nn.softmax", "nn.softmax", "softmax")) for shape, axis in (
        (SQUARE, 1), (SQUARE, 0), ((100_000, 10), 1), ((8, 1_000_000 // 8), 1))),
    along("log_softmax", SQUARE, 1, ("nn.log_softmax", "nn.log_softmax", "log_softmax")),
    along("cumsum", SQUARE, 1, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumsum", SQUARE, 0, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumsum", (1_000_000,), 0, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumprod", SQUARE, 1, ("math.cumprod", "numpy.cumprod", "cumprod")),
    Primitive(
        "sparse cross entropy and gradient",
        [Operand((1000,), 0, 1003, "int32"), Operand(SQUARE)],
        loss_gradient,
        lambda jax, labels, logits: jax.grad(lambda z: jax_loss(jax, labels, z))(logits),
        None,
        prod(SQUARE),
    ),
    Primitive(
        "layer norm", [Operand(SQUARE)], layer_norm, lambda jax, x: jax_standard(jax, x, 1),
        lambda torch, x: torch.nn.functional.layer_norm(x, (SQUARE[1],), eps=1e-3), prod(SQUARE),
    ),
    Primitive(
        "batch norm and gradient",
        [Operand((16384, 64)), Operand((64,)), Operand((64,))],
        norm_gradient,
        jax_norm_gradient,
        None,
        16384 * 64,
    ),
]  # fmt: skip
CUBE = (16, 64, 32, 32)
MOVEMENT = [
    Primitive(
        f"transpose {'x'.join(map(str, shape))} to {perm}", [Operand(shape)],
        lambda tf, x, perm=perm: tf.transpose(x, perm),
        lambda jax, x, perm=perm: x.transpose(perm),
        lambda torch, x, perm=perm: x.permute(perm).contiguous(),
        prod(shape),
    )
    for shape, perm in (
        (SQUARE, (1, 0)), ((1024, 1024), (1, 0)), ((100_000, 10), (1, 0)), ((10, 100_000), (1, 0)),
        ((8, 128, 16, 64), (0, 2, 1, 3)), (CUBE, (0, 2, 3, 1)), (CUBE, (0, 3, 1, 2)), ((8, 128, 16, 64), (0, 2, 3, 1)),
    )
]  # fmt: skip
MOVEMENT += [
    Primitive(
        "concat rows", [Operand((500, 1003))] * 2, lambda tf, x, y: tf.concat([x, y], 0),
        lambda jax, x, y: jax.numpy.concatenate([x, y]), lambda torch, x, y: torch.cat([x, y]), prod(SQUARE),
    ),
    Primitive(
        "concat columns", [Operand((1000, 500)), Operand((1000, 503))], lambda tf, x, y: tf.concat([x, y], 1),
        lambda jax, x, y: jax.numpy.concatenate([x, y], 1), lambda torch, x, y: torch.cat([x, y], 1), prod(SQUARE),
    ),
    Primitive(
        "concat of few columns", [Operand((100_000, 3)), Operand((100_000, 5))], lambda tf, x, y: tf.concat([x, y], 1),
        lambda jax, x, y: jax.numpy.concatenate([x, y], 1), lambda torch, x, y: torch.cat([x, y], 1), 800_000,
    ),
    Primitive(
        "stack last", [Operand((500_000,))] * 2, lambda tf, x, y: tf.stack([x, y], 1),
        lambda jax, x, y: jax.numpy.stack([x, y], 1), lambda torch, x, y: torch.stack([x, y], 1), 1_000_000,
    ),
    Primitive(
        "gather rows", [Operand((10_000, 256)), Operand((4096,), 0, 10_000, "int32")],
        lambda tf, x, i: tf.gather(x, i), lambda jax, x, i: jax.numpy.take(x, i, 0, mode="clip"),
        lambda torch, x, i: x.index_select(0, i), 4096 * 256 - 10_000 * 256 + 4096 * 256,
    ),
    Primitive(
        "gather columns", [Operand((1000, 1003)), Operand((1003,), 0, 1003, "int32")],
        lambda tf, x, i: tf.gather(x, i, axis=1), lambda jax, x, i: jax.numpy.take(x, i, 1, mode="clip"),
        lambda torch, x, i: x.index_select(1, i), prod(SQUARE),
    ),
    Primitive(
        "gather items", [Operand((1_000_000,)), Operand((1_000_000,), 0, 1_000_000, "int32")],
        lambda tf, x, i: tf.gather(x, i), lambda jax, x, i: jax.numpy.take(x, i, 0, mode="clip"),
        lambda torch, x, i: x.index_select(0, i), 1_000_000,
    ),
    Primitive(
        "scatter add rows", [Operand((10_000, 256)), Operand((4096, 1), 0, 10_000, "int32"), Operand((4096, 256))],
        lambda tf, x, i, u: tf.tensor_scatter_nd_add(x, i, u), lambda jax, x, i, u: x.at[i[:, 0]].add(u),
        lambda torch, x, i, u: x.index_add(0, i[:, 0], u), 10_000 * 256,
    ),
    Primitive(
        "segment sum", [Operand((100_000, 16)), Operand((100_000,), 0, 1000, "int32")],
        lambda tf, x, i: tf.math.unsorted_segment_sum(x, i, 1000),
        lambda jax, x, i: jax.ops.segment_sum(x, i, 1000),
        lambda torch, x, i: torch.zeros(1000, 16).index_add(0, i, x), 16_000,
    ),
    Primitive(
        "one_hot", [Operand((10_000,), 0, 100, "int32")], lambda tf, i: tf.one_hot(i, 100),
        lambda jax, i: jax.nn.one_hot(i, 100),
        lambda torch, i: torch.nn.functional.one_hot(i.long(), 100).float(), 1_000_000,
    ),
    Primitive(
        "pad", [Operand((64, 30, 30, 16))], lambda tf, x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]),
        lambda jax, x: jax.numpy.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]),
        lambda torch, x: torch.nn.functional.pad(x, (0, 0, 1, 1, 1, 1)), 64 * 32 * 32 * 16,
    ),
    Primitive(
        "pad columns", [Operand((1000, 1000))], lambda tf, x: tf.pad(x, [[0, 0], [1, 2]]),
        lambda jax, x: jax.numpy.pad(x, [[0, 0], [1, 2]]),
        lambda torch, x: torch.nn.functional.pad(x, (1, 2)), 1_003_000,
    ),
    Primitive(
        "tile", [Operand((100, 1003))], lambda tf, x: tf.tile(x, [10, 1]), lambda jax, x: jax.numpy.tile(x, (10, 1)),
        lambda torch, x: x.repeat(10, 1), prod(SQUARE),
    ),
    Primitive(
        "tile columns", [Operand((1000, 100))], lambda tf, x: tf.tile(x, [1, 10]),
        lambda jax, x: jax.numpy.tile(x, (1, 10)), lambda torch, x: x.repeat(1, 10), 1_000_000,
    ),
    Primitive(
        "repeat", [Operand((250_000,))], lambda tf, x: tf.repeat(x, 4), lambda jax, x: jax.numpy.repeat(x, 4),
        lambda torch, x: torch.repeat_interleave(x, 4), 1_000_000,
    ),
    Primitive(
        "reverse columns", [Operand(SQUARE)], lambda tf, x: tf.reverse(x, [1]), lambda jax, x: x[:, ::-1],
        lambda torch, x: x.flip(1), prod(SQUARE),
    ),
    Primitive(
        "every other column", [Operand(SQUARE)], lambda tf, x: x[:, ::2], lambda jax, x: x[:, ::2],
        lambda torch, x: x[:, ::2].contiguous(), 502_000,
    ),
    Primitive(
        "where", [Operand(SQUARE), Operand(SQUARE)], lambda tf, x, y: tf.where(x > y, x, 0.5 * y),
        lambda jax, x, y: jax.numpy.where(x > y, x, 0.5 * y), lambda torch, x, y: torch.where(x > y, x, 0.5 * y),
        prod(SQUARE),
    ),
    Primitive(
        "cast to bfloat16 and back", [Operand(SQUARE)], lambda tf, x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32),
        lambda jax, x: jax.lax.reduce_precision(x, 8, 7), lambda torch, x: x.bfloat16().float(), prod(SQUARE),
    ),
    Primitive(
        "sort rows", [Operand((1000, 1000))], lambda tf, x: tf.sort(x), lambda jax, x: jax.numpy.sort(x),
        lambda torch, x: torch.sort(x)[0], 1_000_000,
    ),
    Primitive(
        "sort", [Operand((200_000,))], lambda tf, x: tf.sort(x), lambda jax, x: jax.numpy.sort(x),
        lambda torch, x: torch.sort(x)[0], 200_000,
    ),
    Primitive(
        "argsort rows", [Operand((1000, 1000))], lambda tf, x: tf.argsort(x), lambda jax, x: jax.numpy.argsort(x),
        lambda torch, x: torch.argsort(x), 1_000_000,
    ),
    Primitive(
        "top 10 of 1000", [Operand((1000, 1000))], lambda tf, x: tf.math.top_k(x, 10)[0],
        lambda jax, x: jax.lax.top_k(x, 10)[0], lambda torch, x: torch.topk(x, 10)[0], 10_000,
    ),
]  # fmt: skip


SEED = [Operand((2,), 1, 9, "int32")]


def jax_random(name: str, *limits: float) -> Callable[..., Any]:
    def drawn(jax: Any, seed: Any) -> Any:
        key = jax.random.wrap_key_data(seed.astype("uint32"))
        return getattr(jax.random, name)(key, *limits, SQUARE)

    return drawn


RANDOM = [
    Primitive(
        "uniform", SEED, lambda tf, seed: tf.random.stateless_uniform(SQUARE, seed), jax_random("uniform"),
        lambda torch, _: torch.rand(SQUARE), prod(SQUARE),
    ),
    Primitive(
        "normal", SEED, lambda tf, seed: tf.random.stateless_normal(SQUARE, seed), jax_random("normal"),
        lambda torch, _: torch.randn(SQUARE), prod(SQUARE),
    ),
    Primitive(
        "truncated normal", SEED, lambda tf, seed: tf.random.stateless_truncated_normal(SQUARE, seed),
        jax_random("truncated_normal", -2.0, 2.0),
        lambda torch, _: torch.nn.init.trunc_normal_(torch.empty(SQUARE), a=-2.0, b=2.0), prod(SQUARE),
    ),
]  # fmt: skip
PRIMITIVES = {each.name: each for each in (*ELEMENTWISE, *REDUCTIONS, *ROWS, *MOVEMENT, *RANDOM)}
WORKLOADS = [each.workload() for each in PRIMITIVES.values()]
