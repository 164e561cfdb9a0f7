"""Programs do what TensorFlow does: its answers are committed, the oracle group takes them anew."""

import parity_support
import pytest

import tvtf as tf

ROOMS = [room for room in parity_support.ROOMS if room != "tensor"]  # tests/core/test_tensor.py has that one
CASES = [(room, label) for room in ROOMS for label in parity_support.programs(room, tf)]


@pytest.fixture(scope="module")
def rooms():
    return {room: (parity_support.programs(room, tf), parity_support.golden(room)) for room in ROOMS}


@pytest.mark.parametrize("room, label", CASES)
def test_tensorflow_says_the_same(rooms, room, label):
    programs, golden = rooms[room]
    assert parity_support.answer(programs[label]) == golden[label]
