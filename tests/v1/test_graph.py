"""Graphs of TensorFlow 1 beyond what TensorFlow's answers (tests/parity/v1.py) tell."""

from operator import attrgetter

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


def test_an_interactive_session_may_be_closed_twice():
    session = tf1.InteractiveSession(graph=tf1.Graph())
    session.close()
    session.close()
    assert tf1.get_default_session() is None
    assert tf.executing_eagerly()


def test_control_inputs_are_nodes_in_a_graph_too():
    refused = pytest.raises(TypeError, match="must be an Operation, Tensor or Variable")
    with tf1.Graph().as_default(), refused, tf.control_dependencies(["x"]):
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
    assert [name for name, path in PATHS.items() if getattr(v1, name) is not attrgetter(path)(tf)] == []
    assert v1.rsqrt(4.0).numpy() == 0.5
    assert v1.sparse_tensor_to_dense(v1.SparseTensor([[1]], [2.0], [3])).numpy().tolist() == [0.0, 2.0, 0.0]
    v1.set_random_seed(1)
    first = v1.random_uniform([2]).numpy().tolist()
    tf.random.set_seed(1)
    assert first == tf.random.uniform([2]).numpy().tolist()


def test_tensorflow_2_has_a_name_for_itself():
    import tvtf.compat.v2 as v2

    assert v2 is tf is tf.compat.v2


def test_events_of_a_file(tmp_path):
    pytest.importorskip("tensorboard", reason="the messages are the extra's")
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.scalar("loss", 0.5, step=3)
    (path,) = tmp_path.iterdir()
    steps = [event.step for event in tf.compat.v1.train.summary_iterator(str(path))]
    assert steps[-1] == 3
