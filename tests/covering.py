"""Combinations of parameters: the default suite runs a selection in which each value occurs, the sweeps run all."""

import itertools
from collections.abc import Container, Iterable, Mapping
from typing import Any

import pytest


def some(values: Iterable[Any], chosen: Container[Any]) -> list[Any]:
    """Marks as sweeps the values of a parameter that aren't among the chosen ones."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.sweep) for value in values]


def covering(*, shifts: int = 1, **factors: Mapping[str, Any] | Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrizes a test by all combinations of some factors, of which most are sweeps.

    The others take the n-th value of each factor, n = 0, 1, ..., beginning anew where a factor has no more: each value
    of each factor occurs. With more shifts, the second factor also begins one value later, the third two values, and so on.

    >>> covering(case={"small": 1, "large": 2}, target=["host"]).args[0]
    'case, target'

    Args:
      factors: for each parameter its values, or a dict of its values by their names in the test's id.
    """
    values = [f if isinstance(f, Mapping) else {str(value): value for value in f} for f in factors.values()]
    names = [list(each) for each in values]
    chosen = {
        tuple(own[(turn + shift * place) % len(own)] for place, own in enumerate(names))
        for turn in range(max(map(len, names)))
        for shift in range(shifts)
    }
    parameters = [
        pytest.param(
            *(each[name] for each, name in zip(values, combination, strict=True)),
            marks=[] if combination in chosen else [pytest.mark.sweep],
            id="-".join(combination),
        )
        for combination in itertools.product(*names)
    ]
    return pytest.mark.parametrize(", ".join(factors), parameters)
