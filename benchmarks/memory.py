"""The table "peak memory": the largest resident memory of a process that runs a workload, framework and compilation included.

Run as `python -m benchmarks.memory [WORKLOAD ...] [--peers tvtf,torch] [--tiny] [--json FILE]`. Each number is of a process of
its own, which builds the workload, calls it until it is stable, and then for a second. tvtf's folder of compiled code is empty
(cold) or holds the workload (warm): compiling with LLVM takes memory, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Process
from benchmarks.peers import PEERS, TVTF, Peer
from benchmarks.workload import Workload
from benchmarks.workloads import ALL, WORKLOADS

CACHE = "TVTF_CACHE_DIR"
COLD, WARM = "tvtf, cold", "tvtf, warm"
DEFAULT_PEERS = "tvtf,TF,JAX,torch"
SECONDS = 1.0
"""How long the workload runs after it is compiled, so that allocators reach their size."""


class Peak(NamedTuple):
    """The peak memory of a workload in a column of the table, in bytes; or why there is none."""

    workload: str
    column: str
    memory: int | str


def peaks(workloads: Sequence[Workload], peers: Sequence[Peer], tiny: bool) -> Iterator[Peak]:
    """Measures each workload in each peer that it is written for, one process at a time."""
    for workload in workloads:
        with tempfile.TemporaryDirectory() as folder:
            os.environ[CACHE] = folder
            for peer in peers:
                for column in (COLD, WARM) if peer is TVTF else (peer.name,):
                    if peer.runs(workload):
                        yield Peak(workload.name, column, measured(peer, workload, tiny))


def measured(peer: Peer, workload: Workload, tiny: bool) -> int | str:
    """Returns the peak memory of a new process that runs the workload; the error's text if it fails."""
    process = Process(peer)
    try:
        built = process.call(build=workload.name, tiny=tiny)
        if "error" in built or not built["built"]:
            return str(built.get("error", "not built"))
        ran = process.call(seconds=SECONDS)
        answer = ran if "error" in ran else process.call(peak=True)
        return answer.get("peak", str(answer.get("error")))
    finally:
        process.close()


def markdown(found: Sequence[Peak]) -> str:
    """Returns a table of MiB, with the ratio of tvtf's memory (cold) to that of PyTorch."""
    columns = list(dict.fromkeys(peak.column for peak in found))
    by_place = {(peak.workload, peak.column): peak.memory for peak in found}
    lines = [["workload", *columns, "ratio to torch"], ["---", *("---:" for _ in columns), "---:"]]
    for name in dict.fromkeys(peak.workload for peak in found):
        memory = [by_place.get((name, column), "") for column in columns]
        ratio = _ratio(by_place.get((name, COLD)), by_place.get((name, "torch")))
        lines.append([ALL[name].title, *map(_mib, memory), "" if ratio is None else f"{ratio:.2f}"])
    ratios = [r for n in ALL if (r := _ratio(by_place.get((n, COLD)), by_place.get((n, "torch")))) is not None]
    summary = f"\n\nmedian ratio to torch: {statistics.median(ratios):.2f}" if ratios else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + summary


def _ratio(own: int | str | None, other: int | str | None) -> float | None:
    return own / other if isinstance(own, int) and isinstance(other, int) else None


def _mib(memory: int | str) -> str:
    return f"{memory / 2**20:,.0f}" if isinstance(memory, int) else ("failed" if memory else "")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command: measures the peak memory of the chosen workloads and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}; all if none is named"
    )
    parser.add_argument(
        "--peers", default=DEFAULT_PEERS, help=f"comma-separated, of {', '.join(p.name for p in PEERS)}"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that all runs")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args(argv)
    unknown = [n for n in options.workloads if n not in ALL]
    peers = [p for p in PEERS if p.name in options.peers.split(",") and p.is_installed]
    if unknown or not peers:
        raise SystemExit(f"no workload or installed peer is called {', '.join(unknown) or options.peers}")
    found: list[Peak] = []
    for peak in peaks([ALL[n] for n in options.workloads or WORKLOADS], peers, options.tiny):
        print(f"{peak.workload}, {peak.column}: {_mib(peak.memory)} MiB", file=sys.stderr)
        found.append(peak)
    print(markdown(found))
    for peak in found:
        if isinstance(peak.memory, str):
            print(f"{peak.workload}, {peak.column}: {peak.memory}")
    if options.json:
        options.json.write_text(json.dumps([peak._asdict() for peak in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
