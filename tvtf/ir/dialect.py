"""The ``tvtf`` dialect of Relax: encodes a bound primitive as a Relax call, and decodes it.

Tensor inputs are the call's arguments. Attributes go into ``DictAttrs``. Symbolic dims in attributes are collected in one
trailing ``ShapeExpr`` argument, because TVM's passes see and rename symbols only in expressions. Subgraphs are leading
``GlobalVar`` arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tvm import ir, relax, tirx
from tvm.ir import _ffi_api as ir_ffi

from tvtf import dtypes
from tvtf.core.deferred_shape import RANK_GAP, RANKS, AnyShape
from tvtf.core.primitive import Primitive, table
from tvtf.core.shape import TensorShape, TensorType, fresh_dim, simplify_dim
from tvtf.core.specialization import UnknownRank
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import Lock

_PREFIX = "tvtf."
_DIM = "dim:"
_DTYPE = "dtype:"
_GRAPH = "graph:"
_TEXT = "text:"
_MARKS = (_DIM, _DTYPE, _GRAPH, _TEXT)
_ops: dict[str, ir.Op] = {}
_begun: set[str] = set()
_registering = Lock()
_types: dict[TensorType, relax.TensorType] = {}
_tensor_types: dict[int, TensorType] = {}
"""The inverse of ``_types``, by the addresses of the Relax types."""


class Bound(NamedTuple):
    """A decoded call: the primitive, its argument expressions and its attributes (subgraphs as GlobalVars)."""

    primitive: Primitive[Any]
    inputs: list[Any]
    attrs: dict[str, Any]


def bindings_of(body: relax.SeqExpr) -> list[Any]:
    """Returns the bindings in the body of a function or branch, in order, without those inside of branches."""
    # A slice copies an array in one call of TVM, and not in one for each element.
    return [binding for block in body.blocks for binding in block.bindings[:]]


def relax_op(prim: Primitive[Any]) -> ir.Op:
    """Returns TVM's op for a primitive, to which Relax calls refer; registers the op on its first use."""
    op = _ops.get(prim.name)
    if op is None:
        with _registering:
            op = _ops.get(prim.name)  # another thread may have registered it meanwhile
            if op is None:
                op = _ops[prim.name] = _register(prim)
    return op


def _register(prim: Primitive[Any]) -> ir.Op:
    """Registers a primitive as an op of TVM and returns the op.

    Ctrl-C may have interrupted an earlier registration, which is completed then. TVM accepts each registration only once
    in a process. So the parts that the earlier call registered are skipped.
    """
    name = _PREFIX + prim.name
    was_interrupted = name in _begun
    _begun.add(name)
    if not (was_interrupted and name in ir.Op.list_op_names()):
        summary = (prim.__doc__ or "").partition("\n")[0]
        ir_ffi.RegisterOp(name, summary)
    op = ir.Op.get(name)
    attributes = {
        "FInferType": lambda call, _: _infer_type(prim, call),
        "FPurity": prim.pure,
        "TScriptPrinterName": name,
    }
    for key, value in attributes.items():
        if not (was_interrupted and op.has_attr(key)):
            ir.register_op_attr(name, key, value)
    return op


def _infer_type(prim: Primitive[Any], call: relax.Call) -> Any:
    """Returns the Relax type of a primitive's call, by the primitive's type rule."""
    decoded = read(call)
    before, state.infers_type = state.infers_type, True
    try:
        return to_relax_types(prim.type(*(from_relax_type(x.ty) for x in decoded.inputs), **decoded.attrs))
    finally:
        state.infers_type = before


PAIRS = {"float32x2": dtypes.complex64, "float64x2": dtypes.complex128, "int32x2": dtypes.string}
"""Relax dtypes of types that TVM lacks: a complex number is a pair of floats, a string a 64-bit handle in two halves."""
_PAIR_OF = {dtype: name for name, dtype in PAIRS.items()}


def relax_dtype(dtype: dtypes.DType) -> str:
    return _PAIR_OF.get(dtype) or dtype.name


def dtype_of(name: str) -> dtypes.DType:
    """Returns the dtype that has a name in compiled code, where complex numbers and strings are pairs."""
    return PAIRS.get(name) or dtypes.as_dtype(name)


