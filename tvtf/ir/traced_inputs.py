"""The inputs of a trace: parameters, captures of enclosing traces' tensors, and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from tvm import ir, relax

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import table
from tvtf.core.shape import TensorType
from tvtf.core.specialization import Specialization
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import string
from tvtf.errors import InaccessibleTensorError
from tvtf.ir import dialect
from tvtf.ir.traced_operations import TracedOperations

EMBEDDED_ELEMENTS = 16
"""Eager tensors up to this size become constants of the IR; larger ones become parameters, to keep data out of the IR."""


class TracedInputs(TracedOperations):
    """The part of a trace that converts tensors from outside to symbolic tensors of the trace."""

    name: str
    parent: TracedInputs | None
    """The trace around a branch or a loop's body."""
    caller: TracedInputs | None
    """The trace that calls this function, where the function may capture its tensors."""
    root: TracedInputs
    """The outermost trace."""
    specialization: Specialization
    params: list[SymbolicTensor]
    captures: dict[int, tuple[Any, SymbolicTensor]]
    """Tensors and Variables from outside, each with the parameter that stands for it, by the outer object's ``id``."""
    constants: dict[int, tuple[Any, SymbolicTensor]]
    """Eager tensors, each with the symbol that stands for it, by the eager tensor's ``id``."""
    tapes_around: list[Any]
    """The gradient tapes that were open when the trace was begun, here or in a trace around it."""
    static_uses: set[Any] | None
    """In a TensorFlow 1 graph: the variables and constants whose values determined its shapes, attributes or ops."""
    emit: Callable[..., Any]
    enclosing: Callable[[], Iterator[TracedInputs]]
    functions: dict[Any, dict[Any, Any]]
    """The traces of functions that capture tensors of this trace."""
    embedded: dict[int, Any]
    """Of the outermost trace: the eager tensors that became constants of the IR, by their ``id``."""
    holds_texts: bool
    _names: dict[str, int]

    @property
    def all_params(self) -> list[SymbolicTensor]:
        """The parameters: arguments, then captures."""
        return [*self.params, *(inner for _, inner in self.captures.values())]

    def add_param(self, tensor_type: TensorType, name: str = "arg") -> SymbolicTensor:
        param = self._new_tensor(tensor_type, name)
        self.params.append(param)
        return param

    def _new_tensor(self, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """Creates a symbolic tensor with a new Relax variable; a type of unknown rank starts the deferral of calls."""
        self._record_strings(tensor_type)
        if isinstance(tensor_type.shape, AnyShape):
            self.specialization.start_deferring()
        var = relax.Var(self.unique(name), dialect.to_relax_type(tensor_type))
        return self._tensor(var, tensor_type)

    def _tensor(self, var: relax.Var, tensor_type: TensorType) -> SymbolicTensor:
        tensor = self.tensors[var] = SymbolicTensor(var, tensor_type, self)
        return tensor

    def _record_strings(self, tensor_type: TensorType) -> None:
        self.root.holds_texts |= tensor_type.dtype is string

    def unique(self, name: str) -> str:
        """Returns a variable name that this trace has not used: ``name``, or ``name`` with a number appended."""
        use_count = self._names[name] = self._names.get(name, -1) + 1
        # The numbered name may be in use, too.
        return self.unique(f"{name}_{use_count}") if use_count else name

    def owns(self, tensor: SymbolicTensor) -> bool:
        return tensor._trace is self

    def own(self, tensor: Tensor) -> SymbolicTensor:
        """Returns the symbolic tensor that stands for ``tensor`` in this trace.

        A tensor of this trace is returned unchanged. An enclosing trace's tensor becomes a capture (a parameter), and an
        eager tensor a constant.
        """
        if isinstance(tensor, SymbolicTensor):
            return tensor if tensor._trace is self else self._capture_symbol(tensor)
        # Outer tapes and vectorized maps can follow a captured tensor, but not a constant.
        is_followed = tensor.is_batched or any(tape.watches(tensor) for tape in self.tapes_around)
        return self.capture(tensor, tensor._type, "watched") if is_followed else self._constant(tensor)

    def _capture_symbol(self, tensor: SymbolicTensor) -> SymbolicTensor:
        """Returns the parameter that stands for an enclosing trace's tensor in this trace.

        Raises:
          InaccessibleTensorError: the tensor belongs to a trace that does not enclose this one.
        """
        if not self.encloses(tensor):
            raise InaccessibleTensorError(
                f"{tensor!r} is out of scope and cannot be used here. Use return values, explicit Python locals or "
                f"TensorFlow collections to access it. It was defined while tracing {tensor._trace.name!r} and is used "
                f"in {self.name!r}."
            )
        inner = self.capture(tensor, tensor._type, "captured")
        inner.known, inner.claimed = tensor._known, tensor.claimed
        return inner

    def note_static_use(self, var: Any) -> None:
        """Records that the graph was built with the value of ``var``, which is known while tracing.

        In a TensorFlow 1 graph, a run can't feed another value for such a tensor. In a trace inside of the graph, the captured
        tensors from which the value is computed are recorded, too.
        """
        if self.static_uses is None:
            return
        self.static_uses.add(var)
        captured = [(outer, inner._var) for outer, inner in self.captures.values() if isinstance(outer, SymbolicTensor)]
        if not captured or isinstance(var, ir.Constant):
            return
        sources = {var}
        for binding in reversed(self.bindings):
            if binding.var in sources:
                sources.update(relax.analysis.free_vars(binding.value))
        for outer, inner_var in captured:
            if inner_var in sources:
                outer._trace.note_static_use(outer._var)

    def encloses(self, tensor: SymbolicTensor) -> bool:
        return any(tensor._trace is trace for trace in self.enclosing())

    @property
    def scope(self) -> TracedInputs | None:
        """The innermost enclosing trace whose tensors this trace captures; None if this trace captures none.

        The traced function can't be called outside of that trace.
        """
        owners = [outer._trace for outer, _ in self.captures.values() if isinstance(outer, SymbolicTensor)]
        return next((trace for trace in self.enclosing() if any(trace is owner for owner in owners)), None)

    def capture(self, outer: Any, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """Returns the parameter of this trace that stands for ``outer``; the first call adds the parameter.

        Args:
          outer: a tensor of an enclosing trace, an eager tensor, or a Variable.
          tensor_type: the parameter's type.
          name: the parameter's name.
        """
        captured = self.captures.get(id(outer))
        if captured is None:  # the pair keeps `outer` alive: only ids of living objects are unique
            captured = self.captures[id(outer)] = (outer, self._new_tensor(tensor_type, name))
        _, param = captured
        return param

    def _constant(self, tensor: Tensor) -> SymbolicTensor:
        """Converts an eager tensor to a symbolic tensor of this trace.

        A small tensor becomes a constant of the IR. A large tensor, a resource or a string tensor becomes a parameter.
        """
        array = tensor.eager_array()
        if isinstance(tensor, EagerTensor) and (array.size > EMBEDDED_ELEMENTS or not _is_embeddable(tensor)):
            return self.pass_in(tensor)
        entry = self.constants.get(id(tensor))
        if entry is None:  # the entry keeps the tensor alive: only ids of living objects are unique
            entry = self.constants[id(tensor)] = (tensor, self.embed(tensor))
            self.root.embedded[id(tensor)] = tensor
        _, symbol = entry
        return symbol

    def own_constant(self, tensor: EagerTensor, name: str | None = None) -> Tensor:
        """Returns a ``tf.constant`` of the traced program as a symbolic tensor, as in TensorFlow."""
        return self.own(tensor)

    def own_operands(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a primitive's operands as tapes record them: for eager ones, the tensors that stand for them."""
        owned = [
            self._record_as_identity(operand, self.own(operand)) if type(operand) is EagerTensor else operand
            for operand in operands
        ]
        return tuple(owned)

    def own_result(self, result: Any) -> Any:
        """Returns the result of a public function called in this trace: for an eager tensor, the symbol that stands for it.

        That is the same symbolic tensor each time, as in TensorFlow.
        """
        return self._record_as_identity(result, self.own_constant(result)) if type(result) is EagerTensor else result

    def _record_as_identity(self, tensor: EagerTensor, symbol: Tensor) -> Tensor:
        """Returns ``symbol``, which stands for ``tensor``; tapes that watch ``tensor`` record it as the tensor's identity."""
        for tape in state.tapes:
            if tape.watches(tensor) and not tape.watches(symbol):
                tape.record(table["identity"], (tensor,), symbol, {})
        return symbol

    def pass_in(self, tensor: EagerTensor) -> SymbolicTensor:
        """Returns the parameter that stands for an eager tensor, whose value stays out of the IR.

        The outermost trace captures the tensor. Each inner trace captures the parameter of its parent.
        """
        if self.parent is None:
            return self.capture(tensor, tensor._type, "constant")
        return self.capture(self.parent.pass_in(tensor), tensor._type, "constant")

    def embed(self, tensor: Tensor) -> SymbolicTensor:
        """Converts an eager tensor to a constant of the IR.

        A complex tensor is composed of two constants, its real and imaginary parts, as Relax has no complex type.
        """
        dialect.to_relax_type(tensor._type)  # raises TypeError for a dtype that can't be compiled
        array = tensor.eager_array()
        if tensor.dtype.is_complex:
            return self.emit(table["complex"], [EagerTensor(array.real.copy()), EagerTensor(array.imag.copy())], {})
        # `reshape`: `ascontiguousarray` makes a vector of a scalar.
        constant = relax.const(np.ascontiguousarray(array).reshape(array.shape), tensor.dtype.name)
        symbol = SymbolicTensor(constant, tensor._type, self)
        symbol.known = array.astype(object) if tensor.dtype.is_integer else None
        return symbol


def _is_embeddable(tensor: EagerTensor) -> bool:
    """Returns whether a tensor can be a constant of the IR: it is neither a resource nor a string tensor."""
    return not tensor.has_identity and tensor.dtype is not string
