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


OF_ANY_RANK = {
    "a slice of the shape": lambda x, s: (s[:-1], (1,)),
    "a slice from a computed place": lambda x, s: (s[tf.size(s) - 1 :], (1,)),
    "a slice of a constant up to one": lambda x, s: (tf.constant([1, 2])[: tf.size(s) - 1], (1,)),
    "a reshape to it": lambda x, s: (tf.reshape(tf.range(4), s), (4, 1)),
    "a reshape to a shape with parts of it": lambda x, s: (
        tf.reshape(tf.range(4), tf.concat([s[:-1], [1]], 0)),
        (4, 1),
    ),
    "paddings for each axis": lambda x, s: (tf.pad(x, tf.ones([tf.rank(x), 2], tf.int32)), (6, 3)),
    "a broadcast to a slice": lambda x, s: (tf.broadcast_to(1.0, s[1:]), (1,)),
    "tiles": lambda x, s: (tf.tile([1], tf.rank(x)[None]), (2,)),
    "axes in order": lambda x, s: (tf.transpose(x, tf.range(tf.rank(x))), (4, 1)),
}


@pytest.mark.parametrize("name", OF_ANY_RANK)
def test_what_depends_on_the_rank_of_a_placeholder_with_a_default(name):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder_with_default(tf.ones([4, 1]), shape=None)
        found, shape = OF_ANY_RANK[name](x, tf.shape(x))
        assert session.run(found).shape == shape


def test_a_session_compiles_for_the_ranks_of_variables():
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = (tf.Variable(v, shape=tf.TensorShape(None)) for v in ([1.0, 2.0], [[3.0], [4.0]]))
        total, sizes = tf.reduce_sum(x * y), tf.shape(x + y)
        session.run([x.initializer, y.initializer])
        assert session.run([total, sizes])[0] == 21.0 and session.run(sizes).tolist() == [2, 2]
        session.run(x.assign([[[1.0]], [[2.0]]]))
        assert session.run(total) == 21.0 and session.run(sizes).tolist() == [2, 2, 1]
        session.run(y.assign(5.0))
        assert session.run(total) == 15.0 and session.run(sizes).tolist() == [2, 1, 1]


BY_COMPUTED_SIZES = {
    "broadcast_to": (lambda x, s: tf.broadcast_to(x, s), [[1.0, 2.0], [1.0, 2.0]]),
    "broadcast_to, used": (lambda x, s: tf.reduce_sum(tf.broadcast_to(x, s), 0) * 2.0, [4.0, 8.0]),
    "zeros": (lambda x, s: tf.zeros(s) + x, [[1.0, 2.0], [1.0, 2.0]]),
    "reshape": (lambda x, s: tf.reshape(tf.concat([x, x], -1), s), [[1.0, 2.0], [1.0, 2.0]]),
    "gradient": (lambda x, s: tf.gradients(tf.broadcast_to(x * x, s), x)[0], [4.0, 8.0]),
    "a branch": (lambda x, s: tf.cond(s[0] > 1, lambda: tf.broadcast_to(x, s), lambda: x), [[1.0, 2.0], [1.0, 2.0]]),
    "the gradient of branches of other sizes": (
        lambda x, s: tf.gradients(
            tf.cond(s[0] > 1, lambda: tf.concat([x + tf.zeros(s), tf.zeros(s)], 0), lambda: x + tf.zeros(s)), x
        )[0],
        [2.0, 2.0],
    ),
    "a second derivative": (
        lambda x, s: tf.gradients(tf.gradients(tf.broadcast_to(x * x * x, s), x)[0], x)[0],
        [12.0, 24.0],
    ),
    "the second derivative of a loop": (
        lambda x, s: tf.gradients(
            tf.gradients(tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * x), (0, tf.ones(s)))[1], x)[0], x
        )[0],
        [4.0, 4.0],
    ),
    "a loop": (
        lambda x, s: tf.while_loop(
            lambda i, v: i < 2, lambda i, v: (i + 1, tf.where(tf.ones(s, tf.bool), v + x, v)), (0, tf.zeros(s))
        )[1],
        [[2.0, 4.0], [2.0, 4.0]],
    ),
    "a loop that changes sizes": (
        lambda x, s: tf.shape(
            tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.concat([v, v], 0)), (0, tf.zeros(s)))[1]
        ),
        [8, 2],
    ),
    "a loop that exchanges two variables": (
        lambda x, s: tf.shape(
            tf.while_loop(
                lambda i, a, b: i < 3,
                lambda i, a, b: (i + 1, b, a),
                (0, tf.zeros(s), tf.concat([tf.zeros(s), tf.zeros(s)], 1)),
            )[1]
        ),
        [2, 4],
    ),
    "the gradient of a loop": (
        lambda x, s: tf.gradients(
            tf.while_loop(
                lambda i, v: i < 2, lambda i, v: (i + 1, tf.where(tf.ones(s, tf.bool), v * x, v)), (0, tf.ones(s))
            )[1],
            x,
        )[0],
        [4.0, 8.0],
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.sweep] if n == "the second derivative of a loop" else [])
        for n in BY_COMPUTED_SIZES
    ],
)
def test_what_depends_on_how_many_sizes_are_computed(name):
    build, expected = BY_COMPUTED_SIZES[name]
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder_with_default([1.0, 2.0], shape=None)
        y = v1.placeholder_with_default([[0.0], [0.0]], shape=None)
        counter = tf.Variable(0)
        found = build(x, tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y)))
        session.run(counter.initializer)
        for _ in range(2):
            result, _ = session.run([found, counter.assign_add(1)])
            assert result.tolist() == expected
        assert session.run(counter) == 2


