"""``tvtf exec`` and ``tvtf.as_tensorflow``: programs written for TensorFlow, as they are."""

import os
import subprocess
import sys

import numpy as np
import pytest
from fork_server import ForkServer

import tvtf as tf
from tvtf import private

needs_keras = pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")


def run(folder, *args, **env):
    command = [sys.executable, "-m", "tvtf", "exec", *args]
    places = os.pathsep.join(path for path in (os.getcwd(), os.environ.get("PYTHONPATH", "")) if path)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places, **env}
    )


PROGRAM = """
import os, runpy
os.chdir({folder!r})
sys.argv, sys.path[0] = ["tvtf", "exec", *{arguments!r}], {folder!r}
runpy.run_module("tvtf", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def server():
    with ForkServer("import sys, tvtf.cli") as started:
        yield started


@pytest.fixture
def printed(server, tmp_path):
    """Runs a program by ``tvtf exec``, in a process of its own, and gives the lines that it prints."""

    def run_program(source, *args, **env):
        (tmp_path / "program.py").write_text(source)
        arguments = ["program.py", *args]
        if env:
            done = run(tmp_path, *arguments, **env)
        else:
            done = server.run(PROGRAM.format(folder=str(tmp_path), arguments=arguments), tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run_program


def test_a_program_is_main_with_its_own_arguments_and_folder(printed, tmp_path):
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    lines = printed(
        "import sys, beside\nprint(__name__, sys.argv, beside.NAME, sys.modules['__main__'].beside is beside)\n"
        "print(__file__ == sys.path[0] + '/program.py', __spec__, __package__)",
        *("-m", "--help", "a b"),
    )
    assert lines == ["__main__ ['program.py', '-m', '--help', 'a b'] beside True", "True None None"]


def test_tensorflow_is_tvtf_in_it(printed):
    lines = printed(
        """
import pickle
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf2
import tensorflow.math
from tensorflow.python.framework import ops
print(tf.__version__, tf2 is tf, tf1.Session.__name__, tensorflow is tf, tf.math.__name__, tf.math is tensorflow.math)
values = [tf.constant([1, 2]), tf.float32, tf.TensorShape([1]), tf.TensorSpec([1]), tf.ragged.constant([[1], [2, 3]])]
print({type(x).__module__.partition(".")[0] for x in values}, isinstance(values[0], ops.EagerTensor))
print([str(pickle.loads(pickle.dumps(x))) for x in values[1:4]], pickle.loads(pickle.dumps(tf.RaggedTensor)) is tf.RaggedTensor)
print(tf.function(lambda x: {type(x).__module__.partition('.')[0]: x + 1})(tf.constant(1)))
""",
    )
    assert lines == [
        "2.21.0 True Session True tensorflow.math True",
        "{'tensorflow'} True",
        "[\"<dtype: 'float32'>\", '(1,)', 'TensorSpec(shape=(1,), dtype=tf.float32, name=None)'] True",
        "{'tensorflow': <tf.Tensor: shape=(), dtype=int32, numpy=2>}",
    ]


def test_every_module_names_the_same_version(printed):
    lines = printed(
        """
import tensorflow as tf
import tensorflow.compat.v1 as tf1
print(tf.__version__, tf.version.VERSION, tf1.__version__, tf1.VERSION, tf1.version.VERSION)
print(tf.version.GIT_VERSION, tf1.GIT_VERSION, tf1.version.GIT_VERSION)
""",
    )
    assert lines == [" ".join(["2.21.0"] * 5), " ".join(["v2.21.0"] * 3)]


def test_metadata_of_the_package_tensorflow(printed):
    lines = printed(
        """
from importlib import metadata
print(metadata.version("tensorflow"), [each.version for each in metadata.distributions(name="tensorflow")])
print(metadata.metadata("tensorflow")["Name"], metadata.version("numpy") > "1", metadata.files("tensorflow"))
""",
    )
    assert lines == ["2.21.0 ['2.21.0']", "tensorflow True None"]


def test_private_slices_of_xla_and_names_of_tpus(printed):
    lines = printed(
        """
import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_slice, dynamic_update_slice
from tensorflow.python.tpu import embedding_context_utils, tpu_function
from tensorflow.python.tpu.datasets import StreamingFilesDataset
x = tf.reshape(tf.range(12), [3, 4])
print(dynamic_slice(x, (1, 2), (2, 1)).numpy().tolist())
print(tf.function(lambda i: dynamic_slice(x, (-5, i), [3, 2]))(tf.constant(9)).numpy().tolist())
print(dynamic_update_slice(x, [[5]], (2, 9)).numpy().tolist())
with embedding_context_utils.SequentialEmbeddingContext():
    print(tpu_function.get_tpu_context().number_of_shards)
try:
    StreamingFilesDataset("files")
except NotImplementedError as error:
    print(error)
""",
    )
    assert lines == [
        "[[6], [10]]",
        "[[2, 3], [6, 7], [10, 11]]",
        "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 5]]",
        "None",
        "tvtf has no StreamingFilesDataset: tvtf compiles for CPUs and CUDA GPUs",
    ]


def test_private_combinations_run_a_test_for_each_strategy_and_mode(printed):
    program = """
import unittest

import tensorflow as tf
from absl.testing import parameterized
from tensorflow.python.distribute import combinations, strategy_combinations

ran = []


