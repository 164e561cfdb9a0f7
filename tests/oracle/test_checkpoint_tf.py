"""Checkpoints go from tvtf to TensorFlow and back, and both write the same bytes."""

import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

from tvtf import errors, train  # noqa: E402 - after the group's condition
from tvtf.state.autotrackable import AutoTrackable  # noqa: E402
from tvtf.state.module import Module  # noqa: E402
from tvtf.state.variable import Variable  # noqa: E402
from tvtf.train import bundle  # noqa: E402

programs = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "train" / "checkpoint_programs.py")))
pytestmark = pytest.mark.oracle


def same_files(left: str, right: str) -> bool:
    return all(Path(left + suffix).read_bytes() == Path(right + suffix).read_bytes() for suffix in programs.SUFFIXES)


def nets():
    return programs.nested_net(tf.Module, tf.Variable), programs.nested_net(Module, Variable)


def clear(module):
    for variable in module.variables:
        variable.assign(np.zeros_like(variable.numpy()))


def assert_same_values(left, right):
    assert [v.name for v in left] == [v.name for v in right]
    for theirs, ours in zip(left, right):
        np.testing.assert_array_equal(theirs.numpy(), ours.numpy())


def test_both_write_the_same_bytes(tmp_path):
    theirs, ours = nets()
    left = tf.train.Checkpoint(net=theirs).save(str(tmp_path / "tf" / "ckpt"))
    right = train.Checkpoint(net=ours).save(tmp_path / "tvtf" / "ckpt")
    assert same_files(left, right)
    assert (tmp_path / "tf" / "checkpoint").read_text() == (tmp_path / "tvtf" / "checkpoint").read_text()


def test_an_index_of_several_blocks_is_written_equally(tmp_path):
    arrays = {f"layer_{i:05d}/{'long_name/' * 4}.ATTRIBUTES/VARIABLE_VALUE": np.float32(i) for i in range(6000)}
    theirs, ours = programs.write_raw(tf, str(tmp_path / "tf"), arrays), str(tmp_path / "tvtf")
    bundle.write(ours, arrays)
    assert same_files(theirs, ours)


def test_tensorflow_restores_what_tvtf_saved(tmp_path):
    theirs, ours = nets()
    path = train.Checkpoint(net=ours).save(tmp_path / "ckpt")
    clear(theirs)
    tf.train.Checkpoint(net=theirs).restore(path).assert_consumed()
    assert_same_values(theirs.variables, ours.variables)


def test_tvtf_restores_what_tensorflow_saved(tmp_path):
    theirs, ours = nets()
    path = tf.train.Checkpoint(net=theirs).save(str(tmp_path / "ckpt"))
    clear(ours)
    train.Checkpoint(net=ours).restore(path).assert_consumed()
    assert_same_values(theirs.variables, ours.variables)


def test_tensorflow_restores_an_overwritten_checkpoint(tmp_path):
    theirs, ours = nets()
    checkpoint = train.Checkpoint(net=ours)
    checkpoint.write(tmp_path / "ckpt")
    ours.layers[0].w.assign([[5.0, 6.0], [7.0, 8.0]])
    checkpoint.write(tmp_path / "ckpt")
    tf.train.Checkpoint(net=theirs).read(str(tmp_path / "ckpt")).assert_consumed()
    assert_same_values(theirs.variables, ours.variables)


def test_root_with_keyword_arguments_is_saved_equally(tmp_path):
    theirs, ours = nets()
    left = tf.train.Checkpoint(theirs, step=tf.Variable(7, name="step")).save(str(tmp_path / "tf" / "ckpt"))
    right = train.Checkpoint(ours, step=Variable(7, name="step")).save(tmp_path / "tvtf" / "ckpt")
    assert same_files(left, right)


