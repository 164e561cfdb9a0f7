"""Saved models: what TensorFlow's format can't express, damaged and hostile folders, failing saves, and `show`.

What they share with TensorFlow's is in tests/parity/saved_model.py.
"""

import json
import os
import shutil
from pathlib import Path

import golden_filters
import numpy as np
import pytest
import saved_model_programs
from click.testing import CliRunner

import tvtf as tf
from tvtf import saved
from tvtf.cli import main
from tvtf.fileio import atomic_file
from tvtf.saved.description import checksum
from tvtf.saved.library import Library


@pytest.fixture
def folder(tmp_path):
    saved_model_programs.save(tf, tmp_path / "m")
    return tmp_path / "m"


def description(folder):
    return json.loads((folder / "saved_model.json").read_text())


def edited(folder, change):
    data = description(folder)
    change(data)
    (folder / "saved_model.json").write_text(json.dumps(data))


def error_message(folder):
    with pytest.raises(tf.saved_model.SavedModuleError) as caught:
        tf.saved_model.load(folder)
    return str(caught.value)


# -- what comes back


def test_variables_are_found_on_the_loaded_object(folder):
    loaded = tf.saved_model.load(folder)
    assert [v.name for v in loaded.variables] == ["scale:0", "count:0", "more:0", "Variable:0"]
    assert [v.name for v in loaded.trainable_variables] == ["scale:0", "more:0", "Variable:0"]


def test_a_trace_that_calls_python_is_left_out_with_the_reason(tmp_path, caplog):
    model = saved_model_programs.demo(tf)
    model.plain = tf.function(lambda x: tf.numpy_function(np.sin, [x], tf.TensorSpec([2])))
    model.plain(tf.constant([0.0, 1.0]))
    tf.saved_model.save(model, tmp_path / "m")
    assert "leaves out a trace of <lambda>: <lambda> calls a Python function" in caplog.text
    loaded = tf.saved_model.load(tmp_path / "m")
    with pytest.raises(ValueError, match="Found zero restored functions for caller function. <lambda> calls a Python"):
        loaded.plain(tf.constant([0.0, 1.0]))
    with pytest.raises(ValueError, match="calls a Python function"):
        signature = model.plain.get_concrete_function(tf.TensorSpec([2]))
        tf.saved_model.save(model, tmp_path / "n", signatures=signature)


