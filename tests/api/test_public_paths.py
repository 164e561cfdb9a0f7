"""What users import, pickle and save keeps working when modules move inside the package.

The files in ``tests/former`` were written by the last version before the modules were put into
folders: every public path, pickles of public objects, a saved model and a checkpoint.
"""

import base64
import json
import pickle
import re
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import tvtf as tf

HERE = Path(__file__).parent / "former"
FORMER = json.loads((HERE / "paths_and_pickles.json").read_text())
ADDRESS = re.compile(" at 0x[0-9a-f]+")
OF_KERAS = ("initializers", "losses", "metrics", "optimizers")
MODULES = {
    "tvtf.dtypes": "FLOATING DType as_dtype",
    "tvtf.extend": "Evaluation Sample add_pass bind primitive reemit remove_pass table",
    "tvtf.errors": "NotFoundError OpError",
    "tvtf.interpret": "Evaluation reemit",
    "tvtf.nest": "flatten map_structure",
    "tvtf.onnx": "export",
    "tvtf.ops.rules": "batch_elementwise bind number scalar unary",
    "tvtf.passes": "add_pass gradient remove_pass to_dialect",
    "tvtf.primitive": "Sample primitive table",
    "tvtf.saved": "load save",
    "tvtf.saved.library": "read_description write",
    "tvtf.saved_model": "load save",
    "tvtf.tensor": "convert_to_tensor",
    "tvtf.version": "__version__",
}
"""Modules that the README and docs/ have people import, with the names that they use."""


@pytest.mark.parametrize("space", sorted(FORMER["paths"]))
def test_every_public_path_is_there(space):
    for name in FORMER["paths"][space].split():
        found = tf
        for part in [*space.split("."), name] if space else [name]:
            found = getattr(found, part)


@pytest.mark.parametrize(
    "space", sorted(set(FORMER["paths"]) - {"", *OF_KERAS, "experimental.extension_type", "optimizers.schedules"})
)
def test_every_namespace_is_imported_by_its_name(space):
    assert import_module(f"tvtf.{space}") is not None


@pytest.mark.parametrize("name", sorted(MODULES))
def test_documented_modules_are_imported_by_their_names(name):
    module = import_module(name)
    for each in MODULES[name].split():
        getattr(module, each)


@pytest.mark.parametrize("name", sorted(FORMER["pickles"]))
def test_former_pickles_load(name):
    loaded = pickle.loads(base64.b64decode(FORMER["pickles"][name]))
    again = pickle.loads(pickle.dumps(loaded))
    assert type(again) is type(loaded)
    assert ADDRESS.sub("", repr(again)) == ADDRESS.sub("", repr(loaded))


def test_loading_former_pickles_leaves_the_public_names_as_they_are():
    """A module's name must not take the place of ``tf.shape`` and its like; in a process where nothing was imported yet."""
    program = (
        "import base64, json, pickle, sys\n"
        "import tvtf as tf\n"
        "before = {name: getattr(tf, name) for name in tf.__all__}\n"
        f"for each in json.load(open({str(HERE / 'paths_and_pickles.json')!r}))['pickles'].values():\n"
        "    pickle.loads(base64.b64decode(each))\n"
        "assert all(getattr(tf, name) is value for name, value in before.items())\n"
        "assert tf.Tensor is type(tf.constant(1)).__mro__[1] and callable(tf.shape)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def former(tmp_path):
    with zipfile.ZipFile(HERE / "model.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_a_former_saved_model_runs(former):
    net = tf.saved_model.load(str(former / "model"))
    expected = FORMER["model"]
    np.testing.assert_allclose(net.run(tf.constant([[1.0, -1.0], [0.5, 2.0]]))["y"], expected["y"], rtol=1e-6)
    np.testing.assert_allclose(net.ragged(tf.ragged.constant([[1.0], [2.0, 3.0]])), expected["ragged"], rtol=1e-6)
    assert net.look(tf.constant(["b", "z"])).numpy().tolist() == expected["look"]
    assert float(net.any_rank(tf.constant([[3.0]]))) == expected["any_rank"]


def test_a_former_checkpoint_is_restored(former):
    net = tf.Module()
    net.w = tf.Variable(tf.zeros([2, 2]))
    tf.train.Checkpoint(net=net).read(str(former / "ckpt" / "c")).expect_partial()
    np.testing.assert_array_equal(net.w.numpy(), [[1.0, 2.0], [3.0, 4.0]])
