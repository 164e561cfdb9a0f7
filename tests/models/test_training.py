"""Training programs: data, exact resumption, exports, and what they say when something is missing."""

import importlib.util
import math
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import tvtf as tf
from tvtf.cli import main
from tvtf.models import digits as digits_module
from tvtf.models import digits_run
from tvtf.models.digits import BATCH, Data, Digits
from tvtf.models.training import Fit, Plan, ResumeError
from tvtf.train import load_checkpoint

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def few():
    """Enough for two steps an epoch."""
    return digits_module.load().at(np.arange(200))


def fit(data, folder, seed=0, **plan):
    trained = Digits(seed, data)
    outcome = Fit(trained, Plan(folder, **plan), Console(quiet=True)).run()
    return trained, outcome


def values(trained):
    return [v.numpy() for v in (*trained.model.variables, *trained.optimizer.variables)]


def test_the_digits_are_all_there():
    data = digits_module.load()
    assert data.images.shape == (1797, 8, 8, 1) and data.images.dtype == np.float32
    assert (data.images.min(), data.images.max()) == (0.0, 1.0)
    assert np.bincount(data.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_a_fifth_is_held_out_and_never_trained_on():
    rows = np.arange(1797, dtype=np.float32).reshape(-1, 1, 1, 1) * np.ones((1, 8, 8, 1), np.float32)
    trained = Digits(3, Data(rows, np.zeros(1797, np.int64)))
    kept, held_out = set(trained.train.images[:, 0, 0, 0]), set(trained.test.images[:, 0, 0, 0])
    assert len(held_out) == 359 and not kept & held_out and len(kept | held_out) == 1797


def test_missing_data_are_reported_with_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["train", "digits", "--out", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: the digits come with scikit-learn, and it is not installed; install tvtf with what training needs: "
        "pip install 'tvtf[train]'\n",
    )


def test_a_stopped_run_resumes_bit_for_bit(few, tmp_path):
    whole, _ = fit(few, tmp_path / "whole", epochs=3)
    fit(few, tmp_path / "parts", epochs=3, stop_after=1)
    resumed, outcome = fit(few, tmp_path / "parts", epochs=3, resume=True)
    losses = (tmp_path / "whole" / "losses.csv").read_text()
    assert len(losses.splitlines()) == 1 + 3 * 2 and outcome.epochs == 3
    assert (tmp_path / "parts" / "losses.csv").read_text() == losses
    for one, other in zip(values(whole), values(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_came_after_the_last_checkpoint_is_repeated(few, tmp_path):
    fit(few, tmp_path / "whole", epochs=2)
    fit(few, tmp_path / "torn", epochs=2, stop_after=1)
    with (tmp_path / "torn" / "losses.csv").open("a") as file:
        file.write("1,0,123.0\n")
    fit(few, tmp_path / "torn", epochs=2, resume=True)
    assert (tmp_path / "torn" / "losses.csv").read_text() == (tmp_path / "whole" / "losses.csv").read_text()


def test_a_damaged_checkpoint_costs_one_epoch_and_not_the_run(few, tmp_path):
    fit(few, tmp_path / "whole", epochs=3)
    shutil.copytree(tmp_path / "whole", tmp_path / "torn")
    (tmp_path / "torn" / "ckpt-3.data-00000-of-00001").write_bytes(b"")
    fit(few, tmp_path / "torn", epochs=3, resume=True)
    assert (tmp_path / "torn" / "losses.csv").read_text() == (tmp_path / "whole" / "losses.csv").read_text()


def test_a_new_run_forgets_the_old_one_and_nothing_else(few, tmp_path):
    fit(few, tmp_path, epochs=2)
    (tmp_path / "notes.txt").write_text("mine")
    fit(few, tmp_path, epochs=2, stop_after=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *("checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index", "losses.csv", "notes.txt"),
    ]


def test_seeds_train_differently_and_one_seed_the_same(few, tmp_path):
    losses = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit(few, tmp_path / name, seed=seed, epochs=1)
        losses[name] = (tmp_path / name / "losses.csv").read_text()
    assert losses["a"] == losses["b"] != losses["c"]


def test_resuming_what_is_not_there_or_otherwise_planned_is_rejected(few, tmp_path):
    with pytest.raises(ResumeError) as caught:
        fit(few, tmp_path, epochs=2, resume=True)
    assert str(caught.value) == f"{tmp_path} has no checkpoint to resume from; start without --resume"
    fit(few, tmp_path, epochs=2, stop_after=1)
    with pytest.raises(ResumeError) as caught:
        fit(few, tmp_path, epochs=5, resume=True)
    assert str(caught.value) == (
        f"the run in {tmp_path} was planned for 2 epochs, which its learning rates depend on; resume it with --epochs "
        "2, or restart without --resume"
    )


def test_the_rate_falls_to_zero_and_reaches_the_optimizer(few, tmp_path):
    fit(few, tmp_path, epochs=2)
    reader = load_checkpoint(tmp_path)
    rate = reader.get_tensor("optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE")
    assert rate == pytest.approx(digits_module.PEAK_RATE * 0.5 * (1 + math.cos(math.pi * 3 / 4)))


def test_eager_and_compiled_agree(few, tmp_path):
    trained, _ = fit(few, tmp_path, epochs=2)
    images = tf.constant(trained.test.images)
    np.testing.assert_allclose(trained.logits(images), trained.model(images), rtol=1e-4, atol=1e-5)
    assert trained.evaluate() == pytest.approx(trained.evaluate(eager=True))


def test_the_whole_program_trains_exports_and_prints(few, tmp_path, monkeypatch):
    monkeypatch.setattr(digits_run, "load", lambda: few)
    command = ["train", "digits", "--epochs", "2", "--seeds", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    for row in ("compiler's import", "trace", "one step", "held-out accuracy, eager", "ONNX Runtime differs by, step"):
        assert row in result.output
    assert "held-out accuracy: mean of 2 seeds " in result.output
    assert {"model", "seed-0", "seed-1"} <= {p.name for p in tmp_path.iterdir()}
    again = CliRunner().invoke(main, [*command, "--resume"])
    assert "was finished already" in again.output


def test_the_exported_step_is_the_step(few, tmp_path):
    pytest.importorskip("onnxruntime")
    trained, _ = fit(few, tmp_path, epochs=1)
    before = values(trained)
    rows = dict(digits_run.exported(trained, tmp_path))
    assert float(rows["ONNX Runtime differs by, logits"]) < 1e-4
    assert float(rows["ONNX Runtime differs by, step"]) < 1e-4
    for one, other in zip(before, values(trained), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_stop_is_reported(few, tmp_path, monkeypatch):
    monkeypatch.setattr(digits_run, "load", lambda: few)
    command = ["train", "digits", "--epochs", "3", "--stop-after", "1", "--out", str(tmp_path)]
    assert CliRunner().invoke(main, command).output.endswith("stopped after epoch 1 of 3; go on with --resume\n")


def test_ctrl_c_is_reported_and_leaves_the_last_epoch(few, tmp_path, monkeypatch):
    def interrupted(self, epoch):
        if epoch == 1:
            raise KeyboardInterrupt
        yield from original(self, epoch)

    original = Digits.batches
    monkeypatch.setattr(digits_run, "load", lambda: few)
    monkeypatch.setattr(Digits, "batches", interrupted)
    result = CliRunner().invoke(main, ["train", "digits", "--epochs", "3", "--out", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (130, "\nstopped; go on from the last checkpoint with --resume\n")
    assert (tmp_path / "seed-0" / "ckpt-1.index").is_file()


def test_batches_are_whole_and_shifted_by_a_pixel_at_most(few):
    trained = Digits(0, few)
    batches = list(trained.batches(0))
    assert [tuple(images.shape) for images, _ in batches] == [(BATCH, 8, 8, 1)] * 2
    image = np.zeros((1, 8, 8, 1), np.float32)
    image[0, 4, 4] = 1.0
    spots = {tuple(np.argwhere(digits_module.shifted(image, np.random.default_rng(s))[0])[0][:2]) for s in range(99)}
    assert spots == {(y, x) for y in (3, 4, 5) for x in (3, 4, 5)}


@pytest.mark.sweep
def test_digits_reach_98_percent(tmp_path):
    accuracies = []
    for seed in range(5):
        trained, _ = fit(None, tmp_path / str(seed), seed=seed, epochs=digits_run.EPOCHS)
        accuracies.append(trained.evaluate())
    assert np.mean(accuracies) >= 0.98
