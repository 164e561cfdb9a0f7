"""Calling compiled code: the shortest way from tensors to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm_ffi

from tvtf.context import state
from tvtf.passes.pipeline import compile_module
from tvtf.runtime.cache import cached, key_of
from tvtf.runtime.executable import Executable
from tvtf.runtime.target import host_target
from tvtf.tensor import EagerTensor
from tvtf.variable import Variable


def executable_for(mod: Any) -> Executable:
    """The compiled module, from the cache where it is there."""
    target = host_target()
    return cached(key_of(mod, target), lambda path: compile_module(mod, target, path))


def handle_of(tensor: EagerTensor) -> Any:
    """The tensor's memory as TVM takes it; made once per tensor."""
    handle = tensor._handle
    if handle is None:
        handle = tensor._handle = _handle(tensor._array)
    return handle


def _handle(array: np.ndarray) -> Any:
    if not array.flags.c_contiguous or not array.flags.writeable:
        array = array.copy(order="C")
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        return _bfloat16_handle(array)
    return tvm_ffi.from_dlpack(array)


def _bfloat16_handle(array: np.ndarray) -> Any:
    """NumPy's DLPack knows no bfloat16: a view of the same memory under the right name."""
    import tvm

    return tvm.runtime.tensor(array)


def variable_handle(variable: Variable) -> Any:
    handle = variable._handle
    if handle is None:
        handle = variable._handle = _handle(variable._array)
    return handle


def tensor_of(handle: Any) -> EagerTensor:
    """A result of compiled code as a tensor, without a copy."""
    tensor = EagerTensor(array_of(handle))
    tensor._handle = handle
    return tensor


def array_of(handle: Any) -> np.ndarray:
    if str(handle.dtype) == "bfloat16":
        import tvm

        return tvm.runtime.from_dlpack(handle).numpy() if not hasattr(handle, "numpy") else handle.numpy()
    return np.from_dlpack(handle)


class Compiled:
    """A concrete function's code with everything a call needs at hand."""

    def __init__(self, concrete: Any) -> None:
        graph, results = concrete.graph, concrete.results
        self.results = results
        self.count = len(results.computed)
        self.executable = executable_for(graph.module()) if self.count else None
        self.captures: list[Any] = concrete.captures
        self.updates: list[tuple[Variable, int]] = results.updates
        self.simple = results.leaves == [("computed", 0)] and self.count == 1 and not self.updates
        self.locks = [v.lock for v in concrete.variables[:1]]

    def __call__(self, tensors: Sequence[Any]) -> Any:
        handles = [t._handle or handle_of(t) for t in tensors]
        for capture in self.captures:
            handles.append(variable_handle(capture) if isinstance(capture, Variable) else handle_of(capture))
        outputs = self.run(handles)
        if self.simple:
            return tensor_of(outputs[0])
        return self.finish(tensors, outputs)

    def run(self, handles: list[Any]) -> Any:
        return () if self.executable is None else self.executable.function()(*handles)

    def finish(self, tensors: Sequence[Any], outputs: Any) -> Any:
        computed = [tensor_of(h) for h in outputs]
        params = [*tensors, *self.captures]
        result = self.results.assemble(
            {"computed": computed.__getitem__, "param": lambda i: _current(params[i]), "value": lambda v: v}
        )
        for variable, index in self.updates:
            variable._adopt(computed[index]._array, outputs[index])
        return result


def _current(param: Any) -> EagerTensor:
    return EagerTensor(param._array) if isinstance(param, Variable) else param


class FunctionCall:
    """What a tape records of a compiled call: its vjp is the backward function, compiled too."""

    def __init__(self, concrete: Any) -> None:
        self.tf_name = concrete.name
        self.concrete = concrete

    def vjp(self, cts: Any, outputs: Any, *inputs: Any) -> Any:
        return self.concrete.backward(cts, inputs)


def call_recorded(concrete: Any, tensors: Sequence[Any]) -> Any:
    """Under tapes: runs the code, and records it with the values that its Variables had."""
    tapes, state.tapes = state.tapes, []
    try:
        return concrete.call(tensors)
    finally:
        state.tapes = tapes


