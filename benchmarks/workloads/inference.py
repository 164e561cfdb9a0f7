"""Inference of the convolutional network with its weights fixed, against ONNX Runtime too."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import CORES, Call, Workload
from benchmarks.workloads.convnet import (
    Size,
    data,
    logits_jax,
    logits_tensorflow,
    logits_torch,
    torch_images,
    torch_weights,
    weights,
)

TINY = Size(2, 10, 3, 4, 5, 3)


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    images, constants = tf.constant(data(size)[0]), [tf.constant(w) for w in weights(size)]
    logits = function(lambda x: logits_tensorflow(tf, constants, x))
    return lambda: logits(images)


def jax(jax: Any, size: Size) -> Call:
    images, constants = jax.numpy.asarray(data(size)[0]), [jax.numpy.asarray(w) for w in weights(size)]
    logits = jax.jit(lambda x: logits_jax(jax, constants, x))
    return lambda: logits(images).block_until_ready()


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    images, constants = torch_images(torch, data(size)[0]), torch_weights(torch, size)
    logits = compiled(lambda x: logits_torch(torch, constants, x))
    return torch.inference_mode()(lambda: logits(images))


def onnxruntime(size: Size) -> Call:
    """The model as tvtf exports it."""
    import onnxruntime

    import tvtf as tf

    images, constants = data(size)[0], [tf.constant(w) for w in weights(size)]
    logits = tf.function(lambda x: logits_tensorflow(tf, constants, x))
    model = tf.onnx.export(logits.get_concrete_function(tf.TensorSpec(images.shape, tf.float32)))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed: dict[str, np.ndarray] = {session.get_inputs()[0].name: images}
    return lambda: session.run(None, feed)[0]


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
