"""The selection of combinations that the default suite runs."""

from covering import covering

CASES, TARGETS = {"small": 1, "large": 2, "odd": 3}, ["host", "avx2"]


def by_default(mark):
    return [parameters.id for parameters in mark.args[1] if not parameters.marks]


def test_each_value_occurs_by_default_and_sweeps_have_all_combinations():
    mark = covering(case=CASES, target=TARGETS)
    assert mark.args[0] == "case, target"
    assert {parameters.id: parameters.values for parameters in mark.args[1]} == {
        f"{name}-{target}": (case, target) for name, case in CASES.items() for target in TARGETS
    }
    assert by_default(mark) == ["small-host", "large-avx2", "odd-host"]


def test_more_shifts_select_more_pairs():
    assert by_default(covering(shifts=2, left=range(3), right=range(3))) == ["0-0", "0-1", "1-1", "1-2", "2-0", "2-2"]
