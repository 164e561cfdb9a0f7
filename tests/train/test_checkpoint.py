import gc
import logging
import threading

import checkpoint_programs as programs
import numpy as np
import pytest

from tvtf import errors, train
from tvtf.core import thread_state
from tvtf.core.shape import TensorShape
from tvtf.fileio import atomic_file
from tvtf.state.autotrackable import AutoTrackable, Trackable
from tvtf.state.module import Module
from tvtf.state.variable import Variable
from tvtf.train import bundle, object_graph
from tvtf.train.checkpoint_protos import TrackableObjectGraph
from tvtf.train.restoration import restore_slot

ZEROS = np.zeros(2, np.float32)


class Dense(Module):
    def __init__(self, value):
        super().__init__()
        self.w = Variable(np.float32(value), name="w")


@pytest.fixture
def prefix(tmp_path):
    return str(tmp_path / "ckpt")


def saved(prefix, *values):
    """A saved checkpoint of one model and a second, empty one of the same kind."""
    path = train.Checkpoint(model=Dense(values)).save(prefix)
    model = Dense(np.zeros(len(values)))
    return path, model, train.Checkpoint(model=model)


def test_tensorflows_checkpoint_is_restored_in_full(tmp_path):
    net = programs.nested_net(Module, Variable)
    expected = [variable.numpy() for variable in net.variables]
    for variable in net.variables:
        variable.assign(np.zeros_like(variable.numpy()))
    checkpoint = train.Checkpoint(net=net)
    checkpoint.restore(programs.place_golden("net", tmp_path)).assert_consumed()
    for variable, value in zip(net.variables, expected):
        np.testing.assert_array_equal(variable.numpy(), value)
    assert checkpoint.save_counter.numpy() == 1


def test_the_files_are_byte_for_byte_tensorflows(tmp_path):
    path = train.Checkpoint(net=programs.nested_net(Module, Variable)).save(tmp_path / "ckpt")
    for suffix in programs.SUFFIXES:
        with open(path + suffix, "rb") as file:
            assert file.read() == programs.golden("net", suffix)
    state = 'model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-1"\n'
    assert (tmp_path / "checkpoint").read_text() == state


def test_save_numbers_write_does_not(prefix):
    checkpoint = train.Checkpoint(v=Variable(1.0))
    assert [checkpoint.save(prefix), checkpoint.save(prefix)] == [f"{prefix}-1", f"{prefix}-2"]
    assert checkpoint.write(prefix) == prefix
    assert checkpoint.save_counter.numpy() == 2
    restored = train.Checkpoint(v=Variable(0.0))
    restored.restore(f"{prefix}-2").assert_consumed()
    assert restored.save(prefix) == f"{prefix}-3"


def test_read_takes_what_write_wrote_without_a_counter(prefix):
    train.Checkpoint(v=Variable([1.0, 2.0])).write(prefix)
    variable = Variable(ZEROS)
    train.Checkpoint(v=variable).read(prefix).assert_consumed()
    np.testing.assert_array_equal(variable.numpy(), [1, 2])


def test_a_restore_leaves_what_was_read_before(prefix):
    path, model, checkpoint = saved(prefix, 1, 2)
    before = model.w.read_value()
    checkpoint.restore(path)
    np.testing.assert_array_equal(before.numpy(), ZEROS)
    np.testing.assert_array_equal(model.w.numpy(), [1, 2])


def test_objects_made_after_the_restore_are_restored_as_they_are_attached(prefix):
    path = train.Checkpoint(net=programs.nested_net(Module, Variable)).save(prefix)
    root = Module(name="late")
    status = train.Checkpoint(net=root).restore(path)
    root.layers = []
    root.layers.append(Dense(np.zeros((2, 2))))
    np.testing.assert_array_equal(root.layers[0].w.numpy(), [[0, 1], [2, 3]])
    with pytest.raises(AssertionError, match=r"^Unresolved object in checkpoint \(root\)\.net\.heads\.b/c\.d: "):
        status.assert_consumed()
    status.expect_partial()


def test_an_object_made_inside_a_trace_is_restored_at_once(prefix):
    path, _, _ = saved(prefix, 1, 2)
    root = Module()
    status = train.Checkpoint(model=root).restore(path)
    variable = Variable(ZEROS)
    thread_state.state.trace = object()
    try:
        root.w = variable
    finally:
        thread_state.state.trace = None
    np.testing.assert_array_equal(variable.numpy(), [1, 2])
    status.assert_consumed()


