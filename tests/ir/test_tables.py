"""Profiles, memory and retraces as tables: in plain text, on terminals, in notebooks."""

import io
import re
import sys

import pytest

import tvtf as tf
from tests.ir import programs
from tvtf.core.display import Column, Table
from tvtf.frontend.function.retrace_log import Retrace, RetraceReport, remedy


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """What a terminal shows, line by line, without colours and rules."""

    def show(value):
        for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "120")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Terminal())
            text = str(value)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
        return [" ".join(line.split()) for line in lines if line.strip(" \u2500")]

    return show


@tf.function
def square(x):
    return x * x


def retraced():
    function = tf.function(lambda x: x * x)
    for size in (1, 2):
        function(tf.ones([size]))
    function(tf.ones([2], tf.int32))
    return function


class Layer(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = None

    @tf.function
    def apply(self, x):
        if self.w is None:
            self.w = tf.Variable(2.0)
        return x * self.w


def test_creating_variables_is_explained_in_plain_words():
    layer = Layer()
    layer.apply(tf.constant(1.0))
    report = layer.apply.explain_retraces()
    assert report == "trace 2: the first call created Variables"
    assert report.table.text == "apply was traced twice: the first call created Variables"
    assert report._repr_html_() == "<div><p>apply was traced twice: the first call created Variables</p></div>"


def test_retraces_are_listed_with_what_to_do():
    assert retraced().explain_retraces().table.rows == [
        ["2", "argument `x`: shape (1,) -> (2,)", remedy("shape")],
        ["3", "argument `x`: dtype float32 -> int32", remedy("dtype")],
    ]


def test_a_function_traced_once_says_so():
    function = tf.function(lambda x: x)
    function(1)
    assert function.explain_retraces().table.text == "<lambda> was traced once"


def test_retraces_are_a_table_on_a_terminal(shown):
    lines = shown(retraced().explain_retraces())
    assert lines[0] == "<lambda> was traced 3 times"
    assert lines[1] == "trace why to avoid it"
    assert lines[-1] == "3 argument `x`: dtype float32 -> int32 Cast the argument to one dtype before the call."


def test_a_report_is_a_text():
    report = retraced().explain_retraces()
    assert isinstance(report, str) and f"{report}" == "\n".join(report.splitlines()) == str(report)


def test_memory_is_printed_in_words():
    memory = tf.function(square.python_function).memory(tf.TensorSpec([1024]))
    assert (
        str(memory)
        == """\
A call needs 8.0 KiB
part          size  what it is
arguments  4.0 KiB  what it is passed, Variables among it
results    4.0 KiB  what it returns in memory of its own; Variables are updated where they lie
arena          0 B  the block for values in between, kept from call to call
live           0 B  the most of these that is needed at once: no arena can be smaller"""
    )
    assert repr(memory) == "Memory(arguments=4096, results=4096, arena=0, live=0, unplanned=0)"


def test_memory_of_unknown_sizes_says_so():
    assert str(tf.function(square.python_function).memory(tf.TensorSpec([None]))).startswith(
        "A call needs 0 B, and more that is known only at a call: 1 of unknown size"
    )


def test_memory_is_a_table_in_notebooks_and_on_terminals(shown):
    memory = tf.function(square.python_function).memory(tf.TensorSpec([1024]))
    assert "<td" in memory._repr_html_() and "4.0 KiB</td>" in memory._repr_html_()
    assert "arguments 4.0 KiB what it is passed, Variables among it" in shown(memory)


def test_a_profile_is_a_table_in_notebooks():
    html = square.profile(tf.ones([64]))._repr_html_()
    assert "<th" in html and ">multiply</td>" in html and re.search(r"test_tables\.py:\d+</td>", html)


def test_a_profile_is_a_table_on_terminals(shown):
    lines = shown(square.profile(tf.ones([64])))
    assert lines[0].startswith("A call took ") and lines[1] == "kernel us share calls GFLOP/s GB/s lines"
    assert any(line.startswith("multiply ") for line in lines)


def test_an_empty_profile_says_that_nothing_is_computed(shown):
    assert shown(tf.function(lambda x: x).profile(tf.ones([2]))) == ["A call runs no kernels: nothing is computed"]


def test_profiles_are_plain_in_pipes():
    function, _ = programs.mlp_step()
    assert "\x1b" not in str(function.profile(tf.ones([256, 2]), tf.ones([256, 1]), repeat=1))


def test_cells_are_escaped():
    html = Table("<a> & b", [Column("<c>")], [["<script>"]]).html()
    assert "&lt;a&gt; &amp; b" in html and "&lt;c&gt;" in html and "&lt;script&gt;" in html and "<script>" not in html


def test_markup_of_rich_in_names_is_shown_as_it_is(shown):
    report = RetraceReport("f", 2, [Retrace(2, "argument `x`: '[bold]a[/bold]' -> 'b'", "Pass it.")])
    assert any("[bold]a[/bold]" in line for line in shown(report))
