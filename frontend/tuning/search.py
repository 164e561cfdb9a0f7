"""Searches the schedule choices of one kernel: one choice after another, each from the best candidate so far.

It knows no compilers or clocks: `build` makes candidates, `measure` times them beside each other.
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
SURE = 0.75
"""The share of rounds in which the best must beat the default to be recorded."""


class Candidate(NamedTuple):
    """A scheduled kernel: the questions of its rules with the answers, its code, and a call of it."""

    questions: Mapping[str, Question]
    code: Any
    run: Callable[[], Any]

    @property
    def choices(self) -> dict[str, str]:
        return {name: question.answer for name, question in self.questions.items()}


class Builder(Protocol):
    """Builds candidates for choices; None for one whose code was built before or that cannot be built."""

    def __call__(self, choice_sets: Sequence[Mapping[str, str]]) -> Sequence[Candidate | None]: ...


Measure = Callable[[Sequence[Candidate], int], Sequence[Sequence[float]]]
"""Returns the seconds of each candidate in each of so many rounds, in which they take turns."""


class Found(NamedTuple):
    """The default and the best candidate, their seconds, and counts; ``is_sure``: the difference is beyond noise."""

    default: Candidate
    best: Candidate
    before: float
    after: float
    tried: int
    mismatched: int
    is_sure: bool


class Search:
    """The search for one kernel; it builds only while ``goes_on()``."""

    def __init__(
        self, build: Builder, measure: Measure, agrees: Callable[[Candidate], bool], goes_on: Callable[[], bool]
    ) -> None:
        self.build, self.measure, self.agrees, self.goes_on = build, measure, agrees, goes_on
        self.tried = self.mismatched = 0
        self.interrupted = False

    def run(self) -> Found:
        """Searches from the default until no single choice makes it faster, the budget is spent, or Ctrl-C."""
        (default,) = self.build([{}])
        if default is None:
            raise ValueError("tune: the kernel doesn't compile with its default schedule")
        self.best, start = default, None
        try:
            while self.best is not start and self.goes_on():
                start = self.best
                self._try_each_choice()
        except KeyboardInterrupt:
            self.interrupted = True
        return self._compared(default, self.best)

    def _try_each_choice(self) -> None:
        """Tries all values of each choice in turn, from the best candidate so far.

        A better candidate may offer further choices, which are tried in the same round.
        """
        done: set[str] = set()
        while (name := next((name for name in self.best.questions if name not in done), None)) is not None:
            done.add(name)
            for batch in _batches([{**self.best.choices, name: label} for label in self.best.questions[name].labels]):
                if not self.goes_on():
                    return
                built = [candidate for candidate in self.build(batch) if candidate is not None]
                self.tried += len(built)
                self.best = self._quickest(self.best, built)

    def _quickest(self, best: Candidate, candidates: Sequence[Candidate]) -> Candidate:
        """Returns the fastest of the candidates that compute the default's results.

        Candidates that are faster in a few rounds are checked, and timed again in more.
        """
        if not candidates:
            return best
        best_times, *times = self.measure([best, *candidates], QUICK_ROUNDS)
        order = sorted(range(len(candidates)), key=lambda i: min(times[i]))
        faster = [candidates[i] for i in order if min(times[i]) < min(best_times)][:FINALISTS]
        right = [candidate for candidate in faster if self._is_right(candidate)]
        if not right:
            return best
        best_times, *times = self.measure([best, *right], CLOSE_ROUNDS)
        gains = [gain_of(best_times, their) for their in times]
        most = max(gains)
        return right[gains.index(most)] if most > SMALLEST_STEP else best

    def _is_right(self, candidate: Candidate) -> bool:
        right = self.agrees(candidate)
        self.mismatched += not right
        return right

    def _compared(self, default: Candidate, best: Candidate) -> Found:
        """Compares the best with the default in the last, longest rounds.

        They are timed anew, because the quickest of many candidates was also the luckiest in the search's own rounds.
        """
        if best is default:
            (times,) = self.measure([default], CLOSE_ROUNDS)
            return Found(default, default, median(times), median(times), self.tried, self.mismatched, False)
        before, after = self.measure([default, best], LAST_ROUNDS)
        ahead = sum(b > a for b, a in zip(before, after, strict=True)) / len(before)
        is_sure = gain_of(before, after) > NOISE and ahead >= SURE
        return Found(default, best, median(before), median(after), self.tried, self.mismatched, is_sure)


def gain_of(before: Sequence[float], after: Sequence[float]) -> float:
    """Returns how many times faster the second is: the median of the rounds' ratios.

    >>> gain_of([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    2.0
    """
    return median(b / a for b, a in zip(before, after, strict=True))


def _batches(choice_sets: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    return (choice_sets[start : start + BATCH] for start in range(0, len(choice_sets), BATCH))