def test_of_two_deferred_restores_the_later_wins(tmp_path):
    root = Module()
    checkpoint = train.Checkpoint(model=root)
    for value in (1, 2):
        checkpoint.restore(train.Checkpoint(model=Dense([value, value])).save(tmp_path / str(value))).expect_partial()
    root.w = Variable(ZEROS)
    np.testing.assert_array_equal(root.w.numpy(), [2, 2])


def test_a_later_assignment_is_not_undone_by_an_older_restore(tmp_path):
    first, root, checkpoint = saved(str(tmp_path / "a"), 1, 1)
    second = train.Checkpoint(model=Dense([2, 2])).save(tmp_path / "b")
    checkpoint.restore(first)
    checkpoint.restore(second)
    np.testing.assert_array_equal(root.w.numpy(), [2, 2])


def test_a_root_object_and_others_beside_it(prefix):
    model, step = Dense([1, 2]), Variable(7)
    path = train.Checkpoint(model, step=step).save(prefix)
    keys = [key for key, _ in train.list_variables(path)]
    assert keys == ["_CHECKPOINTABLE_OBJECT_GRAPH"] + [
        f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("save_counter", "step", "w")
    ]
    restored, step = Dense([0, 0]), Variable(0)
    train.Checkpoint(restored, step=step).restore(path).assert_consumed()
    np.testing.assert_array_equal(restored.w.numpy(), [1, 2])
    assert step.numpy() == 7


def test_a_root_with_another_child_of_that_name_is_rejected():
    with pytest.raises(
        ValueError, match=r"^Cannot create a Checkpoint with keyword argument w if root\.w already exists\.$"
    ):
        train.Checkpoint(Dense([1]), w=Variable(1.0))


def test_what_cannot_be_tracked_is_rejected():
    with pytest.raises(ValueError) as caught:
        train.Checkpoint(step=3)
    assert str(caught.value) == (
        "`Checkpoint` was expecting step to be a trackable object (an object derived from `Trackable`), got 3 of type "
        "int. Pass a Variable, Module, Optimizer, or a list or dict of them."
    )


def test_write_callbacks_are_called_with_the_path(prefix):
    written = []
    options = train.CheckpointOptions(experimental_write_callbacks=[written.append])
    train.Checkpoint(v=Variable(1.0)).save(prefix, options)
    assert written == [f"{prefix}-1"]


class TestSlotVariables:
    def test_round_trip(self, prefix):
        w = Variable([1.0, 2.0], name="w")
        path = self.checkpoint(w, 0.5).save(prefix)
        assert train.load_variable(path, "w/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE").tolist() == [0.5, 0.5]
        restored = self.checkpoint(Variable(ZEROS, name="w"), 0.0)
        restored.restore(path).assert_consumed()
        np.testing.assert_array_equal(restored.opt.get_slot(restored.w, "v").numpy(), [0.5, 0.5])

    def test_slots_made_later_are_restored_then(self, prefix):
        path = self.checkpoint(Variable([1.0, 2.0], name="w"), 0.5).save(prefix)
        restored = self.checkpoint(Variable(ZEROS, name="w"), 0.0)
        slots, vars(restored.opt)["slots"] = restored.opt.slots, {}
        status = restored.restore(path)
        for (owner, name), slot in slots.items():
            restored.opt.slots[owner, name] = slot
            restore_slot(restored.opt, restored.w, name, slot)
        status.assert_consumed()
        assert [slot.numpy().tolist() for slot in slots.values()] == [[0.5, 0.5]] * 2

    def test_they_can_be_skipped(self, prefix):
        path = self.checkpoint(Variable([1.0, 2.0], name="w"), 0.5).save(prefix)
        restored = self.checkpoint(Variable(ZEROS, name="w"), 0.0)
        restored.restore(path, train.CheckpointOptions(experimental_skip_slot_variables=True))
        assert restored.opt.get_slot(restored.w, "m").numpy().tolist() == [0, 0]
        assert restored.w.numpy().tolist() == [1, 2]

    @staticmethod
    def checkpoint(w, fill):
        return train.Checkpoint(w=w, opt=programs.slot_owner(AutoTrackable, Variable, [w], fill))


