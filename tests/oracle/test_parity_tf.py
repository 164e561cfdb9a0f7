"""The committed answers are TensorFlow's own."""

import os

import documents_support
import parity_support
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("room", parity_support.ROOMS)
def test_answers(room):
    found = {label: parity_support.answer(program) for label, program in parity_support.programs(room, tf).items()}
    assert found == parity_support.golden(room)


@pytest.mark.parametrize("document", documents_support.DOCUMENTS)
def test_documents(document, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found, expected = documents_support.run(document, tf), documents_support.golden(document)
    assert [cell for cell in expected if not documents_support.same(found[cell], expected[cell])] == []
