"""How compiled code calls Python: by name, with tensors, in the thread that runs it."""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tvtf.memory import to_array, to_handle
from tvtf.ops import host

_FORWARD, _BACKWARD = "tvtf.call_python", "tvtf.call_python_gradient"


def symbol_of(backward: bool) -> str:
    return _BACKWARD if backward else _FORWARD


def _register(backward: bool) -> None:
    @tvm_ffi.register_global_func(symbol_of(backward), override=True)
    def call(key: Any, *inputs: Any) -> list[Any]:
        """Arrays are copied: the machine's memory is used again, and Python may keep what it is given."""
        arrays = [to_array(x).copy() for x in inputs]
        with host.kept_failure():
            return [to_handle(a) for a in host.run(to_array(key), arrays, backward)]


for _backward in (False, True):
    _register(_backward)
