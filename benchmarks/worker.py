"""The process of a peer: ``python -m benchmarks.worker PEER`` answers one JSON request a line with one JSON answer.

Requests are ``{"build": NAME, "tiny": BOOL}``; ``{"seconds": S}``, which gives the seconds of single calls, sampled for
about S seconds; and ``{"peak": true}``, which gives the largest resident memory that the process has had, in bytes. Answers go
to the process's own standard output; what frameworks print goes to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import PEERS
from benchmarks.workload import Call, SelfTimed
from benchmarks.workloads import ALL

SHORTEST_SAMPLE = 2e-4
"""Calls that take fewer seconds are timed several at a time."""
SETTLING_CALLS = 3


def seconds_of(call: Call, count: int) -> float:
    """Returns the mean seconds of ``count`` calls."""
    started = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return (time.perf_counter() - started) / count


def sampled(call: Call | SelfTimed, seconds: float) -> list[float]:
    """Returns the seconds of single calls, at least one."""
    if isinstance(call, SelfTimed):
        return [call.run()]
    count = max(1, round(SHORTEST_SAMPLE / max(seconds_of(call, 1), 1e-7)))
    samples, end = [], time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        samples.append(seconds_of(call, count))
    return samples


def warmed(call: Call | SelfTimed) -> float | None:
    """Calls until the call is compiled and its time is stable; returns the sum of the first result, for comparison between peers."""
    if isinstance(call, SelfTimed):
        return None
    first = summed(call())
    for _ in range(SETTLING_CALLS):
        call()
    return first


def summed(result: Any) -> float:
    detached = result.detach() if hasattr(result, "detach") else result
    return float(np.sum(np.asarray(detached), dtype=np.float64))


def peak_memory() -> int:
    """Returns the largest resident memory that this process has had, in bytes.

    Linux's ``ru_maxrss`` isn't that: it begins with the memory of the process that started this one.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].removesuffix("kB")) * 1024


def serve(peer_name: str) -> None:
    """Answers requests from standard input until it is closed; see the module's docstring for the protocol."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    builder = next(p for p in PEERS if p.name == peer_name).load()
    call: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "build" in request:
                call = None
                workload = ALL[request["build"]]
                call = builder(workload, workload.tiny if request["tiny"] else workload.full)
                answer: Any = {"built": call is not None, "result": None if call is None else warmed(call)}
            elif "peak" in request:
                answer = {"peak": peak_memory()}
            else:
                answer = {"samples": sampled(call, request["seconds"])}
        except Exception as error:  # whatever a framework raises is reported in the table
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
