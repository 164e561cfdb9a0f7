"""Compiles the subroutines that the kernels of common layers call, and common kernels, into archives that a wheel holds.

A first call then compiles only what is new in its program. In a small residual network, two thirds of the code that LLVM
would compile are tiles of products, transforms and copies that most convolutional networks have in common.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

CORES = (2, 8)
"""Of the processors that kernels are scheduled for, in turns. For two cores instead of eight, 5 % of the subroutines are others."""
CORES_OF_KERNELS = (2, 4, 8)
"""Of the processors that kernels of any size are compiled for, if their loops are parallel."""
MIN_GROUPS = 3
"""Minimum number of groups of layers that a kernel is in, to be taken for common."""
MAX_PARAMETERS = 16
"""Maximum number of parameters of a kernel of any size: the update of several Variables together belongs to one program."""
LAYERS_AT_ONCE = 24
"""Layers of one program: it takes longer to compile more of them, but each takes less time."""
BATCHES = (1, 8, 32)
SIDES_AND_WIDTHS = (
    (56, 64),
    (28, 128),
    (14, 256),
    (7, 512),
    (64, 16),
    (64, 32),
    (32, 32),
    (16, 64),
    (8, 128),
    (28, 24),
    (14, 48),
)
"""Sides of images and numbers of channels: of residual networks (He et al. 2016), and of small ones."""
FIRST_LAYERS = (
    (224, 3, 64, 7, 2),
    (224, 3, 32, 3, 2),
    (64, 3, 64, 5, 2),
    (32, 3, 32, 3, 1),
    (28, 1, 32, 3, 1),
    (28, 1, 32, 3, 2),
    (28, 1, 16, 5, 1),
)
"""Sides of images, channels of images and results, windows and strides of convolutions."""
PRODUCTS = ((784, 128), (64, 64), (256, 256), (784, 512), (256, 1024), (1024, 256), (2048, 1000))
"""Widths of arguments and results of dense layers."""
SMALL_PRODUCTS = ((784, 256), (128, 64), (64, 32), (100, 50), (13, 64), (2, 32), (32, 1))
"""The same of small networks."""
NARROW_WIDTHS, DEPTHS = (2, 3, 4, 5, 6, 8, 10, 12, 20), (16, 128, 512, 3136)
"""Widths of results that are no multiple of a vector, and of their arguments."""
CLASSES = (2, 3, 10, 100, 1000)
ROWS = (1, 32, 64, 100, 128, 256, 1024)
ROWS_OF_SMALL_BATCHES = (32, 64)
ACTIVATIONS = ("leaky_relu", "tanh", "sigmoid", "gelu", "swish", "elu", "relu6")
"""Those that follow a few layers; relu follows all others."""
ATTENTION = ((8, 4, 64, 32), (8, 4, 128, 64), (4, 8, 64, 64))
"""Batch, heads, time, and the width of each head."""
GENERATORS = ((1, 7, 64), (32, 7, 64), (32, 14, 32), (8, 16, 64), (16, 4, 256), (64, 4, 256))
"""Batch, sides and channels of images that layers of generative networks halve or double."""
DEPTHWISE = ((56, 32), (28, 32), (28, 144), (14, 96), (14, 192), (7, 160))
"""Sides and channels of images with a window for each channel (Sandler et al. 2018)."""
FOLLOWED = (
    ((1, 56, 56, 64), (3, 3, 64, 64), 1),
    ((1, 56, 56, 64), (1, 1, 64, 256), 1),
    ((1, 14, 14, 512), (3, 3, 512, 512), 2),
    ((8, 28, 28, 128), (3, 3, 128, 128), 2),
    ((8, 7, 7, 512), (3, 3, 512, 512), 1),
)
"""Images, windows and strides of convolutions that elementwise ops of all kinds follow."""
FOLLOWED_PRODUCTS = (((64, 784), (784, 512)), ((64, 256), (256, 16)), ((8, 128, 256), (256, 256)))


class Layer(NamedTuple):
    """A layer: a function of its input and its parameters, and the shapes of both."""

    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]


def layers(tf: Any) -> Iterator[Layer]:
    """Yields the layers whose kernels' subroutines are compiled."""

    def convolution(x: Any, w: Any, b: Any, stride: int, activation: Any) -> Any:
        return activation(tf.nn.conv2d(x, w, stride, "SAME") + b)

    def normalized(x: Any, w: Any, scale: Any, offset: Any) -> Any:
        z = tf.nn.conv2d(x, w, 1, "SAME")
        mean, variance = tf.nn.moments(z, [0, 1, 2])
        return tf.nn.relu(tf.nn.batch_normalization(z, mean, variance, offset, scale, 1e-5))

    def block(x: Any, first: Any, second: Any) -> Any:
        z = tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME"))
        return tf.nn.relu(tf.nn.conv2d(z, second, 1, "SAME") + x)

    def transposed(x: Any, w: Any) -> Any:
        batch, side, width = x.shape[0], x.shape[1], w.shape[2]
        return tf.nn.relu(tf.nn.conv2d_transpose(x, w, (batch, 2 * side, 2 * side, width), 2, "SAME"))

    def dense(x: Any, w: Any, b: Any, activation: Any = tf.nn.relu) -> Any:
        return activation(x @ w + b)

    def linear(x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    def attention(q: Any, k: Any, v: Any) -> Any:
        return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * q.shape[-1] ** -0.5) @ v

    def strided(stride: int, activation: Any = tf.nn.relu) -> Callable[..., Any]:
        return partial(convolution, stride=stride, activation=activation)

    for batch in BATCHES:
        for side, channels, width, window, stride in FIRST_LAYERS:
            shapes = (batch, side, side, channels), (window, window, channels, width), (width,)
            yield Layer(strided(stride), shapes)
        for side, width in SIDES_AND_WIDTHS:
            image, window = (batch, side, side, width), (3, 3, width, width)
            yield Layer(strided(2), (image, (3, 3, width, 2 * width), (2 * width,)))
            yield Layer(strided(2), (image, (5, 5, width, 2 * width), (2 * width,)))
            yield Layer(normalized, (image, (1, 1, width, 4 * width), (4 * width,), (4 * width,)))
            yield Layer(normalized, ((batch, side, side, 4 * width), (1, 1, 4 * width, width), (width,), (width,)))
            yield Layer(normalized, (image, window, (width,), (width,)))
            yield Layer(block, (image, window, window))
            yield Layer(transposed, (image, (5, 5, width // 2, width)))
    for rows in ROWS:
        for depth, width in PRODUCTS:
            yield Layer(dense, ((rows, depth), (depth, width), (width,)))
    for activation in (getattr(tf.nn, name) for name in ACTIVATIONS):
        for window, stride in ((1, 1), (3, 1), (3, 2), (5, 2)):
            yield Layer(strided(stride, activation), ((8, 28, 28, 32), (window, window, 32, 64), (64,)))
        yield Layer(partial(dense, activation=activation), ((64, 256), (256, 256), (256,)))
    for shape in ATTENTION:
        yield Layer(attention, (shape, shape, shape))
    for rows in ROWS_OF_SMALL_BATCHES:
        for depth, width in SMALL_PRODUCTS:
            yield Layer(dense, ((rows, depth), (depth, width), (width,)))
        for width in NARROW_WIDTHS:
            for depth in DEPTHS:
                yield Layer(linear, ((rows, depth), (depth, width), (width,)))
    yield from _losses(tf)
    yield from _generators(tf)
    yield from _followed(tf)


def elementwise(tf: Any) -> Iterator[Layer]:
    """Yields elementwise functions, and losses of arrays of equal shapes: small ones, and such that all cores compute."""
    unary = (
        *(getattr(tf.nn, name) for name in ("relu", *ACTIVATIONS, "softplus", "softsign", "selu")),
        *(getattr(tf, name) for name in ("exp", "sqrt", "square", "abs", "negative", "sin", "cos", "identity")),
        *(getattr(tf.math, name) for name in ("log", "rsqrt", "reciprocal")),
        lambda x: 1.0 - x,
        lambda x: x / 255.0,
        lambda x: x * 2.0 - 1.0,
        lambda x: tf.reshape(x, (x.shape[0], -1)),
        lambda x: tf.cast(tf.cast(x, tf.uint8), tf.float32),
        lambda x: tf.exp(0.5 * x),
    )
    binary = (
        *(tf.add, tf.subtract, tf.multiply, tf.divide, tf.maximum, tf.minimum),
        lambda x, y: x * tf.cast(y > 0.5, tf.float32),
        lambda x, y: tf.square(x - y),
        lambda x, y: tf.reduce_mean(tf.square(x - y)),
        lambda x, y: tf.reduce_mean(tf.abs(x - y)),
        lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(y, x),
        lambda x, y: tf.nn.relu(x + y),
    )
    ternary = (
        lambda x, y, z: x * y + z,
        lambda x, y, z: x + tf.exp(0.5 * y) * z,
        lambda x, y, z: x - 0.01 * y * z,
    )
    for shape in ((4, 5, 4), (32, 7, 7, 16), (32, 28, 28, 64)):
        for count, functions in ((1, unary), (2, binary), (3, ternary)):
            for function in functions:
                yield Layer(function, [shape] * count)


def _losses(tf: Any) -> Iterator[Layer]:
    """Yields the last layers of classifiers with their losses, whose labels are computed from the input."""

    def sparse(x: Any, w: Any, b: Any) -> Any:
        labels = tf.argmax(x, 1) % b.shape[0]
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x @ w + b)

    def dense(x: Any, w: Any, b: Any) -> Any:
        return tf.nn.softmax_cross_entropy_with_logits(x[:, : b.shape[0]], x @ w + b)

    def binary(x: Any, w: Any, b: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(x[:, : b.shape[0]], x @ w + b)

    for rows in (*ROWS_OF_SMALL_BATCHES, 128, 256):
        for classes in CLASSES:
            yield Layer(sparse, ((rows, 128), (128, classes), (classes,)))
        yield Layer(dense, ((rows, 128), (128, 10), (10,)))
        yield Layer(dense, ((rows, 128), (128, 100), (100,)))
        yield Layer(binary, ((rows, 128), (128, 1), (1,)))


def _generators(tf: Any) -> Iterator[Layer]:
    """Yields layers of autoencoders, generative and recurrent networks, and depthwise convolutions."""

    def halved(x: Any, w: Any, b: Any) -> Any:
        return tf.nn.leaky_relu(tf.nn.conv2d(x, w, 2, "SAME") + b)

    def doubled(x: Any, w: Any, b: Any) -> Any:
        batch, side = x.shape[:2]
        return tf.nn.relu(tf.nn.conv2d_transpose(x, w, (batch, 2 * side, 2 * side, w.shape[2]), 2, "SAME") + b)

    def valid(x: Any, w: Any, b: Any) -> Any:
        return tf.nn.relu(tf.nn.conv2d(x, w, 1, "VALID") + b)

    def pixels(x: Any, w: Any, b: Any) -> Any:
        return tf.sigmoid(tf.nn.conv2d(x, w, 1, "SAME") + b)

    def separable(x: Any, w: Any, pointwise: Any) -> Any:
        z = tf.nn.relu6(tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"))
        return tf.nn.relu6(tf.nn.conv2d(z, pointwise, 1, "SAME"))

    def recurrent(x: Any, w: Any, u: Any, b: Any) -> Any:
        inputs, forget, new, output = tf.split(x @ w + x @ u + b, 4, 1)
        return tf.sigmoid(output) * tf.tanh(tf.sigmoid(forget) + tf.sigmoid(inputs) * tf.tanh(new))

    for batch, side, width in GENERATORS:
        image = (batch, side, side, width)
        for window in (3, 4):
            yield Layer(halved, (image, (window, window, width, 2 * width), (2 * width,)))
            yield Layer(doubled, (image, (window, window, width // 2, width), (width // 2,)))
        yield Layer(valid, (image, (3, 3, width, width), (width,)))
        for channels in (1, 3):
            yield Layer(pixels, ((batch, 4 * side, 4 * side, 16), (3, 3, 16, channels), (channels,)))
    for batch in BATCHES:
        for side, width in DEPTHWISE:
            yield Layer(separable, ((batch, side, side, width), (3, 3, width, 1), (1, 1, width, width)))
    for width in (32, 128):
        yield Layer(recurrent, ((32, width), (width, 4 * width), (width, 4 * width), (4 * width,)))


def _followed(tf: Any) -> Iterator[Layer]:
    """Yields convolutions and products that are followed by scales, offsets, residual connections and activations."""

    def biased(z: Any, offset: Any) -> Any:
        return z + offset

    def scaled(z: Any, scale: Any, offset: Any) -> Any:
        return z * scale + offset

    def scaled_by_one_plus(z: Any, scale: Any, offset: Any) -> Any:
        return z * (scale + 1.0) + offset

    def normalized(z: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return tf.nn.batch_normalization(z, mean, variance, offset, scale, 1e-3)

    def followed(product: Any, norm: Any, is_residual: bool, activation: Any, x: Any, w: Any, *rest: Any) -> Any:
        """``rest`` are the norm's parameters, and what a residual connection adds if there is one."""
        parameters = rest[:-1] if is_residual else rest
        z = norm(product(x, w), *parameters) if parameters else product(x, w)
        return activation(z + rest[-1] if is_residual else z)

    def convolved(stride: int) -> Callable[..., Any]:
        return lambda x, w: tf.nn.conv2d(x, w, stride, "SAME")

    products = [
        (convolved(stride), image, window, (image[0], image[1] // stride, image[2] // stride, window[-1]))
        for image, window, stride in FOLLOWED
    ]
    products += [(tf.matmul, rows, w, (*rows[:-1], w[-1])) for rows, w in FOLLOWED_PRODUCTS]
    for product, image, window, result in products:
        for norm, count in ((None, 0), (biased, 1), (scaled, 2), (scaled_by_one_plus, 2), (normalized, 4)):
            for is_residual in (False, True):
                parameters = [*[(window[-1],)] * count, *[result] * is_residual]
                for activation in (tf.identity, tf.nn.relu):
                    layer = partial(followed, product, norm, is_residual, activation)
                    yield Layer(layer, (image, window, *parameters))


class Found(NamedTuple):
    """What layers consist of: the names of subroutines, and kernels of any size by their content."""

    names: set[str]
    kernels: dict[str, Any]


def elementwise_kernels(target: Any) -> dict[str, Any]:
    """Returns the kernels of elementwise functions and of their gradients, by their content."""
    import tvtf as tf
    from tvtf.frontend.function.executor import entry_module
    from tvtf.passes.codegen.llvm import kernels_to_ship
    from tvtf.passes.pipeline import lower

    kernels: dict[str, Any] = {}
    for layer in elementwise(tf):
        specs = [tf.TensorSpec(shape, tf.float32) for shape in layer.shapes]

        def gradient(upstream: Any, *inputs: Any, function: Any = layer.function) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                result = function(*inputs)
            return tape.gradient(result, inputs, upstream)

        concrete = tf.function(layer.function, autograph=False).get_concrete_function(*specs)
        upstream = tf.TensorSpec(concrete.output_shapes, tf.float32)
        for each in (concrete, tf.function(gradient, autograph=False).get_concrete_function(upstream, *specs)):
            kernels |= kernels_to_ship(lower(entry_module(each, None, False), target, kernels=False))
    return kernels


def names_of(some_layers: Sequence[Layer], target: Any) -> set[str]:
    """Returns the names of the subroutines that kernels of layers call."""
    return code_of(some_layers, target).names


def code_of(some_layers: Sequence[Layer], target: Any) -> Found:
    """Returns the subroutines that kernels of layers call, and those of the kernels that are common to many programs.

    The kernels are those of results with constant parameters and with Variables, and of a step of training by SGD, by
    Adam and by hand in turns.
    """
    import tvm

    import tvtf as tf
    from tvtf.frontend.function.executor import entry_module
    from tvtf.frontend.library.plain_optimizers import SGD, Adam
    from tvtf.passes.codegen.llvm import kernels_to_ship
    from tvtf.passes.pipeline import finisher, lower
    from tvtf.passes.schedule.cpu.subroutine import notify_on_new

    variables = [[tf.Variable(tf.zeros(shape)) for shape in layer.shapes[1:]] for layer in some_layers]
    own = [variable for each in variables for variable in each]
    rate = tf.Variable(0.1)

    def descend(gradients_and_variables: Any) -> None:
        """Updates Variables as programs without an optimizer do."""
        for gradient, variable in gradients_and_variables:
            variable.assign_sub(rate * gradient)

    updates: list[Any] = []
    for each, kind in zip(variables, cycle((SGD, Adam, None))):
        for variable in each:
            optimizer = kind and kind()
            if optimizer:
                optimizer.build([variable])
            updates.append(optimizer.apply_gradients if optimizer else descend)
    specs = [tf.TensorSpec(layer.shapes[0], tf.float32) for layer in some_layers]

    def results(*inputs: Any) -> list[Any]:
        return [layer.function(x, *each) for layer, x, each in zip(some_layers, inputs, variables)]

    def results_of_constants(*inputs: Any) -> list[Any]:
        constants = [[tf.zeros(shape) for shape in layer.shapes[1:]] for layer in some_layers]
        return [layer.function(x, *each) for layer, x, each in zip(some_layers, inputs, constants)]

    def step(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = [
                tf.reduce_sum(layer.function(x, *each) ** 2) for layer, x, each in zip(some_layers, inputs, variables)
            ]
        gradients = tape.gradient(losses, [*inputs, *own])
        for variable, gradient, update in zip(own, gradients[len(inputs) :], updates):
            if gradient is not None:
                update([(gradient, variable)])
        return gradients[: len(inputs)]

    found = Found(set(), {})
    for function in (step, results, results_of_constants):
        concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
        with notify_on_new(found.names.add):
            lowered = lower(entry_module(concrete, None, False), target, kernels=False)
            found.kernels.update(kernels_to_ship(lowered))
            for name, func in lowered.functions_items():
                if isinstance(func, tvm.tirx.PrimFunc):
                    finisher(target)(tvm.IRModule({name: func}))
    return found


def write(model: str) -> Path:
    """Compiles the subroutines and kernels for a model of processors, and writes its archive."""
    from tvm.target import Target

    import tvtf as tf
    from tvtf.passes.codegen.llvm import kernel_object_code
    from tvtf.passes.codegen.shipped_subroutines import shipped_kernel_name, target_of, write_archive
    from tvtf.passes.codegen.subroutines import SubroutineCompiler, names_in
    from tvtf.passes.pipeline import finisher
    from tvtf.passes.schedule.cpu.subroutine import function, notify_on_new

    all_layers, names, kernels, groups = list(layers(tf)), set(), {}, Counter()
    targets = cycle(Target({"kind": "llvm", "mcpu": model, "num-cores": cores}) for cores in CORES)
    for first, target in zip(range(0, len(all_layers), LAYERS_AT_ONCE), targets):
        found = code_of(all_layers[first : first + LAYERS_AT_ONCE], target)
        names |= found.names
        kernels |= found.kernels
        groups.update(found.kernels.keys())
    kernels = {content: func for content, func in kernels.items() if groups[content] >= MIN_GROUPS}
    kernels |= elementwise_kernels(target)
    code = {}
    with notify_on_new(names.add):
        for content, func in kernels.items():
            if len(func.params) > MAX_PARAMETERS:
                continue
            for cores in CORES_OF_KERNELS:
                name, target = shipped_kernel_name(func, content, cores), target_of(model, cores)
                if name not in code:
                    code[name] = kernel_object_code(func, target, finisher(target))
    compiler = SubroutineCompiler(target_of(model), {}, None)
    code |= {name: compiler.code(name, lambda name=name: function(name)) for name in sorted(names)}
    missing = {callee for each in code.values() for callee in names_in(each)} - set(code)
    if missing:
        raise RuntimeError(f"subroutines call {', '.join(sorted(missing))}, which no kernel was scheduled for")
    return write_archive(model, code)


def main() -> None:
    """Writes the archives into the package that is imported, from the folder that the command names if it names one."""
    sys.path[:0] = sys.argv[1:]
    os.environ["TVTF_SUBROUTINES"] = "0"  # all are compiled, whatever archives there are
    from tvtf.passes.codegen.processor_models import MODELS

    with ProcessPoolExecutor(len(MODELS), mp_context=get_context("spawn")) as processes:
        for path in processes.map(write, [model.name for model in MODELS]):
            print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
