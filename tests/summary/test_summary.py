"""What TensorBoard's own reader finds in the event files."""

import gzip
import json

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.compat.proto import config_pb2

import tvtf as tf


def values(folder):
    (path,) = folder.glob("events.out.tfevents.*.v2")
    events = event_file_loader.EventFileLoader(str(path)).Load()
    return [(e.step, v.tag, v.metadata.plugin_data.plugin_name, v) for e in events for v in e.summary.value]


def written(folder, write):
    with tf.summary.create_file_writer(str(folder)).as_default():
        write()
    return values(folder)


def test_scalars_are_read_by_tensorboard(tmp_path):
    def write():
        for step in range(3):
            assert tf.summary.scalar("loss", 1 / (step + 1), step=step).numpy()

    written(tmp_path, write)
    found = event_accumulator.EventAccumulator(str(tmp_path)).Reload().Tensors("loss")
    assert [e.step for e in found] == [0, 1, 2]
    assert [e.tensor_proto.float_val[0] for e in found] == [1.0, 0.5, np.float32(1 / 3)]


def test_a_traced_function_writes_whenever_it_runs(tmp_path):
    @tf.function
    def train(x, step):
        with tf.name_scope("train"):
            tf.summary.scalar("loss", tf.reduce_sum(x), step=step)

    def write():
        for step in range(3):
            train(tf.ones(2) * float(step), tf.constant(step, tf.int64))

    found = written(tmp_path, write)
    assert [(step, tag, value.tensor.float_val[0]) for step, tag, _, value in found] == [
        (0, "train/loss", 0.0),
        (1, "train/loss", 2.0),
        (2, "train/loss", 4.0),
    ]


def test_every_kind_is_found_by_its_plugin(tmp_path):
    def write():
        tf.summary.histogram("weights", tf.random.normal([100]), step=0)
        tf.summary.text("note", ["a", "b"], step=0)
        tf.summary.image("noise", tf.random.uniform([5, 4, 3, 3]), step=0)
        tf.summary.audio("beep", tf.zeros([1, 80, 1]), 8000, step=0)
        tf.summary.write("raw", tf.constant([1, 2]), step=0)

    found = {tag: (plugin, value.tensor) for _, tag, plugin, value in written(tmp_path, write)}
    assert {tag: plugin for tag, (plugin, _) in found.items()} == {
        "weights": "histograms",
        "note": "text",
        "noise": "images",
        "beep": "audio",
        "raw": "",
    }
    assert list(found["noise"][1].string_val[:2]) == [b"3", b"4"]
    assert [image[:4] for image in found["noise"][1].string_val[2:]] == [b"\x89PNG"] * 3


def test_the_graph_is_nested_by_module(tmp_path):
    class Net(tf.Module):
        @tf.function
        @tf.Module.with_name_scope
        def __call__(self, x):
            return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: x) + 1.0

    def write():
        tf.summary.trace_on()
        Net(name="net")(tf.ones(2))
        tf.summary.trace_export("net", step=7)

    ((step, tag, plugin, value),) = written(tmp_path, write)
    assert (step, tag, plugin) == (7, "net", "graph_run_metadata_graph")
    graph = config_pb2.RunMetadata.FromString(value.tensor.string_val[0]).function_graphs[0].pre_optimization_graph
    nodes = {node.name: node for node in graph.node}
    assert nodes["net/add"].op == "AddV2"
    assert any(name.startswith("net/cond/") and node.op == "Relu" for name, node in nodes.items())
    assert all(source.partition(":")[0] in nodes for node in graph.node for source in node.input)


def test_nothing_is_written_without_a_writer_or_where_it_does_not_record(tmp_path):
    assert not tf.summary.scalar("loss", 1.0, step=0)
    assert not tf.summary.should_record_summaries()

    def write():
        with tf.summary.record_if(lambda: tf.constant(False)):
            assert not tf.summary.scalar("loss", 1.0, step=0).numpy()

    assert written(tmp_path, write) == []


def test_the_default_step(tmp_path):
    step = tf.Variable(5, dtype=tf.int64)

    def write():
        with pytest.raises(ValueError, match="No step set"):
            tf.summary.scalar("loss", 1.0)
        tf.summary.experimental.set_step(step)
        tf.summary.scalar("loss", 1.0)
        step.assign_add(1)
        tf.summary.scalar("loss", 1.0)
        tf.summary.experimental.set_step(None)

    assert [found[0] for found in written(tmp_path, write)] == [5, 6]


def test_bad_input(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=0):
        with pytest.raises(ValueError, match=r"Expected scalar shape for tensor, got shape: \(2,\)"):
            tf.summary.scalar("loss", [1.0, 2.0])
        with pytest.raises(ValueError, match="rank 4"):
            tf.summary.image("noise", tf.zeros([2, 2]))
        with pytest.raises(ValueError, match="Unknown encoding: 'mp3'"):
            tf.summary.audio("beep", tf.zeros([1, 2, 1]), 8000, encoding="mp3")
    writer.close()
    with pytest.raises(RuntimeError, match="already closed"):
        writer.set_as_default()
    with pytest.raises(ValueError, match="Must enable trace before export"):
        tf.summary.trace_export("net", step=0)


def spans_of(content):
    """The names and durations in an XSpace message."""
    (plane,) = fields_of(content)[1]
    found = fields_of(plane)
    entries = [fields_of(fields_of(entry)[2][0]) for entry in found[4]]
    names = {entry[1][0]: entry[2][0].decode() for entry in entries}
    events = [fields_of(event) for line in found[3] for event in fields_of(line)[4]]
    return {(names[event[1][0]], event[3][0]) for event in events}


def fields_of(message):
    """The values in a message of protocol buffers, by their numbers."""
    found, place = {}, 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte, place = message[place], place + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        number, kind = divmod(varint(), 8)
        value = varint()
        if kind == 2:
            value, place = message[place : place + value], place + value
        found.setdefault(number, []).append(value)
    return found


def test_a_profile_has_traces_calls_and_named_events(tmp_path):
    with tf.profiler.experimental.Profile(str(tmp_path)):
        with pytest.raises(tf.errors.AlreadyExistsError):
            tf.profiler.experimental.start(str(tmp_path))
        with tf.profiler.experimental.Trace("step", step_num=3):
            tf.function(lambda x: x + 1, autograph=False)(tf.constant(1))
    (path,) = tmp_path.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert {e["name"].split()[-1] for e in events} == {"trace", "compile", "call", "step"}
    assert [e["args"] for e in events if e["name"] == "step"] == [{"step_num": 3}]
    (path,) = tmp_path.rglob("*.xplane.pb")
    assert spans_of(path.read_bytes()) == {(e["name"], round(e["dur"] * 1e6)) for e in events}
    with pytest.raises(tf.errors.UnavailableError, match="No profiler is running"):
        tf.profiler.experimental.stop()
