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
from tvtf.core.thread_count import compiler_threads
from tvtf.core.thread_state import state
from tvtf.frontend.tuning import cpu_load
from tvtf.frontend.tuning.extract_kernels import (
    IsolatedKernel,
    compile_isolated,
    isolated_kernels,
    lowered_isolated,
    run_isolated,
)
from tvtf.frontend.tuning.profile import RUN_KERNEL, failures_of, handles_of, profile
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
    """The result of tuning a kernel: its share of the function's time, and its seconds before and after.

    ``choices`` are the answers of the best schedule that differ from the default, and empty if the default was best.
    ``tried`` schedules were timed. ``mismatched`` of them were faster but computed other results.
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
        """Formats a table: a row for each kernel, and a last row for the whole call."""
        head = f"{'share':>6} {'before us':>10} {'after us':>10} {'tried':>6}  kernel: choices"
        whole = f"{'all':>6} {self.before * 1e6:10.1f} {self.after * 1e6:10.1f}"
        return "\n".join([head, *map(_line, self.kernels), whole])


def _line(kernel: TunedKernel) -> str:
    """Formats a tuned kernel's row of the table, with times in microseconds."""
    times = f"{kernel.before * 1e6:10.1f} {kernel.after * 1e6:10.1f}"
    return f"{kernel.share:6.1%} {times} {kernel.tried:6}  {kernel.name}: {format_choices(kernel.choices)}"


def format_choices(choices: Mapping[str, str]) -> str:
    """Formats the choices of a schedule as text.

    >>> format_choices({"tile": "12 x 2", "packed": "none"})
    'tile: 12 x 2; packed: none'
    """
    return "; ".join(f"{name}: {label}" for name, label in choices.items()) or "as by default"


