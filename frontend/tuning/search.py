"""Searches the schedule choices of one kernel: one choice after another, each from the best candidate so far.

It knows no compilers or clocks: `build` makes candidates, `measure` times them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Protocol

from tvtf.passes.schedule.choices import Question

QUICK_ROUNDS, CLOSE_ROUNDS, LAST_ROUNDS = 3, 7, 15
FINALISTS = 3
"""How many of the quick rounds' fastest candidates are checked and timed again."""
BATCH = 8
"""How many candidates are built and timed together."""
NOISE = 1.03
"""The ratio by which two measurements of the same code differ, as medians of LAST_ROUNDS."""
SMALLEST_STEP = 1.01
"""The smallest gain for which the search moves on to another candidate."""
MIN_WINS = 0.75
"""The share of rounds in which the best must beat the default to be recorded."""


class Candidate(NamedTuple):
    """A schedule of a kernel: the questions of the schedule rules with answers, compiled code, and a call of it."""

    questions: Mapping[str, Question]
    code: Any
    run: Callable[[], Any]

    @property
    def choices(self) -> dict[str, str]:
        """The answers to the questions, by the questions' names."""
        return {name: question.answer for name, question in self.questions.items()}


class Builder(Protocol):
    """Compiles a candidate for each set of choices; None if its code was built before or can't be built."""

    def __call__(self, choice_sets: Sequence[Mapping[str, str]]) -> Sequence[Candidate | None]: ...


Measure = Callable[[Sequence[Candidate], int], Sequence[Sequence[float]]]
"""Returns the seconds of each candidate in each of the given number of rounds, in which the candidates take turns."""


class Found(NamedTuple):
    """The result of a search: the default and the best candidate, and the seconds of a call of each.

    ``tried`` counts the candidates that were timed, ``mismatched`` those with other results than the default.
    ``is_significant`` says whether the best candidate is faster by more than the noise of measurements.
    """

    default: Candidate
    best: Candidate
    before: float
    after: float
    tried: int
    mismatched: int
    is_significant: bool


class Search:
    """The search for the best schedule of one kernel. It builds candidates only while ``should_continue()`` returns True."""

    def __init__(
        self, build: Builder, measure: Measure, agrees: Callable[[Candidate], bool], should_continue: Callable[[], bool]
    ) -> None:
        self.build, self.measure, self.agrees, self.should_continue = build, measure, agrees, should_continue
        self.tried = self.mismatched = 0
        self.interrupted = False

    def run(self) -> Found:
        """Searches for the fastest schedule, one choice after another, and returns it with the default schedule.

        The search ends when no change of a single choice makes the best candidate faster. It also ends when the budget
        is spent, or with Ctrl-C.
        """
        (default,) = self.build([{}])  # no choices: all questions have their default answers
        if default is None:
            raise ValueError("tune: the kernel doesn't compile with its default schedule")
        self.best, previous_best = default, None
        try:
            while self.best is not previous_best and self.should_continue():
                previous_best = self.best
                self._try_each_choice()
        except KeyboardInterrupt:
            self.interrupted = True
        return self._compared(default, self.best)

    def _try_each_choice(self) -> None:
        """Tries all answers to each question in turn, with the other answers of the best candidate so far.

        This is coordinate descent. A better candidate may have further questions, whose answers are tried, too.
        """
        tried_names: set[str] = set()
        while untried_names := [name for name in self.best.questions if name not in tried_names]:
            name = untried_names[0]
            tried_names.add(name)
            self._try_answers(name)

    def _try_answers(self, name: str) -> None:
        """Tries all answers to one question, with the other answers of the best candidate so far."""
        other_choices = self.best.choices
        variants = [{**other_choices, name: label} for label in self.best.questions[name].labels]
        for batch in _batches(variants):
            if not self.should_continue():
                return
            built = [candidate for candidate in self.build(batch) if candidate is not None]
            self.tried += len(built)
            self.best = self._fastest_correct(self.best, built)

    def _fastest_correct(self, best: Candidate, candidates: Sequence[Candidate]) -> Candidate:
        """Returns the fastest candidate that computes the same results as the default, or ``best`` if none is faster.

        All candidates are timed in a few rounds. The fastest of them are checked, and timed again in more rounds.
        """
        if not candidates:
            return best
        times_of_best, *times_of_candidates = self.measure([best, *candidates], QUICK_ROUNDS)
        shortest_times = [min(times) for times in times_of_candidates]
        fastest_first = sorted(range(len(candidates)), key=lambda i: shortest_times[i])
        faster = [candidates[i] for i in fastest_first if shortest_times[i] < min(times_of_best)]
        finalists = [candidate for candidate in faster[:FINALISTS] if self._is_correct(candidate)]
        if not finalists:
            return best
        times_of_best, *times_of_finalists = self.measure([best, *finalists], CLOSE_ROUNDS)
        gains = [gain_of(times_of_best, times) for times in times_of_finalists]
        best_gain = max(gains)
        # The search moves to another candidate only for a larger gain than this step.
        return finalists[gains.index(best_gain)] if best_gain > SMALLEST_STEP else best

    def _is_correct(self, candidate: Candidate) -> bool:
        """Returns whether a candidate computes the same results as the default. Counts candidates that don't."""
        is_correct = self.agrees(candidate)
        self.mismatched += not is_correct
        return is_correct

    def _compared(self, default: Candidate, best: Candidate) -> Found:
        """Times the best candidate and the default again, in many rounds, and returns the result of the search.

        The times measured during the search aren't used: the fastest of many candidates may only have been lucky.
        """
        if best is default:
            (times,) = self.measure([default], CLOSE_ROUNDS)
            return Found(
                default, default, median(times), median(times), self.tried, self.mismatched, is_significant=False
            )
        default_times, best_times = self.measure([default, best], LAST_ROUNDS)
        wins = sum(before > after for before, after in zip(default_times, best_times, strict=True))
        share_of_wins = wins / len(default_times)
        is_significant = gain_of(default_times, best_times) > NOISE and share_of_wins >= MIN_WINS
        before, after = median(default_times), median(best_times)
        return Found(default, best, before, after, self.tried, self.mismatched, is_significant)


def gain_of(before: Sequence[float], after: Sequence[float]) -> float:
    """Returns how many times faster ``after`` is than ``before``: the median of the ratios in each round.

    >>> gain_of([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    2.0
    """
    return median(old / new for old, new in zip(before, after, strict=True))


def _batches(choice_sets: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """Splits sets of choices into lists of at most ``BATCH``, which are built and timed together."""
    return (choice_sets[start : start + BATCH] for start in range(0, len(choice_sets), BATCH))
