"""Saved functions: loading, errors for damaged folders and libraries, and running without the compiler."""

import gc
import hashlib
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tvtf as tf
from tvtf import saved
from tvtf.saved import library
from tvtf.saved.batched_run import run_batched

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) - 5


class Affine(tf.Module):
    def __init__(self):
        super().__init__(name="affine")
        self.kernel = tf.Variable([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]], name="kernel")
        self.bias = tf.Variable([0.125, -1.0], name="bias")

    @tf.function(input_signature=[tf.TensorSpec(["batch", 3], tf.float32, name="rows")])
    def scores(self, rows):
        return tf.nn.relu(tf.matmul(rows, self.kernel) + self.bias)


def expected(rows):
    model = Affine()
    return np.maximum(rows @ model.kernel.numpy() + model.bias.numpy(), 0)


@pytest.fixture
def folder(tmp_path):
    return Path(saved.save(tmp_path / "model", Affine().scores))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    place = tmp_path_factory.mktemp("library")
    library.write(saved.load(saved.save(place / "model", Affine().scores)), place / "lib.so")
    return place / "lib.so"


def error_message(action):
    with pytest.raises(saved.SavedModuleError) as caught:
        action()
    return str(caught.value)


def test_a_loaded_function_gives_what_the_saved_one_gave(folder):
    loaded = saved.load(folder)
    np.testing.assert_array_equal(loaded(ROWS).numpy(), expected(ROWS))
    assert str(loaded.description) == "scores(rows: float32 (batch, 3)) -> output_0: float32 (batch, 2)"


def test_the_variables_are_a_checkpoint_that_restores_into_variables(folder):
    kernel = tf.Variable(np.zeros((3, 2), np.float32))
    tf.train.Checkpoint(values={"kernel": kernel}).restore(folder).expect_partial()
    np.testing.assert_array_equal(kernel.numpy(), Affine().kernel.numpy())


def test_structures_come_back_flat_by_name(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([2], tf.int32), tf.TensorSpec([2], tf.float32)])
    def several(count, x):
        return {"twice": x + x, "same": count, "fixed": tf.constant([7, 8])}

    loaded = saved.load(saved.save(tmp_path, several))
    results = loaded.run([np.array([1, 2], np.int32), np.array([0.5, 1], np.float32)])
    assert [value.name for value in loaded.description.outputs] == ["fixed", "same", "twice"]
    assert [result.tolist() for result in results] == [[7, 8], [1, 2], [1.0, 2.0]]


def test_large_constants_are_kept_beside_the_program(tmp_path):
    table = np.arange(100, dtype=np.float32)
    constant = tf.constant(table)
    loaded = saved.load(saved.save(tmp_path, lambda x: x + constant, tf.TensorSpec([100], tf.float32)))
    assert (tmp_path / "constants").is_dir()
    np.testing.assert_array_equal(loaded(table).numpy(), 2 * table)


def test_variables_of_one_name_stay_distinct(tmp_path):
    pair = [tf.Variable([1.0], name="w"), tf.Variable([10.0], name="w")]
    loaded = saved.load(saved.save(tmp_path, lambda x: x * pair[0] + pair[1], tf.TensorSpec([1], tf.float32)))
    assert loaded(np.array([2.0], np.float32)).numpy().tolist() == [12.0]


def test_saving_again_replaces_the_values_and_leaves_no_others(folder):
    model = Affine()
    model.bias.assign([5.0, 5.0])
    saved.save(folder, model.scores)
    assert len(list(folder.glob("variables/*.data-*"))) == 1
    np.testing.assert_array_equal(saved.load(folder)(ROWS * 0).numpy(), np.full((4, 2), 5.0))


def test_a_function_that_updates_is_rejected(tmp_path):
    count = tf.Variable(0.0, name="count")
    with pytest.raises(ValueError) as caught:
        saved.save(tmp_path / "m", tf.function(lambda: count.assign_add(1.0)))
    assert str(caught.value) == (
        "save: <lambda> updates count:0; save a function that only reads its variables, with tf.saved_model.save one that "
        "updates, or export the step with tvtf.onnx.export"
    )
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "array, message",
    [
        (ROWS.astype(np.float64), "input 'rows' must be float32, but got float64; convert it first"),
        (ROWS.astype(">f4"), "input 'rows' must be float32, but got >f4; convert it first"),
        (ROWS.astype(str), "input 'rows' must be float32, but got <U32; convert it first"),
        (ROWS[:, :2], "input 'rows' must have shape (batch, 3), but got (4, 2)"),
        (ROWS[0], "input 'rows' must have shape (batch, 3), but got (3,)"),
    ],
)
def test_arrays_that_do_not_fit_are_rejected(folder, compiled, array, message):
    assert error_message(lambda: saved.load(folder)(array)) == message
    assert error_message(lambda: library.Library(compiled).run([array])) == message


