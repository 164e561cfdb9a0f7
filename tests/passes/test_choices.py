"""Choices: decisions reach the rules, every decision computes the same, and records apply to the kernels they name."""

from __future__ import annotations

import random

import pytest
import tvm
import tvm_ffi
from schedule_programs import AVX2, HOST, TARGETS, values
from tvm.target import Target

import tvtf as tf
from tvtf.core.dlpack_view import to_array, to_handle
from tvtf.frontend.tuning.extract_kernels import compile_isolated, isolated_kernels, lowered_isolated, run_isolated
from tvtf.frontend.tuning.tune import agree
from tvtf.passes.schedule import tuning_records
from tvtf.passes.schedule.choices import Decisions, UnknownChoiceError, choice, deciding
from tvtf.passes.schedule.cpu import ScheduleCPU, schedule
from tvtf.passes.schedule.tuned_choices import describe, workload_key
from tvtf.runtime import cache
from tvtf.runtime.executable import Executable


def kernels_of(program, *shapes, target=HOST):
    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    mod = tf.function(program, autograph=False).get_concrete_function(*specs).graph.entry()
    return isolated_kernels(mod, target)


def product(x, y):
    return tf.matmul(x, y)


@pytest.fixture(scope="module")
def matmul():
    (kernel,) = kernels_of(product, [33, 40], [40, 50])
    return kernel


# -- asking


def test_options_are_listed_only_if_decisions_are_recorded():
    assert choice("rows", 4, lambda: pytest.fail("listed")) == 4


def test_a_repeated_choice_gets_the_same_answer_and_other_choices_get_numbers():
    with deciding(Decisions({"rows": "8", "rows #2": "3"})) as decisions:
        assert [choice("rows", 4, lambda: [2, 8]) for _ in range(2)] == [8, 8]
        assert choice("rows", 1, lambda: [3]) == 3
    assert decisions.answers == {"rows": "8", "rows #2": "3"}


def test_a_choice_of_one_is_no_question():
    with deciding(Decisions()) as decisions:
        assert choice("rows", 4, lambda: [4]) == 4
    assert not decisions.questions


def test_what_is_not_offered_is_rejected_or_with_lenience_not_heard():
    with deciding(Decisions({"rows": "3"})), pytest.raises(UnknownChoiceError, match="rows can't be '3'"):
        choice("rows", 4, lambda: [2, 8])
    with deciding(Decisions({"rows": "3"}, ignore_unknown=True)) as decisions:
        assert choice("rows", 4, lambda: [2, 8]) == 4
    assert decisions.answers == {"rows": "4"}


def test_a_decision_for_an_unknown_choice_is_rejected(matmul):
    with pytest.raises(UnknownChoiceError, match="no rule has the choices moon"):
        schedule(matmul.func, HOST, Decisions({"moon": "full"}))


def test_decisions_end_with_what_they_were_made_for(matmul):
    with pytest.raises(UnknownChoiceError):
        schedule(matmul.func, HOST, Decisions({"tile": "none such"}))
    assert choice("rows", 4, lambda: pytest.fail("listed")) == 4


def test_recording_choices_changes_no_schedule(matmul):
    decisions = Decisions()
    tvm.ir.assert_structural_equal(schedule(matmul.func, HOST, decisions), schedule(matmul.func, HOST))
    again = schedule(matmul.func, HOST, Decisions(decisions.answers))
    tvm.ir.assert_structural_equal(again, schedule(matmul.func, HOST))
    assert {"tile", "vectors along", "packed"} <= set(decisions.questions)


# -- every decision is right


def conv(x, w):
    return tf.nn.relu(tf.nn.conv2d(x, w, 2, "SAME"))


def conv_gradients(x, w):
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.nn.conv2d(x, w, 1, "SAME")
    return tape.gradient(y, [x, w], y)


def depthwise(x, w):
    return tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")


def reductions(x):
    return tf.reduce_sum(x, 0), tf.reduce_sum(x, 1), tf.reduce_max(x, 0)


PROGRAMS = {
    "matmul": (product, [33, 40], [40, 50]),
    "transposed": (lambda x, y: tf.matmul(x, y, transpose_b=True), [17, 300], [9, 300]),
    "batched": (product, [3, 20, 24], [3, 24, 36]),
    "strided": (conv, [2, 13, 13, 3], [3, 3, 3, 20]),
    "winograd": (conv_gradients, [2, 14, 14, 32], [3, 3, 32, 32]),
    "window of five": (conv_gradients, [2, 9, 9, 5], [5, 5, 5, 18]),
    "depthwise": (depthwise, [2, 9, 9, 24], [3, 3, 24, 1]),
    "reductions": (reductions, [600, 70]),
}


def results(kernel, decisions, target, operands, folder):
    scheduled = schedule(kernel.func, target, decisions)
    path = folder / f"{len(list(folder.iterdir()))}.so"
    compile_isolated(lowered_isolated(kernel, scheduled, target), target, path)
    found = run_isolated(Executable(path), kernel, operands)()
    return [to_array(x).copy() for x in ([found] if hasattr(found, "dtype") else found)]


