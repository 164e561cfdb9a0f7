"""Programs of TensorFlow 1: each builds in a graph of its own and prints."""

import inspect

import numpy as np


def scripts(tf, functions):
    """Label -> program, for those of ``functions`` that take ``print``."""
    taking = {
        n: f
        for n, f in functions.items()
        if inspect.isfunction(f) and list(inspect.signature(f).parameters) == ["print"]
    }
    return {name.replace("_", " "): _printed(tf, function) for name, function in taking.items()}


def _printed(tf, function):
    def program():
        lines = []
        with tf.Graph().as_default():
            function(lambda *shown: lines.append(" ".join(map(str, shown))))
        return "\n".join(lines)

    return program


def rounded(values, digits=4):
    """Arrays in nests as lists of so many digits."""
    if isinstance(values, dict):
        return {k: rounded(v, digits) for k, v in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(rounded(v, digits) for v in values)
    return (np.round(np.asarray(values, np.float64), digits) + 0.0).tolist()


def raised(run):
    """What ``run`` raises."""
    try:
        return run()
    except Exception as error:
        kind = type(error).__name__
        return f"{kind}:" if hasattr(error, "node_def") else f"{kind}: {str(error).splitlines()[0]}"
