"""Searching the choices of one kernel: one after another, each from the best of what was found before it.

Nothing here knows of compilers or clocks: `build` makes runs of choices, `measure` times runs beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Protocol

from tvtf.passes.schedule.choices import Question

QUICK_ROUNDS, CLOSE_ROUNDS, LAST_ROUNDS = 3, 7, 15
FINALISTS = 3
BATCH = 8
# What two measurements of the same code differ by, when they are the medians of so many rounds.
NOISE = 1.03
SMALLEST_STEP = 1.01
SURE = 0.75


class Candidate(NamedTuple):
    """A kernel as scheduled: what its rules asked and were answered, its code, and a call of that."""

    asked: Mapping[str, Question]
    code: Any
    run: Callable[[], Any]

    @property
    def choices(self) -> dict[str, str]:
        return {name: question.answer for name, question in self.asked.items()}


class Builder(Protocol):
    """Candidates for choices, None for one whose code was there before or that can't be built."""

    def __call__(self, wanted: Sequence[Mapping[str, str]]) -> Sequence[Candidate | None]: ...


Measure = Callable[[Sequence[Candidate], int], Sequence[Sequence[float]]]
"""Seconds of each candidate in each of so many rounds, in which they take turns."""


class Found(NamedTuple):
    """The default and the best: their seconds, and how many others were tried and refused; ``is_sure`` beyond noise."""

    default: Candidate
    best: Candidate
    before: float
    after: float
    tried: int
    refused: int
    is_sure: bool


class Search:
    """A kernel's search; ``goes_on`` is asked before anything is built."""

    def __init__(
        self, build: Builder, measure: Measure, agrees: Callable[[Candidate], bool], goes_on: Callable[[], bool]
    ) -> None:
        self.build, self.measure, self.agrees, self.goes_on = build, measure, agrees, goes_on
        self.tried = self.refused = 0
        self.interrupted = False

    def run(self) -> Found:
        """From the default on until no choice alone makes it quicker, it is time to stop, or somebody presses Ctrl-C."""
        (default,) = self.build([{}])
        if default is None:
            raise ValueError("the kernel can't be built as its rules schedule it")
        self.best, start = default, None
        try:
            while self.best is not start and self.goes_on():
                start = self.best
                self._try_each_choice()
        except KeyboardInterrupt:
            self.interrupted = True
        return self._compared(default, self.best)

    def _try_each_choice(self) -> None:
        done: set[str] = set()
        while (name := next((name for name in self.best.asked if name not in done), None)) is not None:
            done.add(name)
            for batch in _batches([{**self.best.choices, name: label} for label in self.best.asked[name].labels]):
                if not self.goes_on():
                    return
                built = [candidate for candidate in self.build(batch) if candidate is not None]
                self.tried += len(built)
                self.best = self._quickest(self.best, built)

    def _quickest(self, best: Candidate, others: Sequence[Candidate]) -> Candidate:
        """The quickest of those that are as right as the default."""
        if not others:
            return best
        mine, *theirs = self.measure([best, *others], QUICK_ROUNDS)
        order = sorted(range(len(others)), key=lambda i: min(theirs[i]))
        near = [others[i] for i in order if min(theirs[i]) < min(mine)][:FINALISTS]
        right = [candidate for candidate in near if self._is_right(candidate)]
        if not right:
            return best
        mine, *theirs = self.measure([best, *right], CLOSE_ROUNDS)
        gains = [gain_of(mine, their) for their in theirs]
        most = max(gains)
        return right[gains.index(most)] if most > SMALLEST_STEP else best

    def _is_right(self, candidate: Candidate) -> bool:
        right = self.agrees(candidate)
        self.refused += not right
        return right

    def _compared(self, default: Candidate, best: Candidate) -> Found:
        if best is default:
            (times,) = self.measure([default], CLOSE_ROUNDS)
            return Found(default, default, median(times), median(times), self.tried, self.refused, False)
        before, after = self.measure([default, best], LAST_ROUNDS)
        ahead = sum(b > a for b, a in zip(before, after, strict=True)) / len(before)
        is_sure = gain_of(before, after) > NOISE and ahead >= SURE
        return Found(default, best, median(before), median(after), self.tried, self.refused, is_sure)


def gain_of(before: Sequence[float], after: Sequence[float]) -> float:
    """How many times as fast, as the median of the rounds.

    >>> gain_of([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    2.0
    """
    return median(b / a for b, a in zip(before, after, strict=True))


def _batches(wanted: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    return (wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH))
