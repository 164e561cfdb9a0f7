"""What TensorFlow 2's names do in a graph: its Variables, and tensors of unknown rank."""

import pytest

import tvtf as tf

v1 = tf.compat.v1


def test_a_variable_made_in_a_graph_is_the_graphs():
    with tf.Graph().as_default():
        one = tf.Variable([2.0, 3.0], shape=[None], name="one")
        holder = tf.Module()
        holder.other = tf.Variable(4.0)
        with v1.Session() as session:
            session.run([one.initializer, holder.other.initializer])
            assert session.run(one * holder.other).tolist() == [8.0, 12.0]
            session.run(one.assign([1.0, 1.0, 1.0]))
            assert session.run(one).tolist() == [1.0, 1.0, 1.0]
        assert v1.global_variables() == [one, holder.other] and holder.variables == (holder.other,)
        with pytest.raises(ValueError, match="not compatible with the explicitly supplied `shape` argument"):
            tf.Variable([1.0], shape=[2])
    assert tf.Variable(1.0).numpy() == 1.0


def test_creators_see_the_variables_of_a_graph():
    def frozen(make, **arguments):
        return make(**(arguments | {"trainable": False}))

    with tf.Graph().as_default(), tf.variable_creator_scope(frozen):
        assert not tf.Variable(1.0).trainable


def test_a_placeholder_with_a_default_of_no_shape_is_of_unknown_rank():
    with tf.Graph().as_default():
        x = v1.placeholder_with_default(tf.ones([4, 1]), shape=None)
        total = tf.reduce_sum(x + tf.zeros([4, 3]))
        assert x.shape.rank is None
        assert (tf.get_static_value(x), tf.get_static_value(tf.rank(x)), tf.get_static_value(tf.shape(x))) == (
            None,
        ) * 3
        with v1.Session() as session:
            assert session.run(total) == 12.0
            assert session.run(total, {x: [[1.0, 2.0, 3.0]]}) == 24.0


@pytest.mark.parametrize("shape", [[2], [None], None])
def test_an_assertion_that_something_depends_on_runs_whatever_the_rank(shape):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, shape)
        with tf.control_dependencies([tf.debugging.assert_positive(x, message="no")]):
            y = tf.identity(x)
        with v1.Session() as session:
            assert session.run(y, {x: [1.0, 2.0]}).tolist() == [1.0, 2.0]
            with pytest.raises(tf.errors.InvalidArgumentError, match="no") as raised:
                session.run(y, {x: [1.0, -2.0]})
    assert raised.value.op is None
