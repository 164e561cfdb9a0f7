"""Graphs of TensorFlow 1: what TensorFlow's answers (tests/parity/v1.py) don't cover."""

import threading
from operator import attrgetter

import numpy as np
import pytest

import tvtf as tf
from tvtf.v1.aliases import PATHS

tf1 = tf.compat.v1


def test_each_session_has_its_own_values():
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.Variable(1.0)
        start, more = tf1.global_variables_initializer(), v.assign_add(1.0)
    first, second = tf1.Session(graph=graph), tf1.Session(graph=graph)
    for session in (first, second):
        session.run(start)
    first.run(more)
    assert (first.run(v), second.run(v)) == (2.0, 1.0)


def test_graphs_are_the_default_until_disabled():
    """A thread's own choice, as sessions and traces are: other tests go on eagerly."""
    found = []

    def script():
        tf1.disable_eager_execution()
        x = tf1.placeholder(tf.float32, [2], name="x")
        w = tf1.get_variable("w", initializer=3.0)
        y = x * w
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            found.append(
                (tf.executing_eagerly(), y.name, session.run(y, {x: [1.0, 2.0]}).tolist(), x.eval({x: [1, 2]}).tolist())
            )
        tf1.reset_default_graph()
        found.append((len(tf1.get_default_graph().get_operations()), tf1.constant(1).name))

    thread = threading.Thread(target=script)
    thread.start()
    thread.join()
    assert found == [(False, "mul:0", [3.0, 6.0], [1.0, 2.0]), (0, "Const:0")]
    assert tf.executing_eagerly()


