"""Targets: what code is generated for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tvtf.threads import available_cores


@lru_cache(maxsize=1)
def host_target() -> Any:
    """TVM's target for the processor this process runs on."""
    from tvm.target import Target, codegen

    return Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": available_cores()})
