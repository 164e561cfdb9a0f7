"""The ``tvtf`` command: what it prints, what it writes, and one clear line for bad input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tvtf as tf
from tvtf import saved
from tvtf.cli import main
from tvtf.saved import library

ROWS = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0], [4.0, 0.0, 2.0]], np.float32)
WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]], np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    weights = tf.Variable(WEIGHTS, name="weights")
    spec = tf.TensorSpec(["batch", 3], tf.float32, name="rows")
    scores = tf.function(lambda rows: tf.matmul(rows, weights), input_signature=[spec])
    return saved.save(tmp_path_factory.mktemp("cli") / "model", scores)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    (tmp_path / "rows.csv").write_text("1,-2,3\n0.5,0.25,-1\n4,0,2\n")
    return tmp_path


def tvtf(*args, stdin=None):
    return CliRunner().invoke(main, [str(a) for a in args], input=stdin)


def mismatched(*args, stdin=None):
    """The one line of a command that ends with exit code 1."""
    result = tvtf(*args, stdin=stdin)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.output
    return result.stderr.rstrip("\n")


def test_help_names_every_command_and_loads_no_compiler():
    program = (
        "import sys; from tvtf.cli import main; main(['--help'], standalone_mode=False); print('tvm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.splitlines()
    assert loaded == "False"
    commands = {line.split()[0] for line in text[text.index("Commands:") + 1 :]}
    assert commands == {
        "cache",
        "compile",
        "devices",
        "exec",
        "export",
        "gallery",
        "run",
        "saved-model",
        "train",
        "tune",
    }


def test_version():
    assert tvtf("--version").stdout == f"tvtf, version {tf.__version__}\n"


def test_devices():
    lines = tvtf("devices").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["processor", "compiled for", "cores used", "GPUs", "cache"]
    assert lines[4].split()[-1] == os.environ["TVTF_CACHE_DIR"]


def test_compile_run_and_export(model, place):
    compiled = tvtf("compile", model, "-o", "lib.so")
    assert compiled.exit_code == 0, compiled.output
    described = "<lambda>(rows: float32 (batch, 3)) -> output_0: float32 (batch, 2)"
    assert compiled.stdout.startswith(f"lib.so: {described}, ")
    for source in ("lib.so", model):
        assert tvtf("run", source, "--input", "rows.npy", "--output", "out.npy", "--batch", 2).output == ""
        np.testing.assert_allclose(np.load("out.npy"), ROWS @ WEIGHTS, rtol=1e-6)
    exported = tvtf("export", model, "-o", "model.onnx")
    assert exported.stdout.startswith(f"model.onnx: {described}, "), exported.output


def without_nvcc(monkeypatch):
    from tvtf.passes.codegen import cuda

    monkeypatch.setattr(cuda, "CUDA_HOMES", ("/no/cuda",))
    for name in ("PATH", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(cuda, "nvcc", cuda.nvcc.__wrapped__)


def test_compile_for_a_gpu_names_what_is_missing(model, place, monkeypatch):
    without_nvcc(monkeypatch)
    message = mismatched("compile", model, "--target", "cuda")
    assert message == (
        "Error: compiling for a GPU needs NVIDIA's compiler nvcc, which is neither on PATH nor in /no/cuda/bin; "
        "install the CUDA toolkit 13, or set CUDA_HOME to where it is"
    )
    assert not (place / "lib.so").exists()


def test_compile_for_a_gpu_checks_the_architecture(model, place):
    message = mismatched("compile", model, "--target", "cuda", "--arch", "sm_70")
    assert message == "Error: a GPU's architecture must be sm_80 or later, such as sm_90, but got 'sm_70'"


@pytest.mark.sweep
def test_compile_for_a_gpu_and_run_without_one(model, place):
    import shutil

    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU")
    compiled = tvtf("compile", model, "-o", "gpu.so", "--target", "cuda", "--arch", "sm_90")
    assert compiled.exit_code == 0, compiled.output
    program = "from tvtf.cli import main; main(['run', 'gpu.so', '--input', 'rows.npy'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    message = "Error: no GPU can be used here: NVIDIA's driver (libcuda.so.1) is not installed"
    assert (done.returncode, done.stderr.strip()) == (1, message)


def test_an_exported_model_runs_in_onnxruntime(model, place):
    onnxruntime = pytest.importorskip("onnxruntime")
    tvtf("export", model, "-o", "model.onnx")
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"rows": ROWS})[0], ROWS @ WEIGHTS, rtol=1e-6)


def test_csv_in_pipes_keeps_every_digit(model, place):
    piped = tvtf("run", model, "--input", "-", stdin="0.1,0.2,0.3\n")
    wanted = (np.array([[0.1, 0.2, 0.3]], np.float32) @ WEIGHTS)[0]
    assert piped.exit_code == 0, piped.output
    np.testing.assert_allclose(np.array(piped.stdout.split(","), np.float32), wanted, rtol=1e-6)
    tvtf("run", model, "--input", "rows=rows.csv", "--output", "output_0=out.csv")
    np.testing.assert_allclose(np.loadtxt("out.csv", delimiter=","), ROWS @ WEIGHTS, rtol=1e-6)


def test_several_inputs_and_outputs_go_by_name(place):
    specs = [tf.TensorSpec(["n"], tf.int32), tf.TensorSpec(["n"], tf.int32)]
    both = tf.function(lambda a, b: {"total": a + b, "product": a * b}, input_signature=specs)
    folder = saved.save(place / "both", both)
    np.save("a.npy", np.array([1, 2], np.int32))
    np.save("b.npy", np.array([3, 5], np.int32))
    inputs = ("--input", "b=b.npy", "--input", "a=a.npy")
    assert tvtf("run", folder, *inputs, "--output", "total=-").stdout == "4\n7\n"
    assert mismatched("run", folder, *inputs) == (
        f"Error: {folder} has several outputs (product, total); name their files: --output NAME=FILE"
    )
    assert mismatched("run", folder, "--input", "a.npy", "--output", "total=-") == (
        "Error: --input a.npy doesn't name one of a, b: give it as --input NAME=FILE"
    )
    assert mismatched("run", folder, "--input", "a=a.npy", "--output", "total=-") == (
        "Error: --input is missing for b: give each as --input NAME=FILE"
    )
    assert (
        mismatched("run", folder, *inputs, "--input", "a=b.npy", "--output", "total=-")
        == "Error: --input a is given twice"
    )


@pytest.mark.parametrize("command", ["compile", "export"])
def test_what_is_no_model_is_named_and_nothing_is_written(place, command):
    (place / "empty").mkdir()
    before = sorted(os.listdir())
    message = "Error: SavedModel file does not exist at: {0}/saved_model.json"
    assert mismatched(command, "nowhere", "-o", "out") == message.format("nowhere")
    assert mismatched(command, "empty", "-o", "out") == message.format("empty")
    assert mismatched(command, "rows.npy", "-o", "out") == message.format("rows.npy")
    assert sorted(os.listdir()) == before


def test_inputs_that_do_not_fit_are_rejected(model, place):
    np.save("wide.npy", ROWS.astype(np.float64))
    np.save("short.npy", ROWS[:, :2])
    (place / "torn.npy").write_bytes((place / "rows.npy").read_bytes()[:20])
    (place / "words.csv").write_text("1,2,x\n")
    (place / "short.csv").write_text("1,2\n")
    run = ("run", model, "--output", "out.npy", "--input")
    assert mismatched(*run, "wide.npy") == "Error: input 'rows' must be float32, but got float64; convert it first"
    assert mismatched(*run, "short.npy") == "Error: input 'rows' must have shape (batch, 3), but got (3, 2)"
    assert mismatched(*run, "no.npy") == "Error: no.npy: No such file or directory"
    assert mismatched(*run, "rows.txt") == "Error: rows.txt must be a .npy or .csv file, or - for CSV in a pipe"
    assert mismatched(*run, "torn.npy").startswith("Error: torn.npy is not an array in NumPy's format: ")
    assert mismatched(*run, "words.csv").startswith(
        "Error: words.csv is not CSV of float32: could not convert string 'x'"
    )
    assert mismatched(*run, "short.csv") == (
        "Error: short.csv must have 3 numbers per row for input rows: float32 (batch, 3), but has 2"
    )
    (place / "empty.csv").write_text("\n")
    assert mismatched(*run, "empty.csv") == (
        "Error: empty.csv is empty; it must have rows of 3 numbers for input rows: float32 (batch, 3)"
    )
    (place / "ragged.csv").write_text("1,2,3\n4,5\n")
    assert mismatched(*run, "ragged.csv") == (
        "Error: ragged.csv is not CSV of float32: the number of columns changed from 3 to 2 at row 2"
    )
    assert not (place / "out.npy").exists()


def test_no_rows_give_no_rows(model, place):
    np.save("none.npy", ROWS[:0])
    result = tvtf("run", model, "--input", "none.npy")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize("command", ["compile", "export", "run"])
def test_what_is_no_file_of_keras_is_named(place, command):
    rest = ("--input", "rows.npy") if command == "run" else ("-o", "out")
    (place / "torn.keras").write_bytes(b"PK\x03\x04")
    (place / "text.h5").write_text("1,2")
    assert mismatched(command, "no.keras", *rest) == "Error: no.keras: No such file or directory"
    torn = "Error: torn.keras is not a file of Keras, or is truncated: its format is ZIP"
    assert mismatched(command, "torn.keras", *rest) == torn
    assert mismatched(command, "text.h5", *rest) == "Error: text.h5 is not a file of Keras: its format is HDF5"


def test_a_pipe_and_a_link_are_written_to_and_stay(model, place):
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    assert tvtf("export", model, "-o", "pipe").exit_code == 0
    written, _ = reader.communicate(timeout=60)
    assert not Path("pipe").is_file() and Path("pipe").exists()
    os.symlink("target.onnx", "link.onnx")
    assert tvtf("export", model, "-o", "link.onnx").exit_code == 0
    assert Path("link.onnx").is_symlink() and Path("target.onnx").read_bytes() == written
    message = "Error: pipe is a device or a pipe, and a library must be a file"
    assert mismatched("compile", model, "-o", "pipe") == message
    os.symlink("target.so", "link.so")
    assert tvtf("compile", model, "-o", "link.so").exit_code == 0
    assert Path("link.so").is_symlink() and library.is_library("target.so")


def test_usage_errors_end_with_two(model):
    result = tvtf("run", model)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: Missing option '--input'.")
    result = tvtf("run", model, "--input", "-", "--batch", "0")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: Invalid value for '--batch': 0 is not in the range x>=1."
    assert tvtf("frobnicate").stderr.splitlines()[-1] == "Error: No such command 'frobnicate'."


def test_an_unknown_format_version_is_one_line(model, place):
    (place / "future").mkdir()
    description = json.loads(Path(model, "saved_model.json").read_text()) | {"version": 99}
    (place / "future" / "saved_model.json").write_text(json.dumps(description))
    assert mismatched("compile", "future") == (
        f"Error: future/saved_model.json has version 99 of the format, and tvtf {tf.__version__} reads version 1; save the "
        "model again with this tvtf, or install the one that wrote it"
    )


def test_a_folder_that_cannot_be_written(model, place):
    assert mismatched("compile", model, "-o", "no/lib.so").startswith("Error: no/tvtf-scratch-")
    assert not (place / "no").exists()


def test_tune_prints_a_table_and_says_where_records_are(model, place, monkeypatch):
    from tvtf.frontend.tuning import tune

    def measure(_bench, candidates, rounds):
        return [
            [0.5 if c.questions["tile"].answer == c.questions["tile"].labels[1] else 1.0] * rounds for c in candidates
        ]

    monkeypatch.setattr(tune.Bench, "measure", measure)
    monkeypatch.setattr(tune.cpu_load, "others_share", lambda start, end: 0.0)
    monkeypatch.setenv("TVTF_TUNED", str(place / "records"))
    monkeypatch.setenv("COLUMNS", "200")
    result = tvtf("tune", model, "--trials", 4, "--input", "rows.npy")
    assert result.exit_code == 0, result.output
    head, kernel, whole, message = result.stdout.splitlines()
    assert head.split() == ["kernel", "share", "before", "after", "tried", "choices"]
    assert kernel.split()[0] == "matmul" and whole.startswith(" a whole call")
    assert message == f"recorded in {place / 'records' / 'tuned.jsonl'}"
    assert json.loads((place / "records" / "tuned.jsonl").read_text())["choices"]


def test_tune_rejects_files_that_do_not_fit(model, place):
    np.save("wide.npy", np.zeros((3, 5), np.float32))
    assert mismatched("tune", model, "--input", "wide.npy") == (
        "Error: input 'rows' must have shape (batch, 3), but got (3, 5)"
    )


def test_cache_shows_and_clears_what_is_compiled(own_cache, monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_SIZE", "500MB")
    assert tvtf("cache").stdout == f"{own_cache}: 0 libraries and 0 kernels, 0.0 MB of 500.0 MB\n"
    tf.function(lambda x: x * 3.0 - 0.5, autograph=False)(tf.constant([1.0, 2.0]))
    shown = tvtf("cache", "--show").stdout
    assert shown.startswith(f"{own_cache}: 1 library and 1 kernel, 0.0 MB of")
    assert tvtf("cache", "--clear").stdout == f"removed 1 library and 1 kernel from {own_cache}\n"
    assert tvtf("cache", "--show").stdout.startswith(f"{own_cache}: 0 libraries")
    own_cache.chmod(0o777)
    assert "not used: it is not trusted: other users may write to" in tvtf("cache").stdout
    monkeypatch.setenv("TVTF_CACHE_SIZE", "much")
    assert mismatched("cache").startswith("Error: TVTF_CACHE_SIZE must be a number of bytes, or a size such as")


def test_texts_go_in_and_out_as_csv_and_npy(place):
    texts = tf.TensorSpec(["batch"], tf.string, name="texts")
    saved.save(place / "shout", tf.function(lambda texts: tf.strings.join([tf.strings.upper(texts), "!"])), texts)
    (place / "texts.csv").write_text('a b\n"c, ""d"""\n#e\n')
    run = ("run", "shout", "--input")
    assert tvtf(*run, "texts.csv").output == 'A B!\n"C, ""D""!"\n#E!\n'
    np.save("texts.npy", np.array(["é", "bc"]))
    assert tvtf(*run, "texts.npy", "--output", "shouted.npy").exit_code == 0
    assert np.load("shouted.npy").tolist() == ["é!".encode(), b"BC!"]
    assert tvtf(*run, "shouted.npy").output == "é!!\nBC!!\n"
    saved.save(place / "same", tf.function(tf.identity), texts)
    np.save("texts.npy", np.array(["", "b\rc", "d"]))
    assert tvtf("run", "same", "--input", "texts.npy", "--output", "same.csv").exit_code == 0
    assert tvtf("run", "same", "--input", "same.csv").output == '""\n"b\nc"\nd\n'  # Python reads \r as \n
    where = f"string_upper ({__file__}:{test_texts_go_in_and_out_as_csv_and_npy.__code__.co_firstlineno + 2})"
    assert mismatched("compile", "shout") == (
        f"Error: {where} is computed by NumPy, and a library runs without Python: "
        "save the module and load it with tvtf instead"
    )