class Budget:
    """The remaining seconds and, if limited, the remaining number of candidates."""

    def __init__(self, seconds: float, trials: int | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.end = clock() + seconds
        self.trials = trials

    def share(self, fraction: float) -> Callable[[], bool]:
        """Reserves a fraction of the remaining time and trials, such as for one kernel.

        Returns a function without arguments, which returns whether some of this share is left.
        """
        end = self.clock() + fraction * (self.end - self.clock())
        trials_after = 0  # `self.trials` is counted down: the share is used up when it reaches this number
        if self.trials is not None:
            share_of_trials = max(1, round(fraction * self.trials))
            trials_after = max(0, self.trials - share_of_trials)

        def has_budget() -> bool:
            has_trials = self.trials is None or self.trials > trials_after
            return has_trials and self.clock() < end

        return has_budget

    def spend(self, trials: int) -> None:
        """Subtracts a number of built candidates from the remaining trials."""
        if self.trials is not None:
            self.trials -= trials


def tune(
    code: Any,
    tensors: Sequence[Any],
    variables: Sequence[Variable],
    budget: Budget,
    report: Callable[[TunedKernel], None] = lambda _: None,
) -> Tuning:
    """Searches better schedules for the kernels of compiled code, and records the best in the tuning file.

    Ctrl-C ends the search early.

    Args:
      code: a traced function, which can be compiled.
      tensors, variables: the arguments and Variables of the call to tune for.
      budget: the time and the number of candidates to spend.
      report: called with the result of each kernel.

    Raises:
      NotImplementedError: the device in use is a GPU.
    """
    if target_of(state.device).kind.name != "llvm":
        raise NotImplementedError(f"tune searches schedules for CPUs, but the device in use is {state.device}")
    default_executable = code.code().executable
    if default_executable is None:
        return Tuning((), 0.0, 0.0, None)
    started = cpu_load.current_ticks()
    tasks = _tuning_tasks(code, tensors, variables)
    operands = _operands(code, tensors, variables, [task.isolated for task in tasks])
    kernels: list[TunedKernel] = []
    path = None
    try:
        with tempfile.TemporaryDirectory(prefix="tvtf-tune-") as folder:
            for number, task in enumerate(tasks):
                # Budget that a kernel leaves over goes to the kernels after it.
                has_budget = budget.share(task.share / sum(remaining.share for remaining in tasks[number:]))
                bench = Bench(task.isolated, operands[task.isolated.name], Path(folder) / str(number), budget)
                search = Search(bench.build, bench.measure, bench.agrees, has_budget)
                kernel, record = _kernel_and_record(task, search.run())
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
    """Warns if other programs used more than a small ``share`` of the cores, because the times are then unreliable."""
    if share > MAX_SHARE_OF_OTHERS:
        warnings.warn(
            f"tune: other programs took {share:.0%} of the cores, so the schedules found may not be faster without them; "
            "tune again when nothing else runs",
            stacklevel=2,
        )


class TuningTask(NamedTuple):
    """A kernel to tune, the key of its record, and its share of the time of a call.

    The share includes other kernels of the same structure, which have the same key.
    """

    isolated: IsolatedKernel
    key: str
    share: float


def _tuning_tasks(code: Any, tensors: Sequence[Any], variables: Sequence[Variable]) -> list[TuningTask]:
    """Returns the kernels that take at least ``MIN_SHARE`` of a call's time, those of the largest share first.

    Kernels of the same structure are tuned once, as they use the same record. Their shares are added.

    Args:
      code: the compiled program.
      tensors: the example arguments.
      variables: the Variables that the program uses.
    """
    times = profile(code, tensors, variables, CALLS_FOR_SHARES)
    seconds = {kernel.name: kernel.seconds for kernel in times.kernels}
    tasks: dict[str, TuningTask] = {}
    for isolated in isolated_kernels(code.module(), host_target()):
        if isolated.name not in seconds:
            continue
        key = workload_key(isolated.func)
        share = seconds[isolated.name] / times.seconds
        known_task = tasks.get(key)
        if known_task is None:
            tasks[key] = TuningTask(isolated, key, share)
        else:
            tasks[key] = known_task._replace(share=known_task.share + share)
    large_tasks = [task for task in tasks.values() if task.share >= MIN_SHARE]
    return sorted(large_tasks, key=lambda task: -task.share)


def _operands(
    code: Any, tensors: Sequence[Any], variables: Sequence[Variable], kernels: Sequence[IsolatedKernel]
) -> dict[str, list[Any]]:
    """Runs a call of the function, and returns copies of the operands that each kernel gets, by the kernel's name.

    A kernel is timed on these operands, because they may be indices, which can't be made up.

    Args:
      code: the compiled function.
      tensors, variables: the arguments of the call.
      kernels: the kernels.
    """
    operand_counts = {isolated.name: isolated.operands for isolated in kernels}
    operands: dict[str, list[Any]] = {}

    def copy_operands(_function: Any, name: str, before: bool, _result: Any, *args: Any) -> int:
        """Copies the operands of the first call of each kernel. The machine calls this before and after a kernel."""
        # Before the kernel runs, as it may overwrite its operands.
        if before and name in operand_counts and name not in operands:
            operands[name] = [to_handle(to_array(x).copy()) for x in args[: operand_counts[name]]]
        return RUN_KERNEL

    executable, handles = handles_of(code, tensors, variables)
    if operand_counts:
        with failures_of(code):
            executable.instrumented(copy_operands)(*handles)
    return operands


def _kernel_and_record(task: TuningTask, found: Found) -> tuple[TunedKernel, tuning_records.Record | None]:
    """Returns the result of a kernel's search for the user, and the record to keep.

    The record is None if the best schedule isn't reliably faster than the default.

    Args:
      task: the kernel that was tuned.
      found: the result of the search.
    """
    name = task.isolated.name
    if not found.is_significant:
        return TunedKernel(name, task.share, found.before, found.before, {}, found.tried, found.mismatched), None
    kernel = TunedKernel(name, task.share, found.before, found.after, _changed(found), found.tried, found.mismatched)
    target = describe(host_target())
    description = f"{name}: {task.isolated.shapes}"[: tuning_records.LONGEST_TEXT]
    return kernel, tuning_records.Record(target, task.key, description, found.best.choices, found.before, found.after)


def _changed(found: Found) -> dict[str, str]:
    """Returns the choices of the best schedule that differ from the default schedule's."""
    default = found.default.choices
    return {
        name: question.answer
        for name, question in found.best.questions.items()
        if question.answer != default.get(name, question.default)  # the default schedule may not have the question
    }


def _call_seconds(
    code: Any, default_executable: Any, tensors: Sequence[Any], variables: Sequence[Variable]
) -> tuple[float, float]:
    """Compiles the function again with the tuned schedules, and returns the median seconds of a call before and after.

    ``default_executable`` is the code that was compiled before tuning.
    """
    _, old_arguments = handles_of(code, tensors, variables)
    code.forget()
    tuned_code, new_arguments = handles_of(code, tensors, variables)
    runs = [partial(default_executable.function(), *old_arguments), partial(tuned_code.function(), *new_arguments)]
    with failures_of(code):
        before, after = in_turns(runs, ROUNDS_OF_CALLS)
    return median(before), median(after)


# -- one kernel


class Bench:
    """The test bench of one kernel: compiles candidates in parallel, checks their results, and times them in turns."""

    def __init__(self, isolated: IsolatedKernel, operands: list[Any], folder: Path, budget: Budget) -> None:
        """Prepares to time candidates of one kernel.

        Args:
          isolated: the kernel, in a module of its own.
          operands: the operands of a recorded call.
          folder: a new folder for the candidates' compiled code.
          budget: the time that is left.
        """
        self.isolated = isolated
        self.folder = folder
        self.budget = budget
        self.target = host_target()
        self.recorded_operands = operands
        self.random = [_random(x) for x in operands]  # operands of the same types as those recorded
        self.schedule_hashes: set[int] = set()  # of the candidates so far
        self.expected: list[
            list[np.ndarray]
        ] = []  # the results of the first candidate, for recorded and random operands
        folder.mkdir()

    def build(self, choice_sets: Sequence[Mapping[str, str]]) -> list[Candidate | None]:
        """Compiles a candidate for each set of choices; None if its code was built before or can't be built."""
        with ThreadPoolExecutor(compiler_threads()) as pool:
            jobs = [self._start_compiling(choices, pool) for choices in choice_sets]
            return [None if job is None else self._finish_compiling(*job) for job in jobs]

    def _start_compiling(
        self, choices: Mapping[str, str], pool: ThreadPoolExecutor
    ) -> tuple[Decisions, Path, Any] | None:
        """Schedules and lowers a candidate, and starts its compilation in the thread pool.

        Returns the decisions of the schedule, the path of the library, and the compilation job. Returns None if
        scheduling fails, or if other choices gave the same schedule.
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
        """Waits for the compilation of a candidate, and returns the candidate, or None if the compilation failed.

        The first candidate is the default. Its results are kept, because the others must compute the same results.

        Args:
          decisions: the choices of the candidate's schedule.
          path: the file of the compiled library.
          job: the compilation, which runs in another thread.
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
        """Warns that a kernel can't be compiled with these choices. Tuning continues."""
        warnings.warn(
            f"tune: {self.isolated.name} can't be compiled with {format_choices(decisions.answers)}: {error}",
            stacklevel=2,
        )

    def agrees(self, candidate: Candidate) -> bool:
        """Returns whether a candidate computes the same results as the default, on recorded and on random operands."""
        for expected_arrays, actual_arrays in zip(self.expected, self._results(candidate), strict=True):
            pairs = zip(expected_arrays, actual_arrays, strict=True)
            if not all(agree(expected, actual) for expected, actual in pairs):
                return False
        return True

    def _results(self, candidate: Candidate) -> list[list[np.ndarray]]:
        """Returns a candidate's results on the recorded operands, and on random operands."""
        of_random = run_isolated(candidate.code, self.isolated, self.random)
        return [_arrays(candidate.run()), _arrays(of_random())]

    def measure(self, candidates: Sequence[Candidate], rounds: int) -> list[list[float]]:
        """Times candidates in turns, and returns the seconds of a call in each round, one list for each candidate."""
        return in_turns([candidate.run for candidate in candidates], rounds, self.budget.clock)


def _random(operand: Any) -> Any:
    """Returns a random operand of the same type.

    An integer operand is returned unchanged, because it may be indices.
    """
    array = to_array(operand)
    is_float = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    if not is_float:
        return operand
    random_array = np.random.default_rng(0).standard_normal(array.shape)
    return to_handle(random_array.astype(array.dtype))


def _arrays(result: Any) -> list[np.ndarray]:
    """Copies a kernel's result, one tensor or several, to NumPy arrays."""
    results = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
    return [to_array(x).copy() for x in results]


def agree(expected: np.ndarray, actual: np.ndarray) -> bool:
    """Returns whether two results are equal up to rounding errors, as sums in another order have.

    Integers must be equal. The tolerance is relative to each number and to the root mean square of all numbers.

    >>> agree(np.array([1.0, 200.0], "float32"), np.array([1.001, 200.0], "float32"))
    True
    >>> agree(np.array([1.0, 2.0], "float32"), np.array([1.001, 2.0], "float32"))
    False
    """
    tolerance = TOLERANCE.get(expected.dtype.name)
    if tolerance is None:  # integers and booleans
        return np.array_equal(expected, actual)
    expected = expected.astype("float64")
    actual = actual.astype("float64")
    is_finite = np.isfinite(expected)  # infinities and NaNs must be equal
    if not np.array_equal(expected[~is_finite], actual[~is_finite], equal_nan=True):
        return False
    expected, actual = expected[is_finite], actual[is_finite]
    root_mean_square = np.sqrt(np.mean(expected * expected)) if expected.size else 0.0
    return bool(np.all(np.abs(expected - actual) <= tolerance * (np.abs(expected) + root_mean_square)))


def in_turns(
    runs: Sequence[Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Times several functions in turns, and returns the seconds of a call in each round, one list for each function.

    A function that is much slower than the fastest is timed only once, before the rounds.

    Args:
      runs: the functions to time, without arguments.
      rounds: the number of rounds. In a round, each function is called repeatedly.
      clock: returns the time in seconds.
    """
    # Twice, because the very first call may take longer than later ones.
    first_times = [_seconds(run, 1, clock) for run in runs]
    first_times = [min(first_time, _seconds(run, 1, clock)) for first_time, run in zip(first_times, runs)]
    fastest = min(first_times)
    repeat = max(1, round(MIN_SECONDS_PER_ROUND / max(fastest, 1e-9)))  # the clock's resolution may make it 0
    times_of_runs: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        # A round times all functions, so that a change of the machine's load affects them alike.
        for run, first_time, times in zip(runs, first_times, times_of_runs):
            is_slow = first_time > SLOW_RATIO * fastest
            times.append(first_time if is_slow else _seconds(run, repeat, clock))
    return times_of_runs


def _seconds(run: Callable[[], Any], repeat: int, clock: Callable[[], float]) -> float:
    """Calls a function ``repeat`` times, and returns the average seconds of a call."""
    started = clock()
    for _ in range(repeat):
        run()
    return (clock() - started) / repeat
