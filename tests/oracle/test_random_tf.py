"""The goldens of random numbers and optimizers are what TensorFlow and Keras give."""

import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.oracle


def program(path):
    return SimpleNamespace(**runpy.run_path(str(TESTS / path)))


def test_random_sequences():
    programs = program("ops/random_programs.py")
    assert programs.recorded(tf) == programs.golden()


def test_optimizers():
    programs = program("optimizer_programs.py")
    for (name, values), (golden_name, expected) in zip(programs.results(tf), programs.golden(), strict=True):
        assert name == golden_name
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)
