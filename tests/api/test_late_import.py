"""Lazy imports: TVM and optional packages are imported only when they are used."""

import os
import subprocess
import sys

import pytest
from fork_server import ForkServer

PROGRAMS = {
    "import tvtf alone": "print('tvm' in sys.modules)",
    "rooms": """
late = 'keras', 'tvtf.data', 'tvtf.rng.keras_initializers', 'tvtf.lookup', 'tvtf.frontend.library.plain_optimizers', 'tvtf.summary', 'tvtf.train'
rooms = [m for m in late if m in sys.modules]
print(rooms, {'data', 'optimizers'} <= {*dir(tf)}, issubclass(tf.optimizers.SGD, tf.optimizers.Optimizer), tf.data.experimental.CsvDataset.__name__)
""",
    "late names": """
from tvtf.api.namespaces import LATE_MODULES, all_names
from tvtf.core.primitive import public_names
core = set(public_names())
found = {path: functools.reduce(getattr, path.split('.'), tf) for path in LATE_MODULES}
late = {path for path in set(all_names()) - core if not path.startswith(tuple(f'{room}.' for room in LATE_MODULES))}
print(core & set(LATE_MODULES), late - set(LATE_MODULES), len(found) == len(LATE_MODULES))
""",
    "names in lists": """
from importlib.resources import files
from tvtf.api import unsupported
paths = [p for p in (files('tvtf.api') / 'tensorflow_names.txt').read_text().split() if not p.startswith(('compat.', 'keras.'))]
value = lambda path: functools.reduce(getattr, filter(None, path.split('.')), tf)
def found(path):
    try:
        return not unsupported.class_of_unsupported(path) and path not in unsupported.SPACES and [value(path)]
    except AttributeError:
        return False
listed = {space: dir(value(space)) for space in {p.rpartition('.')[0] for p in paths} if not space or found(space)}
lacking = [p for p in paths for space, _, name in [p.rpartition('.')] if name not in listed.get(space, [name]) and found(p)]
print(lacking, sum(map(len, listed.values())) > 1500)
""",
    "names of TensorFlow 1 in lists": """
v1 = tf.compat.v1
print({'placeholder', 'Session', 'nn', 'abs'} <= {*dir(v1)}, {'relu_layer', 'relu'} <= {*dir(v1.nn)}, 'Saver' in dir(v1.train))
""",
    "late primitives": """
from tvtf.core.primitive import table
print('tvtf.ops.bessel' in str(list(sys.modules)), 'bessel_i0' in table, table['bessel_i0'].name, 'bessel_i0' in table)
""",
    "a room whose parts come before it": """
from tvtf.saved import fingerprint
from tvtf.api.namespaces import install
install()
print(tf.saved_model.save.__name__, tf.saved_model.experimental.Fingerprint is fingerprint.Fingerprint)
""",
    "lessons": """
from tvtf.api import late_dispatch
from tvtf.composites.ragged import dispatch
from tvtf.composites.sparse import operators
print(set(late_dispatch.RAGGED.split()) ^ set(dispatch.HANDLERS), set(late_dispatch.SPARSE.split()) ^ set(operators.HANDLERS))
""",
    "tensors of late rooms": """
rooms = [m for m in ('tvtf.composites.ragged', 'tvtf.composites.sparse', 'tvtf.ops.strings') if m in sys.modules]
double = tf.math.square
print(rooms, double(tf.ragged.constant([[1], [2, 3]])).to_list(), double(tf.sparse.eye(2, dtype=tf.int32)).values.numpy())
""",
    "files of modules": """
before = set(sys.modules)  # AutoGraph reads every module's file name
print([hasattr(m, '__file__') for m in list(sys.modules.values())] != [], set(sys.modules) - before - {'tvtf.v1.registry', 'tvtf.v1.aliases'})
""",
    "a trace": """
tf.function(lambda x: x + 1, autograph=False).get_concrete_function(tf.TensorSpec([2]))
print('tvm' in sys.modules, 'tvm.backend.cuda.ptx' in sys.modules, gc.isenabled(), os.environ.get('TVM_DEVICE_BACKEND_AUTOLOAD'))
""",
    "TVM's runtime for several machines": """
tf.function(lambda x: x + 1, autograph=False).get_concrete_function(tf.TensorSpec([2]))
import tvm
print(tvm.runtime.disco, 'tvm.runtime.disco' in sys.modules)
""",
    "a target of a GPU": """
from tvtf.runtime.target import cuda_target
kind = cuda_target('sm_90').kind.name
from tvm import backend
print(kind, backend.is_loaded('cuda'), backend.is_loaded('metal'))
""",
}
if sys.version_info >= (3, 11):
    PROGRAMS["keras"] = "tf.keras.layers.Dense(2); print('tvm' in sys.modules)"
PRINTED = {
    "keras": "False",
    "import tvtf alone": "False",
    "rooms": "[] True True Csv",
    "late names": "set() set() True",
    "names in lists": "[] True",
    "names of TensorFlow 1 in lists": "True True True",
    "late primitives": "False False bessel_i0 True",
    "a room whose parts come before it": "save True",
    "lessons": "set() set()",
    "tensors of late rooms": "[] [[1], [4, 9]] [1 1]",
    "files of modules": "True set()",
    "a trace": "True False True None",
    "TVM's runtime for several machines": "None False",
    "a target of a GPU": "cuda True False",
}


@pytest.fixture(scope="module")
def server():
    with ForkServer("import functools, gc, os, sys\nimport tvtf as tf\n") as started:
        yield started


@pytest.mark.parametrize("name", PROGRAMS)
def test_tvm_is_imported_late_and_in_part(server, tmp_path, name):
    done = server.run(PROGRAMS[name], tmp_path)
    assert done.stdout.strip() == PRINTED[name], done.stderr


@pytest.mark.parametrize(
    "path", ["summary.create_file_writer", "experimental.numpy.cbrt", "sparse.to_dense", "SparseTensor"]
)
def test_a_module_that_is_not_imported_yet_is_found_by_each_name_in_its_namespace(server, tmp_path, path):
    program = f"from tvtf.core.primitive import public_names\nprint(public_names()[{path!r}].__name__)"
    done = server.run(program, tmp_path)
    assert done.stdout.strip() == path.rpartition(".")[2], done.stderr


def test_a_call_whose_code_is_in_the_cache_does_not_import_the_compiler(tmp_path):
    program = """
import sys
import tvtf as tf
print(tf.function(lambda x: tf.nn.relu(x) + 1)(tf.constant([1.0, -2.0])).numpy(), "tvtf.passes.pipeline" in sys.modules)
"""
    environment = {**os.environ, "TVTF_CACHE_DIR": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
        ).stdout
        for _ in range(2)
    ]
    assert printed == ["[2. 1.] True\n", "[2. 1.] False\n"]
