"""The committed answers are TensorFlow's own."""

import os

import parity_support
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("room", parity_support.ROOMS)
def test_answers(room):
    found = {label: parity_support.answer(program) for label, program in parity_support.programs(room, tf).items()}
    assert found == parity_support.golden(room)