class Tests(parameterized.TestCase, tf.test.TestCase):
    @combinations.generate(
        combinations.combine(
            distribution=[
                strategy_combinations.one_device_strategy,
                strategy_combinations.mirrored_strategy_with_two_gpus,
                strategy_combinations.cloud_tpu_strategy,
            ],
            mode=["eager", "graph"],
        )
    )
    def test_strategy(self, distribution):
        ran.append((self.id().rpartition(".")[2], type(distribution).__name__, tf.executing_eagerly()))

    @combinations.generate(combinations.times(combinations.combine(a=[1, 2.5]), combinations.combine(b="x")))
    def test_times(self, a, b):
        ran.append((self.id().rpartition(".")[2], a, b))

    @combinations.generate(combinations.combine(a=[1]))
    def test_without(self, b):
        pass


@combinations.generate(combinations.combine(mode=["graph", "eager"]))
class Modes(parameterized.TestCase, tf.test.TestCase):
    def test_mode(self):
        ran.append((self.id().rpartition(".")[2], tf.executing_eagerly()))


result = unittest.TestResult()
for case in (Tests, Modes):
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
print(*sorted(ran), sep="\\n")
print(*sorted({reason for _, reason in result.skipped}), sep="\\n")
print(*(text.splitlines()[-1] for _, text in result.errors))
"""
    assert printed(program) == [
        "('test_mode_test_mode_eager', True)",
        "('test_mode_test_mode_graph', False)",
        "('test_strategy_test_distribution_OneDeviceCPU_mode_eager', 'OneDeviceStrategy', True)",
        "('test_strategy_test_distribution_OneDeviceCPU_mode_graph', 'OneDeviceStrategy', False)",
        "('test_times_test_a_1_b_x', 1, 'x')",
        "('test_times_test_a_25_b_x', 2.5, 'x')",
        "Not a test.",
        "Only 0 of 2 required GPUs are available.",
        "Test requires a TPU, but it's not available.",
        "ValueError: The test requires parameters whose arguments were not passed: {'b'} .",
    ]


def test_private_freezing_of_variables(printed):
    lines = printed(
        """
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

