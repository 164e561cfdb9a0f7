"""Graphs of TensorFlow 1 beyond what TensorFlow's answers (tests/parity/v1.py) tell."""

import pytest

import tvtf as tf

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
