"""The printed IR: its exact text for a few programs, and its forms for terminals and notebooks."""

import io
import re
import sys

import pytest

import tvtf as tf
from tests.ir import programs
from tvtf.core.thread_state import debug_settings
from tvtf.ir.listing import Line, Listing, Token
from tvtf.passes.pipeline import phases
from tvtf.runtime.target import host_target

# The user's lines are counted from the first of the function, so that tests don't move with their file.
TEXTS = {
    programs.mlp_step: """
step(x: f32[256,2], y: f32[256,1], w1: f32[2,32] donated, head: f32[32,1] donated
    ) -> (reduce_mean: f32[])
  matmul: f32[256,32] = matmul(x, w1)                                  # +3
  relu = relu(matmul)                                                  # +3
  matmul_1: f32[256,1] = matmul(relu, head)                            # +3
  subtract = subtract(matmul_1, y)                                     # +4
  abs = abs(subtract)                                                  # +4
  reduce_mean: f32[] = reduce_mean(abs, axis=(0, 1))                   # +4
  broadcast_to: f32[] = broadcast_to(1.0, shape=())                    # +5
  multiply = multiply(broadcast_to, 0.00390625)                        # +5
  broadcast_to_1: f32[256,1] = broadcast_to(multiply, shape=(256, 1))  # +5
  sign = sign(subtract)                                                # +5
  multiply_1 = multiply(broadcast_to_1, sign)                          # +5
  matmul_2: f32[256,32] = matmul(multiply_1, head, transpose_b=True)   # +5
  matmul_3: f32[32,1] = matmul(relu, multiply_1, transpose_a=True)     # +5
  relu_grad = relu_grad(matmul_2, relu)                                # +5
  matmul_4: f32[2,32] = matmul(x, relu_grad, transpose_a=True)         # +5
  multiply_2 = multiply(0.1, matmul_4)                                 # +6
  subtract_1 = subtract(w1, multiply_2)                                # +6
  assign = assign(w1, subtract_1)                                      # +6
  multiply_3 = multiply(0.1, matmul_3)                                 # +7
  subtract_2 = subtract(head, multiply_3)                              # +7
  assign_1 = assign(head, subtract_2)                                  # +7
  w1 <- assign
  head <- assign_1
  return reduce_mean
""",
    programs.branches: """
choose(x: f32[4,3]) -> (cond_0: f32[4,3])
  reduce_sum: f32[] = reduce_sum(x, axis=(0, 1))  # +2
  greater: bool[] = greater(reduce_sum, 0.0)      # +2
  cond_0: f32[4,3] = cond(greater, x)             # +2
    then_branch(captured: f32[4,3]) -> (multiply: f32[4,3])
      multiply = multiply(captured, 2.0)          # +3
      return multiply
    else_branch(captured: f32[4,3]) -> (softmax: f32[4,3])
      softmax = softmax(captured, axis=0)         # +5
      return softmax
  return cond_0
""",
    programs.loop: """
powers(x: f32[3,3], n: i32[]) -> (while_0: f32[3,3])
  while_0: f32[3,3], while_1: i32[] = while(x, n)  # +2
    condition(arg: f32[3,3], arg_1: i32[]) -> (greater: bool[])
      greater: bool[] = greater(arg_1, 0)          # +2
      return greater
    body(arg: f32[3,3], arg_1: i32[]) -> (matmul: f32[3,3], subtract: i32[])
      matmul = matmul(arg, arg)                    # +3
      subtract = subtract(arg_1, 1)                # +4
      return matmul, subtract
  return while_0
""",
    programs.dynamic: """
center(x: f32[x_0,3]) -> (subtract: f32[x_0*2,3])
  concat: f32[x_0*2,3] = concat(x, x, axis=0)           # +2
  reduce_mean: f32[3] = reduce_mean(concat, axis=(0,))  # +3
  subtract = subtract(concat, reduce_mean)              # +3
  return subtract
""",
    programs.dict_outputs: """
stats(x: f32[8]) -> (mean: f32[], parts[0]: f32[8], parts[1], parts[2])
  reduce_mean: f32[] = reduce_mean(x, axis=(0,))  # +2
  abs = abs(x)                                    # +2
  return mean=reduce_mean, parts[0]=abs, parts[1]=2.0, parts[2]=None
""",
    programs.composite: """
shift(ragged.values: f32[ragged_0], ragged.row_splits: i64[3], sparse.indices: i64[sparse_0,2],
    sparse.values: f32[sparse_0], sparse.dense_shape: i64[2]) -> ([0].values: f32[ragged_0],
    [0].row_splits: i64[3], sparse.values: f32[sparse_0])
  add = add(ragged.values, 1.0)  # +2
  return [0].values=add, [0].row_splits=ragged.row_splits, sparse.values
""",
    programs.module_state: """
run(x: f32[2], calls: i32[] donated, self.weights[0]: f32[], self.weights[1]: f32[]
    ) -> (add_1: f32[2])
  add = add(calls, 1)                      # +2
  assign = assign(calls, add)              # +2
  multiply = multiply(x, self.weights[0])  # +3
  add_1 = add(multiply, self.weights[1])   # +3
  calls <- assign
  return add_1
""",
    programs.double: """
<lambda>(x: f32[5]) -> (add: f32[5])
  add = add(x, x)  # +0
  return add
""",
}
PHASES = [phase.name for phase in phases(host_target())]


