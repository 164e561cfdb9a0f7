"""Choices: what a rule decides by its cost model, and what tuning may decide instead.

A rule calls ``choice("tile", default, options, label)``. Without decisions for the current kernel it returns the
default and the options aren't listed. Under `deciding` it returns the option with the decided label. So a decision can
only select among options that the rule offers itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class UnknownChoiceError(ValueError):
    """A decision for a choice that no rule makes, or for an option that no rule offers."""


class Question(NamedTuple):
    """A choice that a rule made: the labels that it offered, the default's first, and the selected one."""

    labels: tuple[str, ...]
    answer: str

    @property
    def default(self) -> str:
        return self.labels[0]


class Decisions:
    """The labels decided for one kernel by the choices' names, and the choices that its rules made.

    A choice repeated with the same options has the same answer; another choice of the same name is numbered.
    With ``ignore_unknown``, a decision that isn't offered is ignored: after one choice was changed, others may have other
    options.
    """

    def __init__(self, given: Mapping[str, str] | None = None, ignore_unknown: bool = False) -> None:
        self.decided = dict(given or {})
        self.ignore_unknown = ignore_unknown
        self.questions: dict[str, Question] = {}

    @property
    def answers(self) -> dict[str, str]:
        """The answers to all questions."""
        return {name: question.answer for name, question in self.questions.items()}

    def answer(self, name: str, options: dict[str, T]) -> T:
        """Answers a choice: returns the option with the decided label, or the first option if none was decided.

        The labels of all options are recorded, from which the tuner makes further candidates. With ``ignore_unknown`` a
        decided label that isn't among the options counts as undecided: records of tuning outlive the rules that made them.

        Args:
          name: the name of the choice.
          options: the options by their labels.
        """
        labels = tuple(options)
        unique_name = self._unique_name(name, labels)
        label = self.decided.get(unique_name, labels[0])
        if label not in options and self.ignore_unknown:
            label = labels[0]
        if label not in options:
            raise UnknownChoiceError(f"{unique_name} can't be {label!r}; the rules offer {', '.join(labels)}")
        self.questions[unique_name] = Question(labels, label)
        return options[label]

    def _unique_name(self, name: str, labels: tuple[str, ...]) -> str:
        """Returns a unique name of a choice: a number is added if an earlier choice of this name had other options."""
        unique_name, number = name, 1
        while unique_name in self.questions and self.questions[unique_name].labels != labels:
            number += 1
            unique_name = f"{name} #{number}"
        return unique_name

    def check_all_used(self) -> None:
        """Raises UnknownChoiceError if a decision is for a choice that no rule made."""
        unused = sorted(self.decided.keys() - self.questions.keys())
        if unused and not self.ignore_unknown:
            raise UnknownChoiceError(f"no rule has the choices {', '.join(unused)}")


class _Active(threading.local):
    decisions: Decisions | None = None


_active = _Active()


@contextmanager
def deciding(decisions: Decisions) -> Iterator[Decisions]:
    """Makes `choice` in this thread follow decisions."""
    outer, _active.decisions = _active.decisions, decisions
    try:
        yield decisions
    finally:
        _active.decisions = outer


def choice(name: str, default: T, options: Callable[[], Iterable[T]], label: Callable[[T], str] = str) -> T:
    """Returns the option that was decided for the current kernel, or the default without a decision.

    >>> choice("rows", 4, lambda: [2, 8])
    4
    >>> with deciding(Decisions({"rows": "8"})) as decisions:
    ...     choice("rows", 4, lambda: [2, 8])
    8
    >>> decisions.questions
    {'rows': Question(labels=('4', '2', '8'), answer='8')}
    """
    decisions = _active.decisions
    if decisions is None:
        return default
    offered = {label(default): default}
    for option in options():
        offered.setdefault(label(option), option)
    return decisions.answer(name, offered) if len(offered) > 1 else default
