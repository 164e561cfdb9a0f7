"""Random calls have the same outcome under TensorFlow and tvtf, and functions the same parameters."""

import inspect
import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

import golden_filters  # noqa: E402
import random_calls  # noqa: E402 - after the group's condition

import tvtf  # noqa: E402

pytestmark = pytest.mark.oracle


def parameters(tf, name):
    each = inspect.signature(random_calls.found(tf, name)).parameters.values()
    return [(p.name, p.kind, p.default is p.empty) for p in each]


@pytest.mark.filterwarnings("ignore")
def test_parameters():
    own = [n for n in random_calls.names() if parameters(tf, n) != parameters(tvtf, n)]
    assert own == list(golden_filters.CALLS_OWN_PARAMETERS)


def test_outcomes():
    """What TensorFlow takes has its values, shapes and dtypes here; how it refuses may differ in one call of eight."""
    calls = list(random_calls.differences(seed=0, count=100))
    assert len(calls) > 90
    message = [(each["kind"], each["call"], each["how"]) for each in calls if each["how"]]
    errors = [each for each in message if each[2].startswith(("type", "takes"))]
    assert [each for each in message if each not in errors] == []
    assert len(errors) <= golden_filters.CALLS_WITH_OTHER_ERRORS, errors
