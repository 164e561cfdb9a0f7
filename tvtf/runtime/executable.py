"""Executables: a compiled library with one TVM virtual machine per thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm_ffi

from tvtf.core.tvm_import import import_whole
from tvtf.runtime import finalize
from tvtf.runtime.arena import Layout, with_arena
from tvtf.runtime.loading import load_library
from tvtf.runtime.pool import adopt

_CPU, _CUDA, _POOLED = 1, 2, 2
PLANNED_TENSORS = "tvtf.passes.codegen.planned_tensors"
"""The module that names a library's functions which describe its memory plan; it imports TVM's compiler."""


class Executable:
    """A loaded library; ``function(name)`` returns the current thread's callable.

    Each thread has a virtual machine of its own, because TVM's is not thread-safe; creating one takes only 0.2 ms.
    """

    def __init__(self, path: Path) -> None:
        """Loads a compiled library. Each thread that calls it gets a virtual machine of its own."""
        import tvm  # noqa: F401 - loads the runtime that the library links to

        self.path = path
        self._module = load_library(path)
        adopt(path)
        self._local = threading.local()
        self._layouts: dict[str, Layout] = {}

    def function(self, name: str = "main") -> Callable[..., Any]:
        """Returns the callable of a compiled function in the current thread's virtual machine; cached per thread."""
        functions = self._local.__dict__
        run = functions.get(name)
        if run is None:
            run = functions[name] = self._entry(self._machine(), name)
        return run

    def _entry(self, machine: Any, name: str) -> Callable[..., Any]:
        """Returns the compiled function ``name`` of a virtual machine.

        If the library has a memory plan for the function, the function's temporary tensors are bound to an arena.
        """
        suffix = import_whole(PLANNED_TENSORS).LAYOUT
        try:
            described = machine[name + suffix]
        except AttributeError:
            return machine[name]  # the library has no memory plan for this function
        return with_arena(machine[name], self._layouts.setdefault(name, Layout(described())))

    def outputs(self, count: int) -> list[int]:
        """Returns the indices of the outputs that ``main`` returns.

        ``main`` stores the other outputs in the memory of donated arguments.

        Args:
          count: the number of all outputs.
        """
        suffix = import_whole(PLANNED_TENSORS).OUTPUTS
        try:
            return [int(i) for i in self._machine()["main" + suffix]()]
        except AttributeError:
            return list(range(count))  # the library has no list of outputs, so ``main`` returns all of them

    def instrumented(self, instrument: Callable[..., int], name: str = "main") -> Callable[..., Any]:
        """Returns the compiled function ``name``, set up to call ``instrument`` before and after each kernel and builtin.

        The function runs on a virtual machine of its own. The call is ``instrument(function, name, before, result,
        *args)``. ``instrument`` returns 0 to run the kernel.
        """
        machine = self._new_machine()
        run = self._entry(machine, name)
        machine["set_instrument"](instrument)
        return run

    def _machine(self) -> Any:
        """Returns the current thread's virtual machine; creates it on the first use."""
        machine = self._local.__dict__.get(" machine")
        if machine is None:
            machine = self._local.__dict__[" machine"] = self._new_machine()
        return machine

    def _new_machine(self) -> Any:
        """Creates a TVM virtual machine on the CPU with a pooled allocator."""
        machine = self._module["vm_load_executable"]()
        machine["vm_initialization"](_CPU, 0, _POOLED)
        return machine


finalize.entered_by(Executable, "function")


class GpuExecutable(Executable):
    """A library whose kernels run on a GPU; arguments are copied to the GPU, and results back."""

    def __init__(self, path: Path, device_index: int = 0) -> None:
        from tvtf.passes.codegen.cuda import load_runtime

        load_runtime()
        super().__init__(path)
        self._device_index = device_index
        self._move = tvm_ffi.get_global_func("vm.builtin.to_device")

    def function(self, name: str = "main") -> Callable[..., Any]:
        """Returns a callable that copies arguments to the GPU, runs the function, and copies results to the CPU."""
        run = super().function(name)
        return lambda *args: self._copy_to_device(
            run(*(self._copy_to_device(arg, _CUDA, self._device_index) for arg in args)), _CPU, 0
        )

    def _copy_to_device(self, value: Any, kind: int, device_index: int) -> Any:
        """Copies the tensors in ``value``, also in nested sequences, to device ``device_index`` of the type ``kind``."""
        if isinstance(value, tvm_ffi.Tensor):
            return self._move(value, kind, device_index)
        is_sequence = isinstance(value, (tvm_ffi.Array, tuple, list))
        return [self._copy_to_device(item, kind, device_index) for item in value] if is_sequence else value

    def _new_machine(self) -> Any:
        """Creates a TVM virtual machine with the GPU as its first device and the CPU as its second."""
        machine = self._module["vm_load_executable"]()
        machine["vm_initialization"](_CUDA, self._device_index, _POOLED, _CPU, 0, _POOLED)
        return machine
