"""A process that has imported what many programs import, and forks a process for each of them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

LOOP = """
import json as _json, os as _os, sys as _sys
for _line in _sys.stdin:
    _child = _os.fork()
    if not _child:
        _folder, _source = _json.loads(_line)
        for _number, _name in enumerate(("stdout", "stderr"), 1):
            _os.dup2(_os.open(_os.path.join(_folder, _name), _os.O_WRONLY | _os.O_CREAT | _os.O_TRUNC), _number)
        exec(compile(_source, "program", "exec"), dict(globals()))
        _sys.exit()
    print(_os.waitstatus_to_exitcode(_os.waitpid(_child, 0)[1]), flush=True)
"""


class ForkServer:
    """Runs programs in processes of their own, without the three quarters of a second that importing tvtf takes."""

    def __init__(self, imports: str) -> None:
        """Starts the process, which executes ``imports``; programs see what these define."""
        places = os.pathsep.join(path for path in (os.getcwd(), os.environ.get("PYTHONPATH", "")) if path)
        self.process = subprocess.Popen(
            [sys.executable, "-c", imports + LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": places},
        )

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.communicate()

    def run(self, source: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Runs a program; what it prints is written to files in a folder."""
        self.process.stdin.write(json.dumps([str(folder), source]) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        printed, errors = ((folder / name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess([source], code, printed, errors)
