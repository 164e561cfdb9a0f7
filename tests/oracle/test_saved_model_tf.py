"""TensorFlow reads the variables of a saved model of ours, whose files are those that it would write."""

import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tensorflow = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

import tvtf  # noqa: E402 - after the group's condition

programs = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "saved_model_programs.py")))
pytestmark = pytest.mark.oracle


def test_variables_are_the_same_bytes(tmp_path):
    for name, tf in (("ours", tvtf), ("theirs", tensorflow)):
        programs.save(tf, str(tmp_path / name))
    for file in ("variables.index", "variables.data-00000-of-00001"):
        ours, theirs = ((tmp_path / name / "variables" / file).read_bytes() for name in ("ours", "theirs"))
        assert ours == theirs, file


def test_tensorflow_restores_our_variables(tmp_path):
    model = programs.demo(tvtf)
    model.scale.assign([5.0, 6.0])
    tvtf.saved_model.save(model, str(tmp_path))
    theirs = programs.demo(tensorflow)
    tensorflow.train.Checkpoint(theirs).restore(str(tmp_path / "variables" / "variables")).expect_partial()
    assert theirs.scale.numpy().tolist() == [5.0, 6.0]


def test_we_restore_the_variables_of_a_model_of_tensorflow(tmp_path):
    theirs = programs.demo(tensorflow)
    theirs.scale.assign([5.0, 6.0])
    tensorflow.saved_model.save(theirs, str(tmp_path))
    model = programs.demo(tvtf)
    tvtf.train.Checkpoint(model).restore(str(tmp_path)).expect_partial()
    assert model.scale.numpy().tolist() == [5.0, 6.0]
