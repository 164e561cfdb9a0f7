"""Ways of calling that the programs of several rooms of tests/parity share."""

import numpy as np


def kind(program):
    """The class of the exception that a program raises; None if it raises none."""
    try:
        program()
    except Exception as error:
        return type(error).__name__


def result_or_kind(program):
    """What a program gives, or the class of the exception that it raises."""
    try:
        return program()
    except Exception as error:
        return type(error).__name__


def value_or_kind(program):
    """A program that gives the value of another one, or the class of the exception that it raises."""
    return lambda: result_or_kind(program)


def of_any_size(tf, function, *matrices):
    """What a function of sparse matrices gives, traced for any sizes."""
    specs = [tf.SparseTensorSpec([None, None]) for _ in matrices]
    return tf.function(function, input_signature=specs)(*matrices)


def ways(tf, function, *arrays):
    """Programs that call a function of arrays: eagerly, as a graph of unknown dims, as one of unknown ranks."""
    given = [tf.constant(a) for a in arrays]
    yield lambda: function(*given)
    for shape in (lambda x: [None] * x.shape.rank, lambda x: None):
        specs = [tf.TensorSpec(shape(x), x.dtype) for x in given]
        yield lambda specs=specs: tf.function(function, input_signature=specs, autograph=False)(*given)


def of_all_ranks(tf, body, shapes):
    """A program that calls a function traced for any rank with each shape, and counts how often its Python ran."""

    def program():
        calls = []

        def counted(x):
            calls.append(x)
            return body(x)

        f = tf.function(counted, input_signature=[tf.TensorSpec(None)])
        results = [f(tf.reshape(tf.range(float(np.prod(shape))), shape)) for shape in shapes]
        return results, len(calls), f.experimental_get_tracing_count()

    return program


def first_derivative(tf, body):
    """A function of the value of ``body(x, n)`` and its derivative by ``x``."""

    def run(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = body(x, n)
        return y, tape.gradient(y, x)

    return run


def second_derivative(tf, body):
    """A function of the value of ``body(x, n)`` and its first and second derivative by ``x``."""

    def run(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, found = first_derivative(tf, body)(x, n)
        return y, found, tape.gradient(found, x)

    return run
