"""Has wheels hold stubs of the namespaces that are made when tvtf is imported; all else stands in pyproject.toml."""

import subprocess
import sys
import warnings
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SCRIPT = Path(__file__).parent / "tools" / "write_stubs.py"


class BuildWithStubs(build_py):
    """Writes the stubs into the folder of built files, by a process that imports tvtf from there."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        done = subprocess.run([sys.executable, str(SCRIPT), self.build_lib], capture_output=True, text=True)
        if done.returncode:
            warnings.warn(f"this wheel has no stubs for editors and type checkers:\n{done.stderr}", stacklevel=2)


setup(cmdclass={"build_py": BuildWithStubs})
