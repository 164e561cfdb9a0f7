"""Functions of strings, which run without compiled code, compared with compiled code."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.frontend.function.executor import Compiled

TABLE = tf.lookup.StaticVocabularyTable(
    tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64)), 3
)


def words(line):
    return tf.strings.split(tf.strings.lower(line))


def middle(line):
    found = words(line)
    return {"first": found[0], "rest": found[1:], "count": tf.size(found), "line": line, "number": 7}


def numbers(line):
    return tf.strings.to_number(words(line)) * 2.0 if line.shape.rank is None else tf.strings.to_number(line) * 2.0


@pytest.mark.parametrize(
    "function, line",
    [
        (words, "Ab cD e"),
        (middle, "Ab cD e"),
        (lambda line: TABLE.lookup(words(line)), "a x B b y"),
        (lambda line: tf.strings.join([line, words(line)[-1:]], "-"), "one two"),
        (numbers, "1.5"),
        (lambda line: (line == "a", tf.strings.length(words(line)) + tf.strings.length(line)), "one four"),
    ],
)
def test_it_gives_what_compiled_code_gives(function, line):
    spec = tf.TensorSpec([], tf.string)
    concrete = tf.function(function).get_concrete_function(spec)
    given = tf.constant(line)
    found = concrete.call([given])
    assert concrete._plan is not None and concrete._compiled is None
    tf.nest.map_structure(same, found, Compiled(concrete)([given]))


def same(one, other):
    assert one.dtype is other.dtype and one.shape == other.shape
    np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize(
    "function, specs",
    [
        (lambda x: tf.exp(tf.strings.to_number(x)), [tf.TensorSpec([None], tf.string)]),
        (
            lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s + "x"), (0, x)),
            [tf.TensorSpec([], tf.string)],
        ),
        (lambda x: x + 1, [tf.TensorSpec([], tf.int32)]),
    ],
)
def test_many_numbers_and_control_flow_are_compiled(function, specs):
    concrete = tf.function(function).get_concrete_function(*specs)
    concrete.call(
        [
            tf.zeros([d or 1 for d in s.shape], s.dtype)
            if s.dtype is tf.int32
            else tf.fill([d or 1 for d in s.shape], "2")
            for s in specs
        ]
    )
    assert concrete._plan is None and concrete._compiled is not None


def test_a_failure_is_reported_as_that_of_its_op():
    function = tf.function(lambda x: tf.strings.to_number(x, tf.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumberOp could not correctly convert string: a"):
        function(tf.constant("a"))


def test_compiled_code_raises_for_numbers_that_do_not_fit():
    function = tf.function(
        lambda x, y: (tf.strings.length(x) + y, x),
        input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32)],
    )
    assert function(tf.constant(["a", "bc"]), tf.constant([1]))[0].numpy().tolist() == [2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(tf.constant(["a", "b"]), tf.constant([1, 2, 3]))
