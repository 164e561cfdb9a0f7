"""Tuning whole functions, with a clock that a test sets: what is searched, recorded, used, and left alone."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.frontend.tuning import tune as tuning
from tvtf.frontend.tuning.tune import Budget, agree, in_turns
from tvtf.passes.pipeline import lower
from tvtf.passes.schedule import tuning_records
from tvtf.passes.schedule.tuned_choices import describe
from tvtf.runtime.target import host_target


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def others(monkeypatch):
    """What other programs do while tests run is nobody's business; a test may set it."""
    share = [0.0]
    monkeypatch.setattr(tuning.cpu_load, "others_share", lambda start, end: share[0])
    return share


@pytest.fixture
def faster_with_tile_2(monkeypatch):
    """Measures kernels by their choices: those whose tile is the second one offered take half as long."""

    def measure(_bench, candidates, rounds):
        return [
            [0.5 if c.questions["tile"].answer == c.questions["tile"].labels[1] else 1.0] * rounds for c in candidates
        ]

    monkeypatch.setattr(tuning.Bench, "measure", measure)


def operands():
    rng = np.random.default_rng(1)
    return [tf.constant(rng.standard_normal(s).astype("float32")) for s in ((33, 20), (20, 70))]


def test_a_function_is_tuned_recorded_and_computes_the_same(home, faster_with_tile_2):
    product = tf.function(lambda x, y: tf.matmul(x, y))
    x, y = operands()
    before = product(x, y).numpy()
    found = product.tune(x, y, trials=4)
    (kernel,) = found.kernels
    assert (kernel.name, kernel.before, kernel.after, kernel.mismatched) == ("matmul", 1.0, 0.5, 0)
    assert set(kernel.choices) == {"tile"} and 0 < kernel.share <= 1 and 0 < kernel.tried <= 8
    assert found.records == home / "tuned.jsonl" and found.before > 0 and found.after > 0
    (record,) = tuning_records.records(describe(host_target())).values()
    assert record.kernel == "matmul: float32[33, 20], float32[20, 70]"
    np.testing.assert_allclose(product(x, y), before, rtol=1e-5)


def test_a_tuned_kernel_does_not_get_its_sizes_as_parameters(home, faster_with_tile_2):
    sums = tf.function(lambda x: tf.reduce_sum(x, 0))
    x = tf.ones((2048, 64))
    mod = sums.get_concrete_function(x).module()

    def parameters():
        return len(lower(mod, host_target(), kernels=False)["reduce_sum"].params)

    assert parameters() == 4
    assert [kernel.name for kernel in sums.tune(x, trials=4).kernels] == ["reduce_sum"]
    assert parameters() == 2


def test_the_table_says_kernel_times_and_choices(home, faster_with_tile_2):
    head, line, whole = str(tf.function(lambda x, y: tf.matmul(x, y)).tune(*operands(), trials=4)).splitlines()
    assert head.split() == ["share", "before", "us", "after", "us", "tried", "kernel:", "choices"]
    assert "1000000.0   500000.0" in line and "matmul: tile: " in line
    assert whole.split()[0] == "all"


def test_a_kernel_that_computes_something_else_is_rejected(home, faster_with_tile_2, monkeypatch):
    monkeypatch.setattr(tuning, "agree", lambda expected, found: False)
    (kernel,) = tf.function(lambda x, y: tf.matmul(x, y)).tune(*operands(), trials=4).kernels
    assert kernel.mismatched > 0 and kernel.choices == {} and kernel.after == kernel.before
    assert not list(home.iterdir())


def test_a_candidate_that_cannot_be_compiled_is_reported_and_left_out(home, faster_with_tile_2, monkeypatch):
    compile_isolated, compiled = tuning.compile_isolated, []

    def failing(lowered, target, out):
        compiled.append(out)
        if len(compiled) > 1:
            raise RuntimeError("no registers left")
        compile_isolated(lowered, target, out)

    monkeypatch.setattr(tuning, "compile_isolated", failing)
    with pytest.warns(UserWarning, match="^tune: matmul can't be compiled with .*: no registers left"):
        (kernel,) = tf.function(lambda x, y: tf.matmul(x, y)).tune(*operands(), trials=3).kernels
    assert kernel.choices == {} and kernel.tried == 0


