"""Runs workloads in all peers in turn, a few calls per round, so that all are measured under the same conditions."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cores import RESOLUTION, busy_seconds, seconds_used_by
from benchmarks.peers import Peer
from benchmarks.workload import Workload

TOLERANCE = 2e-2
"""The relative difference of first results above which a peer is reported to compute something else."""
FOREIGN = 0.2
"""The number of cores that other programs may use during a turn; above it the turn is repeated, since it measures them."""
TRIES = 5


class Process:
    """A process for each peer, so that frameworks don't share threads, libraries or memory."""

    def __init__(self, peer: Peer, log: Any = None) -> None:
        """Starts the process of a peer, which reads requests from its standard input."""
        self.peer = peer
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", peer.name],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.DEVNULL,
            text=True,
        )

    def call(self, **request: Any) -> dict[str, Any]:
        """Sends a request and returns the answer; if the process ended, an answer with an error."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or self._process.poll() is not None:
            return {"error": f"the process ended with {self._process.returncode}"}
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer = stdout.readline()
        return json.loads(answer) if answer else {"error": f"the process ended with {self._process.wait()}"}

    @property
    def seconds_used(self) -> float:
        return seconds_used_by(self._process.pid)

    def close(self) -> None:
        """Ends the process by closing its input, and waits for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@dataclass
class Timing:
    """One peer's seconds per call in one workload: a list of samples for each round."""

    rounds: list[list[float]] = field(default_factory=list)
    result: float | None = None
    error: str = ""

    @property
    def median(self) -> float:
        """Returns the median of the rounds' medians."""
        return statistics.median(map(statistics.median, self.rounds))

    @property
    def best(self) -> float:
        return min(map(min, self.rounds))


@dataclass
class Row:
    """A workload with the timings of all peers by name."""

    workload: Workload
    timings: dict[str, Timing]

    def timed(self, name: str) -> Timing | None:
        timing = self.timings.get(name)
        return timing if timing is not None and timing.rounds else None

    def best_peer(self, of: str, seconds: Callable[[Timing], float]) -> str | None:
        others = {n: seconds(t) for n, t in self.timings.items() if n != of and t.rounds}
        return min(others, key=others.__getitem__) if others else None

    def ratio(self, of: str, seconds: Callable[[Timing], float]) -> float | None:
        """Returns the time of ``of`` divided by that of the best other peer."""
        own, best = self.timed(of), self.best_peer(of, seconds)
        return seconds(own) / seconds(self.timings[best]) if own and best else None

    def differing_peers(self, of: str) -> list[str]:
        """Returns the peers whose first result differs from that of ``of``: they ran another program."""
        own = self.timings[of].result if of in self.timings else None
        return [n for n, t in self.timings.items() if _differ(own, t.result)]


def _differ(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and abs(a - b) > TOLERANCE * max(abs(a), abs(b), 1e-3)


def measure(workload: Workload, processes: Sequence[Process], rounds: int, seconds: float, tiny: bool = False) -> Row:
    """Builds the workload in each process, then samples them in turn, ``rounds`` times for ``seconds`` each."""
    built = [(p, _built(p, workload, tiny)) for p in processes if p.peer.runs(workload)]
    ready = [(p, t) for p, t in built if t is not None]
    for _ in range(rounds):
        for process, timing in ready:
            if not timing.error:
                sample(process, timing, seconds)
    return Row(workload, {p.peer.name: t for p, t in ready})


def _built(process: Process, workload: Workload, tiny: bool) -> Timing | None:
    answer = process.call(build=workload.name, tiny=tiny)
    return Timing(result=answer.get("result"), error=answer.get("error", "")) if answer.get("built", True) else None


def sample(process: Process, timing: Timing, seconds: float) -> None:
    """Measures one turn; repeats it while other programs, such as spinning threads of another peer, use the cores."""
    for _ in range(TRIES):
        started, busy, own = time.perf_counter(), busy_seconds(), process.seconds_used
        answer = process.call(seconds=seconds)
        foreign = busy_seconds() - busy - (process.seconds_used - own)
        if "error" in answer or foreign <= FOREIGN * (time.perf_counter() - started) + RESOLUTION:
            break
    timing.error = answer.get("error", "")
    if not timing.error:
        timing.rounds.append(answer["samples"])
