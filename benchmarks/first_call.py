"""The table "first call": the latency of the first call of a function, compilation included.

Run as `python -m benchmarks.first_call [WORKLOAD ...] [--peers tvtf,JAX] [--tiny] [--json FILE]`. Each number is of a process of
its own, from the call to its result; imports of frameworks and the making of weights and data aren't counted. The
folders of compiled code are empty (cold), or hold the same program (warm) or another model of the table (after). In
brackets are the processor seconds of all threads, which other programs on the machine hardly change.

tvtf is measured as a wheel installs it, with compiled subroutines (tools/write_subroutines.py), which this writes if the
sources have none.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import PEERS, TVTF, Peer
from benchmarks.worker import summed
from benchmarks.workload import CORES, SelfTimed, Workload
from benchmarks.workloads.first_calls import WORKLOADS

BY_NAME = {workload.name: workload for workload in WORKLOADS}
ROOT = Path(__file__).parent.parent
CACHES = ("TVTF_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name the folders in which frameworks keep compiled code between processes."""
KEEPING = ("tvtf", "torch.compile")
"""Peers that by default keep compiled code between processes."""


class First(NamedTuple):
    """A first call: seconds by the clock and of processors, and the result, summed, to compare between peers."""

    wall: float
    cpu: float
    result: float


def cpu_seconds() -> float:
    """Processor seconds of this process, its threads, and the processes that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured_here(peer: Peer, workload: Workload, tiny: bool, folder: str) -> First:
    """Builds the workload, then times its first call with code kept in ``folder``."""
    builder = peer.load()
    if peer is TVTF:
        # Modules that tvtf imports when it first compiles, and that the peers' own import has imported by now.
        for name in ("tvtf.frontend.autograph.calls", "tvtf.frontend.function.executor", "tvtf.passes.pipeline"):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as unused:
        _keep_in(unused)  # what eager ops compile while weights are made isn't found by the call
        call = builder(workload, workload.tiny if tiny else workload.full)
    if call is None or isinstance(call, SelfTimed):
        raise ValueError(f"{workload.name} has no first call in {peer.name}")
    _keep_in(folder)
    cpu, started = cpu_seconds(), time.perf_counter()
    result = summed(call())
    return First(time.perf_counter() - started, cpu_seconds() - cpu, result)


def _keep_in(folder: str) -> None:
    for name in CACHES:
        os.environ[name] = folder


def measured(peer: Peer, workload: Workload, tiny: bool, folder: str, log: Any = None) -> First | str:
    """Measures a first call in a new process; returns the error's text if it fails."""
    command = [sys.executable, "-m", "benchmarks.first_call", "--one", peer.name, workload.name, "--folder", folder]
    command += ["--tiny"] if tiny else []
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log or subprocess.DEVNULL, text=True)
    lines = done.stdout.splitlines()
    return First(*json.loads(lines[-1])) if done.returncode == 0 and lines else f"ended with {done.returncode}"


def _write_subroutines() -> None:
    """Writes the subroutines that a wheel contains next to the sources, unless they lie there or aren't used."""
    from tvtf.passes.codegen.shipped_subroutines import archive_for
    from tvtf.runtime.target import host_target

    if os.environ.get("TVTF_SUBROUTINES") != "0" and archive_for(host_target()) is None:
        subprocess.run([sys.executable, ROOT / "tools" / "write_subroutines.py"], check=True, stdout=subprocess.DEVNULL)


class Cell(NamedTuple):
    """A first call of a workload in a peer; ``state`` is the state of the folder of compiled code: cold, warm or after."""

    workload: str
    peer: str
    state: str
    first: First | str


def cells(workloads: Sequence[Workload], peers: Sequence[Peer], tiny: bool, log: Any = None) -> Iterator[Cell]:
    """Measures everything, one process at a time."""
    for number, workload in enumerate(workloads):
        other = workloads[number - 1] if len(workloads) > 1 else WORKLOADS[WORKLOADS.index(workload) - 1]
        for peer in peers:
            if not peer.runs(workload):
                continue
            with tempfile.TemporaryDirectory() as folder:
                yield Cell(workload.name, peer.name, "cold", measured(peer, workload, tiny, folder, log))
                if peer.name in KEEPING:
                    yield Cell(workload.name, peer.name, "warm", measured(peer, workload, tiny, folder, log))
            if peer.name in KEEPING:
                with tempfile.TemporaryDirectory() as folder:
                    measured(peer, other, tiny, folder, log)
                    yield Cell(workload.name, peer.name, "after", measured(peer, workload, tiny, folder, log))


def columns(peers: Sequence[Peer]) -> list[tuple[str, str]]:
    return [(p.name, state) for p in peers for state in (("cold", "warm", "after") if p.name in KEEPING else ("cold",))]


def markdown(found: Sequence[Cell], peers: Sequence[Peer]) -> str:
    """Seconds by the clock, and processor seconds in brackets."""
    places = columns(peers)
    texts = {(c.workload, c.peer, c.state): _text(c.first) for c in found}
    header = ["workload", *(f"{name}, {state}" if name in KEEPING else name for name, state in places)]
    lines = [header, ["---", *("---:" for _ in places)]]
    for name in dict.fromkeys(c.workload for c in found):
        lines.append([BY_NAME[name].title, *(texts.get((name, *place), "") for place in places)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(first: First | str) -> str:
    return "failed" if isinstance(first, str) else f"{first.wall:.2f} ({first.cpu:.2f})"


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_call", description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(BY_NAME)}; all if none is named"
    )
    parser.add_argument("--peers", default="", help=f"comma-separated, of {', '.join(p.name for p in PEERS)}")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that all runs")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    parser.add_argument("--log", type=Path, help="a file for what the frameworks print")
    parser.add_argument("--one", nargs=2, metavar=("PEER", "WORKLOAD"), help="measure in this process, and print JSON")
    parser.add_argument("--folder", default="", help="with --one, where compiled code is kept")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command: measures the chosen first calls, each in a new process, and prints the table."""
    options = _options(argv)
    if options.one:
        name, workload = options.one
        peer = next(p for p in PEERS if p.name == name)
        print(json.dumps(measured_here(peer, BY_NAME[workload], options.tiny, options.folder)))
        return
    names = options.peers.split(",") if options.peers else [p.name for p in PEERS]
    unknown = [n for n in options.workloads if n not in BY_NAME] + [
        n for n in names if n not in {p.name for p in PEERS}
    ]
    if unknown:
        raise SystemExit(f"no workload or peer is called {', '.join(unknown)}")
    peers = [p for p in PEERS if p.name in names and p.is_installed and p.package != "onnxruntime"]
    if TVTF in peers:
        _write_subroutines()
    found = []
    with (options.log or Path(os.devnull)).open("w") as log:
        for cell in cells([BY_NAME[n] for n in options.workloads or BY_NAME], peers, options.tiny, log):
            print(f"{cell.workload}, {cell.peer}, {cell.state}: {_text(cell.first)}", file=sys.stderr)
            found.append(cell)
    print(f"\nSeconds of the first call, {CORES} cores (processor seconds)\n\n{markdown(found, peers)}")
    if options.json:
        options.json.write_text(json.dumps([c._asdict() for c in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
