"""Nested structures: what `map_structure` does if the mapped function changes the structure."""

import pytest

from tvtf.core import nest


def test_a_function_that_changes_the_structure_is_called_with_its_former_leaves():
    items = [1, 2, 3]

    def changing(x):
        items[2] = 9
        return x

    assert nest.map_structure(changing, items) == [1, 2, 3]
    growing, shrinking = [1, 2], [1, 2]
    with pytest.raises(ValueError, match="Structure had 4 atoms, but flat_sequence had 2 items"):
        nest.map_structure(lambda x: growing.append(x) or x, growing)
    with pytest.raises(ValueError, match="Structure had 0 atoms, but flat_sequence had 2 items"):
        nest.map_structure(lambda x: shrinking.clear() or x, shrinking)
