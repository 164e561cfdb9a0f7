"""Runs the benchmarks: ``python -m benchmarks [WORKLOAD ...] [--peers tvtf,JAX] [--json FILE]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Process, Row, measure
from benchmarks.peers import PEERS, Peer
from benchmarks.table import as_json, markdown, remarks
from benchmarks.workload import CORES, Workload
from benchmarks.workloads import ALL, SWEEPS, WORKLOADS


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"of {', '.join(WORKLOADS)}; all of these if none is named; or a sweep, of {', '.join(SWEEPS)}, or one of it",
    )
    parser.add_argument("--peers", default="", help=f"comma-separated, of {', '.join(p.name for p in PEERS)}")
    parser.add_argument("--rounds", type=int, default=7, help="how often each peer has its turn")
    parser.add_argument("--seconds", type=float, default=0.15, help="how long a turn lasts")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that all runs")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    parser.add_argument("--log", type=Path, help="a file for what the frameworks print")
    return parser.parse_args(argv)


def chosen(options: argparse.Namespace) -> tuple[list[Workload], list[Peer]]:
    """Returns the selected workloads and peers.

    Raises:
      SystemExit: no workload or peer has a given name.
    """
    names = [n for name in options.workloads or WORKLOADS for n in SWEEPS.get(name, [name])]
    unknown = [n for n in names if n not in ALL]
    wanted = options.peers.split(",") if options.peers else [p.name for p in PEERS]
    unknown += [n for n in wanted if n not in {p.name for p in PEERS}]
    if unknown:
        raise SystemExit(f"no workload or peer is called {', '.join(unknown)}")
    return [ALL[n] for n in names], [p for p in PEERS if p.name in wanted]


def run(workloads: Sequence[Workload], peers: Sequence[Peer], options: Any, log: Any = None) -> list[Row]:
    """Measures all workloads in all peers, each peer in a process of its own."""
    processes = [Process(p, log) for p in peers]
    try:
        return [_measured(w, processes, options) for w in workloads]
    finally:
        for process in processes:
            process.close()


def _measured(workload: Workload, processes: Sequence[Process], options: Any) -> Row:
    row = measure(workload, processes, options.rounds, options.seconds, options.tiny)
    ratio = row.ratio("tvtf", lambda t: t.median)
    print(f"{workload.name}: {'not compared' if ratio is None else f'{ratio:.2f} of the best peer'}", file=sys.stderr)
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command: measures the chosen workloads and peers, and prints the tables."""
    options = arguments(argv)
    workloads, peers = chosen(options)
    for peer in peers:
        if not peer.is_installed:
            print(f"left out: {peer.name} ({peer.package} is not installed)")
    peers = [p for p in peers if p.is_installed]
    if options.log:
        with options.log.open("w") as log:
            rows = run(workloads, peers, options, log)
    else:
        rows = run(workloads, peers, options)
    report(rows, [p.name for p in peers], options.json)


def report(rows: Sequence[Row], names: Sequence[str], file: Path | None) -> None:
    """Prints tables of medians and minima, and writes the samples as JSON to ``file``."""
    for title, seconds in (("medians", lambda t: t.median), ("minima", lambda t: t.best)):
        print(f"\nMicroseconds a call, {title}, {CORES} cores; ratio: tvtf to the best other\n")
        print(markdown(rows, names, seconds))
    print("", *remarks(rows), sep="\n")
    if file is not None:
        file.write_text(json.dumps(as_json(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