@pytest.mark.parametrize("direction", ["to tensorflow", "from tensorflow"])
def test_slot_variables_go_both_ways(tmp_path, direction):
    w, u = tf.Variable([1.0, 2.0], name="w"), tf.Variable([[3.0]], name="u")
    theirs = tf.compat.v1.train.AdamOptimizer(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w * w) + tf.reduce_sum(u * u)
    theirs.apply_gradients(zip(tape.gradient(loss, [w, u]), [w, u]))
    our_w, our_u = Variable([0.0, 0.0], name="w"), Variable([[0.0]], name="u")
    ours = adam_like([our_w, our_u])
    their_checkpoint = tf.train.Checkpoint(opt=theirs, w=w, u=u)
    our_checkpoint = train.Checkpoint(opt=ours, w=our_w, u=our_u)
    if direction == "to tensorflow":
        their_checkpoint.read(our_checkpoint.write(tmp_path / "ckpt")).assert_consumed()
    else:
        our_checkpoint.read(their_checkpoint.write(str(tmp_path / "ckpt"))).assert_consumed()
    for name in ("m", "v"):
        np.testing.assert_array_equal(theirs.get_slot(w, name).numpy(), ours.get_slot(our_w, name).numpy())
        np.testing.assert_array_equal(theirs.get_slot(u, name).numpy(), ours.get_slot(our_u, name).numpy())


def adam_like(variables):
    owner = programs.slot_owner(AutoTrackable, Variable, variables, 0.5)
    del owner.rate
    owner.beta1_power, owner.beta2_power = Variable(0.0), Variable(0.0)
    return owner


def test_every_dtype_is_read_and_written_equally(tmp_path):
    arrays = programs.all_dtypes()
    theirs, ours = programs.write_raw(tf, str(tmp_path / "tf"), arrays), str(tmp_path / "tvtf")
    bundle.write(ours, arrays)
    assert same_files(theirs, ours)
    for name, array in arrays.items():
        np.testing.assert_array_equal(train.load_variable(theirs, name), array)
        np.testing.assert_array_equal(tf.train.load_variable(ours, name), array)


def test_managers_write_the_same_state_file(tmp_path):
    theirs, ours = nets()
    left = tf.train.CheckpointManager(tf.train.Checkpoint(net=theirs), str(tmp_path / "tf"), max_to_keep=2)
    right = train.CheckpointManager(train.Checkpoint(net=ours), tmp_path / "tvtf", max_to_keep=2)
    for _ in range(3):
        left.save()
        right.save()
    assert sorted(os.listdir(left.directory)) == sorted(os.listdir(right.directory))
    keys = [
        [line.split(":")[0] for line in (tmp_path / x / "checkpoint").read_text().splitlines()] for x in ("tf", "tvtf")
    ]
    assert keys[0] == keys[1]
    assert tf.train.latest_checkpoint(right.directory) == right.latest_checkpoint
    assert train.latest_checkpoint(left.directory) == left.latest_checkpoint


@pytest.mark.parametrize("wrong", [[1.0, 2.0, 3.0], [1, 2]])
def test_a_misfit_raises_tensorflows_type(tmp_path, wrong):
    path = train.Checkpoint(w=Variable([1.0, 2.0], name="w")).save(tmp_path / "ckpt")
    with pytest.raises(Exception) as theirs:
        tf.train.Checkpoint(w=tf.Variable(wrong, name="w")).restore(path)
    with pytest.raises(Exception) as ours:
        train.Checkpoint(w=Variable(wrong, name="w")).restore(path)
    assert theirs.type.__name__ == ours.type.__name__


def test_a_missing_checkpoint_raises_tensorflows_text(tmp_path):
    path = str(tmp_path / "none")
    with pytest.raises(tf.errors.NotFoundError) as theirs:
        tf.train.Checkpoint().restore(path)
    with pytest.raises(errors.NotFoundError) as ours:
        train.Checkpoint().restore(path)
    assert theirs.value.message == ours.value.message


def test_modules_have_equal_names_and_order():
    def build(module, variable):
        outer = module(name="outer")
        with outer.name_scope:
            outer.inner = programs.nested_net(module, variable)
            with outer.inner.name_scope:
                outer.late = variable(1.0, name="late")
        outer.a10, outer.a9 = variable(1.0), variable(2.0)
        return outer

    theirs, ours = build(tf.Module, tf.Variable), build(Module, Variable)
    for attribute in ("variables", "trainable_variables", "non_trainable_variables", "submodules"):
        assert [x.name for x in getattr(theirs, attribute)] == [x.name for x in getattr(ours, attribute)]
    assert theirs.inner.name_scope.name == ours.inner.name_scope.name
