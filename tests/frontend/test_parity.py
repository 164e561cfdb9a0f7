"""Programs do what TensorFlow does: its answers are committed, the oracle group takes them anew."""

import sys

import parity_support
import pytest

import tvtf as tf

ROOMS = [room for room in parity_support.ROOMS if room != "tensor"]  # tests/core/test_tensor.py has that one
CASES = [
    pytest.param(room, label, marks=[pytest.mark.sweep] if parity_support.in_sweep(room, label) else [])
    for room in ROOMS
    for label in parity_support.programs(room, tf)
]


@pytest.fixture(scope="module")
def rooms():
    return {room: (parity_support.programs(room, tf), parity_support.golden(room)) for room in ROOMS}


@pytest.mark.parametrize("room, label", CASES)
def test_tensorflow_says_the_same(rooms, room, label):
    programs, golden = rooms[room]
    answer = parity_support.answer(programs[label])
    if sys.version_info < (3, 11) and str(answer).startswith("ImportError: tvtf.keras"):
        pytest.skip("Keras 3.15 needs Python 3.11")
    assert answer == golden[label]
