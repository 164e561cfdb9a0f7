"""Programs for tests/parity that call a function: its values and gradient, eager and traced, in numbers rounded to compare."""

import numpy as np
from golden_filters import DIGITS, NEGLIGIBLE


def calls(tf, functions):
    """Programs from ``label -> (function, *arguments)``."""
    made = {}
    for label, (function, *values) in functions.items():
        for kind, run in (("", function), (", traced", tf.function(function, autograph=False))):
            made[label + kind] = _values(tf, run, values)
            if any(_is_real(v) for v in values):
                made[f"{label}, gradient{kind}"] = _gradient(tf, function, values, kind)
    return made


def _is_real(value):
    return np.asarray(value).dtype.kind in "fc"


def _shown(tf, results):
    return tf.nest.map_structure(_rounded, results)


def _rounded(x):
    """The first digits of every number; -0 as 0."""
    if x is None:
        return None
    array = np.asarray(x.numpy())
    if array.dtype.kind == "c":
        return x.dtype.name, np.stack([_digits(array.real), _digits(array.imag)], -1).tolist()
    return x.dtype.name, (_digits(array) if array.dtype.kind == "f" else array).tolist()


def _digits(array):
    rounded = np.vectorize(lambda v: float(f"{v:.{DIGITS - 1}e}"), otypes=[float])(array)
    return np.where(np.abs(array) < NEGLIGIBLE * np.max(np.abs(array), initial=1), 0.0, rounded)


def _values(tf, function, values):
    return lambda: _shown(tf, function(*map(tf.constant, values)))


def _gradient(tf, function, values, kind):
    def gradient(*sources):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            results = [r for r in tf.nest.flatten(function(*sources)) if r.dtype.is_floating or r.dtype.is_complex]
            y = [tf.cast(tf.reduce_sum(tf.abs(r) ** 2), tf.float64) for r in results]
        return tape.gradient(y, sources)

    run = tf.function(gradient, autograph=False) if kind else gradient
    return lambda: _shown(tf, run(*map(tf.constant, values)))
