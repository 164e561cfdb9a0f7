"""Tunes a compiled function: compiles its kernels with other choices, times them, and records the best."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import tvm_ffi

from tvtf.core.dlpack_view import to_array, to_handle
from tvtf.core.thread_count import available_cores
from tvtf.core.thread_state import state
from tvtf.frontend.tuning import cpu_load
from tvtf.frontend.tuning.extract_kernels import (
    IsolatedKernel,
    compile_isolated,
    isolated_kernels,
    lowered_isolated,
    run_isolated,
)
from tvtf.frontend.tuning.profile import RUN_KERNEL, handles_of, profile
from tvtf.frontend.tuning.search import Candidate, Found, Search
from tvtf.passes.schedule import tuning_records
from tvtf.passes.schedule.choices import Decisions
from tvtf.passes.schedule.cpu import schedule
from tvtf.passes.schedule.tuned_choices import describe, workload_key
from tvtf.runtime.executable import Executable
from tvtf.runtime.target import host_target, target_of
from tvtf.state.variable import Variable

MIN_SHARE = 0.01
"""The smallest share of a call's time for which a kernel is tuned."""
MIN_SECONDS_PER_ROUND = 3e-4
"""A kernel is repeated in a round until it has run for so long."""
SLOW_RATIO = 3.0
"""A candidate that is so many times slower than the fastest is timed only once."""
ROUNDS_OF_CALLS = 11
CALLS_FOR_SHARES = 5
MAX_SHARE_OF_OTHERS = 0.1
"""Tuning warns if other programs used a larger share of the cores."""
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


class TunedKernel(NamedTuple):
    """A tuned kernel: its share of the function's time, its seconds by default and at best, and the choices.

    ``choices`` are those that differ from the default, none if the default was best; ``tried`` other schedules were
    timed, ``mismatched`` of them were faster but computed other results.
    """

    name: str
    share: float
    before: float
    after: float
    choices: Mapping[str, str]
    tried: int
    mismatched: int


class Tuning(NamedTuple):
    """The result of tuning: kernels by share, seconds of a whole call before and after, and the file of records."""

    kernels: tuple[TunedKernel, ...]
    before: float
    after: float
    records: Path | None

    def __str__(self) -> str:
        head = f"{'share':>6} {'before us':>10} {'after us':>10} {'tried':>6}  kernel: choices"
        whole = f"{'all':>6} {self.before * 1e6:10.1f} {self.after * 1e6:10.1f}"
        return "\n".join([head, *map(_line, self.kernels), whole])


def _line(k: TunedKernel) -> str:
    return f"{k.share:6.1%} {k.before * 1e6:10.1f} {k.after * 1e6:10.1f} {k.tried:6}  {k.name}: {format_choices(k.choices)}"


def format_choices(choices: Mapping[str, str]) -> str:
    """Formats choices as text.

    >>> format_choices({"tile": "12 x 2", "packed": "none"})
    'tile: 12 x 2; packed: none'
    """
    return "; ".join(f"{name}: {label}" for name, label in choices.items()) or "as by default"


