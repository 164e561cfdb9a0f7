"""Translates stock Relax ops into the ``tvtf`` dialect, so that imported modules can be differentiated and exported.

``to_dialect(mod)`` re-emits ``main``: each call of a stock op becomes the equivalent tvtf ops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from tvtf.ir.dialect import bindings_of
from tvtf.ir.interpreter import Evaluation, reemit

Translate = Callable[["Imported", relax.Call], Any]


def to_dialect(mod: tvm.IRModule) -> tvm.IRModule:
    """Translates ``main`` into the tvtf dialect; calls of the module's other functions are inlined.

    Raises:
      UnimplementedError: for a stock op that has no translation; the text names it.
    """
    return reemit(mod, Imported)


class _PublicFunctions:
    """Looks up tvtf's public functions by path: ``tf("nn.conv2d")``."""

    def __call__(self, path: str) -> Callable[..., Any]:
        return public_names()[path]


tf = _PublicFunctions()


class Imported(Evaluation):
    """Evaluates a stock Relax function, each op by tvtf's own."""

    def call(self, expr: Any) -> Any:
        """Translates one expression of a stock Relax function into the tvtf dialect.

        Ops of the dialect, ``If`` and calls of other functions are evaluated; :data:`STOCK` translates stock Relax ops.

        Raises:
          UnimplementedError: there is no translation of the op.
        """
        if dialect.is_dialect(expr):
            return super().call(expr)
        if isinstance(expr, relax.If):
            return self.conditional(expr)
        if isinstance(expr, relax.ShapeExpr):
            return self.dims_of(expr)
        if isinstance(expr.op, ir.GlobalVar):
            return self.inline_call(expr)
        translate = STOCK.get(expr.op.name) if isinstance(expr.op, ir.Op) else None
        if translate is None:
            name = _name_of(expr.op)
            raise UnimplementedError(None, name, f"the stock Relax op {name} has no translation into tvtf: {expr}")
        return translate(self, expr)

    def inline_call(self, expr: relax.Call) -> Any:
        """Evaluates the called function of the module on the operands."""
        results = type(self)(self.mod, self.mod[expr.op], [self.value(arg) for arg in expr.args]).run()
        return results if isinstance(expr.ty, relax.TupleType) else results[0]

    def conditional(self, expr: relax.If) -> Any:
        """Evaluates an If as ``tf.cond`` of both branches, which capture the values that they use."""
        true_branch, false_branch = (partial(self.sequence, branch) for branch in (expr.true_branch, expr.false_branch))
        return tf("cond")(self.value(expr.cond), true_branch, false_branch)

    def sequence(self, body: relax.SeqExpr) -> Any:
        """Evaluates the bindings of a branch, and returns its result."""
        for binding in bindings_of(body):
            self.values[binding.var] = self.value(binding.value)
        return self.value(body.body)

    def dims_of(self, shape: relax.ShapeExpr) -> tuple[Any, ...]:
        return tuple(substitute_dim(simplify_dim(dim), self.dims) for dim in shape.values)


def _name_of(op: Any) -> str:
    return op.name if isinstance(op, ir.Op) else str(op)


def constant_value(expr: Any) -> Any:
    """Returns the value of a scalar constant as a Python number, or any other expression unchanged."""
    return expr.value if isinstance(expr, (tirx.IntImm, tirx.FloatImm)) else expr


def ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _same_operands(path: str, importer: Imported, call: relax.Call) -> Any:
    """Translates a call to the public tvtf function ``path``, which takes the same operands in the same order."""
    return tf(path)(*(_operand(importer, call, arg) for arg in call.args))


def _operand(importer: Imported, call: relax.Call, arg: Any) -> Any:
    """Returns the value of a call's operand ``arg``. A scalar literal becomes a tensor of the result's dtype."""
    if isinstance(arg, (tirx.IntImm, tirx.FloatImm)):
        dtype = as_dtype(str(call.ty.dtype))
        return EagerTensor(np.asarray(arg.value, dtype.np))
    return importer.value(arg)


