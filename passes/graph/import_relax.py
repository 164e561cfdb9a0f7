"""Translates stock Relax ops into the ``tvtf`` dialect, so that imported modules can be differentiated and exported.

``to_dialect(mod)`` re-emits ``main``: each call of a stock op becomes the equivalent tvtf ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvtf.core.primitive import public_names
from tvtf.core.shape import simplify_dim, substitute_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.dtypes import as_dtype
from tvtf.errors import UnimplementedError
from tvtf.ir import dialect
from tvtf.ir.interpreter import Evaluation, reemit

Translate = Callable[["Imported", relax.Call], Any]


def to_dialect(mod: tvm.IRModule) -> tvm.IRModule:
    """Translates ``main`` into the tvtf dialect; calls of the module's other functions are inlined.

    Raises:
      UnimplementedError: for a stock op that has no translation; the text names it.
    """
    return reemit(mod, Imported)


class _Public:
    """Looks up tvtf's public functions by path: ``tf("nn.conv2d")``."""

    def __call__(self, path: str) -> Callable[..., Any]:
        return public_names()[path]


tf = _Public()


class Imported(Evaluation):
    """Evaluates a stock Relax function, each op by tvtf's own."""

    def call(self, expr: Any) -> Any:
        """Evaluates a call: dialect ops, branches, shapes and functions directly, stock ops by :data:`STOCK`."""
        if dialect.is_dialect(expr):
            return super().call(expr)
        if isinstance(expr, relax.If):
            return self.choice(expr)
        if isinstance(expr, relax.ShapeExpr):
            return self.dims_of(expr)
        if isinstance(expr.op, ir.GlobalVar):
            return self.inlined(expr)
        translate = STOCK.get(expr.op.name) if isinstance(expr.op, ir.Op) else None
        if translate is None:
            raise UnimplementedError(
                None, _name_of(expr.op), f"the stock Relax op {_name_of(expr.op)} has no translation into tvtf: {expr}"
            )
        return translate(self, expr)

    def inlined(self, expr: relax.Call) -> Any:
        results = type(self)(self.mod, self.mod[expr.op], [self.value(a) for a in expr.args]).run()
        return results if isinstance(expr.ty, relax.TupleType) else results[0]

    def choice(self, expr: relax.If) -> Any:
        """Emits ``cond`` with both branches as functions of no arguments, which capture the values that they use."""
        branches = [lambda b=b: self.sequence(b) for b in (expr.true_branch, expr.false_branch)]
        return tf("cond")(self.value(expr.cond), *branches)

    def sequence(self, body: relax.SeqExpr) -> Any:
        for block in body.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self.value(binding.value)
        return self.value(body.body)

    def dims_of(self, shape: relax.ShapeExpr) -> tuple[Any, ...]:
        return tuple(substitute_dim(simplify_dim(d), self.dims) for d in shape.values)


def _name_of(op: Any) -> str:
    return op.name if isinstance(op, ir.Op) else str(op)


def number(expr: Any) -> Any:
    """Returns a scalar constant as a Python number, anything else unchanged."""
    return expr.value if isinstance(expr, (tirx.IntImm, tirx.FloatImm)) else expr


