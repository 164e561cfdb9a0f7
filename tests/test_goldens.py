"""Golden answers: stamped with TensorFlow's version, no label without a program or the other way round, no idle filter."""

import json
import re
from pathlib import Path

import documents_support
import golden_filters
import golden_writer
import goldens
import parity_support
import pytest

import tvtf as tf

ROOT = Path(__file__).parents[1]
NAMES = list(golden_writer.SOURCES)


def test_every_golden_has_a_source_and_every_source_a_golden():
    assert sorted(path.name for path in goldens.FOLDER.iterdir()) == sorted(f"{name}.json" for name in NAMES)


@pytest.fixture(scope="module")
def contents():
    return {name: goldens.stamped(name) for name in NAMES}


def test_labels_are_those_of_the_programs(contents):
    labelled = {name: source.labels(tf) for name, source in golden_writer.SOURCES.items() if source.labels}
    for name, labels in labelled.items():
        assert list(contents[name]["answers"]) == labels, name


def test_the_version_is_the_one_that_the_project_installs():
    assert f'"tensorflow-cpu=={goldens.TENSORFLOW}.*"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"tensorflow": "2.20.1", "filters": [], "answers": {}}', "has answers of TensorFlow 2.20.1, not of 2.21"),
        ('{"tensorflow": "2.211.0", "filters": [], "answers": {}}', "has answers of TensorFlow 2.211.0, not of 2.21"),
        ('{"label": "answer"}', "doesn't say which version of TensorFlow"),
        ("[]", "doesn't say which version of TensorFlow"),
        (None, "is missing"),
    ],
)
def test_answers_of_another_version_are_rejected(monkeypatch, tmp_path, text, message):
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    if text is not None:
        (tmp_path / "some.json").write_text(text)
    with pytest.raises(goldens.GoldenError, match=rf"some\.json {re.escape(message)}.*`make goldens` writes it anew"):
        goldens.read("some")


def test_another_version_writes_no_answers(monkeypatch, tmp_path):
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    with pytest.raises(goldens.GoldenError, match="gives the answers, this is 2.20.0"):
        goldens.write("some", "2.20.0", [], {})
    goldens.write("some", "2.21.3", ["address"], {"a": 'b"\n'})
    assert goldens.read("some") == {"a": 'b"\n'}
    assert json.loads((tmp_path / "some.json").read_text())["filters"] == ["address"]


# -- filters


def test_every_filter_has_a_reason():
    every = [*golden_filters.TEXTS, *golden_filters.CLASSES, *golden_filters.LOOSER.values()]
    assert [each for each in every if not each.reason.endswith(".")] == []
    assert len({each.name for each in golden_filters.TEXTS}) == len(golden_filters.TEXTS)


def test_filters_of_tensorflows_texts_changed_some(contents):
    used = {name for each in contents.values() for name in each["filters"]}
    every = [*golden_filters.TEXTS, *golden_filters.CLASSES]
    assert {each.name for each in every if each.witness == "TensorFlow"} - used == set()
    assert used - {each.name for each in every} == set()


OWN = [each for each in (*golden_filters.TEXTS, *golden_filters.CLASSES) if ": " in each.witness]


@pytest.mark.parametrize("each", OWN, ids=lambda each: each.name)
def test_filters_of_own_texts_change_what_their_program_says(each):
    room, _, label = each.witness.partition(": ")
    golden_filters.USED.clear()
    parity_support.answer(parity_support.programs(room, tf)[label])
    assert each.name in golden_filters.USED


def test_filters_of_versions_change_their_examples():
    for each in golden_filters.TEXTS:
        if each.witness == "versions":
            before, after = each.example
            assert each.pattern.sub(each.replacement, before) == after, each.name


def test_names_left_out_of_random_calls_are_names():
    known = (ROOT / "tvtf" / "api" / "tensorflow_names.txt").read_text().split()
    beginnings = " ".join(golden_filters.CALLS_LEFT_OUT.values()).split()
    assert [b for b in beginnings if not any(n.startswith(b) for n in known)] == []
    assert [c for c in golden_filters.RANDOM_CALLS if not any(c in n for n in known)] == []
    assert [s for s in golden_filters.CALLS_OF_ANY_SIGN if not any(n.startswith(s) for n in known)] == []


def test_documents_differ_in_the_last_digits():
    """Text that differs in numbers alone is the same within the tolerance and not beyond."""
    looser = golden_filters.LOOSER["documents"]
    assert documents_support.same("loss: 1.0", f"loss: {1 + looser.relative}")
    assert not documents_support.same("loss: 1.0", f"loss: {1 + 4 * looser.relative}")
    assert not documents_support.same("loss: 1.0", "loss 1.0")