def _reduction(path: str, importer: Imported, call: relax.Call) -> Tensor:
    """Translates a reduction, such as ``relax.sum``, to tvtf's with the public name ``path``, "math.reduce_sum"."""
    attrs, (operand,) = call.attrs, call.args
    axes = None if attrs.axis is None else _axes(attrs.axis)
    return tf(path)(importer.value(operand), axis=axes, keepdims=bool(attrs.keepdims))  # type: ignore[no-any-return]


def _axes(axis: Any) -> Any:
    return int(axis) if isinstance(axis, (int, tirx.IntImm)) else list(ints(axis))


def _arg_reduction(path: str, importer: Imported, call: relax.Call) -> Tensor:
    """Translates ``relax.argmax`` or ``relax.argmin``, to tvtf's with the public name ``path``."""
    x, axis = _flattened_without_axis(importer, call)
    result = tf(path)(x, axis=axis)
    return tf("reshape")(result, _result_dims(importer, call)) if call.attrs.keepdims else result


def _flattened_without_axis(importer: Imported, call: relax.Call) -> tuple[Tensor, int]:
    """Returns the first operand of a call, and the call's axis. Without an axis, Relax flattens the tensor."""
    x = importer.value(call.args[0])
    axis = call.attrs.axis
    return (tf("reshape")(x, [-1]), 0) if axis is None else (x, int(axis))


def _matmul(importer: Imported, call: relax.Call) -> Tensor:
    """Translates ``relax.matmul``. As in NumPy, a left vector is a row, and a right vector is a column.

    The matrix product of tvtf doesn't accept vectors, so they are reshaped to matrices.

    Args:
      importer: holds the translated values.
      call: the call to translate.
    """
    left, right = (importer.value(arg) for arg in call.args)
    if left.ndim > 1 and right.ndim > 1:
        return tf("linalg.matmul")(left, right)
    row = tf("expand_dims")(left, 0) if left.ndim == 1 else left
    column = tf("expand_dims")(right, 1) if right.ndim == 1 else right
    product = tf("linalg.matmul")(row, column)
    return tf("reshape")(product, _result_dims(importer, call))


def _reshape(importer: Imported, call: relax.Call) -> Tensor:
    return tf("reshape")(importer.value(call.args[0]), _result_dims(importer, call))


def _result_dims(importer: Imported, call: relax.Call) -> tuple[Any, ...]:
    return importer.dims_of(call.ty.shape)


def _broadcast_to(importer: Imported, call: relax.Call) -> Tensor:
    return tf("broadcast_to")(importer.value(call.args[0]), _result_dims(importer, call))


def _permute(importer: Imported, call: relax.Call) -> Tensor:
    axes = call.attrs.axes
    return tf("transpose")(importer.value(call.args[0]), None if axes is None else ints(axes))


def _concat(importer: Imported, call: relax.Call) -> Tensor:
    return tf("concat")(list(importer.value(call.args[0])), axis=int(call.attrs.axis or 0))


def _stack(importer: Imported, call: relax.Call) -> Tensor:
    return tf("stack")(list(importer.value(call.args[0])), axis=int(call.attrs.axis or 0))


def _split(importer: Imported, call: relax.Call) -> tuple[Tensor, ...]:
    axis = int(call.attrs.axis)
    sizes = [int(ty.shape.values[axis % ty.ndim]) for ty in call.ty.fields]
    return tuple(tf("split")(importer.value(call.args[0]), sizes, axis=axis))


def _astype(importer: Imported, call: relax.Call) -> Tensor:
    return tf("cast")(importer.value(call.args[0]), as_dtype(str(call.attrs.dtype)))


def _clip(importer: Imported, call: relax.Call) -> Tensor:
    value = importer.value(call.args[0])
    low, high = (EagerTensor(np.asarray(constant_value(bound), value.dtype.np)) for bound in call.args[1:])
    return tf("minimum")(tf("maximum")(value, low), high)  # type: ignore[no-any-return]


def _take(importer: Imported, call: relax.Call) -> Tensor:
    x, axis = _flattened_without_axis(importer, call)
    return tf("gather")(x, importer.value(call.args[1]), axis=axis)  # type: ignore[no-any-return]


