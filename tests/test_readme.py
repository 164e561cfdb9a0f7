"""The README's program runs as it stands and prints what the README says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
NUMBER = re.compile(r"\d+\.\d+")
LAST_DIGITS = 5e-4
"""Machines sum in other orders: what 300 steps make of that."""


def blocks():
    return re.search(
        r"^```python\n(.*?)^```\n\s*^```\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL
    ).groups()


def numbers(text):
    return [float(n) for n in NUMBER.findall(text)]


def test_program_prints_what_it_says(tmp_path):
    program, said = blocks()
    path = tmp_path / "readme.py"
    path.write_text(program)
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert NUMBER.sub("#", run.stdout) == NUMBER.sub("#", said)
    assert all(abs(a - b) < LAST_DIGITS for a, b in zip(numbers(run.stdout), numbers(said), strict=True)), run.stdout
