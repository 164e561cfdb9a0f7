"""The source documents' scripts print what they print under TensorFlow."""

import documents_support
import pytest

import tvtf as tf

CASES = [(document, cell) for document in documents_support.DOCUMENTS for cell in documents_support.cells(document)]
PENDING = {
    ("notes_tracking_function_checkpoint", "shapes in a loop"): "a set_shape that does not hold while it runs",
}
"""Cells that do not yet do what TensorFlow does, each with what is missing."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("documents")))
        return {document: documents_support.run(document, tf) for document in documents_support.DOCUMENTS}


def _marked(case):
    return pytest.param(*case, marks=pytest.mark.xfail(strict=True, reason=PENDING[case])) if case in PENDING else case


@pytest.mark.parametrize("document, cell", [_marked(case) for case in CASES])
def test_a_cell_prints_what_it_prints_under_tensorflow(outputs, document, cell):
    found, expected = outputs[document][cell], documents_support.golden(document)[cell]
    assert documents_support.same(found, expected), f"expected\n{expected}\nfound\n{found}"
