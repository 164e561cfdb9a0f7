"""Shared by all tests: a cache folder of their own, the structural check of passes, reproducible examples, sweeps when asked for."""

import os
import platform
import shutil
import sys
import tempfile

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile(
    "tvtf", derandomize=True, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("tvtf")


MEMORY = "/dev/shm"
"""Linux's file system in memory. A session writes 25,000 small files of compiled code; to remove them from a disk that
is told of each freed block (mount option ``discard``) takes 2.6 ms a file, a minute in all."""
SPACE = 2**31
"""Free bytes of memory that the folder may need: a session's code takes 250 MB. Docker's default is 64 MB."""


def cache_parent():
    """Where to create the folder of compiled code: in memory if there is space and libraries can be loaded from there."""
    if not os.path.isdir(MEMORY):
        return None
    executable = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return MEMORY if executable and shutil.disk_usage(MEMORY).free >= SPACE else None


def pytest_configure(config):
    """One folder for a session; the workers of pytest-xdist inherit it."""
    if not hasattr(config, "workerinput"):
        config.tvtf_cache = tempfile.mkdtemp(prefix="tvtf-tests-", dir=cache_parent())
        os.environ["TVTF_CACHE_DIR"] = config.tvtf_cache
        os.environ["TVTF_CHECK"] = "1"
        # What a folder holds for benchmarks (`make subroutines`) isn't tested in the place of what the compiler does.
        os.environ["TVTF_SUBROUTINES"] = "0"


def pytest_unconfigure(config):
    if hasattr(config, "tvtf_cache"):
        shutil.rmtree(config.tvtf_cache, ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    """Sweeps run with ``-m sweep``, what takes a GPU with ``-m gpu``."""
    for marker in ("sweep", "gpu"):
        found = [] if marker in config.option.markexpr else [i for i in items if i.get_closest_marker(marker)]
        if found:
            items[:] = [item for item in items if item not in found]
            config.hook.pytest_deselected(items=found)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder for one test."""
    monkeypatch.setenv("TVTF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch):
    """The names of the kernels that LLVM compiles."""
    from tvtf.passes.codegen import llvm

    names = []
    build = llvm._Objects._compile_part

    def noted(self, part, cost):
        names.append(cost.name)
        return build(self, part, cost)

    monkeypatch.setattr(llvm._Objects, "_compile_part", noted)
    return names


@pytest.fixture(scope="session", autouse=True)
def no_system_linker():
    """Lets no program be linked by the system's linker on x86-64: a machine without a compiler has none, and it takes 60 ms."""
    from tvtf.passes.codegen import linker

    if platform.machine() in ("x86_64", "AMD64"):
        linker.SYSTEM_LINKERS = ()


FIRST_STATES: dict[int, dict] = {}
"""Of the random generators that test modules hold, by identity: as they were made."""


@pytest.fixture(autouse=True)
def order_of_tests_changes_no_numbers(request):
    """Resets random generators of test modules, so that a test fails alone as it fails after others."""
    for module in (request.module, sys.modules.get("schedule_programs")):
        for value in vars(module).values() if module else ():
            if isinstance(value, np.random.Generator):
                state = FIRST_STATES.setdefault(id(value), value.bit_generator.state)
                value.bit_generator.state = state
