"""Untrusted saved models: the names they may contain, and damage of any kind, which raises an error that names the file."""

import ast
import contextlib
import gc
import inspect
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import tvtf as tf
from tvtf.cli import main
from tvtf.core.primitive import Primitive, table
from tvtf.saved import allowed_ops, schema
from tvtf.saved.description import checksum

MUTATE = Path(__file__).parents[1] / "saved_model_mutants.py"


@pytest.fixture
def folder(tmp_path):
    """A model of any rank: its functions hold calls that wait, by the names of public functions."""
    model = tf.Module()
    spread = tf.function(lambda x: tf.math.reduce_std(x) + tf.reduce_sum(x, -1), input_signature=[tf.TensorSpec(None)])
    model.spread = spread
    tf.saved_model.save(model, tmp_path / "m")
    return tmp_path / "m"


def edited(folder, change):
    data = json.loads((folder / "saved_model.json").read_text())
    for function in data["functions"]:
        change(function)
        function["sha256"] = checksum(function["program"])
    (folder / "saved_model.json").write_text(json.dumps(data))


def error_message(folder):
    with pytest.raises(tf.saved_model.SavedModuleError) as caught:
        tf.saved_model.load(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


# -- what a saved model may name


@pytest.mark.parametrize(
    "named",
    [
        ["function", "io.gfile.rmtree"],
        ["function", "py_function"],
        ["function", "numpy_function"],
        ["function", "io.write_file"],
        ["function", "print"],
        ["function", "saved_model.load"],
        ["function", "Variable"],
        ["function", "config.run_functions_eagerly"],
        ["primitive", "read_file"],
        ["bind", "file_written"],
        ["bind", "call_python"],
        ["bind", "nothing"],
        ["other", "shape"],
        ["function", ["shape"]],
    ],
)
def test_a_deferred_call_of_anything_but_computation_is_rejected_while_loading(folder, named):
    def change(function):
        for call in function["waiting"].values():
            call["function"] = named

    edited(folder, change)
    assert "is damaged: it " in error_message(folder)


def test_a_model_can_not_put_its_calls_in_the_place_of_anothers(folder, tmp_path):
    """The keys of a public model's calls are known to whoever makes a hostile one, which is loaded first."""
    hostile = tmp_path / "hostile"
    shutil.copytree(folder, hostile)

    def change(function):
        for call in function["waiting"].values():
            call["function"] = ["function", "math.reduce_mean"]

    edited(hostile, change)
    gc.collect()  # the model that was saved
    first = tf.saved_model.load(hostile)
    assert "has another call by the key" in error_message(folder)
    del first
    gc.collect()
    tf.saved_model.load(folder)
    tf.saved_model.load(folder)


def renamed(function, old, new):
    for node in function["program"]["nodes"]:
        if node == {"type": "ir.Op", "data": f"tvtf.{old}"}:
            node["data"] = new


@pytest.fixture
def plain(tmp_path):
    model = tf.Module()
    model.f = tf.function(lambda x: tf.sin(x) + 1.0, input_signature=[tf.TensorSpec([2])])
    tf.saved_model.save(model, tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    "op, message",
    [
        ("tvtf.read_file", "it calls ReadFile ('read_file'), which no saved model may: it does more than compute"),
        ("tvtf.file_written", "which no saved model may"),
        ("tvtf.call_python", "which no saved model may: it calls Python"),
        ("tvtf.nothing", "it calls 'nothing', which isn't there"),
        ("relax.call_pure_packed", "'relax.call_pure_packed' is not an op of the tvtf dialect"),
        ("tvtf.matmul", "can't take"),
        ("tvtf.waiting", "refers to a deferred call that the file doesn't have"),
    ],
)
def test_an_op_that_no_saved_model_may_call_is_rejected_while_loading(plain, op, message):
    edited(plain, lambda function: renamed(function, "sin", op))
    assert message in error_message(plain)


@pytest.fixture
def looked_up(tmp_path):
    model = tf.Module()
    pairs = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
    model.table, model.v = tf.lookup.StaticHashTable(pairs, 0), tf.Variable(7, dtype=tf.int64)
    model.f = tf.function(
        lambda x: model.table.lookup(x) + model.v + tf.constant([1, 2, 3], tf.int64)[0],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(model, tmp_path / "m")
    return tmp_path / "m"


def test_a_program_calls_python_for_tables_alone(looked_up):
    """By a parameter that stands for one: neither by a number, nor by what else it captures."""
    assert tf.saved_model.load(looked_up).f(tf.constant(["b", "z"])).numpy().tolist() == [10, 8]
    description = json.loads((looked_up / "saved_model.json").read_text())
    (table,) = [thing for thing in description["things"] if thing[0] == "table"]
    for other in (["constant", table[1][2]], ["object", 1]):
        changed = {**description, "things": [other if thing == table else thing for thing in description["things"]]}
        (looked_up / "saved_model.json").write_text(json.dumps(changed))
        with pytest.raises(tf.saved_model.SavedModuleError):
            tf.saved_model.load(looked_up)
    table[1][0] = table[1][2]
    (looked_up / "saved_model.json").write_text(json.dumps(description))
    with pytest.raises(tf.saved_model.SavedModuleError, match="a table.s keys and values differ in shape"):
        tf.saved_model.load(looked_up)


def test_a_table_is_not_read_in_a_branch_of_a_saved_model(tmp_path):
    model = tf.Module()
    model.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
    model.f = tf.function(
        lambda x, y: tf.cond(y, lambda: model.table.lookup(x), lambda: tf.zeros([2], tf.int32)),
        input_signature=[tf.TensorSpec([2], tf.string), tf.TensorSpec([], tf.bool)],
    )
    with pytest.raises(ValueError, match="looks things up in a table in a branch or a loop"):
        tf.saved_model.save(model, tmp_path / "m")


def test_a_saved_model_prints_to_the_standard_streams_alone(tmp_path):
    model = tf.Module()
    model.f = tf.function(
        lambda x: (tf.print(x, output_stream=sys.stdout), x)[1], input_signature=[tf.TensorSpec([], tf.float32)]
    )
    tf.saved_model.save(model, tmp_path / "m")
    tf.saved_model.load(tmp_path / "m")

    def change(function):
        for node in function["program"]["nodes"]:
            if node == {"type": "ffi.String", "data": "stdout"}:
                node["data"] = f"file://{tmp_path}/stolen"

    edited(tmp_path / "m", change)
    assert "it prints to 'file://" in error_message(tmp_path / "m")


def test_a_function_that_reads_files_is_not_saved(tmp_path):
    model = tf.Module()
    model.f = tf.function(tf.io.read_file, input_signature=[tf.TensorSpec([], tf.string)])
    with pytest.raises(ValueError, match="can't be saved: it calls ReadFile .*, which no saved model may"):
        tf.saved_model.save(model, tmp_path / "m")


def test_nothing_with_effects_is_allowed():
    """By the records: of primitives only pure ones may be deferred; public functions come from files that only compute."""
    found = allowed_ops.functions()
    assert len(found) > 800
    primitives = [each for each in found.values() if isinstance(each, Primitive)]
    assert all(each.pure for each in primitives)
    rejected = {name for name, each in table.items() if not allowed_ops.is_allowed(each)}
    assert {"call_python", "recall_python", "read_file", "file_written", "file_names"} <= rejected
    outside = (
        "io.gfile.",
        "config.",
        "data.",
        "train.",
        "summary.",
        "saved_model.",
        "profiler.",
        "py_",
        "keras.",
        "test.",
    )
    assert not [name for name in found if name.startswith(outside)]


TOUCHING = {"os", "shutil", "subprocess", "pathlib", "socket", "tempfile", "importlib", "ctypes", "pickle"}
CALLS = {"open", "eval", "exec", "__import__"}


def test_allowed_functions_name_no_files_processes_or_code():
    """In their own bodies."""
    touching = []
    for name, each in allowed_ops.functions().items():
        bare = each.front if isinstance(each, Primitive) else inspect.unwrap(each)
        tree = ast.parse(textwrap.dedent(inspect.getsource(bare)))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        touching += [(name, used & (TOUCHING | CALLS))] if used & (TOUCHING | CALLS) else []
    assert touching == []


# -- graphs of nodes


def nodes_of(function, kind):
    return [node for node in function["program"]["nodes"] if node["type"] == kind]


def changed(kind, **fields):
    def change(function):
        for node in nodes_of(function, kind):
            node["data"] |= fields

    return change


def without(kind, name):
    def change(function):
        for node in nodes_of(function, kind):
            del node["data"][name]

    return change


def itself(function):
    for number, node in enumerate(function["program"]["nodes"]):
        if node["type"] == "ffi.Array":
            node["data"].append(number)


def deep(function):
    nodes = function["program"]["nodes"]
    root = nodes.pop()
    for _ in range(1000):
        nodes.append({"type": "ffi.Array", "data": [len(nodes) - 1]})
    nodes.append(root)
    function["program"]["root_index"] = len(nodes) - 1


@pytest.mark.parametrize(
    "change, message",
    [
        (itself, "which is not one of the earlier nodes"),
        (without("relax.TensorType", "ndim"), "must have the fields span, shape, dtype, vdevice, ndim"),
        (changed("relax.TensorType", ndim=7), "has ndim 7, which is not the number of its dims"),
        (changed("relax.TensorType", ndim=1 << 40), "is out of range"),
        (changed("ir.Call", op=0), "refers to a 'None', and must to ir.Op"),
        (changed("ir.Call", args=0), "refers to a 'None', and must to ffi.Array"),
        (changed("ir.Call", ty=1 << 70), "which is not one of the earlier nodes"),
        (changed("ir.PrimType", dtype="handle"), "'handle' is not a dtype"),
        (changed("relax.expr.Function", is_pure=1), "must be of type bool"),
        (changed("ir.Var", name=None), "refers to node None"),
        (lambda f: f["program"].update(root_index=0), "its root is node 0"),
        (lambda f: f["program"].update(nodes=None), "it has no list of nodes"),
        (lambda f: nodes_of(f, "ffi.Tensor")[0].update(data="AAAA"), "is not an array"),
        (
            lambda f: f["program"]["nodes"].append({"type": "script.printer.Doc"}),
            "is of a type that saved programs can't contain",
        ),
        (deep, "is nested more than 300 deep"),
    ],
)
def test_graphs_that_tvm_should_not_see_are_rejected(plain, change, message):
    edited(plain, lambda function: change(function) if nodes_of(function, "ir.Call") else None)
    assert message in error_message(plain)


def test_all_programs_fit_the_schema(plain, folder):
    for each in (plain, folder):
        for function in json.loads((each / "saved_model.json").read_text())["functions"]:
            assert schema.check(function["program"])


def mutants(count, seed):
    """In a process of its own: one that dies is told with its number."""
    command = [sys.executable, MUTATE, str(count), str(seed)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_damaged_models_load_or_are_rejected():
    mutants(60, 0)


@pytest.mark.sweep
def test_2000_damaged_models_load_or_are_rejected():
    mutants(2000, 1)


@pytest.mark.parametrize(
    "change", [{"objects": 5}, {"objects": []}, {"functions": [{}]}, {"objects": [{"children": 1}]}]
)
def test_what_shows_a_damaged_model_names_its_file(plain, change):
    path = plain / "saved_model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    done = CliRunner().invoke(main, ["saved-model", "show", "--dir", str(plain), "--all"])
    assert (done.exit_code, str(path) in done.stderr, done.exception.__class__) == (1, True, SystemExit)
    with contextlib.suppress(tf.saved_model.SavedModuleError):
        tf.saved_model.experimental.read_fingerprint(str(plain))
