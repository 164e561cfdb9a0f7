"""The wheel is whole, runs where it alone is installed, and editors and type checkers know what it holds."""

import ast
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tvtf.api.namespaces import all_names

ROOT = Path(__file__).parents[1]
FOLDERS = {"tvtf": "tvtf", "frontend": "tvtf/frontend", "passes": "tvtf/passes", "models": "tvtf/models"}
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")
PROGRAM = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL).group(1)
USES = """import tvtf as tf
import tvtf.experimental.numpy as tnp
from tvtf.data import Dataset
from tvtf.keras import layers

ragged: tf.RaggedTensor = tf.ragged.constant([[1], [2, 3]])
dataset: Dataset = tf.data.Dataset.range(3).map(lambda x: x).batch(2)
generator = tf.random.Generator.from_seed(1)
tf.dtypes.cast(1, tf.float32)
tf.distribute.MirroredStrategy()
tf.io.gfile.glob("x")
tf.math.special.dawsn(1.0)
tf.compat.v1.Session()
tf.optimizers.Adam(0.1)
tf.train.Checkpoint()
tf.onnx.export
tnp.array([1])
layers.Dense(1)
"""
MISTAKES = """import tvtf as tf

tf.nn.rleu(1.0)
tf.linalg.cholesky()
"""


def run(*command, cwd=None, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, timeout=300, **options
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the sources, so that nothing is left in this folder."""
    source = tmp_path_factory.mktemp("source")
    for folder in (*FOLDERS, "tools"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, source / file)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    code, said = run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", source / "dist", source)
    assert code == 0, said
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment in which the wheel is installed, and finds the packages that it needs in this one."""
    folder = tmp_path_factory.mktemp("environment")
    assert run(sys.executable, "-m", "venv", "--without-pip", folder)[0] == 0
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python")
    code, said = run(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel)
    assert code == 0, said
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # A path in a .pth file is searched last, and .pth files in it, such as that of this editable install, are not read.
    (packages / "needed.pth").write_text(sysconfig.get_paths()["purelib"])
    return folder


def test_it_holds_every_file_and_the_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in held if name.endswith(".dist-info/METADATA"))
    sources = {
        f"{target}/{path.relative_to(ROOT / folder)}"
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".ll", ".txt") or path.name == "py.typed"
    }
    assert sources <= held
    assert any(name.endswith("licenses/LICENSE") for name in held)
    for line in ("License-Expression: Apache-2.0", "Classifier: Typing :: Typed", "Requires-Python: <3.14,>=3.10"):
        assert line in metadata


def test_every_public_name_is_in_a_stub(wheel):
    declared = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".pyi") and name != "tvtf/_typing/__init__.pyi":
                path = name.removeprefix("tvtf/").removeprefix("_typing/").removesuffix(".pyi").removesuffix("__init__")
                declared[path.strip("/").replace("/", ".")] = names_of(ast.parse(archive.read(name)))
    # These have names in a source file of their own, which stubs leave to it.
    sources = ("data.experimental", "distribute", "dtypes", "errors", "onnx", "saved_model", "train")
    missing = [
        path
        for path in all_names()
        for space, _, name in [path.rpartition(".")]
        if not space.startswith((*sources, "__internal__")) and name not in declared[space]
    ]
    assert missing == []


def names_of(tree):
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname for each in node.names if each.asname == each.name}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found.add(node.targets[0].id)
    return found


def test_a_program_runs_where_only_the_wheel_is_installed(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM + "\nprint(tf.__file__)\n")
    code, said = run(environment / "bin" / "python", "program.py", cwd=tmp_path)
    assert code == 0, said
    assert "step 300: loss 0.02" in said and str(environment) in said
    code, said = run(environment / "bin" / "tvtf", "--help", cwd=tmp_path)
    assert code == 0 and "Usage: tvtf" in said


def test_mypy_knows_the_names(environment, tmp_path):
    for name, text in {"program.py": PROGRAM, "uses.py": USES, "mistakes.py": MISTAKES}.items():
        (tmp_path / name).write_text(text)
    mypy = (sys.executable, "-m", "mypy", "--python-executable", environment / "bin" / "python")
    code, said = run(*mypy, "program.py", "uses.py", cwd=tmp_path)
    assert code == 0, said
    code, said = run(*mypy, "mistakes.py", cwd=tmp_path)
    assert 'Module has no attribute "rleu"' in said and 'Missing positional argument "input"' in said


def test_pyright_knows_the_names(environment, tmp_path):
    pyright = Path(sys.executable).with_name("basedpyright")
    if not pyright.exists():
        pytest.skip("basedpyright is not installed")
    for name, text in {"program.py": PROGRAM, "uses.py": USES}.items():
        (tmp_path / name).write_text(text)
    settings = {"typeCheckingMode": "standard", "include": ["*.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    code, said = run(pyright, "--project", tmp_path, "--pythonpath", environment / "bin" / "python")
    assert code == 0, said
    (tmp_path / "uses.py").write_text(MISTAKES)
    code, said = run(pyright, "--project", tmp_path, "--pythonpath", environment / "bin" / "python")
    assert (
        '"rleu" is not a known attribute of module "tvtf.nn"' in said
        and 'Argument missing for parameter "input"' in said
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tf.nn.re", ["relu", "relu6"]),
        ("tf.math.sp", ["special"]),
        ("tf.data.Dataset.from_t", ["from_tensor_slices", "from_tensors"]),
        ("tf.linalg.cho", ["cholesky", "cholesky_solve"]),
        ("tf.GradientT", ["GradientTape"]),
    ],
)
def test_an_editor_completes(environment, text, expected):
    jedi = pytest.importorskip("jedi")
    (packages,) = (environment / "lib").glob("python*/site-packages")
    project = jedi.Project(str(environment), added_sys_path=[str(packages)], smart_sys_path=False)
    script = jedi.Script(f"import tvtf as tf\n{text}", project=project)
    assert [found.name for found in script.complete(2, len(text))] == expected


def test_an_editor_shows_the_arguments(environment):
    jedi = pytest.importorskip("jedi")
    (packages,) = (environment / "lib").glob("python*/site-packages")
    project = jedi.Project(str(environment), added_sys_path=[str(packages)], smart_sys_path=False)
    (signature,) = jedi.Script("import tvtf as tf\ntf.nn.relu(", project=project).get_signatures(2, 11)
    assert [parameter.name for parameter in signature.params] == ["features", "name"]
    assert signature.docstring().startswith("relu(features: Any, name: str | None=None)")
