"""Inference of the convolutional network with its weights fixed, against ONNX Runtime too."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Call, Workload, run_exported
from benchmarks.workloads import convnet
from benchmarks.workloads.convnet import Size

TINY = Size(2, 10, 3, 4, 5, 3)


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    images, constants = tf.constant(convnet.data(size)[0]), [tf.constant(w) for w in convnet.weights(size)]
    logits = function(lambda x: convnet.logits_tensorflow(tf, constants, x))
    return lambda: logits(images)


def jax(jax: Any, size: Size) -> Call:
    images, constants = jax.numpy.asarray(convnet.data(size)[0]), [jax.numpy.asarray(w) for w in convnet.weights(size)]
    logits = jax.jit(lambda x: convnet.logits_jax(jax, constants, x))
    return lambda: logits(images).block_until_ready()


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    images, constants = convnet.torch_images(torch, convnet.data(size)[0]), convnet.torch_weights(torch, size)
    logits = compiled(lambda x: convnet.logits_torch(torch, constants, x))
    return torch.inference_mode()(lambda: logits(images))


def onnxruntime(size: Size) -> Call:
    """The model as tvtf exports it."""
    import tvtf as tf

    images, constants = convnet.data(size)[0], [tf.constant(w) for w in convnet.weights(size)]
    logits = tf.function(lambda x: convnet.logits_tensorflow(tf, constants, x))
    return run_exported(tf, logits, images)


WORKLOADS = [
    Workload(
        name=f"inference-{batch}",
        title=f"CNN inference, batch {batch}",
        full=Size(batch),
        tiny=TINY,
        tensorflow=tensorflow,
        jax=jax,
        torch=torch,
        onnxruntime=onnxruntime,
        goal="ahead of ONNX Runtime, <= 0.67x the best",
    )
    for batch in (1, 32)
]
