"""Compiled functions: a library on disk, one virtual machine per thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm_ffi

from tvtf.runtime import finalize
from tvtf.runtime.arena import Layout, with_arena
from tvtf.runtime.loading import load_library
from tvtf.runtime.pool import adopt

_CPU, _CUDA, _POOLED = 1, 2, 2


class Executable:
    """A loaded library; ``function(name)`` gives this thread's callable for it.

    TVM's virtual machine is not safe under several threads, but a machine over the same code costs only 0.2 ms.
    """

    def __init__(self, path: Path) -> None:
        import tvm  # noqa: F401 - loads the runtime that the library links to

        self.path = path
        self._module = load_library(path)
        adopt(path)
        self._local = threading.local()
        self._layouts: dict[str, Layout] = {}

    def function(self, name: str = "main") -> Callable[..., Any]:
        functions = self._local.__dict__
        found = functions.get(name)
        if found is None:
            found = functions[name] = self._entry(self._machine(), name)
        return found

    def _entry(self, machine: Any, name: str) -> Callable[..., Any]:
        """A machine's function, given memory to compute in where it takes that."""
        from tvtf.passes.codegen.planned_tensors import LAYOUT

        try:
            described = machine[name + LAYOUT]
        except AttributeError:
            return machine[name]
        return with_arena(machine[name], self._layouts.setdefault(name, Layout(described())))

    def outputs(self, count: int) -> list[int]:
        """Which of the ``count`` outputs ``main`` gives; the others it leaves in the memory of its arguments."""
        from tvtf.passes.codegen.planned_tensors import OUTPUTS

        try:
            return [int(i) for i in self._machine()["main" + OUTPUTS]()]
        except AttributeError:
            return list(range(count))

    def instrumented(self, instrument: Callable[..., int], name: str = "main") -> Callable[..., Any]:
        """The callable on a machine of its own that tells ``instrument`` of each kernel and builtin, before and after.

        It is called as ``instrument(function, name, before, result, *args)`` and gives 0 to let the call happen.
        """
        machine = self._new_machine()
        run = self._entry(machine, name)
        machine["set_instrument"](instrument)
        return run

    def _machine(self) -> Any:
        machine = self._local.__dict__.get(" machine")
        if machine is None:
            machine = self._local.__dict__[" machine"] = self._new_machine()
        return machine

    def _new_machine(self) -> Any:
        machine = self._module["vm_load_executable"]()
        machine["vm_initialization"](_CPU, 0, _POOLED)
        return machine


finalize.entered_by(Executable, "function")


class GpuExecutable(Executable):
    """A library whose kernels run on a GPU: what it is given goes there, and its results come back."""

    def __init__(self, path: Path, number: int = 0) -> None:
        from tvtf.passes.codegen.cuda import load_runtime

        load_runtime()
        super().__init__(path)
        self._number = number
        self._move = tvm_ffi.get_global_func("vm.builtin.to_device")

    def function(self, name: str = "main") -> Callable[..., Any]:
        run = super().function(name)
        return lambda *args: self._moved(run(*(self._moved(arg, _CUDA, self._number) for arg in args)), _CPU, 0)

    def _moved(self, value: Any, kind: int, number: int) -> Any:
        if isinstance(value, tvm_ffi.Tensor):
            return self._move(value, kind, number)
        is_sequence = isinstance(value, (tvm_ffi.Array, tuple, list))
        return [self._moved(item, kind, number) for item in value] if is_sequence else value

    def _new_machine(self) -> Any:
        machine = self._module["vm_load_executable"]()
        machine["vm_initialization"](_CUDA, self._number, _POOLED, _CPU, 0, _POOLED)
        return machine
