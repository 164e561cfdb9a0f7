"""setuptools's build backend, for wheels that hold what is made by importing tvtf: stubs, and compiled subroutines."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the backend's other hooks
from setuptools.command.build_py import build_py

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOOLS = Path(__file__).parent


def get_requires_for_build_wheel(config_settings=None):
    """setuptools's requirements, and the project's own; an editable install needs only the former."""
    own = tomllib.loads((TOOLS.parent / "pyproject.toml").read_text())["project"]["dependencies"]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *own]


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