def some_decisions(kernel, target, rng):
    """Each choice at random, as the rules offer it after those before."""
    given: dict[str, str] = {}
    while True:
        decisions = Decisions(given, ignore_unknown=True)
        schedule(kernel.func, target, decisions)
        new = next((name for name in decisions.questions if name not in given), None)
        if new is None:
            return Decisions(decisions.answers)
        given[new] = rng.choice(decisions.questions[new].labels)


def check_random_decisions(name, target, seeds, folder):
    program, *shapes = PROGRAMS[name]
    for kernel in kernels_of(program, *shapes, target=target):
        operands = [to_handle(values([int(d) for d in x.ty.shape.values])) for x in kernel.call.args[1].fields]
        expected = results(kernel, None, target, operands, folder)
        for seed in seeds:
            decisions = some_decisions(kernel, target, random.Random(seed))
            found = results(kernel, decisions, target, operands, folder)
            for a, b in zip(expected, found, strict=True):
                assert agree(a, b), (kernel.name, decisions.answers)


@pytest.mark.parametrize("name", ["transposed", "strided", "reductions"])
def test_some_decisions_compute_what_the_default_does(name, tmp_path):
    check_random_decisions(name, HOST, [0, 1], tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: str(t.attrs["mcpu"]))
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_decisions_compute_what_the_default_does(name, target, tmp_path):
    check_random_decisions(name, target, range(24), tmp_path)


# -- keys


def test_a_key_depends_on_structure_and_not_on_names(matmul):
    assert workload_key(matmul.func) == workload_key(matmul.func.with_attr("global_symbol", "named"))
    (same,) = kernels_of(lambda a, b: tf.matmul(a, b), [33, 40], [40, 50])
    (other,) = kernels_of(product, [33, 41], [41, 50])
    assert workload_key(same.func) == workload_key(matmul.func) != workload_key(other.func)


def test_a_key_is_the_same_in_every_process(matmul):
    """Another one is right where products are written otherwise; old records are then without use."""
    assert workload_key(matmul.func) == "5f15e8981f4c664c"


def test_constants_are_part_of_a_key(matmul):
    assert workload_key(matmul.func.with_attr("tvtf.constant_operands", [1])) == workload_key(matmul.func) + "-1"


def test_a_target_is_described_by_what_schedules_read():
    assert describe(AVX2).startswith("llvm mcpu=x86-64-v3") and describe(AVX2).endswith("num-cores=2")
    assert describe(AVX2) != describe(Target({**AVX2.attrs, "kind": "llvm", "num-cores": 4}))


# -- records


def another_tile(kernel, target=HOST):
    decisions = Decisions()
    schedule(kernel.func, target, decisions)
    wanted = Decisions({**decisions.answers, "tile": decisions.questions["tile"].labels[3]}, ignore_unknown=True)
    scheduled = schedule(kernel.func, target, wanted)
    return wanted.answers, scheduled


def record(kernel, choices, target=HOST):
    return tuning_records.Record(describe(target), workload_key(kernel.func), "matmul", choices, 2.0, 1.0)


def scheduled_in_a_module(kernel, target=HOST):
    mod = tvm.IRModule({"matmul": kernel.func})
    return ScheduleCPU(target)(mod)["matmul"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path))


def test_a_kernel_is_scheduled_as_its_record_says(matmul, home):
    choices, wanted = another_tile(matmul)
    tuning_records.keep([record(matmul, choices)])
    tvm.ir.assert_structural_equal(scheduled_in_a_module(matmul), wanted)
    assert not tvm_ffi.structural_equal(wanted, schedule(matmul.func, HOST))


def test_records_of_other_targets_and_kernels_change_nothing(matmul, home):
    choices, _ = another_tile(matmul)
    tuning_records.keep([record(matmul, choices, AVX2), record(matmul, choices)._replace(key="00")])
    tvm.ir.assert_structural_equal(scheduled_in_a_module(matmul), schedule(matmul.func, HOST))


@pytest.mark.parametrize("choices", [{"tile": "99 x 99"}, {"moon": "full"}, {"tile": ""}])
def test_a_record_that_rules_do_not_understand_is_reported_and_not_used(matmul, home, choices):
    tuning_records.keep([record(matmul, choices)])
    with pytest.warns(UserWarning, match="^the record of tuning for matmul is not used: "):
        found = scheduled_in_a_module(matmul)
    tvm.ir.assert_structural_equal(found, schedule(matmul.func, HOST))


def test_code_on_disk_is_that_of_the_records(matmul, home):
    mod = tvm.IRModule({})
    before = cache.Compilation(mod, HOST)
    tuning_records.keep([record(matmul, {}, AVX2)])
    assert cache.Compilation(mod, HOST) == before
    assert cache.Compilation(mod, HOST).key() == before.key()
    tuning_records.keep([record(matmul, {"tile": "1"})])
    assert cache.Compilation(mod, HOST) != before
    assert cache.Compilation(mod, HOST).key() != before.key()
