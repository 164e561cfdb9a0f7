"""The source documents' scripts print what they print under TensorFlow."""

import documents_support
import pytest

import tvtf as tf

CASES = [(document, cell) for document in documents_support.DOCUMENTS for cell in documents_support.cells(document)]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("documents")))
        return {document: documents_support.run(document, tf) for document in documents_support.DOCUMENTS}


@pytest.mark.parametrize("document, cell", CASES)
def test_a_cell_prints_what_it_prints_under_tensorflow(outputs, document, cell):
    found, expected = outputs[document][cell], documents_support.golden(document)[cell]
    assert documents_support.same(found, expected), f"expected\n{expected}\nfound\n{found}"