def relative(function, text):
    """The text with lines counted from the function's first."""
    first = function.python_function.__code__.co_firstlineno
    return re.sub(r"# programs\.py:(\d+)", lambda found: f"# +{int(found[1]) - first}", text)


@pytest.mark.parametrize("program", TEXTS, ids=lambda program: program.__name__)
def test_a_program_is_printed(program):
    function, arguments = program()
    assert relative(function, function.ir(*arguments).text) == TEXTS[program].strip()


def test_printing_twice_gives_the_same_text():
    (first, second) = (f.ir(*arguments).text for f, arguments in (programs.mlp_step(), programs.mlp_step()))
    assert first == second


def test_a_concrete_function_prints_the_same():
    function, arguments = programs.mlp_step()
    concrete = function.get_concrete_function(*arguments)
    assert concrete.ir().text == function.ir(*arguments).text
    assert concrete.ir(after="fuse").text == function.ir(*arguments, after="fuse").text


def test_an_argument_without_tensors_is_not_printed():
    class Static(tf.experimental.ExtensionType):
        size: int

    text = tf.function(lambda x, static: x * 2.0, autograph=False).ir(tf.ones([2]), Static(3)).text
    assert "(x: f32[2])" in text


@pytest.mark.parametrize("program", [programs.mlp_step, programs.branches, programs.loop, programs.dynamic])
def test_every_phase_prints_a_line_a_binding(program):
    function, arguments = program()
    name = function.python_function.__name__
    for phase in PHASES:
        lines = function.ir(*arguments, after=phase).text.splitlines()
        assert lines[0].startswith(f"{name}(x: f32["), phase
        assert any(line.startswith("  return ") for line in lines), phase
        assert not any("T.Call" in line or "R.Tensor" in line for line in lines), phase


def test_fused_kernels_are_shown_with_what_they_do():
    function, arguments = programs.mlp_step()
    first, *_ = relative(function, function.ir(*arguments, after="fuse").text).split("\n  lv1")
    assert (
        first
        == """\
step(x: f32[256,2], y: f32[256,1], w1: f32[2,32] donated, head: f32[32,1] donated
    ) -> (reduce_mean: f32[])
  lv: f32[256,32] = fused_matmul_relu(x, w1)                   # +3
    fused_matmul_relu(x: f32[256,2], Variable: f32[2,32]) -> (gv: f32[256,32])
      matmul: f32[256,32] = matmul(x, Variable)                # +3
      gv = relu(matmul)                                        # +3
      return gv"""
    )


def test_lowered_modules_show_kernels_in_a_line_with_the_users_lines():
    function, arguments = programs.double()
    assert (
        relative(function, function.ir(*arguments, after="schedule").text)
        == """\
<lambda>(x: f32[5]) -> (add: f32[5])
  add = add(x, x)  # +0
  return add
kernels
  add(x: f32[5], x_1: f32[5], elementwise: f32[5])"""
    )


def test_variables_keep_their_names_where_kernels_update_them():
    function, arguments = programs.mlp_step()
    text = function.ir(*arguments, after="align").text
    assert re.search(r"matmul_4_update\(x, alloc\d, 0.1, w1, w1\) +# programs.py:\d+,\d+", text)


def test_a_phase_that_is_none_is_rejected_with_those_that_are():
    function, arguments = programs.double()
    with pytest.raises(
        ValueError, match="^there is no phase 'fusion'; the phases are mixed-precision, simplify, trim, .*align$"
    ):
        function.ir(*arguments, after="fusion")


def test_users_passes_are_phases():
    tf_passes = pytest.importorskip("tvtf.passes")
    tf_passes.add_pass("mine", lambda mod: mod)
    try:
        function, arguments = programs.double()
        assert function.ir(*arguments, after="mine").text == function.ir(*arguments).text
    finally:
        tf_passes.remove_pass("mine")


