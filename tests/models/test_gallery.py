"""The gallery's programs learn their tasks, in fewer steps than for their pictures, and the command runs them."""

import datetime
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tvtf.cli import main
from tvtf.models import gallery, pictures
from tvtf.models.gallery import fine_tuning, gaussian_process, graph_network, pinn, seq2seq_attention
from tvtf.models.stdlib import LETTERS

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

DOCS = Path(__file__).parents[2] / "docs"
needs_keras = pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
# Keras's variables have an __array__ that NumPy 2 finds too short.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")


def run(name, folder, **options):
    """A program's numbers; its picture is there and is a PNG that can be shown in the docs."""
    numbers = gallery.run(name, folder, **options)
    picture = (folder / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 60_000
    return numbers


def test_a_gaussian_process_finds_what_its_data_were_drawn_with(tmp_path):
    found = run("gaussian_process", tmp_path, steps=120)
    true = gaussian_process.TRUE
    assert {name: found[name] for name in true} == pytest.approx(true, rel=0.2)


def test_a_physics_informed_network_comes_close_to_the_exact_solution(tmp_path):
    numbers = run("pinn", tmp_path, steps=600)
    assert numbers["relative error"] < 0.1 and numbers["loss"] < 0.1 * numbers["first loss"]


def test_the_exact_solution_fulfils_the_equation():
    exact, step = pinn.exact, 1e-3
    x = np.linspace(-0.9, 0.9, 7)
    u_t = (exact(0.5 + step, x) - exact(0.5 - step, x)) / (2 * step)
    u_x = (exact(0.5, x + step) - exact(0.5, x - step)) / (2 * step)
    u_xx = (exact(0.5, x + step) - 2 * exact(0.5, x) + exact(0.5, x - step)) / step**2
    np.testing.assert_allclose(u_t + exact(0.5, x) * u_x, pinn.VISCOSITY * u_xx, atol=2e-2)


def test_a_graph_network_classifies_all_members_but_one(tmp_path):
    numbers = run("graph_network", tmp_path)
    assert numbers["accuracy"] > 0.95  # 33 of 34: whoever looks at friendships alone misses member 8, as Zachary did
    assert sum(map(len, graph_network.FRIENDS.values())) == 78


def test_a_recurrent_network_learns_to_write(tmp_path):
    numbers = run("char_rnn", tmp_path, steps=150)
    assert numbers["first loss"] == pytest.approx(np.log(len(LETTERS)), rel=0.05)
    assert numbers["loss"] < 2.1


@needs_keras
def test_a_variational_autoencoder_draws_digits_and_fills_the_plane(tmp_path):
    numbers = run("vae", tmp_path, steps=400)
    assert numbers["loss"] < 0.65 * numbers["first loss"]
    assert numbers["distance"] > 1  # the plane says something of the digits


@needs_keras
def test_a_generative_network_hits_every_spot(tmp_path):
    numbers = run("gan", tmp_path, steps=2000)
    assert numbers["spots hit"] >= 7 and numbers["near a spot"] > 0.7
    assert numbers["near a spot, of true points"] > 0.95


@needs_keras
def test_a_sequence_network_writes_dates(tmp_path):
    numbers = run("seq2seq_attention", tmp_path, steps=200)
    assert numbers["loss"] < 1.0 and numbers["whole dates right"] > 0.5


def test_dates_are_read_in_four_ways_and_written_in_one():
    letters = seq2seq_attention.LETTERS
    read, written = (
        ["".join(letters[number] for number in row) for row in part] for part in seq2seq_attention.examples(0, 200)
    )
    ways = [re.sub("[a-z]+", "a", re.sub("[0-9]+", "0", text.strip())) for text in read]
    assert set(ways) == {"0 a 0", "a 0, 0", "0-0-0"}
    assert all(datetime.date.fromisoformat(text).year in range(1970, 2070) for text in written)


@needs_keras
def test_what_is_frozen_stays_and_helps(monkeypatch, tmp_path):
    """By a base that saw fewer images: whoever guesses is right with one in five."""
    monkeypatch.setattr(fine_tuning, "EPOCHS", 4)
    monkeypatch.setattr(fine_tuning, "PLACES", 2)
    numbers = run("fine_tuning", tmp_path, steps=6)
    assert numbers["frozen"] > 0.36 and numbers["fine-tuned"] > numbers["from nothing"] + 0.05


@needs_keras
@pytest.mark.sweep
def test_what_is_frozen_helps_more_after_more_steps(tmp_path):
    numbers = run("fine_tuning", tmp_path, steps=12)
    assert numbers["frozen"] > 0.4 and numbers["fine-tuned"] > numbers["from nothing"] + 0.05


@needs_keras
def test_training_a_new_last_layer_leaves_a_frozen_base():
    import tvtf as tf

    features = fine_tuning.base()
    few = fine_tuning.parts(seed=0)[1]
    features.trainable = False
    model = fine_tuning.classifier(features)
    before = [weight.numpy() for weight in model.weights]
    fine_tuning.fit(model, few, rate=1e-2, epochs=1, test=few)
    same = [bool(tf.reduce_all(weight == old)) for weight, old in zip(model.weights, before, strict=True)]
    assert same == [True] * len(features.weights) + [False, False]


def tvtf(*args):
    return CliRunner().invoke(main, ["gallery", *map(str, args)])


def test_the_command_lists_programs_and_runs_one(tmp_path):
    listed = tvtf().output.splitlines()
    assert [line.split()[0] for line in listed] == sorted(gallery.programs())
    result = tvtf("gaussian_process", "--steps", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"written to {tmp_path}/gaussian_process.png\n")
    assert (tmp_path / "gaussian_process.png").is_file()


def test_an_unknown_program_and_a_missing_matplotlib_are_reported(monkeypatch, tmp_path):
    unknown = tvtf("gan2", "--out", tmp_path)
    assert (unknown.exit_code, unknown.stderr) == (
        1,
        f"Error: there is no program 'gan2'; there are {', '.join(gallery.programs())}\n",
    )
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    missing = tvtf("pinn", "--out", tmp_path / "new")
    assert (missing.exit_code, missing.stderr) == (1, f"Error: {pictures.MSG_MISSING}\n")
    assert not (tmp_path / "new").exists()


def test_the_guide_shows_each_program_with_its_picture():
    guide = (DOCS / "gallery.md").read_text()
    assert re.findall("^## ([a-z0-9_]+)$", guide, re.MULTILINE) == re.findall(
        r"^\| \[([a-z0-9_]+)\]", guide, re.MULTILINE
    )
    shown = re.findall(r"\((pictures/\w+\.png)\)", guide)
    programs = {f"pictures/{name}.png" for name in gallery.programs()}
    assert sorted(shown) == sorted(programs | {"pictures/keras_history.png"})
    assert {path.name for path in (DOCS / "pictures").iterdir()} == {Path(picture).name for picture in shown}
    assert all((DOCS / picture).stat().st_size < 60_000 for picture in shown)
    assert all((DOCS / path).is_file() for path in re.findall(r"\((\.\./models/[^)]+)\)", guide))
    assert set(re.findall("tvtf gallery ([a-z_]+)", guide)) <= set(gallery.programs())
