"""Subroutines: out-of-line functions for code that many kernels have in common, compiled once for all of them.

A subroutine takes addresses of arrays and int64 numbers. Its name is a digest of its content, so that equal ones are
the same in all kernels, programs and processes. It writes to the first array, or to the first few. The arrays don't
overlap, except that a result may be computed in the memory of an operand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, DeclBuffer, PrimFunc, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.codegen.floats import exact
from tvtf.passes.schedule.cpu import emit

PREFIX = "tvtf_sub_"
_CALL = ir.Op.get("tirx.call_extern")
_ADDRESS_OF = ir.Op.get("tirx.address_of")
_FUNCTIONS: dict[str, PrimFunc] = {}
"""All subroutines that this process has made, by name."""
_NAMES: dict[int, list[tuple[PrimFunc, str]]] = {}
"""Subroutines as their bodies were built, with their names, by structural hash."""
_RESULTS: dict[str, int] = {}
"""The number of arrays that each subroutine writes, which are its first ones."""


class Array(NamedTuple):
    """An array argument of a subroutine: the dtype of its elements, and the stride of each axis in elements.

    Strides that are None are arguments of the subroutine, after its other numbers and in the same order.
    """

    dtype: str
    strides: tuple[int | None, ...] = (1,)


Body = Callable[[Sequence[Var], Sequence[ir.Expr]], Stmt]


def subroutine(arrays: Sequence[Array], numbers: int, body: Body, are_distinct: bool = True, results: int = 1) -> str:
    """Builds a subroutine, which is compiled once for all kernels that call it; returns its name.

    Its parameters are the addresses of arrays, then integers, then the strides of arrays that aren't constants.

    Args:
        arrays: the types and strides of the array parameters.
        numbers: the count of integer parameters, without strides.
        body: returns the statement, given the arrays (indices may exceed their shapes) and the integers.
        are_distinct: whether the arrays that are written share no memory with the others.
        results: how many arrays are written, which are the first ones.
    """
    pointers = [Var(f"p{i}", ir.PointerType(ir.PrimType(array.dtype))) for i, array in enumerate(arrays)]
    stride_count = sum(stride is None for array in arrays for stride in array.strides)
    integers = [Var(f"n{i}", "int64") for i in range(numbers)]
    passed_strides = [Var(f"n{numbers + i}", "int64") for i in range(stride_count)]
    next_stride = iter(passed_strides)
    buffers = [
        _declared(f"a{i}", array, pointer, next_stride)
        for i, (array, pointer) in enumerate(zip(arrays, pointers, strict=True))
    ]
    declarations = [DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(buffers, pointers, strict=True)]
    stmt = emit.sequence([*declarations, body(buffers, integers)])
    func = PrimFunc([*pointers, *integers, *passed_strides], stmt).with_attr("tirx.noalias", are_distinct)
    name = _name_of(func)
    _RESULTS[name] = results
    _notify.get()(name)
    return name


def _name_of(func: PrimFunc) -> str:
    """Returns the name of a subroutine, a digest of its content: equal subroutines of several kernels have one name.

    The digest is computed only once for equal subroutines: it takes 1.5 ms, ten times as long as a comparison.
    """
    functions_of_same_hash = _NAMES.setdefault(tvm_ffi.structural_hash(func), [])
    for known_func, known_name in functions_of_same_hash:
        if tvm_ffi.structural_equal(func, known_func):
            return known_name
    complete = exact(func)
    content = tvm.ir.save_json(complete).encode()
    name = PREFIX + hashlib.sha256(content).hexdigest()[:40]
    _FUNCTIONS.setdefault(name, complete)
    functions_of_same_hash.append((func, name))
    return name


_notify: ContextVar[Callable[[str], None]] = ContextVar("begin", default=lambda name: None)


@contextmanager
def notify_on_new(notify: Callable[[str], None]) -> Iterator[None]:
    """Calls ``notify`` with the name of each subroutine that is made in the ``with`` block, in this thread.

    The caller can then begin to compile a subroutine while later kernels are being scheduled.
    """
    token = _notify.set(notify)
    try:
        yield
    finally:
        _notify.reset(token)


def _declared(name: str, array: Array, pointer: Var, passed_strides: Iterator[ir.Expr]) -> Var:
    """Declares the buffer of a subroutine's array argument.

    Args:
        name: the name of the buffer.
        array: the dtype and strides of the array. A stride of None isn't a constant.
        pointer: the address of the first element.
        passed_strides: the strides that are passed to the subroutine, of which one is taken for each stride of None.
    """
    strides = [next(passed_strides) if stride is None else emit.index(stride) for stride in array.strides]
    is_contiguous = array.strides == (1,)
    item_bytes = tirx.const(0, array.dtype).ty.dtype.itemsize
    return tirx.decl_buffer(
        [emit.index(1)] * len(array.strides),  # indices may exceed the shape
        array.dtype,
        name,
        data=pointer,
        strides=None if is_contiguous else strides,
        data_alignment=max(1, item_bytes),
    )


def call(name: str, elements: Sequence[TensorLoad], numbers: Sequence[int | ir.Expr]) -> Stmt:
    """Builds a statement that calls the subroutine `name`.

    The arguments are the addresses of `elements`, which are the first elements of arrays, and int64 `numbers`.
    """
    addresses = [tirx.address_of(element) for element in elements]
    return tirx.Evaluate(tirx.call_extern("void", name, *addresses, *map(_as_int64, numbers)))


def _as_int64(number: int | ir.Expr) -> ir.Expr:
    if isinstance(number, (int, tirx.IntImm)):
        return tirx.IntImm("int64", int(number))
    return number if str(number.ty.dtype) == "int64" else tirx.Cast("int64", number)


def with_int64_numbers(stmt: Stmt) -> Stmt:
    """Casts the integer arguments of calls to int64 again, if a pass has narrowed them as if they were indices.

    A subroutine reads 64 bits of each. If a narrower number were passed, the upper bits would be undefined.
    """

    def widened(node: ir.Call) -> ir.Call:
        """Casts the numbers of a subroutine call to int64; returns other calls unchanged."""
        if not is_call(node):
            return node
        _name, _array_elements, numbers = arguments(node)
        if not numbers:
            return node
        other_arguments = node.args[: -len(numbers)]
        return tirx.call_extern("void", *other_arguments, *map(_as_int64, numbers))

    return structural_map(stmt, (ir.Call, widened))


def arguments(node: ir.Call) -> tuple[str, list[TensorLoad], list[ir.Expr]]:
    """Returns the name of a call's subroutine, the first elements of the arrays, and the numbers."""
    elements = [arg.args[0] for arg in node.args[1:] if isinstance(arg, ir.Call) and arg.op == _ADDRESS_OF]
    return str(node.args[0].value), elements, list(node.args[1 + len(elements) :])


