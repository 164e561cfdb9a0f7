"""Functions run by way of `tvtf compile`: saved, loaded, compiled into a library, and called there."""

import shutil
import struct
import subprocess
import tempfile
from importlib.util import find_spec
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
import tvm_ffi.libinfo as libinfo
from table_support import differences, function_of, specs_of

import tvtf as tf
from tvtf import saved
from tvtf.ops.host import runs_on_host
from tvtf.saved import library


def run_library(function, specs, arrays):
    """The outputs of a function's compiled library at some arrays, in order."""
    with tempfile.TemporaryDirectory() as folder:
        return library.Library(written(function, specs, Path(folder))).run(arrays)


def written(function, specs, folder):
    """The library of a function, with the saved model that it is compiled from beside it."""
    model = saved.save(folder / "model", function, *specs)
    library.write(saved.load(model), folder / "lib.so")
    return folder / "lib.so"


def runs_without_python(case):
    """Whether a library can hold the case: neither NumPy nor Python computes it."""
    return not (case.prim.name == "call_python" or runs_on_host(case.prim, case.dtypes))


def library_differences(cases, symbolic=False):
    """Where a library of all cases differs; one that fails is taken apart, to name the cases that do."""
    what = "library with unknown dims" if symbolic else "library"
    try:
        specs = [spec for case in cases for spec in specs_of(case, symbolic)]
        found = run_library(flat(function_of(cases)), specs, [a for case in cases for a in case.arrays])
    except Exception as error:  # whatever breaks in one case must be told with its name
        if len(cases) == 1:
            return [f"{cases[0].name}: {what} fails: {type(error).__name__}: {error}"]
        return [line for case in cases for line in library_differences([case], symbolic)]
    return [line for case in cases for line in differences(case, _taken(found, len(case.types)), what)]


def flat(function):
    """A function that gives all results of another in one tuple, as a signature must."""
    return tf.function(lambda *inputs: tuple(tf.nest.flatten(function.python_function(*inputs))), autograph=False)


def _taken(results, count):
    taken, results[:count] = results[:count], []
    return taken


# -- from C


def c_runner(folder):
    """The path of a C program that runs libraries, or None where there is no C compiler.

    It is compiled from run_library.c against TVM's runtime as a user's program would be.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    runtime = Path(find_spec("tvm").origin).parent / "lib"
    core = Path(libinfo.find_libtvm_ffi()).parent
    includes = [f"-I{path}" for path in (libinfo.find_include_path(), libinfo.find_dlpack_include_path())]
    linked = [f"-L{runtime}", f"-L{core}", "-Wl,--no-as-needed", "-ltvm_runtime", "-ltvm_ffi"]
    place = folder / "run_library"
    source = Path(__file__).with_name("run_library.c")
    command = [compiler, "-O1", str(source), "-o", str(place), *includes, *linked, f"-Wl,-rpath,{runtime}:{core}"]
    subprocess.run(command, check=True, capture_output=True)
    return place


def run_in_c(runner, path, arrays):
    """The outputs of a library at some arrays, called from C in a process without Python."""
    done = subprocess.run([runner, path], input=_stream(arrays), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{path} from C ends with {done.returncode}: {done.stderr.decode()}")
    return _unstream(memoryview(done.stdout))


_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
BFLOAT = 4
"""Type codes of dlpack.h."""


def _stream(arrays):
    parts = [struct.pack("=i", len(arrays))]
    for array in arrays:
        code = BFLOAT if array.dtype == ml_dtypes.bfloat16 else _KINDS[array.dtype.kind]
        bits = 8 * array.dtype.itemsize
        parts += [struct.pack(f"=BBHi{array.ndim}q", code, bits, 1, array.ndim, *array.shape), array.tobytes()]
    return b"".join(parts)


def _unstream(data):
    (count,), data = struct.unpack_from("=i", data), data[4:]
    arrays = []
    for _ in range(count):
        code, bits, _, rank = struct.unpack_from("=BBHi", data)
        shape = struct.unpack_from(f"={rank}q", data, 8)
        kind = np.dtype(ml_dtypes.bfloat16) if code == BFLOAT else np.dtype(_names()[code] + str(bits // 8))
        start = 8 + 8 * rank
        size = prod(shape) * kind.itemsize
        arrays.append(np.frombuffer(data[start : start + size], kind).reshape(shape))
        data = data[start + size :]
    return arrays


def _names():
    return {code: kind for kind, code in _KINDS.items()}