def test_named_dims_must_agree(tmp_path):
    specs = [tf.TensorSpec(["n"], tf.float32), tf.TensorSpec(["n"], tf.float32)]
    loaded = saved.load(saved.save(tmp_path, tf.function(lambda a, b: a + b, input_signature=specs)))
    one, two = np.zeros(2, np.float32), np.zeros(3, np.float32)
    assert error_message(lambda: loaded(one, two)) == "input 'b' must have shape (n=2,), but got (3,)"
    assert error_message(lambda: loaded(one)) == "<lambda> takes 2 inputs (a, b), but got 1"


NAMED_ARGUMENTS = {
    "two": (lambda q, k: q - k, 2),
    "not alphabetical": (lambda zebra, apple, mango: zebra + 10 * apple + 100 * mango, 3),
    "twelve of one name": (lambda *rows: sum((i + 1.0) * row for i, row in enumerate(rows)), 12),
}


@pytest.mark.parametrize("name", NAMED_ARGUMENTS)
def test_arguments_keep_their_positions(name, tmp_path):
    """Loaded, compiled into a library, and saved once more from what was loaded."""
    python, count = NAMED_ARGUMENTS[name]
    arrays = [np.float32([i, 2 * i + 1]) for i in range(count)]
    wanted = python(*arrays)
    loaded = saved.load(saved.save(tmp_path / "model", python, *[tf.TensorSpec([2], tf.float32)] * count))
    again = saved.load(saved.save(tmp_path / "again", loaded.function))
    library.write(again, tmp_path / "lib.so")
    for way in (loaded, again, library.Library(tmp_path / "lib.so")):
        np.testing.assert_array_equal(way.run(arrays)[0], wanted)
    by_name = dict(zip([value.name for value in loaded.description.inputs], map(tf.constant, arrays)))
    signature = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    np.testing.assert_array_equal(signature(**by_name)["output_0"].numpy(), wanted)


def test_arguments_in_structures_keep_their_order(tmp_path):
    spec = tf.TensorSpec([2], tf.float32)

    def f(second, first):
        return {"z": second["y"] - first[0], "c": second["x"] * first[1]}

    loaded = saved.load(saved.save(tmp_path, f, {"y": spec, "x": spec}, (spec, spec)))
    x, y, first = (np.float32([i, 2]) for i in (3, 5, 7))
    results = dict(zip([v.name for v in loaded.description.outputs], loaded.run([x, y, first, first + 1])))
    np.testing.assert_array_equal(results["z"], y - first)
    np.testing.assert_array_equal(results["c"], x * (first + 1))


# -- libraries


def test_a_library_gives_the_same(compiled):
    np.testing.assert_allclose(library.Library(compiled).run([ROWS])[0], expected(ROWS), rtol=1e-6)


def test_a_recompiled_library_is_the_new_one(tmp_path):
    """Although the first is in use, by the same path."""
    opened = []
    for factor in (2.0, 3.0):
        model = saved.save(tmp_path / "model", lambda x, factor=factor: x * factor, tf.TensorSpec([2]))
        library.write(saved.load(model), tmp_path / "lib.so")
        opened.append(library.Library(tmp_path / "lib.so"))
    ones = np.ones(2, np.float32)
    assert [each.run([ones])[0].tolist() for each in opened] == [[2.0, 2.0], [3.0, 3.0]]


def test_results_of_a_library_are_the_callers_own(compiled):
    opened = library.Library(compiled)
    first = opened.run([ROWS])[0]
    opened.run([ROWS * 0])
    np.testing.assert_allclose(first, expected(ROWS), rtol=1e-6)