class TestStatus:
    def test_a_python_object_without_a_value(self, prefix):
        path, model, checkpoint = saved(prefix, 1, 2)
        model.extra = Variable(3.0, name="extra")
        status = checkpoint.restore(path)
        with pytest.raises(AssertionError) as caught:
            status.assert_existing_objects_matched()
        assert str(caught.value) == (
            "Found 1 Python objects that were not bound to checkpointed values, likely due to changes in the Python "
            "program. Showing 1 of 1 unmatched objects: [<tf.Variable 'extra:0' shape=() dtype=float32, numpy=3.0>]"
        )
        status.assert_nontrivial_match().expect_partial()

    def test_nothing_but_the_root_matches(self, prefix):
        path, _, _ = saved(prefix, 1, 2)
        status = train.Checkpoint(other=Dense([0])).read(path).expect_partial()
        with pytest.raises(AssertionError, match="^Nothing except the root object matched a checkpointed value"):
            status.assert_nontrivial_match()

    def test_nothing_to_load_into(self, prefix):
        path, _, _ = saved(prefix, 1, 2)
        status = train.Checkpoint().read(path).expect_partial()
        with pytest.raises(AssertionError, match=r"^Nothing to load\. No dependencies have been added to "):
            status.assert_nontrivial_match()

    def test_no_checkpoint(self):
        status = train.Checkpoint(v=Variable(1.0)).restore(None)
        status.expect_partial().initialize_or_restore()
        for assertion in (status.assert_consumed, status.assert_existing_objects_matched, status.run_restore_ops):
            with pytest.raises(
                AssertionError, match=r"^No checkpoint specified \(save_path=None\); nothing is being restored\.$"
            ):
                assertion()

    @pytest.mark.parametrize("silent", [False, True])
    def test_values_that_are_not_restored_are_logged_at_the_end(self, prefix, caplog, silent):
        path, _, _ = saved(prefix, 1, 2)
        status = train.Checkpoint().restore(path)
        if silent:
            status.expect_partial()
        gc.collect()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "tvtf"):
            del status
            gc.collect()
        expected = ["Value in checkpoint could not be found in the restored object: (root).model.w"]
        assert [record.message for record in caplog.records] == ([] if silent else expected)


