"""``tvtf train keras``: learning, stopping and resuming, the best model, and errors for missing packages."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

from tvtf.cli import main
from tvtf.models import digits, keras_run

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

needs_keras = pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
# Keras's variables have an __array__ that NumPy 2 finds too short.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")


def train(folder, *options):
    return CliRunner().invoke(main, ["train", "keras", "--out", str(folder), *map(str, options)])


def test_no_image_is_in_two_parts():
    parts = keras_run.parts(seed=2)
    assert [len(part.labels) for part in parts] == [1151, 287, 359]
    images = {image.tobytes() for part in parts for image in part.images}
    assert len(images) == len({image.tobytes() for image in digits.load().images})


@needs_keras
def test_a_run_learns_stops_and_goes_on(tmp_path):
    result = train(tmp_path, "--epochs", 2, "--seed", 1)
    assert result.exit_code == 0, result.output
    assert {"model.keras", "history.csv", "history.png"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    first = keras_run.read(tmp_path / "history.csv")
    again = train(tmp_path, "--epochs", 8, "--seed", 1, "--resume")
    assert again.exit_code == 0 and "Epoch 3/8" in again.output and "Epoch 2/8" not in again.output, again.output
    history = keras_run.read(tmp_path / "history.csv")
    assert {name: values[:2] for name, values in history.items()} == first
    assert history["epoch"] == list(range(8)) and history["loss"][-1] < 0.5 * history["loss"][0]
    accuracy = float(again.output.partition("test accuracy")[2].split()[1])
    assert accuracy > 90
    finished = train(tmp_path, "--epochs", 8, "--resume")
    assert (finished.exit_code, finished.stderr) == (
        1,
        f"Error: the run in {tmp_path} has done its 8 epochs; raise --epochs to go on\n",
    )


@needs_keras
def test_a_worse_model_of_a_resumed_run_does_not_replace_the_best(tmp_path):
    (tmp_path / "history.csv").write_text("epoch,val_loss\n0,0.5\n1,0.25\n")
    checkpoint = next(c for c in keras_run.callbacks(tmp_path) if type(c).__name__ == "ModelCheckpoint")
    assert checkpoint.best == 0.25


def test_of_an_epoch_done_again_the_last_row_counts(tmp_path):
    (tmp_path / "history.csv").write_text("epoch,loss\n0,3.0\n1,2.5\n1,2.0\n")
    assert keras_run.read(tmp_path / "history.csv") == {"epoch": [0.0, 1.0], "loss": [3.0, 2.0]}


def test_a_missing_matplotlib_is_reported_before_training(monkeypatch, tmp_path):
    monkeypatch.setattr("tvtf.models.pictures.find_spec", lambda name: None)
    result = train(tmp_path / "new")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: pictures are drawn by Matplotlib, which is not installed: pip install 'tvtf[plot]'\n",
    )
    assert not (tmp_path / "new").exists()


def test_tiles_fill_their_rows():
    from tvtf.models.pictures import tiles

    images = np.arange(5 * 2 * 3).reshape(5, 2, 3)
    shown = tiles(images, columns=3)
    assert shown.shape == (5, 11)
    np.testing.assert_array_equal(shown[3:, 4:7], images[4])
