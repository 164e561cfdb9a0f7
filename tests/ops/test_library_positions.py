"""Functions of random signatures keep the order of their arguments in Python, on the command line, and in C."""

import random

import numpy as np
import pytest
from click.testing import CliRunner
from library_support import c_runner, run_in_c

import tvtf as tf
from tvtf import saved
from tvtf.cli import main
from tvtf.saved import library

NAMES = [
    "q",
    "k",
    "b",
    "a",
    "Zebra",
    "apple",
    "x",
    "x_1",
    "x1",
    "x10",
    "x9",
    "x2",
    "rows",
    "inputs",
    "self_",
    "args_0",
    "_y",
]
DTYPES = ["float32", "int32", "float64", "int64", "uint8"]


class Drawn:
    """A function whose every result tells which argument it is made of, and arrays to call it with."""

    def __init__(self, seed):
        draw = random.Random(seed)
        names = draw.sample(NAMES, draw.randint(2, 12))
        dtypes = [draw.choice(DTYPES) for _ in names]
        positional = draw.randint(0, len(names) - 1)
        listed = [*names[:positional], *(["/"] if positional and draw.random() < 0.3 else []), *names[positional:]]
        results = ", ".join(f"{name} * {i + 2}" for i, name in enumerate(names))
        scope = {}
        exec(f"def f({', '.join(listed)}):\n    return {results}", scope)
        self.function = scope["f"]
        self.specs = [tf.TensorSpec([2], dtype) for dtype in dtypes]
        self.arrays = [np.array([2 * i + 1, 3], dtype) for i, dtype in enumerate(dtypes)]
        self.wanted = [array * np.array(i + 2, array.dtype) for i, array in enumerate(self.arrays)]

    def check(self, results, way):
        assert len(results) == len(self.wanted), way
        for found, wanted in zip(results, self.wanted):
            np.testing.assert_array_equal(found, wanted, err_msg=way)
            assert found.dtype == wanted.dtype, way


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return c_runner(tmp_path_factory.mktemp("runner"))


def by_command(model, names, results, arrays, folder):
    given, written = [], []
    for name, array in zip(names, arrays):
        np.save(folder / f"{name}.npy", array)
        given += ["--input", f"{name}={folder / name}.npy"]
    for name in results:
        written += ["--output", f"{name}={folder / name}_result.npy"]
    done = CliRunner().invoke(main, ["run", str(model), *given, *written])
    assert done.exit_code == 0, done.output
    return [np.load(folder / f"{name}_result.npy") for name in results]


def check_positions(seed, folder, runner):
    drawn = Drawn(seed)
    first = saved.load(saved.save(folder / "model", drawn.function, *drawn.specs))
    again = saved.load(saved.save(folder / "again", first.function))
    built = folder / "lib.so"
    library.write(again, built)
    names = [value.name for value in first.description.inputs]
    results = [value.name for value in first.description.outputs]
    assert names == [value.name for value in again.description.inputs]
    drawn.check(first.run(drawn.arrays), "loaded")
    drawn.check(again.run(drawn.arrays), "saved again")
    drawn.check(library.Library(built).run(drawn.arrays), "library")
    drawn.check([t.numpy() for t in first.function(*map(tf.constant, drawn.arrays))], "its function")
    for model in (folder / "model", built):
        drawn.check(by_command(model, names, results, drawn.arrays, folder), f"tvtf run {model.name}")
    if runner is not None:
        drawn.check(run_in_c(runner, built, drawn.arrays), "from C")
    module = tf.Module()
    module.f = tf.function(drawn.function, input_signature=drawn.specs)
    tf.saved_model.save(module, str(folder / "whole"))
    drawn.check([t.numpy() for t in tf.saved_model.load(str(folder / "whole")).f(*drawn.arrays)], "tf.saved_model")


@pytest.mark.parametrize("seed", range(6))
def test_arguments_of_a_drawn_signature_keep_their_positions(seed, tmp_path, runner):
    check_positions(seed, tmp_path, runner)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6, 200))
def test_arguments_of_many_drawn_signatures_keep_their_positions(seed, tmp_path, runner):
    check_positions(seed, tmp_path, runner)
