"""Mutants of every kind of file that tvtf reads: the right value or an error that names the file, in bounded memory."""

import file_formats
import pytest
from mutants import in_child


def test_damaged_files_are_rejected_by_name():
    assert in_child([], 10) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("name", file_formats.FORMATS)
def test_many_damaged_files_are_rejected_by_name(name):
    assert in_child([name], 250, seed=1) == {}
