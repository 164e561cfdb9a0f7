"""Inference and training of a residual and a depthwise network."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Call, Workload, run_exported
from benchmarks.workloads import networks
from benchmarks.workloads.networks import Size, data, logits, weights
from benchmarks.workloads.training import cross_entropy_jax, sgd_jax, sgd_tensorflow, step_torch

RATE = 0.01
ODD = {
    "residual": Size("residual", 7, 30, (60, 100, 200, 300)),
    "depthwise": Size("depthwise", 5, 90, (20, 36, 60, 100)),
}
RESIDUAL = Size("residual", 1, 32, (64, 128, 256, 512))
DEPTHWISE = Size("depthwise", 1, 96, (24, 32, 64, 96))
TINY = {net: Size(net, 2, 8, (2, 3), 1) for net in ("residual", "depthwise")}


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    images, constants = tf.constant(data(size)[0]), [tf.constant(w) for w in weights(size)]
    operations = networks.in_tensorflow(tf)
    run = function(lambda x: logits(size, operations, constants, x))
    return lambda: run(images)


def jax(jax: Any, size: Size) -> Call:
    images, constants = jax.numpy.asarray(data(size)[0]), [jax.numpy.asarray(w) for w in weights(size)]
    operations = networks.in_jax(jax)
    run = jax.jit(lambda x: logits(size, operations, constants, x))
    return lambda: run(images).block_until_ready()


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    images, constants = networks.torch_images(torch, size), networks.torch_weights(torch, size)
    operations = networks.in_torch(torch)
    run = compiled(lambda x: logits(size, operations, constants, x))
    return torch.inference_mode()(lambda: run(images))


def onnxruntime(size: Size) -> Call:
    """The model as tvtf exports it."""
    import tvtf as tf

    images, constants = data(size)[0], [tf.constant(w) for w in weights(size)]
    operations = networks.in_tensorflow(tf)
    run = tf.function(lambda x: logits(size, operations, constants, x))
    return run_exported(tf, run, images)


def train_tensorflow(tf: Any, function: Any, size: Size) -> Call:
    x, y = map(tf.constant, data(size))
    variables, operations = [tf.Variable(w) for w in weights(size)], networks.in_tensorflow(tf, trains=True)

    def logits_of(x: Any) -> Any:
        return logits(size, operations, variables, x)

    return sgd_tensorflow(tf, function, logits_of, variables, RATE, x, y)


def train_jax(jax: Any, size: Size) -> Call:
    x, y = map(jax.numpy.asarray, data(size))
    operations = networks.in_jax(jax, trains=True)

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        return cross_entropy_jax(jax, logits(size, operations, params, x), y)

    return sgd_jax(jax, loss_of, weights(size), RATE, x, y)


def train_torch(torch: Any, compiled: Any, size: Size) -> Call:
    x, y = networks.torch_images(torch, size), torch.from_numpy(data(size)[1])
    params = [w.requires_grad_() for w in networks.torch_weights(torch, size)]
    operations = networks.in_torch(torch, trains=True)
    loss_of = compiled(lambda x, y: torch.nn.functional.cross_entropy(logits(size, operations, params, x), y))
    return step_torch(torch.optim.SGD(params, lr=RATE), loss_of, x, y)


def inference(name: str, size: Size) -> Workload:
    title = f"{size.net} network on {size.side}x{size.side}, batch {size.batch}{_widths(size)}"
    goal = "ahead of ONNX Runtime, <= 0.67x the best"
    return Workload(name, title, size, TINY[size.net], tensorflow, jax, torch, onnxruntime, goal=goal)


def training(name: str, size: Size) -> Workload:
    title = f"{size.net} network on {size.batch}x{size.side}x{size.side}, SGD step{_widths(size)}"
    tiny, goal = TINY[size.net], "<= 0.67x the best"
    return Workload(name, title, size, tiny, train_tensorflow, train_jax, train_torch, goal=goal)


def _widths(size: Size) -> str:
    return f", {', '.join(map(str, size.widths))} channels" if size in ODD.values() else ""


WORKLOADS = [
    *(inference(f"{s.net}-{batch}", s._replace(batch=batch)) for s in (RESIDUAL, DEPTHWISE) for batch in (1, 32)),
    *(inference(f"{name}-odd", size) for name, size in ODD.items()),
    *(training(f"{s.net}-step", s._replace(batch=8)) for s in (RESIDUAL, DEPTHWISE)),
    *(training(f"{name}-odd-step", size) for name, size in ODD.items()),
]