def test_variables_keep_their_values_and_loops_are_left_alone(home):
    total = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        total.assign_add(x)
        for _ in tf.range(3):
            x = x * 2.0
        return x

    assert step.tune(tf.constant([1.0, 1.0]), trials=1).records is None
    np.testing.assert_array_equal(total, [1.0, 2.0])
    np.testing.assert_array_equal(step(tf.constant([1.0, 1.0])), [8.0, 8.0])


def test_a_busy_machine_is_reported(home, others):
    others[0] = 0.25
    with pytest.warns(UserWarning, match="^tune: other programs took 25% of the cores"):
        tf.function(lambda x, y: tf.matmul(x, y)).tune(*operands(), trials=1)


def test_a_function_that_computes_nothing_has_nothing_to_tune(home):
    found = tf.function(lambda x: x).tune(tf.ones([2]))
    assert found.kernels == () and found.records is None


def test_unknown_sizes_are_those_of_the_call(home, faster_with_tile_2):
    product = tf.function(
        lambda x, y: tf.matmul(x, y), input_signature=[tf.TensorSpec([None, 20]), tf.TensorSpec([20, 70])]
    )
    x, y = operands()
    (kernel,) = product.tune(x, y, trials=4).kernels
    assert kernel.after < kernel.before
    np.testing.assert_allclose(product(x, y), x.numpy() @ y.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", [{"seconds": 0}, {"seconds": -1.0}, {"seconds": float("nan")}, {"trials": 0}])
def test_a_budget_must_be_positive(how):
    with pytest.raises(ValueError, match="^tune needs seconds > 0 and trials >= 1, but got "):
        tf.function(lambda x: x + 1.0).tune(tf.ones([2]), **how)


class Clock:
    """Each look at it takes what was set."""

    def __init__(self):
        self.now, self.step = 0.0, 0.0

    def __call__(self):
        self.now += self.step
        return self.now


def test_runs_take_turns_and_slow_ones_are_timed_once():
    clock, order = Clock(), []

    def run(name, seconds):
        def call():
            order.append(name)
            clock.now += seconds

        return call

    times = in_turns([run("a", 1.0), run("b", 2.0), run("c", 9.0)], 3, clock)
    assert times == [[1.0] * 3, [2.0] * 3, [9.0] * 3]
    assert "".join(order) == "abcabc" + "ab" * 3


def test_quick_runs_are_repeated_until_a_round_can_be_measured():
    clock, calls = Clock(), []

    def call():
        calls.append(1)
        clock.now += 1e-5

    (times,) = in_turns([call], 2, clock)
    assert times == pytest.approx([1e-5, 1e-5]) and len(calls) == 2 + 2 * 30


def test_parts_get_their_share_of_what_is_left():
    clock = Clock()
    budget = Budget(10.0, 100, clock)
    first = budget.share(0.5)
    clock.now = 4.9
    assert first()
    budget.spend(50)
    assert not first()
    second = budget.share(1.0)
    assert second()
    clock.now = 10.0
    assert not second()


def test_what_differs_by_more_than_rounding_disagrees():
    ones = np.ones(4, "float32")
    assert agree(ones, ones + 1e-6) and not agree(ones, ones + 1e-3)
    assert agree(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    assert not agree(np.array([np.inf]), np.array([-np.inf])) and not agree(np.array([1.0]), np.array([np.nan]))
    assert agree(np.array([1, 2]), np.array([1, 2])) and not agree(np.array([1, 2]), np.array([1, 3]))
    assert agree(np.zeros(0, "float32"), np.zeros(0, "float32"))