def test_a_library_runs_in_a_process_without_the_compiler(compiled, tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    program = f"""
        import sys
        import numpy as np
        from tvtf.saved.library import Library
        print(Library({str(compiled)!r}).run([np.load({str(tmp_path / "rows.npy")!r})])[0].tolist())
        assert "tvm" not in sys.modules
        maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
        assert "libtvm_compiler" not in maps
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_allclose(json.loads(done.stdout), expected(ROWS), rtol=1e-6)


def test_a_library_takes_half_floats_and_no_rows_in_a_process_without_the_compiler(tmp_path):
    halves = tf.TensorSpec(["batch"], tf.bfloat16, name="halves")
    model = saved.load(saved.save(tmp_path / "model", tf.function(lambda halves: halves * 2), halves))
    library.write(model, tmp_path / "lib.so")
    program = f"""
        import sys
        import ml_dtypes, numpy as np
        from tvtf.saved.library import Library
        opened = Library({str(tmp_path / "lib.so")!r})
        print(*(opened.run([np.ones(rows, ml_dtypes.bfloat16)])[0].tolist() for rows in (2, 0)))
        assert "tvm" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[2.0, 2.0] []\n")


CPP = """
    #include <tvm/ffi/container/tensor.h>
    #include <tvm/ffi/extra/module.h>
    #include <cstdio>
    #include <cstdlib>

    namespace ffi = tvm::ffi;

    struct Heap {
      void AllocData(DLTensor* t) { t->data = std::aligned_alloc(64, 4096); }
      void FreeData(DLTensor* t) { std::free(t->data); }
    };

    int main(int, char** argv) {
      ffi::Module library = ffi::Module::LoadFromFile(argv[1]);
      ffi::Module machine = library->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
      machine->GetFunction("vm_initialization").value()(1, 0, 2);
      DLDataType kind{kDLFloat, 32, 1};
      ffi::Tensor rows = ffi::Tensor::FromNDAlloc(Heap(), ffi::Shape({1, 3}), kind, DLDevice{kDLCPU, 0});
      for (int i = 0; i < 3; ++i) static_cast<float*>(rows.data_ptr())[i] = i + 1;
      ffi::Tensor out = machine->GetFunction("main").value()(rows).cast<ffi::Tensor>();
      const float* scores = static_cast<const float*>(out.data_ptr());
      std::printf("%.3f %.3f\\n", scores[0], scores[1]);
    }
"""


def test_a_library_runs_from_cpp_without_python(compiled, tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++) on this machine")
    from importlib.util import find_spec

    import tvm_ffi.libinfo as ffi

    runtime = Path(find_spec("tvm").origin).parent / "lib"
    core = Path(ffi.find_libtvm_ffi()).parent
    (tmp_path / "run.cc").write_text(textwrap.dedent(CPP))
    paths = [
        *(f"-I{path}" for path in (ffi.find_include_path(), ffi.find_dlpack_include_path())),
        f"-L{runtime}",
        f"-L{core}",
    ]
    libraries = ["-Wl,--no-as-needed", "-ltvm_runtime", "-ltvm_ffi", f"-Wl,-rpath,{runtime}:{core}"]
    command = [compiler, "-std=c++17", str(tmp_path / "run.cc"), "-o", str(tmp_path / "run"), *paths, *libraries]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(tmp_path / "run"), str(compiled)], capture_output=True, text=True, check=False)
    wanted = expected(np.array([[1.0, 2.0, 3.0]], np.float32))[0]
    assert (done.returncode, done.stdout) == (0, f"{wanted[0]:.3f} {wanted[1]:.3f}\n"), done.stderr


def test_other_files_are_no_libraries(tmp_path, compiled):
    assert error_message(lambda: library.Library(tmp_path / "no.so")) == f"{tmp_path}/no.so does not exist"
    cut = tmp_path / "cut.so"
    cut.write_bytes(compiled.read_bytes()[:-1])
    reported = f"{cut} is not a library made by `tvtf compile` of this version, or is truncated; compile it again"
    assert error_message(lambda: library.Library(cut)) == reported
    cut.write_bytes(library.MARK)
    assert error_message(lambda: library.Library(cut)) == f"{cut} is truncated; compile it again"
    length = b"\xff" * 8
    cut.write_bytes(length + hashlib.blake2b(length, digest_size=library.DIGEST_BYTES).digest() + library.MARK)
    reported = f"{cut} is damaged: its description has an impossible length; compile it again"
    assert error_message(lambda: library.Library(cut)) == reported


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_library_is_rejected_before_it_is_loaded(compiled, tmp_path, seed):
    """Flipped bits anywhere, and bytes that are missing or too many in the middle; a loader would die of many of them."""
    random = np.random.default_rng(seed)
    good, mutant = compiled.read_bytes(), tmp_path / "mutant.so"
    for _ in range(25):
        at, width = int(random.integers(len(good))), int(random.integers(1, 5000))
        changed = {
            0: good[:at] + bytes([good[at] ^ 1 << int(random.integers(8))]) + good[at + 1 :],
            1: good[:at] + good[at + width :],
            2: good[:at] + bytes(width) + good[at:],
            3: good[:at],
        }[int(random.integers(4))]
        mutant.write_bytes(changed)
        assert f"{mutant} is " in error_message(lambda: library.Library(mutant))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc/self/maps")
