"""Names say what a thing is or does, in words that a compiler engineer would search for."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def word_set(text):
    return frozenset(text.split())


FOLDERS = ("tvtf", "frontend", "passes", "models", "tools", "benchmarks", "tests")
FILES = sorted(path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

BANNED = word_set(
    "alike anew anybody apart aside ask asked asking asks chance chances dear forgetful foreseen hope hoped hopeful "
    "hopeless indifferent lasting lenient loosened nobody refusal refusals refuse refused refuses refusing somebody "
    "tell telling tells told untold"
)
"""Words that no name contains: each has a standard one, such as report, request, reject, defer, separate, random."""
ALONE = word_set("held kept mine ours shown taken theirs waiting yours")
"""Words that don't name anything by themselves, nor with a preposition, as in "held_by"; tests' local variables may."""
PREPOSITIONS = word_set("as at by for from in is of to")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

PUBLIC = frozenset(("tell",))
"""Names that Python, NumPy or TensorFlow give: a file's position."""
SAVED = word_set("apart shown told_dims waiting")
"""Names of primitives, their attributes and keys in saved models, which must load in later versions."""


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@cache
def is_vague(name):
    """Whether a name in snake case or camel case has a banned word, or is nothing but a vague one."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return bool(words & BANNED or words & ALONE and words <= ALONE | PREPOSITIONS)


def defined_names(tree):
    """The functions, classes, arguments, variables and attributes that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


@cache
def vague_names(file):
    text = (ROOT / file).read_text()
    candidates = {name for name in IDENTIFIER.findall(text) if is_vague(name)}
    names = candidates and candidates.intersection(defined_names(ast.parse(text)))
    found = {name for name in (*names, Path(file).stem) if is_vague(name)} - PUBLIC - SAVED
    return {name for name in found if name.lower().strip("_") not in ALONE} if file.startswith("tests/") else found


def test_names_have_no_vague_words():
    found = {file: sorted(names) for file in FILES if (names := vague_names(file))}
    assert found == {}


@pytest.mark.parametrize("name", ["told_by", "_refusing", "Told", "kept", "_held", "held_by", "is_taken", "WAITING"])
def test_vague(name):
    assert is_vague(name)


@pytest.mark.parametrize("name", ["held_out", "task", "kept_boxes", "values_taken", "taken_axes", "foretold", "number"])
def test_clear(name):
    assert not is_vague(name)
