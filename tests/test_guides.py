"""The guides on files, on trust, on Keras and on programs of TensorFlow run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def run(guide):
    (program,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    exec(compile(program, str(guide), "exec"), {})


def test_the_limit_is_raised_as_the_guide_tells(monkeypatch, capsys):
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "1")
    run(DOCS / "files.md")
    told, length = capsys.readouterr().out.splitlines()
    assert "the limit is 999999 bytes" in told and length == "1000000"


def test_a_damaged_library_is_refused_as_the_guide_tells(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run(DOCS / "trust.md")
    assert capsys.readouterr().out == (
        "damaged.so is damaged: its content has another digest than it had; compile it again\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
def test_a_model_of_keras_is_trained_and_saved_as_the_guide_tells(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run(DOCS / "keras.md")
    assert capsys.readouterr().out.split("\n")[:-1] == ["True", "(2, 1)", "True 2 16", "True True", *["True"] * 5, "1"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
def test_tensorflow_is_tvtf_as_the_guide_tells():
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "exec.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2.21.0\ntensorflow\nTrue\n[[1, 2], 3]\n"


def test_the_ir_is_as_the_guide_shows_it(tmp_path):
    """The guide's blocks are one file, whose lines the printed IR names; each is followed by what it prints."""
    pairs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", (DOCS / "ir.md").read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text("".join(program for program, _ in pairs))
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(printed for _, printed in pairs)
    assert (tmp_path / "timed.svg").read_text().startswith("<svg")
