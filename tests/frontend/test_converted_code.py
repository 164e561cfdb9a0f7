"""Code that AutoGraph has converted has the user's file and lines, wherever Python shows them."""

import inspect
import logging
import traceback

import pytest
from program_files import loaded

import tvtf as tf
from tvtf.ir.user_lines import is_own_code


def line_of(function, text):
    """The number of the line of ``function`` that contains ``text``."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def fails_in_branch(x):
    if x > 0:
        y = tf.reshape(
            x,
            tf.zeros([2]).shape + tf.missing([1]),
        )
    else:
        y = x
    return y


def test_tracebacks_show_the_users_file():
    with pytest.raises(AttributeError) as error:
        tf.function(fails_in_branch)(tf.constant(1.0))
    frames = traceback.extract_tb(error.value.__traceback__)
    mine = [(frame.name, frame.lineno, frame.line) for frame in frames if frame.filename == __file__][1:]
    assert mine == [
        ("tf__fails_in_branch", line_of(fails_in_branch, "if x > 0"), "if x > 0:"),
        ("if_body", line_of(fails_in_branch, "tf.missing"), "tf.zeros([2]).shape + tf.missing([1]),"),
    ]


def test_errors_name_the_line_within_a_statement():
    with pytest.raises(AttributeError) as error:
        tf.function(fails_in_branch)(tf.constant(1.0))
    line = line_of(fails_in_branch, "tf.missing")
    assert f'File "{__file__}", line {line}, in fails_in_branch  *\n        tf.zeros' in str(error.value)


def fails_late(x, depth):
    if depth == 0:
        raise RuntimeError("at the end")
    return tf.autograph.experimental.do_not_convert(fails_late)(x, depth - 1)


def test_frames_of_the_same_function_that_runs_unconverted_have_no_star():
    with pytest.raises(RuntimeError) as error:
        tf.function(fails_late)(tf.constant(1.0), 1)
    end, call = line_of(fails_late, "raise"), line_of(fails_late, "return")
    assert f"line {call}, in fails_late  *\n" in str(error.value)
    assert f"line {end}, in fails_late\n" in str(error.value)


def test_converted_functions_have_the_users_source():
    def nested(x):
        return x if x > 0 else -x

    for function in (fails_in_branch, nested):
        assert inspect.getsource(tf.autograph.to_graph(function)) == inspect.getsource(function)


def test_to_code_of_a_lambda():
    code = tf.autograph.to_code(lambda value: value + 1)
    assert code.startswith("tf__lam = lambda value: ag__.with_function_scope(")


def test_annotations_of_nested_functions_are_evaluated_only_where_the_users_are(tmp_path):
    source = "{}def f(x):\n    def plus(y: Missing):\n        return y + 1\n    return plus(x)\n"
    late = loaded(tmp_path / "late.py", source.format("from __future__ import annotations\ndel annotations\n"))
    assert float(tf.function(late.f)(tf.constant(1.0))) == 2.0
    now = loaded(tmp_path / "now.py", source.format(""))
    with pytest.raises(NameError, match="Missing"):
        tf.function(now.f)(tf.constant(1.0))


def test_a_tree_that_is_no_program_leaves_the_function_as_it_is(caplog):
    def hook():
        """malt puts the statements after this text into a block, and there are none."""

    @tf.function
    def program(x):
        hook()
        return x + 1

    with caplog.at_level(logging.WARNING, "tensorflow"):
        assert float(program(tf.constant(1.0))) == 2.0
    assert "Cause: empty body on With" in caplog.text


def test_programs_of_this_package_are_no_own_code():
    from tvtf import models

    assert is_own_code(tf.__file__)
    assert not is_own_code(models.__file__)