class TestErrors:
    """Nothing is assigned when anything doesn't fit."""

    def two(self, prefix, second):
        first = Variable([1.0, 2.0], name="a")
        path = train.Checkpoint(a=first, b=Variable([3.0, 4.0], name="b")).save(prefix)
        first.assign(ZEROS)
        return path, first, train.Checkpoint(a=first, b=second)

    @staticmethod
    def rejected(kind, checkpoint, path, first):
        with pytest.raises(kind) as caught:
            checkpoint.restore(path)
        np.testing.assert_array_equal(first.numpy(), ZEROS)
        return str(caught.value)

    def test_a_shape_differs(self, prefix):
        path, first, checkpoint = self.two(prefix, Variable([0.0, 0.0, 0.0], name="b"))
        assert self.rejected(ValueError, checkpoint, path, first) == (
            "Received incompatible tensor with shape (2,) when attempting to restore variable with shape (3,) and name "
            f"b:0. Nothing was restored from {path}; make the variable with the shape it was saved with."
        )

    def test_a_dtype_differs(self, prefix):
        path, first, checkpoint = self.two(prefix, Variable([0, 0], name="b"))
        assert self.rejected(errors.InvalidArgumentError, checkpoint, path, first) == (
            "tensor_name = b/.ATTRIBUTES/VARIABLE_VALUE; expected dtype int32 does not equal original dtype float32. "
            f"Nothing was restored from {path}; make the variable with the dtype it was saved with."
        )

    def test_an_object_wants_a_value_the_checkpoint_lacks(self, prefix):
        class Table(Trackable):
            def _serialize_to_tensors(self):
                return {"VARIABLE_VALUE": ZEROS, "keys": ZEROS}

        path, first, checkpoint = self.two(prefix, Table())
        assert self.rejected(errors.NotFoundError, checkpoint, path, first).startswith(
            f"Error when restoring from checkpoint or SavedModel at {path}: Restoring Table from {path}: the "
            "checkpoint has no keys for it. Nothing was restored."
        )

    def test_a_value_is_damaged(self, prefix):
        path, first, checkpoint = self.two(prefix, Variable(ZEROS, name="b"))
        offset = bundle.Reader(path).entries["b/.ATTRIBUTES/VARIABLE_VALUE"].offset
        with open(bundle.data_name(path, 0, 1), "r+b") as file:
            file.seek(offset)
            file.write(b"\1")
        assert self.rejected(errors.DataLossError, checkpoint, path, first).startswith(
            f"{path}, tensor b/.ATTRIBUTES/VARIABLE_VALUE: checksum does not match: stored 0x"
        )

    def test_a_damaged_value_that_is_not_restored(self, prefix):
        path, first, _ = self.two(prefix, Variable(ZEROS))
        with open(bundle.data_name(path, 0, 1), "r+b") as file:
            file.seek(bundle.Reader(path).entries["b/.ATTRIBUTES/VARIABLE_VALUE"].offset)
            file.write(b"\1")
        self.rejected(errors.DataLossError, train.Checkpoint(a=first), path, first)

    def test_the_data_is_truncated(self, prefix):
        path, first, checkpoint = self.two(prefix, Variable(ZEROS, name="b"))
        data = bundle.data_name(path, 0, 1)
        with open(data, "r+b") as file:
            file.truncate(20)
        assert self.rejected(errors.DataLossError, checkpoint, path, first).endswith(
            "lie outside its data file of 20 bytes: the file is truncated. Restore an older checkpoint."
        )

    def test_the_index_is_truncated(self, prefix):
        path, first, checkpoint = self.two(prefix, Variable(ZEROS, name="b"))
        with open(bundle.index_name(path), "r+b") as file:
            file.truncate(100)
        assert self.rejected(errors.DataLossError, checkpoint, path, first) == (
            f"{path}.index: not an sstable (bad magic number) in its 100 bytes: the file is truncated or isn't a "
            "checkpoint index. Restore an older checkpoint."
        )

    def test_there_is_no_such_checkpoint(self, prefix):
        with pytest.raises(errors.NotFoundError) as caught:
            train.Checkpoint().restore(prefix)
        assert caught.value.message == (
            f"Error when restoring from checkpoint or SavedModel at {prefix}: Unsuccessful TensorSliceReader "
            f"constructor: Failed to find any matching files for {prefix}\nPlease double-check that the path is "
            "correct. You may be missing the checkpoint suffix (e.g. the '-1' in 'path/to/ckpt-1')."
        )

    def test_a_name_based_checkpoint_with_another_dtype_changes_nothing(self, prefix):
        bundle.write(prefix, {"w": ZEROS, "v": ZEROS.astype("float64")})
        w, v = (Variable(ZEROS + 1, name=name) for name in "wv")
        with pytest.raises(errors.InvalidArgumentError, match="tensor_name = v; expected dtype float32 does not equal"):
            train.Checkpoint(w=w, v=v).read(prefix)
        assert w.numpy().min() == v.numpy().min() == 1

    @pytest.mark.parametrize(
        ("graph", "text"),
        [
            (b"\xff\xff", "it is not a valid protocol buffer"),
            (b"", "it has no node"),
            ({"nodes": [{"children": [{"node_id": 9, "local_name": "a"}]}]}, "node 0 refers to node 9 of 1"),
            ({"nodes": [{"children": [{"node_id": -1, "local_name": "a"}]}]}, "node 0 refers to node -1 of 1"),
            ({"nodes": [{"slot_variables": [{"slot_variable_node_id": 5}]}]}, "node 0 refers to node 5 of 1"),
            (
                {"nodes": [{"attributes": [{"name": "VARIABLE_VALUE", "checkpoint_key": "x"}]}]},
                "node 0 refers to the key x, which isn't in the index",
            ),
        ],
    )
    def test_a_hostile_object_graph(self, prefix, graph, text):
        serialized = graph if isinstance(graph, bytes) else TrackableObjectGraph(**graph).SerializeToString()
        bundle.write(prefix, {"_CHECKPOINTABLE_OBJECT_GRAPH": serialized})
        with pytest.raises(errors.DataLossError) as caught:
            train.Checkpoint().read(prefix)
        assert caught.value.message == f"{prefix}, object graph: {text}. Restore an older checkpoint."

    def test_a_graph_that_is_its_own_child_ends(self, prefix):
        node = {"children": [{"node_id": 0, "local_name": "me"}], "has_checkpoint_values": {"value": True}}
        serialized = TrackableObjectGraph(nodes=[node]).SerializeToString()
        bundle.write(prefix, {"_CHECKPOINTABLE_OBJECT_GRAPH": serialized})
        root = AutoTrackable()
        root.me = root
        train.Checkpoint(root).read(prefix).assert_consumed()