def test_a_library_that_is_gone_gives_its_code_back(compiled, tmp_path):
    place = tmp_path / "gone.so"
    shutil.copy(compiled, place)
    loaded = library.Library(place)
    assert loaded.run([ROWS])[0].shape == (4, 2)
    with open("/proc/self/maps") as maps:
        assert str(place) in maps.read()
    del loaded
    gc.collect()
    with open("/proc/self/maps") as maps:
        assert str(place) not in maps.read()


def test_a_library_is_written_whole_or_not_at_all(folder, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    place = tmp_path / "out"
    place.mkdir()
    monkeypatch.setattr(library, "_append_description", fail)
    with pytest.raises(OSError):
        library.write(saved.load(folder), place / "lib.so")
    assert list(place.iterdir()) == []


# -- batches


def test_rows_are_run_in_parts(folder):
    loaded = saved.load(folder)
    sizes = []
    run = loaded.run
    loaded.run = lambda arrays: sizes.append(len(arrays[0])) or run(arrays)
    np.testing.assert_array_equal(run_batched(loaded, [ROWS], 3)[0], expected(ROWS))
    assert sizes == [3, 1]


def test_no_rows_give_no_rows(folder):
    assert run_batched(saved.load(folder), [ROWS[:0]], 3)[0].shape == (0, 2)


def test_a_fixed_batch_takes_whole_batches(tmp_path):
    loaded = saved.load(saved.save(tmp_path, tf.function(lambda x: x + 1.0), tf.TensorSpec([2, 3], tf.float32)))
    np.testing.assert_array_equal(run_batched(loaded, [ROWS], 2)[0], ROWS + 1)
    np.testing.assert_array_equal(run_batched(loaded, [ROWS[:2]], 1)[0], ROWS[:2] + 1)
    reported = "<lambda> takes 2 rows at a time, but got 3 rows, which is not a multiple of 2"
    assert error_message(lambda: run_batched(loaded, [ROWS[:3]], 2)) == reported


def test_what_has_no_first_axis_in_common_runs_whole_or_is_rejected(tmp_path):
    mean = tf.function(lambda x: tf.reduce_sum(x), input_signature=[tf.TensorSpec(["n"], tf.float32)])
    loaded = saved.load(saved.save(tmp_path, mean))
    assert run_batched(loaded, [ROWS[0]], 2, require=False)[0] == ROWS[0].sum()
    reported = "<lambda> can't be run in batches: its values share no first axis"
    assert error_message(lambda: run_batched(loaded, [ROWS[0]], 2)) == reported


def test_what_calls_python_is_not_saved(tmp_path):
    f = tf.function(lambda x: tf.numpy_function(np.sin, [x], tf.TensorSpec([3])))
    with pytest.raises(ValueError, match="calls a Python function .* which a saved module does not hold"):
        saved.save(tmp_path / "m", f, tf.TensorSpec([3]))
    assert not (tmp_path / "m").exists()


def test_run_time_sizes_are_saved(tmp_path, capfd):
    def f(x):
        tf.print("dim:", x)
        return tf.where(x > 0.0)

    loaded = saved.load(saved.save(tmp_path / "m", f, tf.TensorSpec([3])))
    assert loaded(np.float32([1, -1, 2])).numpy().tolist() == [[0], [2]]
    assert capfd.readouterr().err == "dim: [1 -1 2]\n"


def test_a_guard_of_a_library_raises_tensorflows_error(tmp_path):
    """Its message has no values, which Python would format."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None])])
    def loss(labels, logits):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    library.write(saved.load(saved.save(tmp_path / "model", loss)), tmp_path / "lib.so")
    opened = library.Library(tmp_path / "lib.so")
    logits = np.ones((2, 2), np.float32)
    np.testing.assert_allclose(opened.run([np.int32([0, 1]), logits])[0], np.log([2.0, 2.0]), rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"outside the valid range of \[0, \.\.\.\)"):
        opened.run([np.int32([0, 5]), logits])
