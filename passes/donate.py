"""Donation: new values of Variables written into their own memory."""

from __future__ import annotations

import tvm


def donate(mod: tvm.IRModule) -> tvm.IRModule:
    return mod