def test_cycles_are_saved(prefix):
    parent, child = Dense([1.0]), Dense([2.0])
    parent.child, child.parent = child, parent
    train.Checkpoint(parent).read(train.Checkpoint(parent).write(prefix)).assert_consumed()


def test_one_object_in_the_checkpoint_two_in_python(prefix, caplog):
    shared = Variable([1.0, 2.0])
    path = train.Checkpoint(a=shared, b=shared).write(prefix)
    first, second = Variable(ZEROS), Variable(ZEROS)
    with caplog.at_level(logging.WARNING, "tvtf"):
        train.Checkpoint(a=first, b=second).read(path)
    assert first.numpy().tolist() == [1, 2]
    assert second.numpy().tolist() == [0, 0]


def test_threads_may_save_at_once(prefix):
    checkpoints = [train.Checkpoint(v=Variable(float(i))) for i in range(8)]
    threads = [threading.Thread(target=c.write, args=(prefix,)) for c in checkpoints]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert train.load_variable(prefix, "v/.ATTRIBUTES/VARIABLE_VALUE") in range(8)


def test_an_update_during_the_write_is_not_in_the_file(prefix, monkeypatch):
    variable = Variable(np.ones(1000, np.float32))
    real = atomic_file._write_all

    def write_all(write, rest):
        variable.assign(np.zeros(1000, np.float32))
        variable.assign_add(np.ones(1000, np.float32))
        variable.assign_add(np.ones(1000, np.float32))
        real(write, rest)

    monkeypatch.setattr(atomic_file, "_write_all", write_all)
    train.Checkpoint(v=variable).write(prefix)
    assert set(train.load_variable(prefix, "v/.ATTRIBUTES/VARIABLE_VALUE")) == {1.0}
    assert set(variable.numpy()) == {2.0}


def test_values_are_taken_under_the_variables_locks(prefix):
    variable, held = Variable(1.0), []

    class Watched(Trackable):
        def _serialize_to_tensors(self):
            held.append(variable.lock._own._is_owned())
            return {}

    train.Checkpoint(v=variable, w=Watched()).write(prefix)
    assert held == [True]
    assert not variable.lock._own._is_owned()


def test_a_variable_of_unknown_shape_takes_any(prefix):
    path, _, _ = saved(prefix, 1, 2)
    model = Dense([0.0])
    model.w = Variable(np.zeros((1, 1), np.float32), shape=TensorShape(None))
    train.Checkpoint(model=model).restore(path).assert_consumed()
    assert model.w.numpy().tolist() == [1, 2]


def test_an_object_made_later_must_fit_too(prefix):
    path, _, _ = saved(prefix, 1, 2)
    root, variable = Module(), Variable([5.0], name="w")
    train.Checkpoint(model=root).restore(path).expect_partial()
    with pytest.raises(ValueError, match=r"^Received incompatible tensor with shape \(2,\) when attempting"):
        root.w = variable
    assert variable.numpy().tolist() == [5.0]


def test_nodes_that_nothing_leads_to_are_named_by_number(prefix):
    attribute = {"name": "VARIABLE_VALUE", "checkpoint_key": "x"}
    serialized = TrackableObjectGraph(nodes=[{}, {"attributes": [attribute]}]).SerializeToString()
    bundle.write(prefix, {"x": 1.0, "_CHECKPOINTABLE_OBJECT_GRAPH": serialized})
    status = train.Checkpoint().read(prefix).expect_partial()
    with pytest.raises(AssertionError, match=r"^Unresolved object in checkpoint \(node 1\): "):
        status.assert_consumed()


def test_the_graph_of_a_checkpoint_reads_well(prefix):
    path, _, _ = saved(prefix, 1, 2)
    reader = train.load_checkpoint(path)
    graph = object_graph.parse(reader.get_tensor(object_graph.GRAPH_KEY), reader.entries, path)
    assert object_graph.node_names(graph) == {
        0: "(root)",
        1: "(root).model",
        2: "(root).save_counter",
        3: "(root).model.w",
    }