class Budget:
    """The remaining seconds and, if limited, the remaining number of candidates."""

    def __init__(self, seconds: float, trials: int | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.end, self.trials = clock, clock() + seconds, trials

    def share(self, part: float) -> Callable[[], bool]:
        """Returns a function that says whether some of this ``part`` (a fraction) of the remaining budget is left."""
        end = self.clock() + part * (self.end - self.clock())
        last_trial = None if self.trials is None else self.trials - max(1, round(part * self.trials))

        def has_budget() -> bool:
            has_trials = self.trials is None or last_trial is None or self.trials > max(last_trial, 0)
            return has_trials and self.clock() < end

        return has_budget

    def spend(self, trials: int) -> None:
        """Counts candidates that were built."""
        if self.trials is not None:
            self.trials -= trials


def tune(
    code: Any,
    tensors: Sequence[Any],
    variables: Sequence[Variable],
    budget: Budget,
    report: Callable[[TunedKernel], None] = lambda _: None,
) -> Tuning:
    """Searches schedules for the kernels of compiled code on these arguments, and records the best.

    ``report`` is called with each result. Ctrl-C ends the search early.

    Raises:
      NotImplementedError: the device in use is a GPU.
    """
    if target_of(state.device).kind.name != "llvm":
        raise NotImplementedError(f"tune searches schedules for CPUs, but the device in use is {state.device}")
    default_executable = code.code().executable
    if default_executable is None:
        return Tuning((), 0.0, 0.0, None)
    started = cpu_load.current_ticks()
    parts = _parts(code, tensors, variables)
    operands = _operands(code, tensors, variables, [part.isolated for part in parts])
    kernels: list[TunedKernel] = []
    path = None
    try:
        with tempfile.TemporaryDirectory(prefix="tvtf-tune-") as folder:
            for number, part in enumerate(parts):
                has_budget = budget.share(part.share / sum(p.share for p in parts[number:]))
                bench = Bench(part.isolated, operands[part.isolated.name], Path(folder) / str(number), budget)
                search = Search(bench.build, bench.measure, bench.agrees, has_budget)
                kernel, record = _kernel_and_record(part, search.run())
                path = tuning_records.keep([record]) if record else path
                kernels.append(kernel)
                report(kernel)
                if search.interrupted:
                    break
    except KeyboardInterrupt:  # results are recorded already
        pass
    before, after = _call_seconds(code, default_executable, tensors, variables)
    _warn_if_busy(cpu_load.others_share(started, cpu_load.current_ticks()))
    return Tuning(tuple(kernels), before, after, path)


def _warn_if_busy(share: float) -> None:
    if share > MAX_SHARE_OF_OTHERS:
        warnings.warn(
            f"tune: other programs took {share:.0%} of the cores, so the schedules found may not be faster without them; "
            "tune again when nothing else runs",
            stacklevel=2,
        )


class Part(NamedTuple):
    """A kernel and its share of the time of a call, including that of kernels of the same structure."""

    isolated: IsolatedKernel
    key: str
    share: float


def _parts(code: Any, tensors: Sequence[Any], variables: Sequence[Variable]) -> list[Part]:
    """Returns the kernels that take a share of a call's time that is worth tuning, largest first.

    Kernels of one structure share a record, so that their shares are added.
    """
    times = profile(code, tensors, variables, CALLS_FOR_SHARES)
    seconds = {kernel.name: kernel.seconds for kernel in times.kernels}
    parts: dict[str, Part] = {}
    for isolated in isolated_kernels(code.module(), host_target()):
        if isolated.name not in seconds:
            continue
        key, share = workload_key(isolated.func), seconds[isolated.name] / times.seconds
        part = parts.get(key)
        parts[key] = Part(isolated, key, share) if part is None else part._replace(share=part.share + share)
    return sorted((part for part in parts.values() if part.share >= MIN_SHARE), key=lambda part: -part.share)


def _operands(
    code: Any, tensors: Sequence[Any], variables: Sequence[Variable], kernels: Sequence[IsolatedKernel]
) -> dict[str, list[Any]]:
    """Returns, by kernel, copies of the operands that a call of the function passes to it.

    A kernel may read indices, so that its operands can't be made up.
    """
    operand_counts = {isolated.name: isolated.operands for isolated in kernels}
    operands: dict[str, list[Any]] = {}

    def copy_operands(_function: Any, name: str, before: bool, _result: Any, *args: Any) -> int:
        # Before the kernel runs, as it may overwrite its operands.
        if before and name in operand_counts and name not in operands:
            operands[name] = [to_handle(to_array(x).copy()) for x in args[: operand_counts[name]]]
        return RUN_KERNEL

    executable, handles = handles_of(code, tensors, variables)
    if operand_counts:
        executable.instrumented(copy_operands)(*handles)
    return operands


def _kernel_and_record(part: Part, found: Found) -> tuple[TunedKernel, tuning_records.Record | None]:
    """Returns a kernel's result for the user, and the record to keep; None if the best isn't reliably faster."""
    name, target = part.isolated.name, describe(host_target())
    if not found.is_sure:
        return TunedKernel(name, part.share, found.before, found.before, {}, found.tried, found.mismatched), None
    kernel = TunedKernel(name, part.share, found.before, found.after, _changed(found), found.tried, found.mismatched)
    description = f"{name}: {part.isolated.shapes}"[: tuning_records.LONGEST_TEXT]
    return kernel, tuning_records.Record(target, part.key, description, found.best.choices, found.before, found.after)


def _changed(found: Found) -> dict[str, str]:
    """Returns the choices of the best schedule that differ from those of the default one."""
    default = found.default.choices
    return {
        name: question.answer
        for name, question in found.best.questions.items()
        if question.answer != default.get(name, question.default)
    }


def _call_seconds(
    code: Any, default_executable: Any, tensors: Sequence[Any], variables: Sequence[Variable]
) -> tuple[float, float]:
    """Returns the median seconds of a call before and after tuning; the function is compiled again for that."""
    _, old_arguments = handles_of(code, tensors, variables)
    code.forget()
    tuned_code, new_arguments = handles_of(code, tensors, variables)
    runs = [partial(default_executable.function(), *old_arguments), partial(tuned_code.function(), *new_arguments)]
    before, after = in_turns(runs, ROUNDS_OF_CALLS)
    return median(before), median(after)


# -- one kernel


class Bench:
    """Builds one kernel's candidates in parallel, checks them against the default, and times them in turns."""

    def __init__(self, isolated: IsolatedKernel, operands: list[Any], folder: Path, budget: Budget) -> None:
        self.isolated, self.folder, self.budget, self.target = isolated, folder, budget, host_target()
        self.recorded_operands, self.random = operands, [_random(x) for x in operands]
        self.schedule_hashes: set[int] = set()
        self.expected: list[list[np.ndarray]] = []
        folder.mkdir()

    def build(self, choice_sets: Sequence[Mapping[str, str]]) -> list[Candidate | None]:
        """Builds candidates; None for one whose code was built before or that cannot be built."""
        with ThreadPoolExecutor(available_cores()) as pool:
            jobs = [self._start_compiling(choices, pool) for choices in choice_sets]
            return [None if job is None else self._finish_compiling(*job) for job in jobs]

    def _start_compiling(
        self, choices: Mapping[str, str], pool: ThreadPoolExecutor
    ) -> tuple[Decisions, Path, Any] | None:
        """Schedules and lowers a candidate, and starts its compilation in the pool.

        Returns None if that fails, or if other choices led to the same schedule, which is compiled and timed once.
        """
        decisions = Decisions(choices, ignore_unknown=True)
        try:
            scheduled = schedule(self.isolated.func, self.target, decisions)
            schedule_hash = tvm_ffi.structural_hash(scheduled)
            if schedule_hash in self.schedule_hashes:
                return None
            self.schedule_hashes.add(schedule_hash)
            lowered = lowered_isolated(self.isolated, scheduled, self.target)
        except Exception as error:
            self._warn_failure(decisions, error)
            return None
        path = self.folder / f"{len(self.schedule_hashes)}.so"
        return decisions, path, pool.submit(compile_isolated, lowered, self.target, path)

    def _finish_compiling(self, decisions: Decisions, path: Path, job: Any) -> Candidate | None:
        """Waits for a candidate's compilation and returns it; None if that failed.

        The first candidate is the default, whose results the others must equal.
        """
        self.budget.spend(1)
        try:
            job.result()
        except Exception as error:
            self._warn_failure(decisions, error)
            return None
        code = Executable(path)
        candidate = Candidate(decisions.questions, code, run_isolated(code, self.isolated, self.recorded_operands))
        if not self.expected:
            self.expected = self._results(candidate)
        return candidate

    def _warn_failure(self, decisions: Decisions, error: Exception) -> None:
        """Warns of an error in a schedule rule; tuning goes on."""
        warnings.warn(
            f"tune: {self.isolated.name} can't be compiled with {format_choices(decisions.answers)}: {error}",
            stacklevel=2,
        )

    def agrees(self, candidate: Candidate) -> bool:
        """Returns whether a candidate computes what the default does, on recorded operands and on random numbers."""
        pairs = zip(self.expected, self._results(candidate), strict=True)
        return all(agree(a, b) for expected, actual in pairs for a, b in zip(expected, actual, strict=True))

    def _results(self, candidate: Candidate) -> list[list[np.ndarray]]:
        of_random = run_isolated(candidate.code, self.isolated, self.random)
        return [_arrays(candidate.run()), _arrays(of_random())]

    def measure(self, candidates: Sequence[Candidate], rounds: int) -> list[list[float]]:
        """Returns the seconds of a call in each round."""
        return in_turns([candidate.run for candidate in candidates], rounds, self.budget.clock)


def _random(operand: Any) -> Any:
    """Returns a random operand of the same type; integers are unchanged, as they are often indices."""
    array = to_array(operand)
    is_float = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    rng = np.random.default_rng(0)
    return to_handle(rng.standard_normal(array.shape).astype(array.dtype)) if is_float else operand


def _arrays(result: Any) -> list[np.ndarray]:
    results = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
    return [to_array(x).copy() for x in results]


def agree(expected: np.ndarray, actual: np.ndarray) -> bool:
    """Returns whether two results differ by rounding only, as sums in another order do; integers must be equal.

    The tolerance is relative to each number and to the root mean square of all.

    >>> agree(np.array([1.0, 200.0], "float32"), np.array([1.001, 200.0], "float32"))
    True
    >>> agree(np.array([1.0, 2.0], "float32"), np.array([1.001, 2.0], "float32"))
    False
    """
    tolerance = TOLERANCE.get(expected.dtype.name)
    if tolerance is None:
        return np.array_equal(expected, actual)
    a, b = expected.astype("float64"), actual.astype("float64")
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    a, b = a[finite], b[finite]
    rms = np.sqrt(np.mean(a * a)) if a.size else 0.0
    return bool(np.all(np.abs(a - b) <= tolerance * (np.abs(a) + rms)))


def in_turns(
    runs: Sequence[Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Returns the seconds of a call of each run in each round; the runs take turns in a round.

    A run that is much slower than the fastest is timed only once, before the rounds.
    """
    # Twice, because the very first call may take longer than later ones.
    first_times = [_seconds(run, 1, clock) for run in runs]
    first_times = [min(first_time, _seconds(run, 1, clock)) for first_time, run in zip(first_times, runs)]
    fastest = min(first_times)
    repeat = max(1, round(MIN_SECONDS_PER_ROUND / max(fastest, 1e-9)))
    times_of_runs: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, first_time, times in zip(runs, first_times, times_of_runs):
            times.append(first_time if first_time > SLOW_RATIO * fastest else _seconds(run, repeat, clock))
    return times_of_runs


def _seconds(run: Callable[[], Any], repeat: int, clock: Callable[[], float]) -> float:
    started = clock()
    for _ in range(repeat):
        run()
    return (clock() - started) / repeat
