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
        "damaged.so is damaged: its digest does not match its content; compile it again\n"
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
