"""A save over a saved model, killed before each of its operations on files: the old model loads, or the new one."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

import tvtf as tf
from tvtf.fileio.folder_locks import locked
from tvtf.saved.swap import DISCARDED, SAVING

CHANGING = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "shutil.copyfile")


def model(value):
    made = tf.Module()
    made.v = tf.Variable([value, value])
    constant = tf.constant([value] * 3)
    made.f = tf.function(lambda x: x * made.v + tf.reduce_sum(constant), input_signature=[tf.TensorSpec([2])])
    return made


def loaded(folder):
    found = tf.saved_model.load(folder)
    value = float(found.v.numpy()[0])
    assert found.f(tf.constant([1.0, 1.0])).numpy().tolist() == [4 * value, 4 * value]
    return value


def leftovers(folder):
    return [p.name for p in folder.rglob(".*") if p.name.startswith((SAVING, DISCARDED))]


def killed_before(number, folder, value):
    """Saves in a fork that ends before its operation of this number; whether it came so far."""
    made = model(value)
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = [number]

    def count(event, args):
        if event in CHANGING or (event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)

    try:
        sys.addaudithook(count)
        tf.saved_model.save(made, folder)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_save_killed_anywhere_leaves_the_old_model_or_the_new(tmp_path):
    tf.saved_model.save(model(1.0), tmp_path / "m")
    old, seen = 1.0, set()
    for number in range(200):
        new = float(number + 2)
        was_killed = killed_before(number, tmp_path / "m", new)
        found = loaded(tmp_path / "m")
        assert found in ((old, new) if was_killed else (new,)), number
        seen.add(found == new)
        old = found
        if not was_killed:
            break
    assert number > 20 and seen == {False, True}
    assert leftovers(tmp_path / "m") == []


def test_the_next_save_spares_a_living_one(tmp_path):
    tf.saved_model.save(model(1.0), tmp_path / "m")
    dead, living = (tmp_path / "m" / f"{SAVING}{name}" for name in ("dead", "living"))
    dead.mkdir()
    living.mkdir()
    with locked(living):
        tf.saved_model.save(model(2.0), tmp_path / "m")
    assert (dead.exists(), living.exists(), loaded(tmp_path / "m")) == (False, True, 2.0)


def test_files_are_where_tools_look_for_them(tmp_path):
    for value in (1.0, 2.0, 3.0):
        tf.saved_model.save(model(value), tmp_path / "m")
        read = tf.train.load_checkpoint(str(tmp_path / "m" / "variables" / "variables"))
        assert read.get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE").tolist() == [value, value]
        assert sorted(p.name for p in Path(tmp_path / "m").iterdir()) == [
            "assets",
            "saved_model.json",
            "variables",
        ]


def in_child(work):
    """A fork that does some work; 0 is its exit code if it ends."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_saves_and_loads_of_several_processes_at_once(tmp_path):
    folder = tmp_path / "m"
    tf.saved_model.save(model(1.0), folder)

    def saves(value):
        for _ in range(6):
            tf.saved_model.save(model(value), folder)

    def loads():
        for _ in range(12):
            assert loaded(folder) in (1.0, 2.0, 3.0, 4.0)

    children = [in_child(lambda value=value: saves(value)) for value in (2.0, 3.0, 4.0)] + [in_child(loads)]
    assert [exit_code(child) for child in children] == [0, 0, 0, 0]
    assert loaded(folder) in (2.0, 3.0, 4.0) and leftovers(folder) == []


def kills(folder, count):
    """Kills processes that save one model after the other, at any moment; what is loaded then is a whole one, and no older."""
    tf.saved_model.save(model(0.0), folder)
    rng, last = random.Random(0), 0.0
    for number in range(1, count + 1):

        def saves(number=number):
            for step in range(100):
                tf.saved_model.save(model(number + step / 128), folder)

        child = in_child(saves)
        time.sleep(rng.random() * 0.15)
        os.kill(child, signal.SIGKILL)
        assert exit_code(child) == -signal.SIGKILL
        found = loaded(folder)
        assert last <= found < number + 1
        last = found
    tf.saved_model.save(model(-1.0), folder)
    assert loaded(folder) == -1.0 and leftovers(folder) == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_saves_lose_nothing(tmp_path):
    kills(tmp_path / "m", 20)


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_1000_killed_saves_lose_nothing(tmp_path):
    kills(tmp_path / "m", 1000)
