"""TVMScript of the dialect: calls as R.tvtf.<name>(...), and the module back from its text."""

import re

import pytest
import tvm

import tvtf as tf
from tests.ir import programs
from tvtf.ir.script import parse, script
from tvtf.passes.pipeline import lower_through, phases
from tvtf.runtime.target import host_target


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_module_parses_back(program):
    function, arguments = program()
    mod = function.get_concrete_function(*arguments).module()
    tvm.ir.assert_structural_equal(parse(script(mod)), mod)


def test_calls_are_printed_as_calls():
    function, arguments = programs.mlp_step()
    text = function.relax(*arguments)
    assert "R.tvtf.matmul(x, Variable, output_type=None, transpose_a=False, transpose_b=False)" in text
    assert "T.Call" not in text and "metadata" not in text


def test_a_parsed_module_compiles_to_the_same():
    function, arguments = programs.loop()
    mod = function.get_concrete_function(*arguments).module()
    (*_, (_, one)), (*_, (_, other)) = (lower_through(m, host_target(), "schedule") for m in (mod, parse(script(mod))))
    tvm.ir.assert_structural_equal(one, other)


def test_a_module_is_left_as_it_is():
    function, arguments = programs.loop()
    mod = function.get_concrete_function(*arguments).module()
    before = mod.script()
    script(mod)
    assert mod.script() == before and "R.tvtf" not in before


@pytest.mark.parametrize("program", [programs.mlp_step, programs.branches, programs.loop, programs.dynamic])
def test_every_phase_has_a_script(program):
    function, arguments = program()
    mod = function.get_concrete_function(*arguments).code().module()
    for name, lowered in lower_through(mod, host_target(), phases(host_target())[-1].name):
        # From Python 3.12 on, TVM writes symbolic dims as type parameters: `def main[n](...)`.
        assert re.search(r"def main[(\[]", script(lowered)), name


def test_a_text_of_no_primitive_is_rejected():
    text = tf.function(lambda x: tf.abs(x)).relax(tf.TensorSpec([2])).replace("R.tvtf.abs", "R.tvtf.nothing")
    with pytest.raises(tvm.error.DiagnosticError):
        parse(text)
