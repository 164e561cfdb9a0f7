"""Primitives of training besides products: losses, normalisation over the batch and embeddings, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from benchmarks.workloads.primitives.record import SQUARE, Operand, Primitive
from benchmarks.workloads.primitives.rows import jax_standard, layer_norm

FEATURES = 16384, 64
TABLE, WORDS = (10_000, 256), (4096,)


def gradient(tf: Any, function: Callable[[Any], Any], x: Any, ct: Any = None) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tf.convert_to_tensor(tape.gradient(y, x, output_gradients=ct))


def batch_norm(tf: Any, x: Any, scale: Any, offset: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)


def torch_batch_norm_gradient(torch: Any, x: Any, scale: Any, offset: Any) -> Any:
    _, mean, inverse = torch.ops.aten.native_batch_norm(x, scale, offset, None, None, True, 0.0, 1e-3)
    back = torch.ops.aten.native_batch_norm_backward
    return back(x, x, scale, None, None, mean, inverse, True, 1e-3, [True, False, False])[0]


def torch_layer_norm_gradient(torch: Any, x: Any) -> Any:
    shape = [SQUARE[1]]
    _, mean, inverse = torch.ops.aten.native_layer_norm(x, shape, None, None, 1e-3)
    back = torch.ops.aten.native_layer_norm_backward
    return back(x, x, shape, mean, inverse, None, None, [True, False, False])[0]


def sparse_loss(tf: Any, labels: Any, logits: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def jax_loss(jax: Any, labels: Any, logits: Any) -> Any:
    chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.sum()


def torch_sparse_gradient(torch: Any, labels: Any, logits: Any) -> Any:
    log_probabilities = torch.softmax(logits, 1)
    return log_probabilities.scatter_add_(1, labels[:, None].long(), log_probabilities.new_full((len(labels), 1), -1.0))


TRAINING = [
    Primitive(
        "cross entropy", [Operand(SQUARE, 0, 1), Operand(SQUARE)],
        lambda tf, labels, logits: tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits),
        lambda jax, labels, logits: -(labels * jax.nn.log_softmax(logits)).sum(1),
        lambda torch, labels, logits: torch.nn.functional.cross_entropy(logits, labels, reduction="none"), SQUARE[0],
    ),
    Primitive(
        "cross entropy gradient", [Operand(SQUARE, 0, 1), Operand(SQUARE)],
        lambda tf, labels, logits: gradient(
            tf, lambda z: tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=z), logits
        ),
        lambda jax, labels, logits: jax.nn.softmax(logits) - labels,
        lambda torch, labels, logits: torch.softmax(logits, 1) - labels, prod(SQUARE),
    ),
    Primitive(
        "sparse cross entropy", [Operand(SQUARE[:1], 0, 1003, "int32"), Operand(SQUARE)],
        sparse_loss,
        lambda jax, labels, logits: -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0],
        lambda torch, labels, logits: torch.nn.functional.cross_entropy(logits, labels.long(), reduction="none"),
        SQUARE[0],
    ),
    Primitive(
        "sparse cross entropy gradient", [Operand(SQUARE[:1], 0, 1003, "int32"), Operand(SQUARE)],
        lambda tf, labels, logits: gradient(tf, lambda z: sparse_loss(tf, labels, z), logits),
        lambda jax, labels, logits: jax.grad(lambda z: jax_loss(jax, labels, z))(logits),
        torch_sparse_gradient, prod(SQUARE),
    ),
    Primitive(
        "layer norm gradient", [Operand(SQUARE)],
        lambda tf, x: gradient(tf, lambda x: layer_norm(tf, x), x, x),
        lambda jax, x: jax.vjp(lambda x: jax_standard(jax, x, 1), x)[1](x)[0],
        torch_layer_norm_gradient, prod(SQUARE),
    ),
    Primitive(
        "batch norm", [Operand(FEATURES), Operand(FEATURES[1:]), Operand(FEATURES[1:])],
        batch_norm,
        lambda jax, x, scale, offset: jax_standard(jax, x, 0) * scale + offset,
        lambda torch, x, scale, offset: torch.nn.functional.batch_norm(x, None, None, scale, offset, True, 0.0, 1e-3),
        prod(FEATURES),
    ),
    Primitive(
        "batch norm gradient", [Operand(FEATURES), Operand(FEATURES[1:]), Operand(FEATURES[1:])],
        lambda tf, x, scale, offset: gradient(tf, lambda x: batch_norm(tf, x, scale, offset), x, x),
        lambda jax, x, scale, offset: jax.vjp(lambda x: jax_standard(jax, x, 0) * scale + offset, x)[1](x)[0],
        torch_batch_norm_gradient, prod(FEATURES),
    ),
    Primitive(
        "embedding gradient", [Operand(TABLE), Operand(WORDS, 0, TABLE[0], "int32"), Operand((*WORDS, TABLE[1]))],
        lambda tf, x, i, ct: gradient(tf, lambda x: tf.gather(x, i), x, ct),
        lambda jax, x, i, ct: jax.vjp(lambda x: jax.numpy.take(x, i, 0, mode="clip"), x)[1](ct)[0],
        lambda torch, x, i, ct: torch.ops.aten.embedding_dense_backward(ct, i, TABLE[0], -1, False), prod(TABLE),
    ),
    Primitive(
        "gather columns gradient", [Operand(SQUARE), Operand(SQUARE[1:], 0, SQUARE[1], "int32")],
        lambda tf, x, i: gradient(tf, lambda x: tf.gather(x, i, axis=1), x, x),
        lambda jax, x, i: jax.vjp(lambda x: jax.numpy.take(x, i, 1, mode="clip"), x)[1](x)[0],
        lambda torch, x, i: torch.zeros_like(x).index_add_(1, i, x), prod(SQUARE),
    ),
]  # fmt: skip