def test_what_only_tensorflow_can_run_is_rejected_with_the_reason(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as session:
        for rejected in (
            lambda: tf1.saved_model.simple_save(session, str(tmp_path), {}, {}),
            lambda: tf1.import_graph_def(None),
            lambda: tf1.graph_util.convert_variables_to_constants(session, None, []),
        ):
            with pytest.raises(NotImplementedError, match="tvtf does not"):
                rejected()


def test_constants_that_an_op_rejects_are_rejected_when_it_runs():
    checked = tf.function(lambda: tf.debugging.check_numerics(tf.math.log(tf.constant([-1.0])), "bad"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad : Tensor had NaN values"):
        checked()


def test_an_interactive_session_may_be_closed_twice():
    session = tf1.InteractiveSession(graph=tf1.Graph())
    session.close()
    session.close()
    assert tf1.get_default_session() is None
    assert tf.executing_eagerly()


def test_control_inputs_are_nodes_in_a_graph_too():
    rejected = pytest.raises(TypeError, match="must be an Operation, Tensor or Variable")
    with tf1.Graph().as_default(), rejected, tf.control_dependencies(["x"]):
        pass


def test_names_of_tensorflow_1_for_casts_and_functions(tmp_path):
    v1 = tf.compat.v1
    assert [getattr(v1, f"to_{name}")([1.5]).dtype for name in ("float", "int32", "complex64")] == [
        *(tf.float32, tf.int32, tf.complex64)
    ]
    assert v1.wrap_function(lambda x: x * 2.0, [tf.TensorSpec([])])(tf.constant(2.0)).numpy() == 4.0
    assert v1.nn.relu([1.0, -1.0]).numpy().tolist() == [1.0, 0.0]
    assert v1.train.Checkpoint is tf.train.Checkpoint
    with pytest.raises(AttributeError):
        v1.nn.nothing_of_this_name


def test_names_that_tensorflow_2_moved():
    v1 = tf.compat.v1
    found = {name: (getattr(v1, name), attrgetter(path)(tf)) for name, path in PATHS.items() if name != "spectral"}
    assert [name for name, (mine, its) in found.items() if its not in (mine, getattr(mine, "__wrapped__", None))] == []
    assert v1.spectral.fft.__wrapped__ is tf.signal.fft
    assert v1.rsqrt(4.0).numpy() == 0.5
    assert v1.sparse_tensor_to_dense(v1.SparseTensor([[1]], [2.0], [3])).numpy().tolist() == [0.0, 2.0, 0.0]
    v1.set_random_seed(1)
    first = v1.random_uniform([2]).numpy().tolist()
    tf.random.set_seed(1)
    assert first == tf.random.uniform([2]).numpy().tolist()


def test_tensorflow_2_has_a_name_for_itself():
    import tvtf.compat.v2 as v2

    assert v2 is tf is tf.compat.v2
    assert v2.enable_v2_behavior() is tf1.enable_v2_behavior() is None


def test_events_of_a_file(tmp_path):
    pytest.importorskip("tensorboard", reason="the messages are the extra's")
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.scalar("loss", 0.5, step=3)
    (path,) = tmp_path.iterdir()
    steps = [event.step for event in tf.compat.v1.train.summary_iterator(str(path))]
    assert steps[-1] == 3


def test_dicts_of_fetches_keep_their_order_and_queue_ops_have_names():
    with tf1.Graph().as_default(), tf1.Session() as session:
        a, b = tf1.zeros([1]), tf1.ones([1])
        assert list(session.run({"b": b, "a": a})) == ["b", "a"]
        put = tf1.FIFOQueue(2, tf.int32).enqueue(1)
        assert (a.name, b.name, put.name, put.type) == ("zeros:0", "ones:0", "fifo_queue_enqueue", "QueueEnqueueV2")


def of_traced(body, *arguments):
    return tf.function(body)(*arguments)


@pytest.mark.parametrize(
    "build",
    [
        lambda n: tf1.reshape(tf1.range(6.0), tf1.stack([n, -1])),
        lambda n: tf1.reshape(tf1.range(6.0), [n + 1, 2]),
        lambda n: tf1.zeros([n]),
        lambda n: tf1.reduce_sum(tf1.ones([2, 3, 4]), n - 1),
        lambda n: tf1.range(tf1.cast(tf1.cast(n, tf.float32) * 2.0, tf.int32)),
        lambda n: tf1.while_loop(lambda i: i < n, lambda i: i + 1, [0]),
        lambda n: of_traced(lambda y: tf1.reshape(y, [n, 3]), tf1.ones([6])),
        lambda n: tf1.cond(tf1.placeholder_with_default(True, []), lambda: tf1.ones([n * 2]), lambda: tf1.ones([4])),
        lambda n: tf1.constant(tf.get_static_value(n)),
    ],
)
def test_a_constant_that_determined_the_graph_is_not_fed(build):
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        n = tf1.constant(2)
        built, apart = build(n), tf1.placeholder_with_default(2, []) * 2
        session.run(built)
        assert not graph.is_feedable(n)
        with pytest.raises(ValueError, match="Const:0 may not be fed"):
            session.run(built, {n: 3})
        assert session.run(apart, {apart: 5}) == 5


def test_jacobians_of_a_constant_result():
    with tf1.Graph().as_default(), tf1.Session():
        x = tf1.constant(2.0)
        with pytest.raises(ValueError, match="does not depend"):
            tf1.test.compute_gradient(x, [], tf1.constant(1.0), [])
        with pytest.raises(ValueError, match="shape"):
            tf1.test.compute_gradient(x, [], x * 2, [], np.zeros([2], "f"))


def test_callables_from_options():
    message = pytest.importorskip("tensorboard.compat.proto.config_pb2", reason="the messages are the extra's")
    with tf1.Graph().as_default(), tf1.Session() as session:
        x, y, v = tf1.placeholder(tf.float32, [2], "x"), tf1.placeholder(tf.float32, [], "y"), tf1.Variable(1.0)
        _, twice = tf1.reduce_sum(x * y, name="total"), tf1.multiply(v, 2.0, name="twice")
        update = v.assign_add(y).op
        options = message.CallableOptions(feed=["x:0"], fetch=["total:0"], target=[update.name])
        options.tensor_connection.add(from_tensor=twice.name, to_tensor="y:0")
        session.run(v.initializer)
        run = session._make_callable_from_options(options)
        assert run([3.0, 4.0]) == [14.0]
        assert session.run(v) == 3.0
        assert run([3.0, 4.0], run_metadata=None) == [42.0]


def test_groups_reject_none():
    with tf1.Graph().as_default(), pytest.raises(TypeError, match="Received 'None'"):
        tf.group([tf1.no_op(), None])
