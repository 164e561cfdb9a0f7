"""Transposes, joins, gathers: elements that change their positions."""

from __future__ import annotations

from math import prod

from benchmarks.workloads.primitives.record import SQUARE, Operand, Primitive

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
        "scatter add items", [Operand((1000,)), Operand((1_000_000, 1), 0, 1000, "int32"), Operand((1_000_000,))],
        lambda tf, x, i, u: tf.tensor_scatter_nd_add(x, i, u), lambda jax, x, i, u: x.at[i[:, 0]].add(u),
        lambda torch, x, i, u: x.index_add(0, i[:, 0], u), 1000,
    ),
    Primitive(
        "scatter update rows", [Operand((10_000, 256)), Operand((4096, 1), 0, 10_000, "int32"), Operand((4096, 256))],
        lambda tf, x, i, u: tf.tensor_scatter_nd_update(x, i, u), lambda jax, x, i, u: x.at[i[:, 0]].set(u),
        lambda torch, x, i, u: x.index_copy(0, i[:, 0].long(), u), 10_000 * 256,
    ),
    Primitive(
        "segment max", [Operand((100_000, 16)), Operand((100_000,), 0, 1000, "int32")],
        lambda tf, x, i: tf.math.unsorted_segment_max(x, i, 1000),
        lambda jax, x, i: jax.ops.segment_max(x, i, 1000),
        lambda torch, x, i: torch.full((1000, 16), -3e38).index_reduce(0, i.long(), x, "amax"), 16_000,
    ),
    Primitive(
        "resize 8x224x224x3 to 256", [Operand((8, 224, 224, 3))], lambda tf, x: tf.image.resize(x, [256, 256]),
        lambda jax, x: jax.image.resize(x, (8, 256, 256, 3), "bilinear"),
        lambda torch, x: torch.nn.functional.interpolate(x.permute(0, 3, 1, 2), (256, 256), mode="bilinear"),
        8 * 256 * 256 * 3,
    ),
]  # fmt: skip