def to_relax_type(tensor_type: TensorType) -> relax.TensorType:
    """Converts the type of a tensor to a Relax type. Types with static shapes are cached.

    Raises:
      TypeError: the dtype can't be compiled.
    """
    if tensor_type.dtype not in dtypes.TRACED:
        raise TypeError(
            f"{tensor_type.dtype.name} tensors run eagerly only: the compiler has no {tensor_type.dtype.name} type; "
            "move the op out of the tf.function"
        )
    if isinstance(tensor_type.shape, AnyShape):  # of unknown rank
        return relax.TensorType(dtype=relax_dtype(tensor_type.dtype))
    if any(not isinstance(dim, int) for dim in tensor_type.shape):
        if any(dim is None for dim in tensor_type.shape):  # TVM would crash
            raise TypeError(f"a tensor of the shape {TensorShape(tensor_type.shape)} needs its sizes")
        return relax.TensorType(tensor_type.shape, relax_dtype(tensor_type.dtype))
    cached = _types.get(tensor_type)
    if cached is None:  # another thread may cache the type meanwhile: `setdefault` returns its object then
        cached = _types.setdefault(tensor_type, relax.TensorType(tensor_type.shape, relax_dtype(tensor_type.dtype)))
        _tensor_types[cached.__chandle__()] = tensor_type
    return cached


def to_relax_types(types: Any) -> Any:
    """Converts the type of a tensor, or the types of several, to one Relax type."""
    if type(types) is TensorType:
        return to_relax_type(types)
    return relax.TupleType([to_relax_type(tensor_type) for tensor_type in types])


def from_relax_type(ty: relax.TensorType) -> TensorType:
    """Converts a Relax tensor type to a TensorType. Expressions of symbolic dims are simplified.

    Raises:
      TypeError: the type has no shape.
    """
    cached = static_type(ty)
    if cached is not None:
        return cached
    if ty.shape is None:
        raise TypeError(f"a tensor of unknown shape can't be read into the tvtf dialect: {ty}")
    return TensorType(tuple(map(simplify_dim, ty.shape.values[:])), dtype_of(str(ty.dtype)))


def static_type(ty: Any) -> TensorType | None:
    """Returns the TensorType that :func:`to_relax_type` converted to the Relax type ``ty``.

    Returns None for a type with symbolic dims or from elsewhere.
    """
    return _tensor_types.get(ty.__chandle__())


def static_types(ty: Any) -> Any:
    """Returns the TensorType of a call's result, or a tuple of types for several results.

    Returns None if :func:`static_type` doesn't find one of the types, as for a symbolic dim.
    """
    if not isinstance(ty, relax.TupleType):
        return static_type(ty)
    types = [static_type(field) for field in ty.fields[:]]
    return None if None in types else tuple(types)


def of_unknown_dims(ty: relax.TensorType) -> TensorType:
    """Converts a Relax tensor type of known rank and unknown dims to a TensorType with a new symbol for each dim."""
    return TensorType(tuple(fresh_dim("any") for _ in range(ty.ndim)), dtype_of(str(ty.dtype)))


def write(prim: Primitive[Any], args: list[Any], attrs: dict[str, Any], ret_ty: Any, span: Any) -> relax.Call:
    """Encodes a call of a primitive as a Relax call.

    The operands of the Relax call are the subgraphs, ``args``, and one shape expression of the symbolic dims in ``attrs``.

    Args:
      prim: the primitive.
      args: the call's tensor arguments as Relax expressions.
      attrs: the call's attributes; subgraphs are GlobalVars.
      ret_ty: the Relax type of the result.
      span: the line of the user's program.
    """
    dims: list[Any] = []
    graphs: list[Any] = []
    # Encoding the attributes fills `dims` and `graphs`.
    encoded = {name: _encode(value, dims, graphs) for name, value in attrs.items()}
    operands = graphs + args + ([relax.ShapeExpr(dims)] if dims else [])
    attributes_node = ir.make_node("ir.DictAttrs", **encoded)
    return relax.Call(relax_op(prim), operands, attrs=attributes_node, span=span, ret_ty=ret_ty)