def test_unknown_ranks_are_printed():
    first, second, _ = tf.function(lambda x: x + x).ir(tf.TensorSpec(None)).text.splitlines()
    assert first == "<lambda>(x: f32[...]) -> (waiting: f32[...])"
    assert second.startswith("  waiting = waiting(x, x)  # test_printer.py:")


def test_code_that_waits_for_a_rank_has_no_phases():
    with pytest.raises(ValueError, match="traced for arguments of unknown rank; code is compiled for a known one"):
        tf.function(lambda x: x + x).ir(tf.TensorSpec(None), after="fuse")


def test_variables_among_the_arguments_have_the_parameters_names():
    @tf.function
    def add(total, x):
        total.assign_add(x)

    assert (
        add.ir(tf.Variable(1.0), tf.TensorSpec([])).text.splitlines()[0] == "add(x: f32[], total: f32[] donated) -> ()"
    )


def test_passed_in_constants_have_the_users_names():
    table = tf.ones([40])
    assert "table: f32[40]" in tf.function(lambda x: x + table).ir(tf.TensorSpec([40])).text


def test_constants_that_fill_a_line_are_shown_by_type():
    text = tf.function(lambda x: x + [1.2345678, 2.3456789, 3.4567891, 4.5678912]).ir(tf.TensorSpec([4])).text
    assert "add(x, constant f32[4])" in text


def test_python_that_is_called_is_shown():
    @tf.function
    def host(x):
        return tf.py_function(lambda v: v, [x], tf.TensorSpec([2]))

    assert "call_python(" in host.ir(tf.TensorSpec([2])).text
    assert host.ir(tf.TensorSpec([2]), after="align").text


def test_functions_used_twice_are_printed_once():
    @tf.function
    def inner(x):
        if tf.reduce_sum(x) > 0:
            x = -x
        return x

    text = tf.function(lambda x: inner(inner(x))).ir(tf.TensorSpec([2])).text
    assert text.count("then_branch(") + text.count("then_branch is") == 2


# -- terminals and notebooks


def test_names_are_escaped_in_html():
    v = tf.Variable(1.0, name="<b>&v")
    html = tf.function(lambda x: x * v).ir(tf.TensorSpec([2]))._repr_html_()
    assert "&lt;lambda&gt;" in html and "&lt;b&gt;&amp;v" in html
    assert "<lambda>" not in html and "<b>" not in html


def test_a_values_tooltip_is_its_type():
    function, arguments = programs.double()
    assert '<span title="f32[5]">x</span>' in function.ir(*arguments)._repr_html_()


def test_tooltips_are_escaped():
    html = Listing([Line(0, [Token("x", "name", '"><script>')])])._repr_html_()
    assert 'title="&quot;&gt;&lt;script&gt;"' in html


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_it_is_coloured_on_a_terminal_alone(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    function, arguments = programs.double()
    listing = function.ir(*arguments)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert str(listing) == repr(listing) == listing.text
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert "\x1b[" in str(listing) and "\x1b[" not in listing.text
    assert re.sub(r"\x1b\[[0-9;]*m", "", str(listing)) == listing.text


def test_long_lines_are_not_broken_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm-256color")
    function, arguments = programs.mlp_step()
    listing = function.ir(*arguments)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert len(str(listing).splitlines()) == len(listing.text.splitlines())


# -- the debug_settings


def test_the_debug_setting_prints_the_dialect_and_then_tvmscript(monkeypatch, capsys, own_cache):
    monkeypatch.setattr(debug_settings, "debug", 3)
    tf.function(lambda x: x + 41.25)(tf.ones([2]))
    printed = capsys.readouterr().err
    assert "# after simplify\nmain(x: f32[2]) -> (add: f32[2])\n  add = add(x, 41.25)  # test_printer.py:" in printed
    assert "@T.prim_func" in printed.partition("# after legalize")[2]


def test_the_dump_setting_writes_texts_and_then_tvmscript(monkeypatch, tmp_path, own_cache):
    monkeypatch.setattr(debug_settings, "dump", str(tmp_path / "dump"))
    tf.function(lambda x: x + 43.25)(tf.ones([2]))
    (text,) = (tmp_path / "dump").rglob("*_simplify.txt")
    assert text.read_text().startswith("main(x: f32[2]) -> (add: f32[2])\n")
    (script,) = (tmp_path / "dump").rglob("*_schedule.py")
    assert "@T.prim_func" in script.read_text()
