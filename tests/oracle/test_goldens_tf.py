"""The committed answers equal those of TensorFlow."""

import golden_writer
import goldens
import pytest

pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")
pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def answers():
    with golden_writer.fresh_processes() as answers:
        yield answers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", golden_writer.SOURCES)
def test_a_golden_has_the_answers_of_tensorflow(answers, name):
    _, version, filters, found = answers(name)
    golden = goldens.stamped(name)
    assert goldens.is_target(version)
    assert filters == golden["filters"]
    differing = [label for label, one, other in pairs(found, golden["answers"]) if not same(name, one, other)]
    assert differing == []


def pairs(found, expected):
    """(label, answer, golden answer)."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        return [(label, found[label], expected[label]) for label in expected]
    return [(other[0], one, other) for one, other in zip(found, expected, strict=True)]


def same(name, found, expected):
    return golden_writer.SOURCES[name].same(found, expected)
