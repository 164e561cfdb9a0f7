"""Importing the framework, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from benchmarks.workload import SelfTimed, Workload

PROGRAM = "import time; started = time.perf_counter(); import {name}; print(time.perf_counter() - started)"


def importing(name: str) -> SelfTimed:
    command = [sys.executable, "-c", PROGRAM.format(name=name)]
    return SelfTimed(lambda: float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def tensorflow(tf: Any, function: Any, size: None) -> SelfTimed:
    return importing(tf.__name__)


def jax(jax: Any, size: None) -> SelfTimed:
    return importing("jax")


def torch(torch: Any, compiled: Any, size: None) -> SelfTimed:
    return importing("torch")


WORKLOADS = [Workload("import", "import", None, None, tensorflow, jax, torch, is_eager=True, goal="<= 400,000")]
