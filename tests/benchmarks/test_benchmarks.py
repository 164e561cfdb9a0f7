"""The benchmarks: every workload runs in tvtf at tiny sizes, and the table with missing peers."""

import sys
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as program
from benchmarks.harness import TRIES, Process, Row, Timing, measure, sample
from benchmarks.peers import PEERS, TVTF, Peer
from benchmarks.table import markdown, microseconds, remarks
from benchmarks.workload import Workload
from benchmarks.workloads import SWEEPS, WORKLOADS
from benchmarks.workloads.primitives import PRIMITIVES


@pytest.fixture(scope="module")
def process():
    started = Process(TVTF)
    yield started
    started.close()


@pytest.fixture
def among_others(monkeypatch):
    """Turns are not taken again because other tests use the cores: no number is read."""
    monkeypatch.setattr("benchmarks.harness.FOREIGN", float("inf"))


LONG = ("compile", "depthwise-step", "depthwise-odd-step")
"""Other networks' steps are compiled and run by default; ``compile`` times what ``residual-step`` has before its first run."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.sweep] if n in LONG else []) for n in WORKLOADS])
def test_a_workload_runs_in_tvtf(process, among_others, name):
    row = measure(WORKLOADS[name], [process], rounds=2, seconds=0.0, tiny=True)
    assert row.timings["tvtf"].error == ""
    assert len(row.timings["tvtf"].rounds) == 2
    assert row.timings["tvtf"].best > 0


@pytest.mark.sweep
@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_of_the_sweep_runs_in_tvtf(process, among_others, name):
    row = measure(PRIMITIVES[name].workload(), [process], rounds=1, seconds=0.0)
    assert row.timings["tvtf"].error == ""


@pytest.mark.sweep
@pytest.mark.parametrize("name", SWEEPS["others"])
def test_another_network_runs_in_tvtf(process, name):
    row = measure(SWEEPS["others"][name], [process], rounds=1, seconds=0.0, tiny=True)
    assert row.timings["tvtf"].error == ""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
@pytest.mark.parametrize(
    "name", [n if "small" in n else pytest.param(n, marks=pytest.mark.sweep) for n in SWEEPS["keras"]]
)
def test_keras_runs_in_tvtf(process, among_others, name):
    row = measure(SWEEPS["keras"][name], [process], rounds=1, seconds=0.0, tiny=True)
    assert row.timings["tvtf"].error == ""


class Requested:
    """A peer's process that answers at once and uses no core; ``foreign`` seconds a turn are others'."""

    def __init__(self, monkeypatch, foreign):
        self.turns, self.seconds_used, self.busy = 0, 0.0, 0.0
        self.foreign = iter(foreign)
        monkeypatch.setattr("benchmarks.harness.busy_seconds", lambda: self.busy)

    def call(self, **_):
        self.turns += 1
        self.busy += next(self.foreign)
        return {"samples": [float(self.turns)]}


@pytest.mark.parametrize("foreign, taken", [([0.0], 1), ([9.0, 9.0, 0.0], 3), ([9.0] * 9, TRIES)])
def test_a_turn_in_which_others_used_the_cores_is_taken_again(monkeypatch, foreign, taken):
    process, timing = Requested(monkeypatch, foreign), Timing()
    sample(process, timing, 0.0)
    assert process.turns == taken and timing.rounds == [[float(taken)]]


def unused(*_):
    return None


def workload(**columns):
    return Workload("w", "a workload", None, None, tensorflow=unused, goal="<= 5", **columns)


def row(**microseconds):
    return Row(workload(), {n: Timing([[m * 1e-6, m * 2e-6, m * 3e-6]], result=1.0) for n, m in microseconds.items()})


def test_the_table_gives_medians_and_the_ratio_to_the_best_other():
    text = markdown([row(tvtf=1.0, JAX=4.0, TF=100.0)], ["tvtf", "JAX", "TF", "torch"], lambda t: t.median)
    assert text.splitlines() == [
        "| workload | tvtf | JAX | TF | torch | ratio | best peer | goal for tvtf |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
        "| a workload | 2.00 | 8.00 | 200 |  | 0.25 | JAX | <= 5 |",
    ]


@pytest.mark.parametrize("seconds, text", [(1.234e-6, "1.23"), (99e-6, "99"), (0.0123, "12,300")])
def test_times_have_the_digits_that_matter(seconds, text):
    assert microseconds(seconds) == text


def test_failures_and_other_results_are_reported():
    found = row(tvtf=1.0, JAX=4.0)
    found.timings["JAX"].result = 1.5
    found.timings["TF"] = Timing(error="ValueError: no")
    assert remarks([found]) == ["w, TF: ValueError: no", "w, JAX: its result is not tvtf's"]
    assert "failed" in markdown([found], ["TF"], lambda t: t.best)


def test_a_peer_runs_only_the_workloads_written_for_it():
    plain, compiled, jax = PEERS[4], PEERS[5], PEERS[3]
    assert plain.runs(workload(torch=unused)) and compiled.runs(workload(torch=unused))
    assert not compiled.runs(workload(torch=unused, is_eager=True))
    assert not jax.runs(workload(torch=unused))
    assert TVTF.runs(workload())


def test_peers_that_are_not_installed_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(program, "PEERS", (Peer("nobody", "no_such_package", unused),))
    program.main(["add"])
    assert "left out: nobody (no_such_package is not installed)" in capsys.readouterr().out


def test_a_name_that_does_not_exist_is_rejected():
    with pytest.raises(SystemExit, match="^no workload or peer is called nothing, nobody$"):
        program.chosen(SimpleNamespace(workloads=["nothing"], peers="tvtf,nobody"))


def test_a_process_that_ended_is_an_error(process):
    gone = Process(Peer("nobody", "no_such_package", unused))
    assert gone.call(build="add", tiny=True) == {"error": "the process ended with 1"}
    gone.close()