def _constant_fill(value: float, importer: Imported, call: relax.Call) -> Tensor:
    """Translates an op that fills a tensor with the number ``value``, such as ``relax.zeros``."""
    scalar = EagerTensor(np.asarray(value, as_dtype(str(call.ty.dtype)).np))
    return tf("broadcast_to")(scalar, _result_dims(importer, call))  # type: ignore[no-any-return]


def _full(importer: Imported, call: relax.Call) -> Tensor:
    filled = tf("cast")(importer.value(call.args[-1]), as_dtype(str(call.ty.dtype)))
    return tf("broadcast_to")(filled, _result_dims(importer, call))


def _convolution(importer: Imported, call: relax.Call) -> Tensor:
    """Translates a convolution in any layout.

    The data is transposed to channels last (NHWC) and the filter to HWIO, the layouts that tvtf's convolution supports.
    The result is transposed back to the layout that Relax expects.

    Args:
      importer: holds the translated values.
      call: the call to translate.
    """
    attrs = call.attrs
    data, filters = (importer.value(arg) for arg in call.args)
    data_layout = str(attrs.data_layout)
    filter_layout = str(attrs.kernel_layout)
    spatial = data_layout.replace("N", "").replace("C", "")
    result = tf("nn.convolution")(
        _to_layout(data, data_layout, f"N{spatial}C"),
        _to_layout(filters, filter_layout, f"{spatial}IO"),
        strides=ints(attrs.strides),
        padding=_padding_pairs(attrs.padding),
        dilations=ints(attrs.dilation),
    )
    return _to_layout(result, f"N{spatial}C", str(attrs.out_layout) or data_layout)


def _to_layout(x: Tensor, layout: str, target_layout: str) -> Tensor:
    """Transposes a tensor from one layout to another. A layout has one letter for each axis, such as "NCHW"."""
    return x if layout == target_layout else tf("transpose")(x, [layout.index(letter) for letter in target_layout])


def _padding_pairs(padding: Any) -> list[tuple[int, int]]:
    """Converts Relax's padding to TensorFlow's: a pair (before, after) for each axis of an NHWC tensor.

    For example, Relax's ``(top, left, bottom, right)`` gives ``[(0, 0), (top, bottom), (left, right), (0, 0)]``.
    """
    numbers = ints(padding)
    half = len(numbers) // 2
    return [(0, 0), *zip(numbers[:half], numbers[half:]), (0, 0)]


def _max_pool(importer: Imported, call: relax.Call) -> Tensor:
    """Translates Relax's max pooling in any layout, by transposing the tensor to channels last.

    Args:
      importer: holds the translated values.
      call: the call to translate.

    Raises:
      UnimplementedError: the window is dilated.
    """
    attrs = call.attrs
    data = importer.value(call.args[0])
    layout = str(attrs.layout)
    spatial = layout.replace("N", "").replace("C", "")
    if set(ints(attrs.dilation)) != {1}:
        raise UnimplementedError(None, _name_of(call.op), f"dilated pooling has no translation into tvtf: {call}")
    spatial_axes = [layout.index(letter) for letter in spatial]
    max_pool = tf(f"nn.max_pool{len(spatial)}d")
    result = max_pool(
        _to_layout(data, layout, f"N{spatial}C"),
        ksize=ints(attrs.pool_size),
        strides=ints(attrs.strides),
        padding=_pool_padding(call, spatial_axes),
    )
    return _to_layout(result, f"N{spatial}C", str(attrs.out_layout) or layout)


def _pool_padding(call: relax.Call, axes: list[int]) -> list[tuple[int, int]]:
    """Returns the padding (before, after) of each axis of a Relax pooling op, for an NHWC tensor.

    With ``ceil_mode``, the padding after an axis is enlarged to fit one more window.

    Args:
      call: the pooling op.
      axes: the spatial axes of the pooled tensor.
    """
    attrs = call.attrs
    padding = _padding_pairs(call.attrs.padding)
    if not attrs.ceil_mode:
        return padding
    sizes = ints(call.args[0].ty.shape.values[axis] for axis in axes)
    # Batch and channels, the first and the last axis, aren't padded.
    spatial_padding = padding[1:-1]
    enlarged = map(_padding_for_ceil_mode, sizes, ints(attrs.pool_size), ints(attrs.strides), spatial_padding)
    return [(0, 0), *enlarged, (0, 0)]


