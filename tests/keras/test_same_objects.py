"""``tf.optimizers``, ``tf.initializers``, ``tf.losses`` and ``tf.metrics`` are Keras's; checkpoints of tvtf's own optimizers load in them."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import tvtf as tf
from tvtf.api.namespaces import OF_KERAS
from tvtf.frontend.library import plain_optimizers

if sys.version_info < (3, 11):
    pytest.skip("Keras 3.15 needs Python 3.11", allow_module_level=True)

# Keras's variables have an __array__ that NumPy 2 finds too short.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
WITHOUT_KERAS = """
import importlib.machinery
path = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(lambda cls, name, *a: None if name == "keras" else path(name, *a))
import tvtf as tf
"""


def printed(program):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", OF_KERAS)
def test_the_namespace_is_that_of_keras(name):
    ours, keras = getattr(tf, name), getattr(tf.keras, name)
    assert ours is keras and importlib.import_module(f"tvtf.{name}") is keras and name in dir(tf)
    assert all(getattr(ours, each) is getattr(keras, each) for each in dir(keras))


def test_declared_names_do_not_lie_over_those_of_keras():
    importlib.import_module("tvtf.rng.keras_initializers")
    from tvtf.api.namespaces import install
    from tvtf.rng.keras_initializers import Ones

    install()
    assert tf.initializers.Ones is tf.keras.initializers.Ones is not Ones
    assert tf.optimizers.SGD is tf.keras.optimizers.SGD is not plain_optimizers.SGD


def test_modules_below_are_imported_as_those_of_keras():
    schedules = importlib.import_module("tvtf.optimizers.schedules")
    assert schedules is tf.keras.optimizers.schedules and schedules.__spec__.name == schedules.__name__
    with pytest.raises(ModuleNotFoundError, match="SGD"):
        importlib.import_module("tvtf.optimizers.SGD")


def test_they_are_those_of_the_copy_where_keras_means_another_backend():
    found = printed(
        "import os; os.environ['KERAS_BACKEND'] = 'jax'\n"
        "import sys, tvtf as tf, tvtf.losses\n"
        "print(tf.optimizers is tf.keras.optimizers, tvtf.losses is tf.keras.losses, tf.optimizers.SGD.__module__, 'keras' in sys.modules)"
    )
    assert found == ["True True tvtf.keras._copy.src.optimizers.sgd False"]


def test_threads_that_name_them_first_get_the_same():
    found = printed(
        """
import threading
import tvtf as tf
found = []
threads = [threading.Thread(target=lambda: found.append(tf.optimizers.Adam)) for _ in range(4)]
threads += [threading.Thread(target=lambda: found.append(__import__("tvtf.optimizers").optimizers.Adam)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(found)))
"""
    )
    assert found == ["8 1"]


def test_importing_tvtf_imports_no_keras():
    assert printed("import sys, tvtf; print('keras' in sys.modules, 'tvtf.keras' in sys.modules)") == ["False False"]


def test_without_keras_there_are_tvtfs_own_classes():
    found = printed(
        WITHOUT_KERAS
        + """
import tvtf.optimizers.schedules
from tvtf.initializers import Ones
print(tf.optimizers.SGD.__module__, tf.optimizers.schedules is tvtf.optimizers.schedules, Ones.__module__)
for name in ("losses", "metrics"):
    try:
        getattr(tf, name)
    except ImportError as error:
        print(error)
try:
    import tvtf.initializers.nothing
except ModuleNotFoundError as error:
    print(error)
"""
    )
    assert found == [
        "tvtf.frontend.library.plain_optimizers.sgd True tvtf.rng.keras_initializers",
        *2 * ["tvtf.keras is the package keras, which isn't installed: pip install 'tvtf[keras]'"],
        "No module named 'tvtf.initializers.nothing'",
    ]


# -- checkpoints

MAKERS = {
    "SGD": lambda library, rate: library.SGD(rate),
    "SGD with momentum": lambda library, rate: library.SGD(rate, momentum=0.9),
    "Adam": lambda library, rate: library.Adam(rate),
    "Adam with amsgrad": lambda library, rate: library.Adam(rate, amsgrad=True),
    "AdamW": lambda library, rate: library.AdamW(rate, weight_decay=0.1),
    "RMSprop": lambda library, rate: library.RMSprop(rate, momentum=0.5, centered=True),
}


class Trained:
    """Two Variables and what trains them."""

    def __init__(self, optimizer):
        self.variables = [tf.Variable([1.0, -2.0, 3.0], name="w"), tf.Variable(0.5, name="b")]
        self.optimizer = optimizer

    def train(self, steps):
        for _ in range(steps):
            gradients = [v * 0.3 + 0.1 for v in self.variables]
            self.optimizer.apply_gradients(zip(gradients, self.variables))

    def checkpoint(self):
        return tf.train.Checkpoint(optimizer=self.optimizer, w=self.variables[0], b=self.variables[1])

    def state(self):
        """The step counter, the learning rate, the slots in the order they were made, and the Variables."""
        return [np.asarray(v) for v in (*self.optimizer.variables, *self.variables)]


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for x, y in zip(found, expected):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("is_built", [True, False], ids=["built", "not built yet"])
@pytest.mark.parametrize("to_keras", [True, False], ids=["plain to Keras", "Keras to plain"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_checkpoint_of_either_loads_in_the_other(tmp_path, make, to_keras, is_built):
    libraries = [plain_optimizers, tf.keras.optimizers]
    source, target = libraries if to_keras else libraries[::-1]
    first = Trained(make(source, 0.05))
    first.train(3)
    path, saved = first.checkpoint().save(tmp_path / "ckpt"), first.state()
    second = Trained(make(target, 0.5))
    if is_built:
        second.optimizer.build(second.variables)
    second.checkpoint().restore(path)
    if not is_built:
        second.optimizer.build(second.variables)
    assert_equal(second.state(), saved)
    assert int(second.optimizer.iterations) == 3
    assert float(second.optimizer.learning_rate) == pytest.approx(0.05)
    first.train(2)
    second.train(2)
    for x, y in zip(second.state(), first.state()):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)