def test_assets_are_copied_and_found(tmp_path):
    model = tf.Module()
    (tmp_path / "words.txt").write_text("one\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "words.txt").write_text("two\n")
    model.first = tf.saved_model.Asset(tmp_path / "words.txt")
    model.second = tf.saved_model.Asset(tmp_path / "more" / "words.txt")
    tf.saved_model.save(model, tmp_path / "m")
    shutil.move(tmp_path / "m", tmp_path / "moved")
    loaded = tf.saved_model.load(tmp_path / "moved")
    paths = [Path(a.asset_path.numpy().decode()) for a in (loaded.first, loaded.second)]
    assert [p.read_text() for p in paths] == ["one\n", "two\n"]
    assert {p.parent for p in paths} == {tmp_path / "moved" / "assets"}


def test_code_is_compiled_for_the_requested_targets(tmp_path):
    model = saved_model_programs.demo(tf)
    options = tf.saved_model.SaveOptions(targets=("cpu",))
    tf.saved_model.save(model, tmp_path / "m", signatures=model.scaled, options=options)
    found = Library(tmp_path / "m" / "compiled" / "serving_default.cpu.so").run([np.float32([[1, 1]])])
    assert found[0].tolist() == [[2.0, 3.0]]


def test_a_signature_is_what_the_inference_commands_take(folder):
    assert str(saved.load(folder).description) == "scaled(rows: float32 (rows_0, 2)) -> output_0: float32 (rows_0, 2)"
    with pytest.raises(ValueError, match="has no signature 'other'; it has: serving_default, counted"):
        saved.load(folder, "other")


# -- damage


def test_every_changed_byte_of_a_file_is_noticed(folder):
    for path in sorted(folder.rglob("*.*")):
        whole = path.read_bytes()
        if path.name == "saved_model.json" or not whole:
            continue
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert error_message(folder), path
        path.write_bytes(whole[:-1])
        assert error_message(folder), path
        path.unlink()
        assert error_message(folder), path
        path.write_bytes(whole)
    tf.saved_model.load(folder)


def test_folders_of_others_are_distinguished(tmp_path):
    with pytest.raises(OSError, match="SavedModel file does not exist at: .*/saved_model.json"):
        tf.saved_model.load(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    assert error_message(tmp_path).startswith(
        f"{tmp_path} was saved by TensorFlow, as a graph of TensorFlow's ops, which tvtf"
    )
    assert not tf.saved_model.contains_saved_model(tmp_path)


def at(*path, value):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change, message",
    [
        (at("version", value=7), "has version 7 of the format, and tvtf"),
        (at("format", value="x"), "is not a description of a saved model"),
        (at("files", value=[]), "its list of files is not a dict"),
        (at("files", "../../secret", value="0"), "names the file '../../secret', which is not one of its folder"),
        (at("files", "/etc/passwd", value="0"), "names the file '/etc/passwd', which is not one of its folder"),
        (at("files", "assets/missing", value="0"), "assets/missing is missing"),
        (at("objects", value=[]), "it lists no objects"),
        (at("objects", 0, "children", 0, value=["scale", 99]), "object 0 has the edge ['scale', 99]"),
        (at("objects", 0, "children", 0, value=["__class__", 1]), "'__class__' can't be the name of an attribute"),
        (at("objects", 0, "kind", value="code"), "object 0 is of the unknown kind 'code'"),
        (at("objects", 1, "shape", value=[3]), "scale must be float32 [3], but is float32 [2]"),
        (at("objects", 1, "dtype", value="int32"), "scale must be int32 [2], but is float32 [2]"),
        (at("objects", 1, "key", value="x"), "the value of scale isn't in variables/variables"),
        (at("things", value=[["object", 99]]), "['object', 99] is not something that a function can capture"),
        (at("things", value=[["stream", [1, 2]]]), "['stream', [1, 2]] is not something that a function can capture"),
        (at("things", value=[["stream", [0, -1, 0]]]), "['stream', [0, -1, 0]] is not something that a function can"),
        (at("things", value=[["stream", ["0", 0, 0]]]), "['stream', ['0', 0, 0]] is not something that a function can"),
        (at("things", 0, value=["object", 0]), "refers to value 0, but the file has no value of this number"),
        (at("functions", 0, "program", value={"nodes": []}), "is not the one that was saved"),
        (at("functions", 0, "captures", value=[]), "takes"),
        (at("functions", 0, "results", value=[["computed", 5]]), "returns the computed value 5, but has only"),
        (at("functions", 0, "results", value=[["other", 0]]), "a function of it can't be read (KeyError: 'other')"),
        (at("functions", 0, "updates", value=[[5, 0]]), "updates capture 5 with value 0, but has 1 captures"),
        (at("functions", 0, "arguments", value=5), "a function of it can't be read"),
        (at("functions", 0, "structure", value={"code": 1}), "its structure has another number of them"),
        (at("functions", value=5), "it lists no functions"),
    ],
)
def test_descriptions_that_can_not_be_true_are_reported(folder, change, message):
    edited(folder, change)
    assert message in error_message(folder)


def test_a_program_that_is_no_program_is_reported(folder):
    def change(data):
        data["functions"][0] |= {"program": {"nodes": []}, "sha256": checksum({"nodes": []})}

    edited(folder, change)
    assert "the program of" in error_message(folder)
    (folder / "saved_model.json").write_text("[1")
    assert "is damaged: it is not valid JSON" in error_message(folder)


# -- saves


def test_a_failed_save_leaves_the_old_folder_whole(folder, monkeypatch):
    before = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    whole = atomic_file._write_through

    def full(path, chunks):
        if "saved_model.json" in path:
            raise OSError(28, "No space left on device")
        whole(path, chunks)

    monkeypatch.setattr(atomic_file, "_write_through", full)
    model = saved_model_programs.demo(tf)
    model.scale.assign([7.0, 7.0])
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.saved_model.save(model, folder)
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert tf.saved_model.load(folder).scale.numpy().tolist() == [2.0, 3.0]


def test_saving_over_a_model_replaces_it(folder):
    model = saved_model_programs.demo(tf)
    model.scale.assign([7.0, 7.0])
    tf.saved_model.save(model, folder)
    loaded = tf.saved_model.load(folder)
    assert (loaded.scale.numpy().tolist(), list(loaded.signatures)) == ([7.0, 7.0], [])
    assert len(os.listdir(folder / "variables")) == 2


# -- the command


def shown(folder, *options):
    result = CliRunner().invoke(main, ["saved-model", *options, "--dir", str(folder)])
    assert result.exit_code == 0, result.output
    return result.output


def test_show_prints_what_tensorflow_prints(folder):
    golden = saved_model_programs.golden()
    for options in saved_model_programs.SHOWN:
        text = shown(folder, "show", *options)
        assert golden_filters.clean(text) == golden[" ".join(options)], options
    assert "'Mul', " in shown(folder, "show", "--tag_set", "serve", "--list_ops")


def test_run_prints_results_by_name(folder, tmp_path):
    assert shown(folder, "run", "--input_exprs", "rows=[[1.0, 2.0]]") == "Result for output key output_0:\n[[2. 6.]]\n"
    np.save(tmp_path / "x.npy", np.float32([[1, 1]]))
    shown(folder, "run", "--inputs", f"rows={tmp_path}/x.npy", "--outdir", str(tmp_path / "out"))
    assert np.load(tmp_path / "out" / "output_0.npy").tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize(
    "options, message",
    [
        (("show", "--tag_set", "no"), "MetaGraphDef associated with tag-set no could not be found in the SavedModel"),
        (
            ("show", "--tag_set", "serve", "--signature_def", "no"),
            'Could not find signature "no". Please choose from: ',
        ),
        (("run",), "At least one of --inputs, --input_exprs"),
        (("run", "--input_exprs", "no=1"), '"no" is not a valid input key. Please choose from "rows"'),
        (("run", "--input_exprs", "rows=f()"), 'Expression "f()" is not a valid python literal.'),
        (("run", "--inputs", "rows"), '--inputs "rows" format is incorrect.'),
    ],
)
def test_bad_requests_are_one_line(folder, options, message):
    result = CliRunner().invoke(main, ["saved-model", *options, "--dir", str(folder)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1) and message in result.stderr


def test_functions_have_other_names(tmp_path):
    model = tf.Module()
    model.double = tf.function(lambda x: 2.0 * x, input_signature=[tf.TensorSpec([None])])
    options = tf.saved_model.SaveOptions(function_aliases={"twice": model.double, "of": model.double})
    tf.saved_model.save(model, str(tmp_path), options=options)
    assert not hasattr(tf.saved_model.load(str(tmp_path)), "function_aliases")
    requested = tf.saved_model.LoadOptions(experimental_load_function_aliases=True)
    loaded = tf.saved_model.load(str(tmp_path), options=requested)
    assert sorted(loaded.function_aliases) == ["of", "twice"]
    assert (
        loaded.function_aliases["twice"](tf.constant([1.5])).numpy() == loaded.double(tf.constant([1.5])).numpy() == 3.0
    )
    with pytest.raises(
        TypeError, match="function_aliases must map names to functions made by tf.function, but 'no' is 3"
    ):
        tf.saved_model.save(model, str(tmp_path), options=tf.saved_model.SaveOptions(function_aliases={"no": 3}))
