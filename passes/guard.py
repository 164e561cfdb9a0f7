"""Guards: the checks that compiled code makes before a kernel that must not see bad data."""

from __future__ import annotations

import tvm


def insert_guards(mod: tvm.IRModule) -> tvm.IRModule:
    return mod
