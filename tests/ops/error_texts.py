"""The error messages of calls, eagerly and while tracing."""

import pytest

import tvtf as tf


def error_text(kind, call):
    """The message of the error that a call raises."""
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def eager_error_text(call):
    """The message of an InvalidArgumentError without the node's name, which TensorFlow leaves empty in eager ops."""
    return error_text(tf.errors.InvalidArgumentError, call).removesuffix(" name: ")


def traced_error_text(call, kind=ValueError):
    """The message of the error that a call raises while traced, without the user's lines around it."""
    last = error_text(kind, tf.function(call)).strip().splitlines()[-1]
    return last.strip().removeprefix(f"{kind.__name__}: ")
