"""TensorFlow's answers to the tests' programs as committed text: ``tests/golden/NAME.json``, each stamped with the version that gave them.

``make goldens`` writes them anew (``golden_writer.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"
TENSORFLOW = "2.21"
"""The version whose answers tvtf gives; pyproject.toml's extra ``oracle`` installs it."""


class GoldenError(Exception):
    """A file of answers is missing, or of another version of TensorFlow."""


def read(name: str) -> Any:
    """TensorFlow's answers: a dict by label, or a list."""
    return stamped(name)["answers"]


def stamped(name: str) -> dict[str, Any]:
    """A file's contents: ``tensorflow``, the ``filters`` that changed its texts, and ``answers``."""
    path = FOLDER / f"{name}.json"
    advice = "`make goldens` writes it anew"
    if not path.exists():
        raise GoldenError(f"{path} is missing: {advice}")
    contents = json.loads(path.read_text())
    if not isinstance(contents, dict) or not isinstance(contents.get("tensorflow"), str):
        raise GoldenError(f"{path} doesn't say which version of TensorFlow gave its answers: {advice}")
    if not is_target(contents["tensorflow"]):
        version = contents["tensorflow"]
        raise GoldenError(f"{path} has answers of TensorFlow {version}, not of {TENSORFLOW}: {advice}")
    return contents


def is_target(version: str) -> bool:
    return version.startswith(f"{TENSORFLOW}.")


def write(name: str, version: str, filters: Iterable[str], answers: Any) -> None:
    """An answer a line, so that a change shows as its line."""
    if not is_target(version):
        raise GoldenError(f"TensorFlow {TENSORFLOW} gives the answers, this is {version}: run `make goldens`")
    head = f'"tensorflow": {_text(version)},\n"filters": {_text(sorted(filters))},\n"answers": '
    (FOLDER / f"{name}.json").write_text(f"{{\n{head}{_lines(answers)}\n}}\n")


def _lines(answers: Any) -> str:
    if isinstance(answers, dict):
        return "{\n" + ",\n".join(f"{_text(label)}: {_text(each)}" for label, each in answers.items()) + "\n}"
    return "[\n" + ",\n".join(map(_text, answers)) + "\n]"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