def test_computed_sizes_that_do_not_fit_fail_in_the_run():
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = (v1.placeholder_with_default(value, shape=None) for value in ([1.0, 2.0], [1.0, 2.0, 3.0]))
        found = tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y)))
        with pytest.raises(tf.errors.InvalidArgumentError, match="ncompatible"):
            session.run(found)
        assert session.run(found, {y: [[[1.0]]]}).tolist() == [[[1.0, 2.0]]]


def test_a_default_is_no_known_value():
    with tf.Graph().as_default(), v1.Session() as session:
        shape = v1.placeholder_with_default([1, -1], [2])
        assert tf.get_static_value(shape) is None
        found = tf.reshape(tf.zeros([4]), shape)
        assert found.shape.as_list() == [None, None]
        assert session.run(found).shape == (1, 4) and session.run(found, {shape: [2, 2]}).shape == (2, 2)


def test_known_numbers_are_reshaped_to_run_time_sizes():
    fn = tf.function(lambda x: tf.reshape(tf.range(4), tf.shape(x)), input_signature=[tf.TensorSpec([None, None])])
    assert fn(tf.ones([2, 2])).numpy().tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("limit", [3.0, 1.0])
def test_a_group_in_a_graph_takes_eager_tensors(limit):
    eager = tf.constant(4.0)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder_with_default(2.0, [])
        done = tf.group(eager, x, tf.debugging.assert_less(x, limit, message="too large"))
        with tf.control_dependencies([eager, done]):
            y = x + eager
        if limit > 2.0:
            assert session.run([y, done]) == [6.0, None]
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
                session.run(y)


def test_the_global_step_outside_of_graphs_is_made_once():
    v1.reset_default_graph()
    assert v1.train.get_global_step() is None
    step = v1.train.get_or_create_global_step()
    assert v1.train.get_or_create_global_step() is step and v1.train.get_global_step() is step
    step.assign_add(2)
    with pytest.raises(ValueError, match='"global_step" already exists'):
        v1.train.create_global_step()
    v1.reset_default_graph()
    assert (v1.train.get_global_step(), int(v1.train.get_or_create_global_step()), int(step)) == (None, 0, 2)
    v1.reset_default_graph()


def test_a_name_may_be_taken_again_outside_of_graphs():
    one, other = v1.get_variable("w", [2]), v1.get_variable("w", [3])
    assert (one.shape, other.shape) == ([2], [3])
    with tf.Graph().as_default():
        v1.get_variable("w", [2])
        with pytest.raises(ValueError, match="Variable w already exists, disallowed"):
            v1.get_variable("w", [2])
