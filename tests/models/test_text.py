"""The character-level transformer: its text, its mask, and that it learns."""

import sysconfig
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tvtf as tf
from tvtf.models import stdlib
from tvtf.models import text as text_module
from tvtf.models.text import Text
from tvtf.models.training import Fit, Plan
from tvtf.models.transformer import Sizes, Transformer

TINY = Sizes(len(stdlib.LETTERS), context=8, width=16, heads=2, blocks=2)
TOKENS = stdlib.encode("def f(x):\n    return x\n" * 50)


def library(root, count=40):
    for index in range(count):
        (root / f"m{index}.py").write_text(f"x = {index}\n")
    (root / "test").mkdir()
    (root / "test" / "test_x.py").write_text("skipped")
    (root / "data.txt").write_text("skipped")
    return root


def test_files_are_split_by_path_into_text_and_held_out_text(tmp_path):
    library(tmp_path)
    names = [path.name for path in stdlib.files(tmp_path)]
    assert names == sorted(f"m{i}.py" for i in range(40))
    train, held_out = (stdlib.decode(tokens).split() for tokens in stdlib.load(tmp_path))
    numbers = [{int(word) for word in words if word.isdigit()} for words in (train, held_out)]
    assert numbers[0] | numbers[1] == set(range(40)) and not numbers[0] & numbers[1]
    assert numbers[1] == {i for i in range(40) if stdlib.is_held_out(f"m{i}.py")}


def test_this_pythons_library_is_there():
    root = Path(sysconfig.get_paths()["stdlib"])
    names = {path.relative_to(root).as_posix() for path in stdlib.files(root)}
    assert {"os.py", "json/decoder.py"} <= names and not any("site-packages" in name for name in names)


def test_a_library_without_sources_is_reported(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        stdlib.load(tmp_path / "python311.zip")
    assert str(caught.value) == (
        f"no sources of Python's standard library in {tmp_path}/python311.zip; use a Python that has them"
    )


def test_every_token_comes_back_and_others_are_one_letter():
    assert stdlib.decode(stdlib.encode(stdlib.LETTERS)) == stdlib.LETTERS
    assert stdlib.decode(stdlib.encode("\té\U0001f600~")) == "\ufffd\ufffd\ufffd~"


def test_no_position_sees_what_comes_after_it():
    model = Transformer(0, TINY)
    tokens = np.arange(8, dtype=np.int32)[None]
    changed = tokens.copy()
    changed[0, 5] = 50
    one, other = model(tf.constant(tokens)).numpy()[0], model(tf.constant(changed)).numpy()[0]
    np.testing.assert_array_equal(one[:5], other[:5])
    assert (np.abs(one[5:] - other[5:]).max(axis=-1) > 1e-6).all()


@pytest.fixture
def tiny(monkeypatch):
    """Texts that train in a moment."""
    monkeypatch.setattr(text_module, "Sizes", lambda symbols: TINY)
    monkeypatch.setattr(text_module, "BATCH", 16)
    monkeypatch.setattr(text_module, "STEPS", 30)
    monkeypatch.setattr(text_module, "EVALUATED", 64)
    monkeypatch.setattr(Text, "steps", 30)
    monkeypatch.setattr(Text, "batch", 16)
    return lambda: Text(0, (TOKENS, TOKENS[:400]))


def test_it_learns_and_samples(tiny, tmp_path):
    text = tiny()
    before = text.bits_per_character()
    Fit(text, Plan(tmp_path, epochs=3), Console(quiet=True)).run()
    assert before > 6 and text.bits_per_character() < 2.5
    sample = text.sample("def", 20)
    assert sample.startswith("def") and len(sample) == 23 and sample == text.sample("def", 20)


def test_a_stopped_run_resumes_bit_for_bit(tiny, tmp_path):
    for name, plans in {"whole": [{}], "parts": [{"stop_after": 1}, {"resume": True}]}.items():
        for plan in plans:
            Fit(tiny(), Plan(tmp_path / name, epochs=2, **plan), Console(quiet=True)).run()
    assert (tmp_path / "parts" / "losses.csv").read_text() == (tmp_path / "whole" / "losses.csv").read_text()
