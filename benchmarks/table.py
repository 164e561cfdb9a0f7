"""Formats results as a Markdown table of microseconds and ratios, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.harness import Row, Timing

OWN = "tvtf"


def markdown(rows: Sequence[Row], names: Sequence[str], seconds: Callable[[Timing], float]) -> str:
    """Returns a table of microseconds per call of each peer, and the ratio of tvtf to the best other (below 1: tvtf is faster)."""
    header = ["workload", *names, "ratio", "best peer", "goal for tvtf"]
    lines = [header, ["---", *("---:" for _ in names), "---:", "---", "---"]]
    lines += [_cells(row, names, seconds) for row in rows]
    if any(row.workload.operations for row in rows):
        lines = [[*line, rate] for line, rate in zip(lines, ["GF/s", "---:", *(_rate(row, seconds) for row in rows)])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row, names: Sequence[str], seconds: Callable[[Timing], float]) -> list[str]:
    times = [_time(row.timings.get(name), seconds) for name in names]
    ratio, best = row.ratio(OWN, seconds), row.best_peer(OWN, seconds)
    return [row.workload.title, *times, "" if ratio is None else f"{ratio:.2f}", best or "", row.workload.goal]


def _rate(row: Row, seconds: Callable[[Timing], float]) -> str:
    own = row.timed(OWN)
    return f"{row.workload.operations / seconds(own) / 1e9:.0f}" if own and row.workload.operations else ""


def _time(timing: Timing | None, seconds: Callable[[Timing], float]) -> str:
    if timing is None:
        return ""
    return microseconds(seconds(timing)) if timing.rounds else "failed"


def microseconds(seconds: float) -> str:
    amount = seconds * 1e6
    return f"{amount:.2f}" if amount < 10 else f"{amount:,.0f}"


def remarks(rows: Sequence[Row]) -> list[str]:
    """Returns the failures, and the peers whose results differ, as lines of text."""
    failures = [f"{r.workload.name}, {n}: {t.error}" for r in rows for n, t in r.timings.items() if t.error]
    return failures + [
        f"{r.workload.name}, {n}: its result is not tvtf's" for r in rows for n in r.differing_peers(OWN)
    ]


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"workload": r.workload.name, "peers": {n: _summary(t) for n, t in r.timings.items()}} for r in rows]


def _summary(timing: Timing) -> dict[str, Any]:
    if not timing.rounds:
        return {"error": timing.error}
    return {"median_s": timing.median, "best_s": timing.best, "rounds": len(timing.rounds), "result": timing.result}
