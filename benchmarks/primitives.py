"""Compares single primitives: ``python -m benchmarks.primitives [PART OF A NAME ...] [--peers tvtf,JAX]``.

It prints a line for each: the best time of tvtf and of each peer in microseconds, the GB/s that tvtf moves, the ratio to the best
peer (below 1: tvtf is ahead), worst first at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.harness import Process, Row, Timing, measure
from benchmarks.peers import PEERS
from benchmarks.table import OWN, microseconds
from benchmarks.workloads.primitives import PRIMITIVES


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.primitives", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="primitives with this in their name; all if none")
    parser.add_argument("--peers", default="tvtf,TF,JAX,torch", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3, help="how often each peer has its turn")
    parser.add_argument("--seconds", type=float, default=0.02, help="how long a turn lasts")
    return parser.parse_args(argv)


def median(timing: Timing) -> float:
    return timing.median


def line(row: Row, names: Sequence[str]) -> str:
    """Formats one primitive's times, memory bandwidth and ratio to the best peer."""
    own, ratio = row.timed(OWN), row.ratio(OWN, median)
    times = [row.timed(name) for name in names]
    cells = [f"{microseconds(median(t)) if t else '-':>9}" for t in times]
    rate = PRIMITIVES[row.workload.title].traffic / median(own) / 1e9 if own else 0.0
    failures = "; ".join(f"{n}: {t.error}" for n, t in row.timings.items() if t.error)
    difference = f" differs: {', '.join(row.differing_peers(OWN))}" if row.differing_peers(OWN) else ""
    return f"{row.workload.title:44} {' '.join(cells)} {rate:7.1f} {ratio or 0:6.2f} {failures}{difference}"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command: measures the chosen primitives, prints a line for each, and the slowest ones last."""
    options = arguments(argv)
    names = options.peers.split(",")
    processes = [Process(p) for p in PEERS if p.name in names and p.is_installed]
    chosen = [p for n, p in PRIMITIVES.items() if not options.parts or any(part in n for part in options.parts)]
    print(f"{'primitive':44} {' '.join(f'{n:>9}' for n in names)} {'GB/s':>7} {'ratio':>6}")
    rows = []
    try:
        for each in chosen:
            rows.append(measure(each.workload(), processes, options.rounds, options.seconds))
            print(line(rows[-1], names), flush=True)
    finally:
        for process in processes:
            process.close()
    ratios = sorted(((row.ratio(OWN, median) or 0, row.workload.title) for row in rows), reverse=True)
    print("\nfarthest behind:", ", ".join(f"{name} {ratio:.1f}" for ratio, name in ratios[:10]))


if __name__ == "__main__":
    main()