def _padding_for_ceil_mode(size: int, window: int, stride: int, padding: tuple[int, int]) -> tuple[int, int]:
    """Returns the padding of one axis, enlarged after the axis until pooling windows cover the axis entirely."""
    before, after = padding
    # What the last step of the window leaves over of the axis.
    uncovered = (size + before + after - window) % stride
    return before, after + (stride - uncovered if uncovered else 0)


def _softmax(path: str, importer: Imported, call: relax.Call) -> Tensor:
    return tf(path)(importer.value(call.args[0]), axis=int(call.attrs.axis))  # type: ignore[no-any-return]


def _gelu(approximate: bool, importer: Imported, call: relax.Call) -> Tensor:
    return tf("nn.gelu")(importer.value(call.args[0]), approximate=approximate)  # type: ignore[no-any-return]


def _leaky_relu(importer: Imported, call: relax.Call) -> Tensor:
    return tf("nn.leaky_relu")(importer.value(call.args[0]), float(call.attrs.alpha))  # type: ignore[no-any-return]


def _cross_entropy(importer: Imported, call: relax.Call) -> Tensor:
    """Translates ``relax.nn.cross_entropy_with_logits``, which computes ``-sum(logits * labels) / rows``."""
    logits, labels = (importer.value(arg) for arg in call.args)
    total = tf("reduce_sum")(tf("multiply")(logits, labels))
    rows = logits._type.shape[0] if logits.ndim > 1 else 1
    return tf("negative")(tf("divide")(total, EagerTensor(np.asarray(rows, logits.dtype.np))))


def _same_names(names: str, prefix: str = "math.") -> dict[str, Translate]:
    """Returns the translations of Relax ops that public tvtf functions of the same name compute."""
    return {f"relax.{name}": partial(_same_operands, prefix + name) for name in names.split()}


STOCK: dict[str, Translate] = {
    **_same_names(
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log negative round rsqrt sigmoid sign"
    ),
    **_same_names(
        "sin sinh sqrt square tan tanh add subtract multiply maximum minimum equal not_equal less less_equal"
    ),
    **_same_names("greater greater_equal logical_and logical_or logical_not logical_xor atan2"),
    "relax.divide": partial(_same_operands, "math.divide"),
    "relax.floor_divide": partial(_same_operands, "math.floordiv"),
    "relax.floor_mod": partial(_same_operands, "math.floormod"),
    "relax.power": partial(_same_operands, "math.pow"),
    "relax.where": partial(_same_operands, "where"),
    "relax.matmul": _matmul,
    **{
        f"relax.nn.{name}": partial(_same_operands, f"nn.{name}")
        for name in ("relu", "relu6", "silu", "selu", "softplus")
    },
    "relax.nn.gelu": partial(_gelu, False),
    "relax.nn.gelu_tanh": partial(_gelu, True),
    "relax.nn.leakyrelu": _leaky_relu,
    **{
        f"relax.{name}": partial(_reduction, f"math.reduce_{name}")
        for name in ("sum", "mean", "max", "min", "prod", "variance", "std")
    },
    "relax.argmax": partial(_arg_reduction, "math.argmax"),
    "relax.argmin": partial(_arg_reduction, "math.argmin"),
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
    "relax.zeros": partial(_constant_fill, 0),
    "relax.ones": partial(_constant_fill, 1),
    "relax.zeros_like": partial(_constant_fill, 0),
    "relax.ones_like": partial(_constant_fill, 1),
    "relax.full": _full,
    "relax.full_like": _full,
    "relax.nn.conv1d": _convolution,
    "relax.nn.conv2d": _convolution,
    "relax.nn.conv3d": _convolution,
    "relax.nn.max_pool1d": _max_pool,
    "relax.nn.max_pool2d": _max_pool,
    "relax.nn.max_pool3d": _max_pool,
    "relax.nn.softmax": partial(_softmax, "nn.softmax"),
    "relax.nn.log_softmax": partial(_softmax, "nn.log_softmax"),
    "relax.nn.cross_entropy_with_logits": _cross_entropy,
}
"""Translation of each stock op."""
