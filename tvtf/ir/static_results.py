"""What is known of a call's results while tracing: their elements, and shapes that follow from ``set_shape``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import ir, tirx

from tvtf.core.primitive import Primitive
from tvtf.core.shape import TensorShape, TensorType, substitute_dim
from tvtf.core.specialization import Unspecialized
from tvtf.core.tensor import SymbolicTensor
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, int32
from tvtf.errors import OpError


def infer_claimed_shapes(
    prim: Primitive[Any], inputs: Sequence[SymbolicTensor], attrs: dict[str, Any], results: Sequence[Any]
) -> None:
    """Derives the shapes of a call's results from the shapes that ``set_shape`` claimed for the inputs.

    The primitive's type rule runs again on the claimed shapes. It makes no dims equal, as compiled code does not check
    claimed sizes.
    """
    claimed_sizes = {}  # by symbolic dim
    for x in inputs:
        if not x.claimed:
            continue
        for dim, size in zip(x._type.shape, x.claimed):
            if size is not None and isinstance(dim, tirx.Var):
                claimed_sizes[dim] = size
    claimed_attrs = {name: _with_sizes(value, claimed_sizes) for name, value in attrs.items()}
    before, state.infers_type = state.infers_type, True
    try:
        types = prim.typed(*(x.shown_type for x in inputs), **claimed_attrs)
    except (TypeError, ValueError, OpError, Unspecialized):
        return  # the claimed shapes are wrong: the results keep the inferred ones
    finally:
        state.infers_type = before
    claimed_types = [types] if type(types) is TensorType else types
    for claimed_type, result in zip(claimed_types, results):
        shape = TensorShape(claimed_type.shape)
        if isinstance(result, SymbolicTensor) and shape.rank is not None and shape.as_list() != result.shape.as_list():
            result.claimed = shape


def _with_sizes(value: Any, sizes: Mapping[tirx.Var, int]) -> Any:
    """Returns a primitive's attribute with symbolic dims in it replaced by ``sizes``."""
    if type(value) is tuple:
        return tuple(_with_sizes(part, sizes) for part in value)
    return substitute_dim(value, sizes) if isinstance(value, ir.Expr) else value


def with_known_elements(
    prim: Primitive[Any], inputs: Sequence[SymbolicTensor], attrs: dict[str, Any], result: Any
) -> Any:
    """Returns a call's result; attaches its elements if the primitive's ``value`` rule finds them while tracing.

    For example, the elements of ``tf.shape(x)`` are known as dims.

    Args:
      prim: the primitive.
      inputs, attrs: the call's inputs and attributes.
      result: the call's result.
    """
    if prim.value is not None:
        trace = result._trace
        outer_uses = trace.static_uses
        trace.static_uses = None  # the elements pass on; nothing is decided by them
        try:
            result.known = _as_dtype(prim.value(*inputs, **attrs), result._type.dtype)
        finally:
            trace.static_uses = outer_uses
    return result


def _as_dtype(known: Any, dtype: DType) -> np.ndarray | None:
    """Converts statically known elements to an object array of ints and symbolic dims in the range of ``dtype``.

    Returns None if the elements aren't known.
    """
    if known is None:
        return None
    if isinstance(known, np.ndarray) and known.dtype == dtype.np:  # these are in the range already
        return known.astype(object)
    return _in_range(np.asarray(known, object), dtype)


def _in_range(known: np.ndarray, dtype: DType) -> np.ndarray | None:
    """Wraps statically known elements around to the range of an integer dtype.

    For example, 300 becomes 44 as uint8. Returns None for a symbolic dim with a dtype narrower than int32, because only
    at run time it is known whether the dim wraps around.

    Args:
      known: an object array of ints and symbolic dims.
      dtype: the integer dtype.
    """
    if dtype.size < int32.size and not all(isinstance(element, int) for element in known.flat):
        return None
    minimum = int(dtype.min)
    value_count = 1 << (8 * dtype.size)
    if all(not isinstance(element, int) or 0 <= element - minimum < value_count for element in known.flat):
        return known
    wrapped = [
        (element - minimum) % value_count + minimum if isinstance(element, int) else element for element in known.flat
    ]
    # With None among them, NumPy makes an array of the objects without looking into them.
    return np.array([*wrapped, None], object)[:-1].reshape(known.shape)