def ints(values: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _direct(path: str) -> Translate:
    """Translates to a function that takes the same operands in the same order."""
    return lambda walk, call: tf(path)(*(_operand(walk, call, a) for a in call.args))


def _operand(walk: Imported, call: relax.Call, arg: Any) -> Any:
    if isinstance(arg, (tirx.IntImm, tirx.FloatImm)):
        dtype = as_dtype(str(call.ty.dtype))
        return EagerTensor(np.asarray(arg.value, dtype.np))
    return walk.value(arg)


def _reduce(path: str) -> Translate:
    """Translates a reduction with ``axis`` and ``keepdims``."""

    def translate(walk: Imported, call: relax.Call) -> Tensor:
        axis = call.attrs.axis
        return tf(path)(
            walk.value(call.args[0]), axis=None if axis is None else _axes(axis), keepdims=bool(call.attrs.keepdims)
        )

    return translate


def _axes(axis: Any) -> Any:
    return int(axis) if isinstance(axis, (int, tirx.IntImm)) else list(ints(axis))


def _with_axis(path: str) -> Translate:
    """Translates ``argmax`` and the like: one axis, or None for the flattened tensor."""

    def translate(walk: Imported, call: relax.Call) -> Tensor:
        x, axis = walk.value(call.args[0]), call.attrs.axis
        result = tf(path)(tf("reshape")(x, [-1]) if axis is None else x, axis=0 if axis is None else int(axis))
        return tf("reshape")(result, _result_dims(walk, call)) if call.attrs.keepdims else result

    return translate


def _matmul(walk: Imported, call: relax.Call) -> Tensor:
    """Translates NumPy's product: a vector is a row on the left and a column on the right."""
    x, y = (walk.value(a) for a in call.args)
    if x.ndim > 1 and y.ndim > 1:
        return tf("linalg.matmul")(x, y)
    row = tf("expand_dims")(x, 0) if x.ndim == 1 else x
    column = tf("expand_dims")(y, 1) if y.ndim == 1 else y
    return tf("reshape")(tf("linalg.matmul")(row, column), _result_dims(walk, call))


def _reshape(walk: Imported, call: relax.Call) -> Tensor:
    return tf("reshape")(walk.value(call.args[0]), _result_dims(walk, call))


def _result_dims(walk: Imported, call: relax.Call) -> tuple[Any, ...]:
    return walk.dims_of(call.ty.shape)


def _broadcast_to(walk: Imported, call: relax.Call) -> Tensor:
    return tf("broadcast_to")(walk.value(call.args[0]), _result_dims(walk, call))


def _permute(walk: Imported, call: relax.Call) -> Tensor:
    axes = call.attrs.axes
    return tf("transpose")(walk.value(call.args[0]), None if axes is None else ints(axes))


def _concat(walk: Imported, call: relax.Call) -> Tensor:
    return tf("concat")(list(walk.value(call.args[0])), axis=int(call.attrs.axis or 0))


def _stack(walk: Imported, call: relax.Call) -> Tensor:
    return tf("stack")(list(walk.value(call.args[0])), axis=int(call.attrs.axis or 0))


def _split(walk: Imported, call: relax.Call) -> tuple[Tensor, ...]:
    axis = int(call.attrs.axis)
    sizes = [int(t.shape.values[axis % t.ndim]) for t in call.ty.fields]
    return tuple(tf("split")(walk.value(call.args[0]), sizes, axis=axis))


def _astype(walk: Imported, call: relax.Call) -> Tensor:
    return tf("cast")(walk.value(call.args[0]), as_dtype(str(call.attrs.dtype)))


def _clip(walk: Imported, call: relax.Call) -> Tensor:
    x, low, high = call.args
    value = walk.value(x)
    bounds = [EagerTensor(np.asarray(number(b), value.dtype.np)) for b in (low, high)]
    return tf("minimum")(tf("maximum")(value, bounds[0]), bounds[1])


def _take(walk: Imported, call: relax.Call) -> Tensor:
    x, indices = (walk.value(a) for a in call.args)
    axis = call.attrs.axis
    return tf("gather")(tf("reshape")(x, [-1]) if axis is None else x, indices, axis=0 if axis is None else int(axis))


def _filled(value: float) -> Translate:
    """Translates ops that return a tensor filled with one number."""

    def translate(walk: Imported, call: relax.Call) -> Tensor:
        scalar = EagerTensor(np.asarray(value, as_dtype(str(call.ty.dtype)).np))
        return tf("broadcast_to")(scalar, _result_dims(walk, call))

    return translate


def _full(walk: Imported, call: relax.Call) -> Tensor:
    filled = tf("cast")(walk.value(call.args[-1]), as_dtype(str(call.ty.dtype)))
    return tf("broadcast_to")(filled, _result_dims(walk, call))


def _channels_last(path: str) -> Translate:
    """Translates a convolution in any layout, by transposing to NHWC and an HWIO kernel."""

    def translate(walk: Imported, call: relax.Call) -> Tensor:
        """Translates a convolution; other layouts than NHWC are transposed."""
        attrs, (x, w) = call.attrs, (walk.value(a) for a in call.args)
        data, kernel = str(attrs.data_layout), str(attrs.kernel_layout)
        spatial = data.replace("N", "").replace("C", "")
        y = tf("nn.convolution")(
            _relaid(x, data, f"N{spatial}C"),
            _relaid(w, kernel, f"{spatial}IO"),
            strides=ints(attrs.strides),
            padding=_explicit(attrs.padding),
            dilations=ints(attrs.dilation),
        )
        return _relaid(y, f"N{spatial}C", str(attrs.out_layout) or data)

    return translate


def _relaid(x: Tensor, layout: str, target_layout: str) -> Tensor:
    return x if layout == target_layout else tf("transpose")(x, [layout.index(letter) for letter in target_layout])


def _explicit(padding: Any) -> list[tuple[int, int]]:
    """Converts (before..., after...) over spatial axes to TensorFlow's pairs, with batch and channels."""
    flat = ints(padding)
    half = len(flat) // 2
    return [(0, 0), *zip(flat[:half], flat[half:]), (0, 0)]


def _max_pool(walk: Imported, call: relax.Call) -> Tensor:
    """Translates max pooling in any layout, by transposing to channels last."""
    attrs, x = call.attrs, walk.value(call.args[0])
    layout = str(attrs.layout)
    spatial = layout.replace("N", "").replace("C", "")
    if set(ints(attrs.dilation)) != {1}:
        raise UnimplementedError(None, _name_of(call.op), f"dilated pooling has no translation into tvtf: {call}")
    y = tf(f"nn.max_pool{len(spatial)}d")(
        _relaid(x, layout, f"N{spatial}C"),
        ksize=ints(attrs.pool_size),
        strides=ints(attrs.strides),
        padding=_padding_that_gives(call, [layout.index(letter) for letter in spatial]),
    )
    return _relaid(y, f"N{spatial}C", str(attrs.out_layout) or layout)


def _padding_that_gives(call: relax.Call, axes: list[int]) -> list[tuple[int, int]]:
    """Returns each axis's padding, enlarged at the end where ``ceil_mode`` adds a window."""
    attrs, padding = call.attrs, _explicit(call.attrs.padding)
    if not attrs.ceil_mode:
        return padding
    sizes = ints(call.args[0].ty.shape.values[axis] for axis in axes)
    return [(0, 0), *map(_ceiled, sizes, ints(attrs.pool_size), ints(attrs.strides), padding[1:-1]), (0, 0)]


def _ceiled(size: int, window: int, stride: int, padding: tuple[int, int]) -> tuple[int, int]:
    before, after = padding
    return before, after + -(size + before + after - window) % stride


def _softmax(path: str) -> Translate:
    return lambda walk, call: tf(path)(walk.value(call.args[0]), axis=int(call.attrs.axis))


def _cross_entropy(walk: Imported, call: relax.Call) -> Tensor:
    """Translates to minus the sum of ``logits * labels``, averaged over rows."""
    logits, labels = (walk.value(a) for a in call.args)
    total = tf("reduce_sum")(tf("multiply")(logits, labels))
    rows = logits._type.shape[0] if logits.ndim > 1 else 1
    return tf("negative")(tf("divide")(total, EagerTensor(np.asarray(rows, logits.dtype.np))))


def _same_names(names: str, prefix: str = "math.") -> dict[str, Translate]:
    return {f"relax.{name}": _direct(prefix + name) for name in names.split()}


STOCK: dict[str, Translate] = {
    **_same_names(
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log negative round rsqrt sigmoid sign"
    ),
    **_same_names(
        "sin sinh sqrt square tan tanh add subtract multiply maximum minimum equal not_equal less less_equal"
    ),
    **_same_names("greater greater_equal logical_and logical_or logical_not logical_xor atan2"),
    "relax.divide": _direct("math.divide"),
    "relax.floor_divide": _direct("math.floordiv"),
    "relax.floor_mod": _direct("math.floormod"),
    "relax.power": _direct("math.pow"),
    "relax.where": _direct("where"),
    "relax.matmul": _matmul,
    **{f"relax.nn.{name}": _direct(f"nn.{name}") for name in ("relu", "relu6", "silu", "selu", "softplus")},
    "relax.nn.gelu": lambda walk, call: tf("nn.gelu")(walk.value(call.args[0]), approximate=False),
    "relax.nn.gelu_tanh": lambda walk, call: tf("nn.gelu")(walk.value(call.args[0]), approximate=True),
    "relax.nn.leakyrelu": lambda walk, call: tf("nn.leaky_relu")(walk.value(call.args[0]), float(call.attrs.alpha)),
    **{
        f"relax.{name}": _reduce(f"math.reduce_{name}")
        for name in ("sum", "mean", "max", "min", "prod", "variance", "std")
    },
    "relax.argmax": _with_axis("math.argmax"),
    "relax.argmin": _with_axis("math.argmin"),
    "relax.reshape": _reshape,
    "relax.flatten": _reshape,
    "relax.squeeze": _reshape,
    "relax.expand_dims": _reshape,
    "relax.nn.batch_flatten": _reshape,
    "relax.broadcast_to": _broadcast_to,
    "relax.permute_dims": _permute,
    "relax.concat": _concat,
    "relax.stack": _stack,
    "relax.split": _split,
    "relax.astype": _astype,
    "relax.clip": _clip,
    "relax.take": _take,
    "relax.zeros": _filled(0),
    "relax.ones": _filled(1),
    "relax.zeros_like": _filled(0),
    "relax.ones_like": _filled(1),
    "relax.full": _full,
    "relax.full_like": _full,
    "relax.nn.conv1d": _channels_last("nn.conv1d"),
    "relax.nn.conv2d": _channels_last("nn.conv2d"),
    "relax.nn.conv3d": _channels_last("nn.conv3d"),
    "relax.nn.max_pool1d": _max_pool,
    "relax.nn.max_pool2d": _max_pool,
    "relax.nn.max_pool3d": _max_pool,
    "relax.nn.softmax": _softmax("nn.softmax"),
    "relax.nn.log_softmax": _softmax("nn.log_softmax"),
    "relax.nn.cross_entropy_with_logits": _cross_entropy,
}
"""Translation of each stock op."""
