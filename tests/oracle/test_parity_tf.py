"""The committed answers are TensorFlow's own. Documents come first: they show warnings that count all functions' traces."""

import os
import re

import documents_support
import parity_support
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

pytestmark = pytest.mark.oracle


def told(answer):
    """TensorFlow keeps the first zero scalar it makes: whether it shows a sign depends on what ran before."""
    return re.sub(r"-(0\.0*)(?!\d)", r"\1", answer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("document", documents_support.DOCUMENTS)
def test_documents(document, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found, expected = documents_support.run(document, tf), documents_support.golden(document)
    assert [cell for cell in expected if not documents_support.same(told(found[cell]), told(expected[cell]))] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("room", parity_support.ROOMS)
def test_answers(room):
    answers = parity_support.answers_of(room, tf)
    golden = parity_support.golden(room)
    assert answers.keys() == golden.keys()
    assert [label for label in golden if told(answers[label]) != told(golden[label])] == []