class Model(tf.Module):
    def __init__(self):
        self.w = tf.Variable([[1.0], [2.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def __call__(self, x, by=2.0):
        return {"y": tf.matmul(x, self.w) * by}

model = Model()
concrete = model.__call__.get_concrete_function()
frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
model.w.assign([[0.0], [0.0]])
print(len(frozen.inputs), len(frozen.outputs), len(concrete.inputs))
print([y.numpy().tolist() for y in frozen(tf.ones([1, 2]))], [y.numpy().tolist() for y in frozen(x=tf.ones([2, 2]))])
_, graph_def = convert_to_constants.convert_variables_to_constants_v2_as_graph(concrete)
print(any(node.op == "MatMul" for node in graph_def.node))
""",
    )
    assert lines == ["1 1 2", "[[[6.0]]] [[[6.0], [6.0]]]", "True"]


def test_private_evaluation_finds_what_depends_on_constants_alone(printed):
    lines = printed(
        """
import tensorflow as tf
from tensorflow.python.framework import tensor_util

@tf.function
def f(x):
    place = tf.where(tf.constant(-1) < 0, tf.constant(3) - 1, -1)
    for tensor in (place, tf.range(place), place + x, tf.rank(x) + 1):
        print(tensor_util.try_evaluate_constant(tensor), end=" ")
    return x

f(tf.constant(1))
""",
    )
    assert lines == ["2 [0 1] None 1 "]


@needs_keras
def test_keras_is_the_one_on_tvtf(printed):
    lines = printed(
        """
import keras
import tensorflow as tf
from tensorflow.keras import layers
import tensorflow.keras.layers as again
import tvtf
print(keras.layers.Dense is layers.Dense is again.Dense, tf.keras is tvtf.keras, keras.backend.backend())
print(type(keras.ops.ones(2)).__module__.partition(".")[0])
keras.backend.clear_session()
print(keras.layers.Dense(2).name)
""",
    )
    assert lines == ["True True tensorflow", "tensorflow", "dense"]


@needs_keras
def test_modules_of_keras_that_its_package_does_not_import(printed):
    """As in TensorFlow 2.21, ``saving`` is no attribute of ``tf.keras`` until somebody imports it."""
    lines = printed(
        """
import keras
import tensorflow as tf
print(hasattr(tf.keras, "saving"))
from tensorflow.keras.saving import load_model, register_keras_serializable
from tensorflow.keras import saving
import tensorflow.keras.saving as again
print(saving is again is tf.keras.saving, load_model is keras.saving.load_model)
for name in ("nothing", "saving.nothing", "src"):
    try:
        __import__(f"tensorflow.keras.{name}")
    except ModuleNotFoundError as error:
        print(error.name)
""",
    )
    assert lines == [
        "False",
        "True True",
        *(f"tensorflow.keras.{name}" for name in ("nothing", "saving.nothing", "src")),
    ]


@needs_keras
def test_a_backend_that_was_chosen_keeps_keras(tmp_path):
    program = (
        "import keras, tensorflow as tf\nprint(keras.backend.backend(), tf.keras.backend.backend(), keras is tf.keras)"
    )
    (tmp_path / "jax.py").write_text("raise ImportError('the one that was chosen')")
    (tmp_path / "program.py").write_text(program)
    assert "the one that was chosen" in run(tmp_path, "program.py", KERAS_BACKEND="jax").stderr


def test_a_module_is_run_as_python_does(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("NAME = 'other'")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import other\nimport tensorflow as tf\n"
        "print(sys.argv[0] == __file__, sys.argv[1:], __package__, __spec__.name, other.NAME, tf.__version__)"
    )
    assert run(tmp_path, "-m", "package", "--help", "-x").stdout == (
        "True ['--help', '-x'] package package.__main__ other 2.21.0\n"
    )
    assert run(tmp_path, "-mpackage.other").returncode == 0
    assert run(tmp_path, "package").stderr.splitlines()[-1].startswith("ImportError: attempted relative import")


def test_exit_codes_and_tracebacks_are_pythons(tmp_path):
    for source, code in (("import sys; sys.exit(7)", 7), ("raise SystemExit('why')", 1), ("1 / 0", 1), ("x = (", 1)):
        (tmp_path / "program.py").write_text(source)
        plain = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        done = run(tmp_path, "program.py")
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr == plain.stderr


def test_what_is_missing_is_reported_in_a_line(tmp_path):
    assert run(tmp_path, "nowhere.py").stderr == (
        f"Error: can't open file '{tmp_path}/nowhere.py': No such file or directory\n"
    )
    assert run(tmp_path, "-m", "nowhere").stderr == "Error: No module named 'nowhere'\n"
    assert run(tmp_path, "-m").stderr.splitlines()[-1] == "Error: Option '-m' requires an argument."
    assert "Missing argument 'SCRIPT'" in run(tmp_path).stderr
    (tmp_path / "program.py").write_text("import tensorflow.python.no_such_module")
    assert run(tmp_path, "program.py").stderr.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'tensorflow.python.no_such_module'"
    )


def test_tensorflow_that_is_imported_already_stays(tmp_path):
    (tmp_path / "tensorflow.py").write_text("__version__ = '2.0'")
    program = "import tensorflow, tvtf as tf\ntry: tf.as_tensorflow()\nexcept ImportError as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])},
    )  # fmt: skip
    assert done.stdout.startswith("TensorFlow 2.0 is imported already") and "as_tensorflow() before" in done.stdout


def test_installing_twice_changes_nothing(tmp_path):
    program = """
import sys, tvtf
first = tvtf.as_tensorflow()
before = list(sys.meta_path)
print(tvtf.as_tensorflow() is first, sys.meta_path == before, sys.modules["tensorflow"] is first)
import importlib, tensorflow
print(importlib.reload(tensorflow) is first, tensorflow.reduce_sum([1, 2]).numpy())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True True\nTrue 3\n"


def test_every_private_name_is_imported(printed):
    lines = printed(
        """
import importlib
from tvtf import private
places = {path: list(own) for path, own in private.names().items()} | {path: [] for path in private.BEHIND if path not in private.names()}
missing = []
for path, names in places.items():
    package, _, last = f"tensorflow.{path}".rpartition(".")
    module = importlib.import_module(f"{package}.{last}")
    missing += [f"{path}.{name}" for name in names if not hasattr(module, name)]
    scope = {}
    exec(f"from {package} import {last} as found", scope)
    for name in names:
        exec(f"from tensorflow.{path} import {name}", scope)
    if scope["found"] is not module:
        missing.append(path)
print(missing, len(places) > 100, sum(map(len, places.values())) > 200)
""",
    )
    assert lines == ["[] True True"]


def test_the_modules_of_protocol_buffers_are_tensorboards(printed):
    lines = printed(
        """
import tensorflow.core.framework.graph_pb2 as graph_pb2
from tensorflow.core.framework import summary_pb2
from tensorflow.core.util import event_pb2
import tensorflow as tf
print(event_pb2.Event(step=3).step, graph_pb2.GraphDef is tf.compat.v1.GraphDef, summary_pb2.Summary is tf.compat.v1.Summary)
try:
    import tensorflow.core.util.nothing_pb2
except ModuleNotFoundError as error:
    print(error.name)
""",
    )
    assert lines == ["3 True True", "tensorflow.core.util.nothing_pb2"]


@pytest.fixture
def another_tf_keras(tmp_path):
    """Makes a package tf_keras, which is no dependency, with the names of the modules that TensorFlow takes from it."""
    for module, names in {
        "": "",
        "api": "",
        "api/_v1": "",
        "api/_v1/keras": "from . import layers\nVERSION = 1",
        "api/_v1/keras/layers": "Dense = 'a layer of version 1'",
        "api/_v2": "",
        "api/_v2/keras": "from . import layers, optimizers\nVERSION = 2",
        "api/_v2/keras/layers": "Dense = 'a layer'",
        "api/_v2/keras/optimizers": "Adam = 'an optimizer'",
        "api/_v2/keras/saving": "load_model = 'a loader'",
    }.items():
        folder = tmp_path / "tf_keras" / module
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(names)


@pytest.mark.parametrize("set_by_program", [False, True])
def test_keras_2_is_tf_keras_where_the_environment_says_so(printed, another_tf_keras, set_by_program):
    """The program may still set the environment when it has imported TensorFlow: it is read at the first use of Keras."""
    program = """
import os
import sys
import tensorflow as tf
if sys.argv[1:]:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
print("tf_keras" in sys.modules)
import tensorflow.compat.v1 as tf1
import tensorflow.keras.optimizers
from tensorflow import keras
from tensorflow.keras.layers import Dense
from tensorflow.compat.v1.keras import layers as layers_of_1
print(tf.keras is keras, keras.VERSION, Dense, layers_of_1.Dense, tf1.keras.VERSION)
print(tensorflow.keras.optimizers is tf.keras.optimizers, tf.optimizers.Adam, "layers" in dir(tf.keras))
from tensorflow.compat.v2.keras import *
print(layers.Dense, VERSION)
from tensorflow.keras.saving import load_model  # a module that its package doesn't import
print(load_model)
"""
    lines = printed(program, "set") if set_by_program else printed(program, TF_USE_LEGACY_KERAS="1")
    assert lines == [
        "False",
        "True 2 a layer a layer of version 1 1",
        "True an optimizer True",
        "a layer 2",
        "a loader",
    ]


def test_all_names_of_a_module_are_imported(printed):
    program = """
from tensorflow.math import *
print(abs(-1.0).numpy(), reduce_sum([1, 2]).numpy())
from tensorflow import *  # `print`, too
import sys
sys.stdout.write(f"{int(constant(3))} {int(math.add(1, 2))}")
"""
    assert printed(program) == ["1.0 3", "3 3"]


def test_keras_2_makes_its_session_of_the_contexts_configuration(printed):
    program = """
import tensorflow.compat.v1 as tf
from tensorflow.python.eager.context import get_config
tf.disable_eager_execution()
config = get_config()
config.allow_soft_placement = True  # as the package tf_keras does
print(tf.inside_function(), tf.Session(config=config).run(tf.constant(1)))
"""
    assert printed(program) == ["False 1"]


def test_names_that_keras_2_exports_and_saves(printed):
    """Exported as in the package tf_keras, which is no dependency, and looked up as where it writes configurations."""
    program = """
import types
import tensorflow as tf
from tensorflow.python.util import tf_export

@tf_export.keras_export("keras.layers.Twice", "keras.Twice", v1=["keras.layers.TwiceV1"])
class Twice: ...

class Derived(Twice): ...

@tf_export.keras_export("keras.activations.serialize")
def serialize(activation, use_legacy_format=False):
    return activation.__name__ if isinstance(activation, types.FunctionType) else None

print(tf_export.get_canonical_name_for_symbol(Twice, api_name="keras"))
print([tf_export.get_canonical_name_for_symbol(c, api_name="keras") for c in (Derived, tf.constant_initializer)])
print(tf_export.get_canonical_name_for_symbol(tf.nn.relu), tf_export.get_canonical_name_for_symbol(Twice))
names = "keras.Twice", "compat.v1.keras.layers.TwiceV1", "nn.relu", "keras.layers.TwiceV1"
print([tf_export.get_symbol_from_name(name) for name in names] == [Twice, Twice, tf.nn.relu, None])
print(serialize(tf.nn.relu), serialize(lambda x: x))
print(tf.constant_initializer.__name__, tf.zeros_initializer.__name__, tf.random_normal_initializer.__name__)
"""
    assert printed(program) == [
        "keras.layers.Twice",
        "[None, None]",
        "nn.relu None",
        "True",
        "relu <lambda>",
        "Constant Zeros RandomNormal",
    ]


def test_private_names_of_tensorflow_that_keras_2_uses(printed, tmp_path):
    """Modules that name what those of the package tf_keras name, which is no dependency, and use it as they do."""
    (tmp_path / "tensors.py").write_text(
        """
import tensorflow.compat.v2 as tf
from tensorflow.python.ops.ragged import ragged_util
from tensorflow.python.util import dispatch
from tensorflow.python.util.tf_export import get_symbol_from_name, keras_export
from tensorflow.tools.docs import doc_controls

keras_export("keras.__version__").export_constant(__name__, "__version__")


@keras_export("keras.Later")
class Later:
    '''A tensor that is known later: what is done to it is told.'''

    def __init__(self, told):
        self.told = told


for operator in tf.Tensor.OVERLOADABLE_OPERATORS:
    setattr(Later, operator, getattr(tf.Tensor, operator))


class RecordingDispatcher(tf.__internal__.dispatch.GlobalOpDispatcher):
    def handle(self, op, args, kwargs):
        found = [x for x in tf.nest.flatten([args, kwargs]) if isinstance(x, Later)]
        return Later(f"{op.__name__}({found[0].told})") if found else self.NOT_SUPPORTED


RecordingDispatcher().register()


@doc_controls.do_not_generate_docs
@tf.__internal__.dispatch.add_dispatch_support
def loss(y_true, y_pred):
    return tf.reduce_mean(tf.square(y_true - y_pred), -1)


@dispatch.dispatch_for_types(loss, tf.RaggedTensor)
def ragged_loss(y_true, y_pred):
    assert len(ragged_util.assert_splits_match([y_true.nested_row_splits, y_pred.nested_row_splits])) == 1
    return loss(y_true.flat_values, y_pred.flat_values)
"""
    )
    (tmp_path / "layers.py").write_text(
        """
import weakref
import tensorflow.compat.v2 as tf
from tensorflow.python.platform import tf_logging
from tensorflow.python.trackable import base
from tensorflow.python import tf2

tracking = tf.__internal__.tracking
super_setattr = super(tracking.AutoTrackable, tracking.AutoTrackable).__setattr__


class Layer(tf.Module):
    def __setattr__(self, name, value):
        value = tracking.sticky_attribute_assignment(trackable=self, value=value, name=name)
        super(tracking.AutoTrackable, self).__setattr__(name, value)

    def add_weight(self, name, shape):
        return self._add_variable_with_custom_getter(
            name=name, shape=shape, getter=lambda name, shape, **_: tf.Variable(tf.zeros(shape), name=name), overwrite=True
        )

    def __call__(self, x):
        control = tf.__internal__.autograph.control_status_ctx()
        return tf.__internal__.autograph.tf_convert(self.call, control)(x)


class Counting(Layer):
    def __init__(self):
        super().__init__()
        self.parts = [self.add_weight("total", [2])]
        self._checkpoint = tf.train.Checkpoint(root=weakref.ref(self))

    def call(self, x):
        if tf.reduce_sum(x) > 0.0:
            x += 1.0
        self.parts[0].assign_add(x)
        return tf.compat.v1.get_default_graph().get_operations()[-1].name != "", x
"""
    )
    lines = printed(
        """
import pickle
import tensorflow.compat.v2 as tf
import layers, tensors
from tensors import Later
x = Later("x")
print(tf.square(x).told, (x + 1.0).told, tf.concat([x, x], 0).told, tf.reduce_sum(x, axis=1).told)
print(tensors.get_symbol_from_name("nn.relu") is tf.nn.relu, tensors.get_symbol_from_name("no.such"))
print(tensors.loss(tf.constant([1.0, 2.0]), [1.0, 4.0]).numpy())
print(tensors.loss(*(tf.ragged.constant([[1.0], [last]]) for last in (2.0, 4.0))).numpy())
decorated = tf.__internal__.decorator.make_decorator(len, lambda *a: 0)
decorators, target = tf.__internal__.decorator.unwrap(decorated)
print(target is len, decorators[0].decorator_argspec, tf.__internal__.decorator.unwrap(Later)[1] is Later)
try:
    tf.square(object())
except (TypeError, ValueError) as error:
    print(type(error).__name__)

layer = layers.Counting()
step = tf.function(lambda x: layer(x)[1])
print(step(tf.ones(2)).numpy(), layer.parts[0].numpy(), isinstance(layer.parts, layers.tracking.TrackableDataStructure))
path = layer._checkpoint.write("saved/weights")
tf.__internal__.train.update_checkpoint_state(
    save_dir="saved", model_checkpoint_path=path, save_relative_paths=True, all_model_checkpoint_paths=[path]
)
layer.parts[0].assign([7.0, 7.0])
layer._checkpoint.read(tf.train.latest_checkpoint("saved")).assert_nontrivial_match()
print(layer.parts[0].numpy())
found, paths = layers.tracking.ObjectGraphView(layer).breadth_first_traversal()
print(found[0] is layer, [edge.name for edge in paths[layer.parts[0]]])
options = tf.data.Options()
options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
print(tf.distribute.get_strategy()._should_use_with_coordinator, tf.distribute.get_strategy().extended.variable_created_in_scope(layer.parts[0]))
graph = tf.__internal__.FuncGraph("scratch")
with graph.as_default():
    print(tf.compat.v1.get_default_graph() is graph, graph.unique_name("a"), tf.ones(2).graph is graph)
    print(len(graph.get_operations()), graph._get_control_flow_context())
print(pickle.loads(pickle.dumps([tf, tf.nn])) == [tf, tf.nn])
print(tf.__internal__.ops.broadcast_weights([[1.0], [2.0]], tf.ones([2, 2])).numpy().tolist(), tf.__internal__.get_name_scope() == "")
""",
    )
    assert lines == [
        "square(x) add(x) concat(x) reduce_sum(x)",
        "True None",
        "2.0",
        "2.0",
        "True None True",
        "ValueError",
        "[2. 2.] [2. 2.] True",
        "[2. 2.]",
        "True ['total']",
        "False True",
        "True a True",
        "1 None",
        "True",
        "[[1.0, 1.0], [2.0, 2.0]] True",
    ]


ADAM = {"beta1_power": 0.5, "beta2_power": 0.75, "lr": 0.5, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.0}
FTRL = {"lr": 0.5, "l1": 0.25, "l2": 0.125, "lr_power": -0.5}
UPDATES = [
    ("ResourceApplyGradientDescent", "", {"alpha": 0.5}, [-1.0, 0.0]),
    ("ResourceApplyKerasMomentum", "accum", {"lr": 0.5, "momentum": 0.5}, [-1.5, -0.5]),
    ("ResourceApplyKerasMomentum", "accum", {"lr": 0.5, "momentum": 0.5, "use_nesterov": True}, [-2.25, -1.25]),
    ("ResourceApplyAdagradV2", "accum", {"lr": 0.5, "epsilon": 1.0}, [0.40546274, 1.4054627]),
    ("ResourceApplyRMSProp", "ms mom", {"lr": 0.5, "rho": 0.5, "momentum": 0.5, "epsilon": 0.0}, [-0.63801, 0.3619895]),
    (
        *("ResourceApplyCenteredRMSProp", "mg ms mom"),
        *({"lr": 0.5, "rho": 0.5, "momentum": 0.5, "epsilon": 0.25}, [-1.3416408, -0.3416408]),
    ),
    ("ResourceApplyAdam", "m v", ADAM, [-0.06694674, 0.9330533]),
    ("ResourceApplyAdamWithAmsgrad", "m v vhat", ADAM, [-0.06694674, 0.9330533]),
    (
        *("ResourceApplyAdaMax", "m v"),
        *({"beta1_power": 0.5, "lr": 0.5, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.25}, [-0.1111111, 0.8888889]),
    ),
    (
        *("ResourceApplyAdadelta", "accum accum_update"),
        *({"lr": 0.5, "rho": 0.5, "epsilon": 0.25}, [0.2854854, 1.2854854]),
    ),
    ("ResourceApplyFtrl", "accum linear", FTRL, [0.073175, 1.0143515]),
    ("ResourceApplyFtrl", "accum linear", FTRL | {"lr_power": -0.75}, [0.3719216, 1.3295978]),
    ("ResourceApplyFtrl", "accum linear", FTRL | {"l1": 20.0}, [0.0, 0.0]),
    ("ResourceApplyFtrlV2", "accum linear", FTRL | {"l2_shrinkage": 0.5}, [-0.1073472, 0.3943855]),
]
OF_ROWS = [
    ("KerasMomentum", "accum", {"lr": 0.5, "momentum": 0.5, "use_nesterov": True}, [-0.4375, 2.0, -0.0625]),
    ("AdagradV2", "accum", {"lr": 0.5, "epsilon": 1.0}, [0.5815421, 2.0, 2.4242258]),
    ("RMSProp", "ms mom", {"lr": 0.5, "rho": 0.5, "momentum": 0.5, "epsilon": 0.25}, [-0.5964046, 2.0, 1.1319855]),
    (
        *("CenteredRMSProp", "ms mom mg"),
        *({"lr": 0.5, "rho": 0.5, "momentum": 0.5, "epsilon": 0.25}, [-0.9076921, 2.0, 0.457446]),
    ),
    ("Adadelta", "accum accum_update", {"lr": 0.5, "rho": 0.5, "epsilon": 0.25}, [0.1260287, 2.0, 1.8813782]),
    ("Ftrl", "accum linear", FTRL, [-0.3726017, 2.0, 0.9476988]),
    ("FtrlV2", "accum linear", FTRL | {"l2_shrinkage": 0.5}, [-0.6111704, 2.0, 0.1798198]),
]


@pytest.mark.parametrize("op, slots, options, expected", UPDATES)
def test_the_updates_of_keras_2s_old_optimizers(op, slots, options, expected):
    """Two of them, as TensorFlow's kernels do them: the numbers are theirs."""
    update = private.names()["raw_ops"][op]
    var, held = tf.Variable([1.0, 2.0]), {name: tf.Variable(tf.zeros(2)) for name in slots.split()}
    gradient = {"delta" if op.endswith("GradientDescent") else "grad": tf.constant([2.0, 2.0])}
    for _ in range(2):
        update(var=var.handle, **{name: slot.handle for name, slot in held.items()}, **options, **gradient)
    assert np.allclose(var.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("op, slots, options, expected", UPDATES[:3])
def test_the_updates_of_keras_2s_old_optimizers_in_graphs(op, slots, options, expected):
    """The op is returned, so that Keras counts steps after it."""
    update, tf1 = private.names()["raw_ops"][op], tf.compat.v1
    with tf1.Graph().as_default(), tf1.Session() as session:
        var, step = tf.Variable([1.0, 2.0]), tf.Variable(0)
        held = {name: tf.Variable(tf.zeros(2)) for name in slots.split()}
        gradient = {"delta" if op.endswith("GradientDescent") else "grad": tf.constant([2.0, 2.0])}
        done = update(var=var.handle, **{name: slot.handle for name, slot in held.items()}, **options, **gradient)
        with tf.control_dependencies([tf.group(done)]):
            counted = step.assign_add(1, read_value=False)
        session.run(tf1.global_variables_initializer())
        session.run(counted)
        session.run(done)
        assert np.allclose(session.run(var), expected, atol=1e-5)
        assert session.run(step) == 1


@pytest.mark.parametrize("op, slots, options, expected", OF_ROWS)
def test_the_updates_of_keras_2s_old_optimizers_for_rows(op, slots, options, expected):
    """Two updates of the last row and the first, as TensorFlow's kernels do them: the numbers are theirs."""
    update = private.names()["raw_ops"][f"ResourceSparseApply{op}"]
    var = tf.Variable([[1.0], [2.0], [3.0]])
    held = {name: tf.Variable(tf.fill([3, 1], 0.0 if name == "mg" else 0.5)) for name in slots.split()}
    arguments = {name: variable.handle for name, variable in {"var": var, **held}.items()}
    for _ in range(2):
        update(**arguments, indices=[2, 0], grad=tf.constant([[2.0], [1.0]]), **options)
    assert np.allclose(var.numpy().ravel(), expected, atol=1e-5)
    assert all(variable.numpy()[1] in (0.0, 0.5) for variable in held.values())


@pytest.mark.parametrize(
    "operation, eager, compiled",
    [
        ("Add", [5.0, 2.0, 5.5], [9.0, 2.0, 8.0]),
        ("Div", [0.25, 2.0, 3.0], [0.0625, 2.0, 3.0]),
        ("Max", [4.0, 2.0, 3.0], [4.0, 2.0, 3.0]),
        ("Min", [1.0, 2.0, 0.5], [1.0, 2.0, 0.5]),
        ("Mul", [4.0, 2.0, 3.0], [16.0, 2.0, 3.0]),
        ("Sub", [-3.0, 2.0, 0.5], [-7.0, 2.0, -2.0]),
        ("Update", [4.0, 2.0, 2.0], [4.0, 2.0, 2.0]),
    ],
)
def test_the_updates_of_rows_that_addons_call(operation, eager, compiled):
    """The numbers are TensorFlow's: a row that occurs twice is updated twice."""
    scatter = private.names()["raw_ops"][f"ResourceScatter{operation}"]
    var = tf.Variable([[1.0], [2.0], [3.0]])

    def update():
        return scatter(resource=var.handle, indices=[0, 2, 2], updates=[[4.0], [0.5], [2.0]])

    assert update() is None
    assert var.numpy().ravel().tolist() == eager
    tf.function(lambda: [update(), None][1])()
    assert var.numpy().ravel().tolist() == compiled


def test_functions_of_private_modules_have_the_arguments_of_tensorflow_1(printed):
    """The answers are TensorFlow 2.21's. The second argument of dropout is the share that is kept."""
    program = """
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import array_ops, math_ops, nn, nn_impl, nn_ops

x = tf.reshape(tf.range(24.0), [2, 3, 4])
image = tf.reshape(tf.range(32.0), [1, 4, 4, 2])
tf.random.set_seed(1)
kept = nn_ops.dropout(tf.ones([10000]), 0.9)
print(0.85 < np.mean(kept.numpy() > 0) < 0.95)
print([t.shape.as_list() for t in nn.moments(x, [0], keep_dims=True)])
print(nn_impl.weighted_moments(x, [2], tf.ones([4]), keep_dims=True)[0].shape.as_list())
filters, ones = tf.ones([2, 2, 2, 3]), [1, 1, 1, 1]
print(nn_ops.conv2d(image, filter=filters, strides=ones, padding="VALID", use_cudnn_on_gpu=True).shape.as_list())
print(nn.max_pool(value=image, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME").shape.as_list())
depthwise, pointwise = tf.ones([2, 2, 2, 1]), tf.ones([1, 1, 2, 3])
print(nn.separable_conv2d(image, depthwise, pointwise, ones, "SAME", rate=[1, 1]).shape.as_list())
losses = nn_ops.softmax_cross_entropy_with_logits(labels=[[0.0, 1.0]], logits=[[1.0, 2.0]], dim=-1)
print(round(float(losses[0]), 4))
print(nn.embedding_lookup(x[0], [2, 0], "div").numpy()[:, 0].tolist())
print(math_ops.argmax(x, dimension=2)[0].numpy().tolist(), array_ops.zeros_like(tensor=x).shape.as_list())
with ops.name_scope(None, "scope", [x]) as first, ops.name_scope("inner", values=[x]) as second:
    print(first, second)
@tf.function
def named(x):
    with ops.name_scope("outer", "default", [x]) as outer, ops.name_scope(None, "default") as inner:
        names.append((outer, inner))
    return x
names = []
named(x)
print(names)
"""
    assert printed(program) == [
        "True",
        "[[1, 3, 4], [1, 3, 4]]",
        "[2, 3, 1]",
        "[1, 3, 3, 3]",
        "[1, 2, 2, 2]",
        "[1, 4, 4, 3]",
        "0.3133",
        "[8.0, 0.0]",
        "[3, 3, 3] [2, 3, 4]",
        "None None",
        "[('outer/', 'outer/default/')]",
    ]


def test_private_names_of_tensorflow_1s_training_that_tf_slim_uses(printed):
    """The answers are TensorFlow 2.21's."""
    program = """
import os, tempfile
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import device_spec
from tensorflow.python.ops import confusion_matrix, control_flow_ops, io_ops, metrics_impl, variable_v1
from tensorflow.python.training import basic_session_run_hooks, evaluation, gradient_descent, input, monitored_session
from tensorflow.python.training import checkpoint_management, coordinator, optimizer, queue_runner, session_run_hook
from tensorflow.python.training import supervisor, sync_replicas_optimizer, training, training_util
from tensorflow.python.client import timeline
from tensorflow.python.util import all_util

print(gradient_descent.GradientDescentOptimizer is tf.train.GradientDescentOptimizer, io_ops.ReaderBase is tf.ReaderBase)
print(monitored_session.Scaffold is tf.train.Scaffold, optimizer.Optimizer.GATE_OP, device_spec.DeviceSpecV1().to_string())
folder = tempfile.mkdtemp()
with tf.Graph().as_default():
    w = tf.get_variable("w", initializer=2.0)
    path = os.path.join(folder, "model")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        w.load(3.0, session)
        tf.train.Saver().save(session, path)
    count = metrics_impl.metric_variable([], tf.float32, name="count")
    total = count.assign_add(w)
    hook = evaluation._StopAfterNEvalsHook(4)
    final = {"count": count, "step": evaluation._get_or_create_eval_step()}
    print(evaluation._evaluate_once(path, eval_ops=total, final_ops=final, hooks=[hook]))
    print([v.op.name for v in tf.local_variables()])
    made = metrics_impl._remove_squeezable_dimensions(tf.zeros([3, 1]), tf.zeros([3]), tf.zeros([3, 1]))
    print([t.shape.as_list() for t in made])
    after = control_flow_ops.with_dependencies([total], tf.constant(7))
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        print(session.run(after), session.run(count))
    training_util.assert_global_step(tf.train.get_or_create_global_step())
    try:
        training_util.assert_global_step(w)
    except TypeError as error:
        print(str(error).partition(":")[0])
"""
    assert printed(program) == [
        "True True",
        "True 1 ",
        "{'count': np.float32(12.0), 'step': np.int64(4)}",
        "['count', 'eval_step']",
        "[[3], [3], [3]]",
        "7 2.0",
        'Existing "global_step" does not have integer type',
    ]


def test_private_names_of_tensorflow_that_libraries_of_agents_and_graphs_use(printed):
    """TF-Agents, GPflux, Spektral, TensorFlow Addons; the values are TensorFlow 2.21's."""
    program = """
import collections, gc
import tensorflow as tf
from tensorflow.python.data.util import nest as data_nest
from tensorflow.python.eager import def_function, monitoring
from tensorflow.python.framework import tensor_spec, tensor_util
from tensorflow.python.layers import utils
from tensorflow.python.ops import gen_sparse_ops, weights_broadcast_ops
from tensorflow.python.ops.distributions import util as distributions_util
from tensorflow.python.saved_model import nested_structure_coder as coder
from tensorflow.python.trackable import base
from tensorflow.python.util import object_identity

print(data_nest.flatten({"b": [1, 2], "a": (3, [4])}), data_nest.is_nested([1]), data_nest.is_nested((1,)))
print(data_nest.map_structure(lambda x, y: (x, y), (1, [2]), (3, [4])), data_nest.pack_sequence_as(([0, 0], 1), [5, 6]))
print(isinstance(tf.function(lambda: 1), def_function.Function))
gauge, counter = monitoring.BoolGauge("/g", "a gauge", "kind"), monitoring.Counter("/c", "a counter")
gauge.get_cell("x").set(True)
counter.get_cell().increase_by(2)
print(gauge.get_cell("x").value(), gauge.get_cell("y").value(), counter.get_cell().value())
spec = tensor_spec.BoundedTensorSpec([2], tf.float32, 0, 1)
print(coder.decode_proto(coder.encode_structure({"a": spec})) == {"a": spec}, coder.can_encode(object()))
print(tensor_util.MakeNdarray(tensor_util.make_tensor_proto([1, 2])))
print(utils.smart_cond(True, lambda: 1, lambda: 2), int(utils.smart_cond(tf.Variable(False), lambda: 1, lambda: 2)))
print(gen_sparse_ops.sparse_reorder([[1, 0], [0, 1]], [1.0, 2.0], [2, 2]).output_values.numpy())
print(weights_broadcast_ops.broadcast_weights([[1.0], [2.0]], tf.zeros([2, 2])).numpy().tolist())
try:
    weights_broadcast_ops.broadcast_weights([1.0, 2.0], tf.zeros([2, 2]))
except ValueError as error:
    print(str(error).partition(".")[0])
print(distributions_util.gen_new_seed(3, "salt"), distributions_util.gen_new_seed(None, "salt"))
module = tf.Module()
with base.no_automatic_dependency_tracking_scope(module):
    module.plain = [tf.Variable(1.0)]
print(type(module.plain).__name__, base.TrackableReference("x", module).name)
a, b = [1], [1]
kept = object_identity.ObjectIdentitySet([a])
kept.add(b)
print(len(kept), a in kept, [1] in kept, len(kept.difference([a])), len(object_identity.ObjectIdentitySet([a, a])))
named = object_identity.ObjectIdentityDictionary()
named[a], named[b] = "a", "b"
print(named[a], named[b], len(named))
weak = object_identity.ObjectIdentityWeakSet([module])
print(len(weak))
del module
gc.collect()
print(len(weak), list(weak), tf.__git_version__.startswith("v2"))
from tensorflow.python.util import tf_inspect
class Net:
    def call(self, x, state=(), *, step=3):
        return x
net = Net()
arguments = tf_inspect.getcallargs(net.call, 1, training=True)
print(arguments.pop("self") is net, sorted(arguments.items()))
spec = tf_inspect.getargspec(net.call)
print(spec.args, spec.varargs, spec.keywords, spec.defaults)
"""
    assert printed(program) == [
        "[3, [4], [1, 2]] False True",
        "((1, 3), ([2], [4])) (5, 6)",
        "True",
        "True False 2",
        "True False",
        "[1 2]",
        "1 2",
        "[2. 1.]",
        "[[1.0, 1.0], [2.0, 2.0]]",
        "weights can not be broadcast to values",
        "355146948 None",
        "list x",
        "2 True False 1 1",
        "a b 2",
        "1",
        "0 [] True",
        "True [('state', ()), ('step', 3), ('training', True), ('x', 1)]",
        "['self', 'x', 'state', 'step'] None None ((), 3)",
    ]


@needs_keras
def test_the_copy_of_keras_within_tensorflow_is_the_keras_there_is(printed, tmp_path):
    program = """
import tensorflow as tf
from tensorflow.python.keras.callbacks import Callback
from tensorflow.python.keras.layers import Dense
import tensorflow.python.keras.models
print(Callback is tf.keras.callbacks.Callback, Dense is tf.keras.layers.Dense)
try:
    from tensorflow.python.keras.engine import data_adapter
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert printed(program) == ["True True", "tensorflow.python.keras.engine"]
    for module, names in {
        "": "",
        "src": "",
        "src/engine": "",
        "src/engine/data_adapter": "expand_1d = 'of Keras 2'",
    }.items():
        folder = tmp_path / "tf_keras" / module
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(names)
    lines = printed("from tensorflow.python.keras.engine import data_adapter\nprint(data_adapter.expand_1d)")
    assert lines == ["of Keras 2"]
