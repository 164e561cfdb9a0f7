"""Gradients against central differences along random directions, in double precision.

Source: https://github.com/HIPS/autograd/blob/master/autograd/test_util.py (the idea of random directions)
"""

import numpy as np
import tolerances
from table_support import tensor

import tvtf as tf
from tvtf.core.primitive import as_tuple

STEP = 1e-5


class Scalar:
    """``Re <w, f(x)>`` for random ``w``: a real function of the differentiable inputs of a case."""

    def __init__(self, case, seed=0):
        self.case = case
        self.random = np.random.default_rng(seed)
        self.sources = [i for i, a in enumerate(case.arrays) if a.dtype.kind in "fc" and is_independent(case, i)]
        self.weights = [self.like(e) if e.dtype.kind in "fc" else None for e in case.expected]

    def like(self, array):
        """A random direction of an array's shape and kind."""
        values = self.random.uniform(-1, 1, array.shape)
        if array.dtype.kind == "c":
            values = values + 1j * self.random.uniform(-1, 1, array.shape)
        return np.asarray(values).astype(array.dtype)

    @property
    def point(self):
        return [self.case.arrays[i] for i in self.sources]

    def directions(self):
        return [self.like(a) for a in self.point]

    def inputs(self, sources):
        own = [tensor(a) for a in self.case.arrays]
        for i, source in zip(self.sources, sources):
            own[i] = source
        return own

    def results(self, sources):
        """The differentiable results, with their weights."""
        outputs = as_tuple(self.case.prim.bind(*self.inputs(sources), **self.case.attrs))
        return [(y, tensor(w)) for y, w in zip(outputs, self.weights) if w is not None]

    def value(self, arrays):
        return sum(inner(w.eager_array(), y.eager_array()) for y, w in self.results([tensor(a) for a in arrays]))

    def gradient(self, sources):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            pairs = self.results(sources)
        found = tape.gradient([y for y, _ in pairs], sources, [w for _, w in pairs], unconnected_gradients="zero")
        return [tf.convert_to_tensor(g) for g in found]


def is_independent(case, index):
    """A sample may name, in place of True, the inputs that can move by themselves."""
    return case.sample.gradient is True or index in case.sample.gradient


def inner(a, b):
    return float(np.sum(np.conj(a) * b).real)


def along(function, point, direction):
    """The derivative of a real function along a direction."""
    ahead = [x + STEP * d for x, d in zip(point, direction)]
    behind = [x - STEP * d for x, d in zip(point, direction)]
    return (function(ahead) - function(behind)) / (2 * STEP)


def first_order(case):
    """None, or how the gradient differs from differences."""
    scalar = Scalar(case)
    direction = scalar.directions()
    gradients = scalar.gradient([tensor(a) for a in scalar.point])
    wrong = _wrong_types(gradients, scalar.point)
    if wrong:
        return wrong
    found = sum(inner(g.eager_array(), d) for g, d in zip(gradients, direction))
    return _message("gradient", found, along(scalar.value, scalar.point, direction))


def second_order(case):
    """None, or how the gradient of ``<gradient, u>`` differs from differences of the gradient."""
    scalar = Scalar(case)
    u, direction = scalar.directions(), scalar.directions()
    sources = [tensor(a) for a in scalar.point]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        gradients = scalar.gradient(sources)
    seconds = tape.gradient(gradients, sources, [tensor(d) for d in u], unconnected_gradients="zero")
    found = sum(inner(g.eager_array(), d) for g, d in zip(seconds, direction))

    def slope(arrays):
        return sum(inner(d, g.eager_array()) for d, g in zip(u, scalar.gradient([tensor(a) for a in arrays])))

    return _message("second gradient", found, along(slope, scalar.point, direction))


def _wrong_types(gradients, point):
    for i, (g, x) in enumerate(zip(gradients, point)):
        array = g.eager_array()
        if array.shape != x.shape or array.dtype != x.dtype:
            return f"gradient of input {i} is {array.dtype}{array.shape}, the input {x.dtype}{x.shape}"
    return None


def _message(what, found, expected):
    distance = abs(found - expected) / (1 + abs(expected))
    if distance <= tolerances.FINITE_DIFFERENCES:
        return None
    return f"{what} {found!r}, by finite differences {expected!r} ({distance:.2g} apart)"
