"""Weak tensors, whose dtype defers to other operands' dtypes, and public functions that promote to and return them.

Functions promote through their ``overrides`` (see ``tvtf/core/primitive.py``), which ``enable`` adds and ``disable`` removes.

Source: https://www.tensorflow.org/guide/tf_numpy_type_promotion
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tvtf.arrays.convert import tf
from tvtf.arrays.promotion import WEAK_DTYPES, promoted, setting
from tvtf.composites.extension.types import BatchableExtensionType
from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.primitive import public_names
from tvtf.core.tensor import Tensor, constant_rule, plain_constant
from tvtf.dtypes import DType
from tvtf.ops import operators
from tvtf.state.variable import Variable

# Without those that the guide lists and whose public names TensorFlow leaves as they are: bitwise.invert, nn.elu, nn.relu,
# nn.selu, nn.softsign.
_UNARY = """
clip_by_value debugging.check_numerics expand_dims identity image.adjust_brightness image.adjust_gamma
image.extract_patches image.random_brightness image.stateless_random_brightness linalg.diag linalg.diag_part
linalg.matrix_transpose linalg.tensor_diag_part linalg.trace math.abs math.acos math.acosh math.angle math.asin
math.asinh math.atan math.atanh math.ceil math.conj math.cos math.cosh math.digamma math.erf math.erfc math.erfcinv
math.erfinv math.exp math.expm1 math.floor math.imag math.lgamma math.log math.log1p math.log_sigmoid math.ndtri
math.negative math.real math.reciprocal math.reciprocal_no_nan math.reduce_euclidean_norm math.reduce_logsumexp
math.reduce_max math.reduce_mean math.reduce_min math.reduce_prod math.reduce_std math.reduce_sum math.reduce_variance
math.rint math.round math.rsqrt math.scalar_mul math.sigmoid math.sign math.sin math.sinh math.softplus
math.special.bessel_j0 math.special.bessel_j1 math.special.bessel_k0 math.special.bessel_k0e math.special.bessel_k1
math.special.bessel_k1e math.special.bessel_y0 math.special.bessel_y1 math.special.dawsn math.special.expint
math.special.fresnel_cos math.special.fresnel_sin math.special.spence math.sqrt math.square math.tan math.tanh
math.bessel_i0 math.bessel_i0e math.bessel_i1 math.bessel_i1e nn.depth_to_space nn.gelu nn.leaky_relu nn.log_softmax
nn.relu6 nn.silu nn.space_to_depth ones_like reshape squeeze stop_gradient transpose zeros_like
"""
_NUMPY_UNARY = """
abs absolute amax amin angle arange arccos arccosh arcsin arcsinh arctan arctanh around array asanyarray asarray
ascontiguousarray average bitwise_not cbrt ceil conj conjugate copy cos cosh cumprod cumsum deg2rad diag diagflat
diagonal diff empty_like exp exp2 expand_dims expm1 fabs fix flatten flip fliplr flipud floor full_like imag log log10
log1p log2 max mean min moveaxis nanmean negative ones_like positive prod rad2deg ravel real reciprocal repeat reshape
rot90 round signbit sin sinc sinh sort sqrt square squeeze std sum swapaxes tan tanh trace transpose triu vander var
zeros_like
"""
_BINARY = """
math.add math.divide math.divide_no_nan math.equal math.floordiv math.floormod math.maximum math.minimum math.multiply
math.multiply_no_nan math.pow math.subtract math.truediv realdiv truncatediv truncatemod linalg.matmul
experimental.numpy.matmul
"""
_NEVER_RETURN_WEAK = ("math.equal", "math.maximum", "math.minimum")

Rule = Callable[[Any, Any], Any]


class WeakTensor(BatchableExtensionType):
    """A tensor made of Python numbers without a given dtype: its dtype defers to that of another operand."""

    __name__ = "tf.WeakTensor"
    __array_priority__ = Tensor.__array_priority__
    tensor: Tensor

    def __repr__(self) -> str:
        return _with_weak_mark(repr(self.tensor))

    def __str__(self) -> str:
        return _with_weak_mark(str(self.tensor))

    def __format__(self, spec: str) -> str:
        return f"{format(self.tensor, spec)} weakly typed"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_tf_extension") or "tensor" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.tensor, name)

    def __iter__(self) -> Iterator[WeakTensor]:
        return map(WeakTensor, iter(self.tensor))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.tensor.numpy(), dtype)

    @property
    def is_weak(self) -> bool:
        return True

    def __invert__(self) -> Any:
        return WeakTensor(tf.bitwise.invert(self.tensor))

    def _gradient_components(self) -> Tensor:
        return self.tensor

    def _with_gradient(self, gradients: Any) -> Any:
        return WeakTensor(gradients)

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def shape(self) -> Any:
        return self.tensor.shape


def _with_weak_mark(text: str) -> str:
    return f"{text[:-1]}, weak=True{text[-1]}"


def _forward_to_tensor(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self.tensor, name)(*args)


for _name in ("__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__getitem__"):
    setattr(WeakTensor, _name, _forward_to_tensor(_name))


def _as_weak(value: Any) -> Any:
    return WeakTensor(value) if isinstance(value, Tensor) and value.dtype in WEAK_DTYPES else value


def _as_tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, WeakTensor) else value


def _cast(value: Any, dtype: DType) -> Any:
    """Converts a value, or a nest that may hold tensors, to a tensor of a dtype."""
    value = nest.map_structure(_as_tensor, value)
    if isinstance(value, (Tensor, Variable, CompositeTensor)):
        return value if isinstance(value, Tensor) and value.dtype is dtype else tf.cast(value, dtype)
    return tf.convert_to_tensor(value, dtype)


def _make_promotion_rule(function: Any, arity: int, may_return_weak: bool) -> Rule:
    """Returns the override of a public function that promotes its first ``arity`` arguments to a common dtype.

    The result is weak if the promoted type is, and if the function ``may_return_weak``.
    """
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name != "scalar"][:arity]  # scalar_mul's takes the dtype of x

    def rule(args: Any, kwargs: Any) -> Any:
        """Calls the function on arguments promoted to their common type.

        Returns NotImplemented if the arguments need no promotion.
        """
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = [bound.arguments[name] for name in names]
        are_tensors = all(isinstance(value, Tensor) for value in values)
        # The usual case must stay quick.
        if are_tensors and all(value.dtype is values[0].dtype for value in values):
            return NotImplemented
        # With a requested dtype there is nothing to promote, but a weak tensor is replaced by its tensor.
        if arity == 1 and bound.arguments.get("dtype") is not None:
            tensor = _as_tensor(values[0])
            if tensor is values[0]:
                return NotImplemented
            bound.arguments[names[0]] = tensor
            return function(*bound.args, **bound.kwargs)
        target = promoted(*values)
        if target is None:
            return NotImplemented
        for name, value in zip(names, values):
            bound.arguments[name] = _cast(value, target.dtype)
        result = function(*bound.args, **bound.kwargs)
        return _as_weak(result) if target.is_weak and may_return_weak else result

    return rule


def _promoting_constant(value: Any, dtype: Any, shape: Any, name: str | None) -> Any:
    """Replaces ``tf.constant`` while promotion is on: a weakly typed value without a dtype gives a weak tensor.

    A tensor is cast if its promotion with ``dtype`` gives ``dtype``.
    """
    target = promoted(value, None if dtype is None else tf.as_dtype(dtype))
    value = _as_tensor(value)
    if target is None:
        return plain_constant(value, dtype, shape, name)
    if dtype is None:
        value_dtype = None if isinstance(value, Tensor) else target.dtype
        result = plain_constant(value, value_dtype, shape, name)
        return _as_weak(result) if target.is_weak else result
    if isinstance(value, Tensor) and target.dtype == dtype:
        value = tf.cast(value, dtype)
    return plain_constant(value, dtype, shape, name)


def _promoting_assignment(assign: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``assign``, ``assign_add`` or ``assign_sub`` of Variable to promote the value to the Variable's dtype."""

    @functools.wraps(assign)
    def assign_promoted(self: Variable, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Assigns the value, promoted to the Variable's dtype. Raises TypeError if it promotes to another one."""
        target = promoted(self, value)
        if target is None:
            return assign(self, value, *args, **kwargs)
        if target.dtype != self.dtype:
            raise TypeError(
                f"Variable dtype is immutable. Calling {assign.__name__} of Variable (with dtype {self.dtype}) on {value} "
                f"requires converting {value} to {self.dtype}. This is disabled in the current promotion semantics. "
                f"Please convert {value} manually before calling {assign.__name__}."
            )
        return assign(self, _cast(value, target.dtype), *args, **kwargs)

    return assign_promoted


_ASSIGNMENTS = {name: vars(Variable)[name] for name in ("assign", "assign_add", "assign_sub")}
_added: list[tuple[list[Rule], Rule]] = []
"""The lists of overrides that have a rule of this module, with the rule."""


def enable(mode: str) -> None:
    """Turns on promotion in the mode "safe" or "all": operators and public functions promote, and return weak tensors."""
    disable()
    setting.mode = mode
    names = public_names()
    for path in (*_UNARY.split(), *(f"experimental.numpy.{name}" for name in _NUMPY_UNARY.split())):
        _add_rule(names[path], 1, True)
    for path in _BINARY.split():
        _add_rule(names[path], 2, path not in _NEVER_RETURN_WEAK)
    constant_rule.function = _promoting_constant
    operators.install(lambda operate: operate)
    for name, assign in _ASSIGNMENTS.items():
        setattr(Variable, name, _promoting_assignment(assign))
    for name in Tensor.OVERLOADABLE_OPERATORS - {"__getitem__", "__invert__"}:  # type: ignore[attr-defined]
        setattr(WeakTensor, name, getattr(Tensor, name))


def _add_rule(function: Any, arity: int, may_return_weak: bool) -> None:
    """Adds the promotion rule of a function to its overrides, only once if it has several public names."""
    if not any(rules is function.overrides for rules, _ in _added):
        rule = _make_promotion_rule(function, arity, may_return_weak)
        function.overrides.append(rule)
        _added.append((function.overrides, rule))


def disable() -> None:
    """Removes what ``enable`` added, except for Python's operators."""
    setting.mode = None
    constant_rule.function = None
    for rules, rule in _added:
        rules.remove(rule)
    _added.clear()
    for name, assign in _ASSIGNMENTS.items():
        setattr(Variable, name, assign)