def _encode(value: Any, dims: list[Any], graphs: list[Any]) -> Any:
    """Encodes a primitive's attribute as an attribute of a Relax call: a number, a text or a tuple.

    Symbolic dims are appended to ``dims``, and functions to ``graphs``. The attribute refers to them by index. For
    example, the first symbolic dim is encoded as ``"dim:0"``.
    """
    if isinstance(value, dtypes.DType):
        return _DTYPE + value.name
    # A text that starts with "dim:", for example, would be decoded as a dim: it is marked as a text.
    if isinstance(value, str) and value.startswith(_MARKS):
        return _TEXT + value
    if isinstance(value, (tuple, list)):
        return tuple(_encode(item, dims, graphs) for item in value)
    if isinstance(value, ir.GlobalVar):
        graphs.append(value)
        return f"{_GRAPH}{len(graphs) - 1}"
    if isinstance(value, AnyShape):
        raise UnknownRank("the shape of a tensor")
    if isinstance(value, ir.Expr):
        dims.append(value)
        return f"{_DIM}{len(dims) - 1}"
    return value


def is_dialect(call: Any) -> bool:
    return isinstance(call, relax.Call) and isinstance(call.op, ir.Op) and call.op.name.startswith(_PREFIX)


def primitive_of(call: relax.Call) -> Primitive[Any]:
    """Returns the primitive of a dialect call."""
    return table[call.op.name[len(_PREFIX) :]]


def read(call: relax.Call) -> Bound:
    """Decodes a call that :func:`write` encoded: returns its primitive, tensor arguments and attributes."""
    args = call.args[:]
    # The last operand may be the shape expression of symbolic dims; the first operands are the subgraphs.
    dims = args.pop().values[:] if args and isinstance(args[-1], relax.ShapeExpr) else []
    graphs = [arg for arg in args if isinstance(arg, ir.GlobalVar)]
    attrs = {str(name): _decode(value, dims, graphs) for name, value in call.attrs.items()} if call.attrs else {}
    return Bound(primitive_of(call), args[len(graphs) :], attrs)


def operands(value: ir.Expr) -> list[ir.Expr]:
    """Returns the variables and constants that an expression uses; of a dialect call, without those of its sizes."""
    return read(value).inputs if is_dialect(value) else list(relax.analysis.free_vars(value))


def dtypes_of(call: relax.Call, bound: Bound) -> list[dtypes.DType]:
    """Returns the dtypes of a call's inputs, then those of the results. ``bound`` is the decoded call."""
    results = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
    return [from_relax_type(t).dtype for t in (*(x.ty for x in bound.inputs), *results)]


def _decode(value: Any, dims: list[Any], graphs: list[Any]) -> Any:
    """Decodes a primitive's attribute from a Relax call.

    Symbolic dims, functions and dtypes are encoded as texts. For example, ``"dim:0"`` stands for the first of ``dims``, and
    ``"graph:0"`` for the first of ``graphs``.
    """
    if isinstance(value, str):
        return _decode_text(str(value), dims, graphs)
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    return tuple(_decode(item, dims, graphs) for item in value[:])  # an array of TVM, which a tuple was encoded as


def _decode_text(text: str, dims: list[Any], graphs: list[Any]) -> Any:
    """Decodes an attribute's text by its prefix, ``dtype:``, ``dim:``, ``graph:`` or ``text:``.

    The digits after ``dim:`` and ``graph:`` are an index into ``dims`` or ``graphs``.
    """
    if text.startswith(_DTYPE):
        return dtypes.as_dtype(text[len(_DTYPE) :])
    if text.startswith(_DIM):
        dim_index = int(text.removeprefix(_DIM))
        return simplify_dim(dims[dim_index])
    if text.startswith(_GRAPH):
        graph_index = int(text.removeprefix(_GRAPH))
        return graphs[graph_index]
    return text.removeprefix(_TEXT)


def filled_in(name: str, dims: Iterable[int | None]) -> tuple[Any, ...]:
    """Returns the shape ``dims`` with a new symbol, named ``name_0``, ``name_1`` ..., for each unknown dim (None)."""
    return tuple(fresh_dim(f"{name}_{i}") if dim is None else dim for i, dim in enumerate(dims))


def example_shape(name: str, rank: int = RANKS[0]) -> AnyShape:
    """Returns a shape of unknown rank. Deferred calls are traced for examples of it; the first example has ``rank`` axes."""
    # The second example has another rank, at a fixed distance from the first.
    ranks = (rank, rank + RANK_GAP, *RANKS[2:])
    return AnyShape(lambda index: filled_in(name, [None] * ranks[index]))
