"""Keras needs a newer Python than tvtf; its own warnings are no errors here."""

import sys

import pytest

collect_ignore_glob = ["test_*.py"] if sys.version_info < (3, 11) else []
FILTERS = (
    # Keras's variables have an __array__ that NumPy 2 finds too short.
    "ignore:__array__ implementation doesn't accept:DeprecationWarning",
    # The documents are of Keras 2.
    "ignore:Do not pass an `input_shape`:UserWarning",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if "keras" in item.path.parts:
            for text in FILTERS:
                item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Programs save to names without a folder."""
    monkeypatch.chdir(tmp_path)
