"""Has wheels hold what is made by importing tvtf: stubs, and compiled subroutines; all else stands in pyproject.toml."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TOOLS = Path(__file__).parent / "tools"


class BuildWithWrittenFiles(build_py):
    """Writes files into the folder of built ones, by processes that import tvtf from there."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        self._write("write_stubs.py", "this wheel has no stubs for editors and type checkers")
        if os.environ.get("TVTF_SUBROUTINES") != "0":
            self._write(
                "write_subroutines.py", "this wheel has no compiled subroutines, so that first calls take longer"
            )

    def _write(self, script, lacking):
        done = subprocess.run([sys.executable, str(TOOLS / script), self.build_lib], capture_output=True, text=True)
        if done.returncode:
            warnings.warn(f"{lacking}:\n{done.stderr}", stacklevel=2)


setup(cmdclass={"build_py": BuildWithWrittenFiles})
