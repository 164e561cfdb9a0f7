"""Derivatives of a function by central differences, against which gradients are checked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def central_differences(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float) -> list[np.ndarray]:
    """Returns the derivative of ``f`` at ``x`` with respect to each element of ``x``, by central differences.

    A derivative is ``(f(x + step) - f(x - step)) / (2 * step)``; its error falls with the square of the step.

    Args:
      f: a function from a vector to a vector.
      x: a vector of real numbers.
      step: the distance of the two points from ``x``.

    >>> central_differences(lambda x: x * x, np.array([1.0, 3.0]), 0.5)
    [array([2., 0.]), array([0., 6.])]
    """
    step = float(step)  # NumPy's own floats would make the results float64
    derivatives = []
    for position in range(x.size):
        above, below = x.copy(), x.copy()
        above[position] += step
        below[position] -= step
        derivatives.append((f(above) - f(below)) / (2 * step))
    return derivatives
