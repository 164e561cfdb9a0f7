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
        """Returns the option that was decided for a choice, or the first option if none was decided.

        The choice is recorded with the labels of its options, so that the tuner can try other options. With
        ``ignore_unknown``, a decided label that isn't among the options is ignored: a tuning record may be older than
        the scheduling rules.

        Args:
          name: the name of the choice.
          options: the options by their labels.

        Raises:
          UnknownChoiceError: the decided label isn't among the options.
        """
        labels = tuple(options)
        default = labels[0]
        unique_name = self._unique_name(name, labels)
        label = self.decided.get(unique_name, default)
        if label not in options and self.ignore_unknown:
            label = default
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
    """Makes every `choice` in this thread use the given decisions, within a ``with`` block."""
    outer, _active.decisions = _active.decisions, decisions
    try:
        yield decisions
    finally:
        _active.decisions = outer


def choice(name: str, default: T, options: Callable[[], Iterable[T]], label: Callable[[T], str] = str) -> T:
    """Returns the option that was decided for the current kernel, or the default without a decision.

    Args:
      name: the name of the choice.
      default: the option that a rule would take.
      options: returns the other options. It is called only if there are decisions for the kernel.
      label: returns the text by which a tuning record names an option.

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
    options_by_label = {label(default): default}
    for option in options():
        options_by_label.setdefault(label(option), option)
    return decisions.answer(name, options_by_label) if len(options_by_label) > 1 else default