def results(node: ir.Call) -> int:
    """Returns the number of arrays that a call's subroutine writes, which are its first ones."""
    return _RESULTS[str(node.args[0].value)]


def function(name: str) -> PrimFunc | None:
    """Returns the subroutine with a name, if this process has made it."""
    return _FUNCTIONS.get(name)


def written_buffers(stmt: Stmt) -> set[Var]:
    """Returns the buffers that a statement stores to, directly or by calling subroutines."""
    buffers: set[Var] = set()

    def add_results(call: ir.Call) -> None:
        if is_call(call):
            _name, array_elements, _numbers = arguments(call)
            # The arrays that a subroutine writes are its first ones.
            buffers.update(element.source for element in array_elements[: results(call)])

    structural_walk(stmt, [(BufferStore, lambda store: buffers.add(store.buffer)), (ir.Call, add_results)])
    return buffers


def passed_buffers(stmt: Stmt) -> set[Var]:
    """Returns the buffers whose addresses a statement passes to subroutines. LLVM can't hold these in registers."""
    buffers: set[Var] = set()

    def add_passed_buffers(call: ir.Call) -> None:
        if is_call(call):
            _name, array_elements, _numbers = arguments(call)
            buffers.update(element.source for element in array_elements)

    structural_walk(stmt, (ir.Call, add_passed_buffers))
    return buffers


def has_calls(stmt: Stmt) -> bool:
    """Returns whether a statement calls subroutines."""
    return structural_walk(stmt, (ir.Call, lambda c: tvm_ffi.VisitInterrupt(c) if is_call(c) else None)) is not None


def is_call(node: Any) -> bool:
    """Returns whether an expression calls a subroutine."""
    return isinstance(node, ir.Call) and node.op == _CALL and node.args[0].value.startswith(PREFIX)
