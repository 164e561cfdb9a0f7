"""setuptools's build backend; a wheel is built with what tvtf imports installed, since its stubs are written by importing it."""

import sys
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the backend's other hooks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def get_requires_for_build_wheel(config_settings=None):
    """setuptools's requirements, and the project's own; an editable install needs only the former."""
    own = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *own]
