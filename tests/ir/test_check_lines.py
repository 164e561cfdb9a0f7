"""Errors of compiled code show the user's lines, which the code doesn't contain."""

import re

import numpy as np
import pytest
import tvm

import tvtf as tf
from tvtf import saved
from tvtf.ir.check_lines import without_lines
from tvtf.runtime import cache
from tvtf.runtime.target import host_target
from tvtf.saved import library

MOVED = "\n\n\n"


def defined(source, filename):
    """The function ``run`` of a program of its own, whose lines are counted from its start."""
    names = {"tf": tf}
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - the programs below
    return tf.function(names["run"], autograph=False)


CHECKED = """
def run(x, i):
    y = x * 2.0
    tf.debugging.assert_positive(x)
    return tf.gather(y, i)
"""
IN_A_BRANCH = """
def run(x, i):
    def chosen():
        return tf.gather(x, i)

    return tf.cond(tf.reduce_sum(x) > 0.0, chosen, lambda: x[:1])
"""
UNDER_A_LOOP = """
def run(x, i):
    def body(n, y):
        return n + 1, tf.gather(y, i)

    return tf.while_loop(lambda n, y: n < tf.size(i), body, [0, x], shape_invariants=[[], [None]])[1]
"""
X = tf.constant([1.0, 2.0])
PROGRAMS = {
    "first check": (CHECKED, (-X, [0]), 4),
    "second check": (CHECKED, (X, [7]), 5),
    "branch": (IN_A_BRANCH, (X, [7]), 4),
    "loop": (UNDER_A_LOOP, (X, [7]), 4),
}


@pytest.mark.parametrize("program, arguments, line", PROGRAMS.values(), ids=PROGRAMS)
def test_functions_of_equal_ir_show_their_own_lines(program, arguments, line):
    for lines_before, file in ((0, "first.py"), (3, "first.py"), (1, "second.py")):
        run = defined("\n" * lines_before + program, file)
        with pytest.raises(tf.errors.InvalidArgumentError) as failure:
            run(arguments[0], tf.constant(arguments[1]))
        assert re.findall(r" \((\S+), line (\d+)\)$", str(failure.value)) == [(file, str(line + lines_before))]


@pytest.mark.parametrize("program, arguments, line", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients_show_them_too(program, arguments, line):
    for lines_before in (0, 5):
        run = defined("\n" * lines_before + program, "derived.py")
        with tf.GradientTape() as tape, pytest.raises(tf.errors.InvalidArgumentError) as failure:
            x = tf.identity(arguments[0])
            tape.watch(x)
            run(x, tf.constant(arguments[1]))
        assert str(failure.value).endswith(f" (derived.py, line {line + lines_before})")


def compilation(program, filename):
    specs = tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32)
    return cache.Compilation(defined(program, filename).get_concrete_function(*specs).module(), host_target())


@pytest.mark.parametrize("program", [CHECKED, IN_A_BRANCH, UNDER_A_LOOP])
def test_code_is_found_where_lines_moved(program):
    first, moved, renamed = (
        compilation(*each) for each in ((program, "a.py"), (MOVED + program, "a.py"), (program, 'of "b".py'))
    )
    assert first.key() == moved.key() == renamed.key()
    other = compilation(program.replace("gather(y", "gather(-y").replace("gather(x", "gather(-x"), "a.py")
    assert first.key() != other.key()


def test_texts_that_look_like_lines_stay():
    message = 'a "line":5,"column":0,"end_line":5 b'
    found = [
        without_lines(tvm.ir.save_json(compilation(CHECKED.replace("(x)", f"(x, message={text!r})"), "a.py").mod))
        for text in (message, message.replace("5", "6"))
    ]
    assert found[0] != found[1]


def test_a_library_holds_its_lines(tmp_path):
    specs = tf.TensorSpec([2], name="x"), tf.TensorSpec([1], tf.int32, name="i")
    model = saved.save(tmp_path / "model", defined(CHECKED, "exported.py"), *specs)
    library.write(saved.load(model), tmp_path / "lib.so")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r" \(exported.py, line 5\)$"):
        library.Library(tmp_path / "lib.so").run([np.ones(2, np.float32), np.array([7], np.int32)])
