"""All sources of golden answers, and TensorFlow's answers to them: ``python tests/golden_writer.py [NAME...]`` writes them.

Each file's programs run in a process of their own, which has imported TensorFlow and done nothing else yet: TensorFlow keeps
the first scalar zero that it makes (-0.0 or 0.0) and counts the traces of all functions, so that what ran before would show.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import operator
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS / "ops"), str(TESTS / "train")]

import checkpoint_programs  # noqa: E402 - the tests' folders are no package
import documents_support  # noqa: E402
import golden_filters  # noqa: E402
import goldens  # noqa: E402
import numpy as np  # noqa: E402
import optimizer_programs  # noqa: E402
import parity_support  # noqa: E402
import random_programs  # noqa: E402
import saved_model_programs  # noqa: E402


@dataclass(frozen=True)
class Source:
    """Where a golden's answers come from."""

    answers: Callable[[Any], Any]
    """From the library (``tensorflow``) to its answers."""
    labels: Callable[[Any], list[str]] | None = None
    """From the library to the labels of its programs, without running them; answers that are a list of (name, values) are
    compared name by name where they are compared."""
    same: Callable[[Any, Any], bool] = operator.eq
    """Whether two answers to one program are the same."""


def _room(room: str) -> Source:
    return Source(lambda tf: parity_support.answers_of(room, tf), lambda tf: list(parity_support.programs(room, tf)))


def _document(document: str) -> Source:
    return Source(
        lambda tf: documents_support.run(document, tf),
        lambda tf: list(documents_support.cells(document)),
        documents_support.same,
    )


def _same_training(found: list[Any], expected: list[Any]) -> bool:
    looser = golden_filters.LOOSER["optimizers of another machine"]
    return found[0] == expected[0] and np.allclose(found[1], expected[1], looser.relative, looser.absolute)


SOURCES = {
    **{f"document_{name}": _document(name) for name in documents_support.DOCUMENTS},
    **{f"parity_{name}": _room(name) for name in parity_support.ROOMS},
    "saved_model_cli": Source(saved_model_programs.shown_by_tensorflow, lambda tf: saved_model_programs.labels()),
    "checkpoints": Source(checkpoint_programs.written_by_tensorflow, lambda tf: checkpoint_programs.labels()),
    "optimizers": Source(lambda tf: [list(each) for each in optimizer_programs.results(tf)], same=_same_training),
    "random": Source(random_programs.recorded),
}


def _of_tensorflow(name: str) -> tuple[str, str, list[str], Any]:
    import tensorflow

    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        answers = SOURCES[name].answers(tensorflow)
        tempfile.tempdir = None
    return name, tensorflow.__version__, sorted(golden_filters.USED), answers


@contextlib.contextmanager
def fresh_processes() -> Iterator[Callable[[str], tuple[str, str, list[str], Any]]]:
    """A function of a golden's name that gives (name, version, filters used, answers)."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow"])
    with context.Pool(1, maxtasksperchild=1) as pool:
        yield lambda name: pool.apply(_of_tensorflow, [name])


def main(names: list[str]) -> None:
    with fresh_processes() as process_answers:
        for name in names or list(SOURCES):
            goldens.write(*process_answers(name))
            print("wrote", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
