"""Looks up TensorFlow 1's names by dotted path: its own, and those of ``tf``; in a graph, results are named after the function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

from tvtf.api.unsupported import UnsupportedNameError
from tvtf.core.primitive import Primitive, public_names
from tvtf.core.thread_state import state
from tvtf.v1.aliases import PATHS

Named = TypeVar("Named")

ENOUGH = "of TensorFlow 1's own names it has those that graphs, sessions and the guides to migrating need"
_WHOLE = "a Variable is one array: tvtf runs in one process"
_SCALES = "tf.keras.mixed_precision.LossScaleOptimizer and float16 or bfloat16 Variables"
REASONS = {
    **{f"{name}_partitioner": _WHOLE for name in ("fixed_size", "min_max_variable", "variable_axis_size")},
    "create_partitioned_variables": _WHOLE,
    "distributions": "TensorFlow deprecates it; tf.random draws, tf.nn has the losses",
    "mixed_precision": _SCALES,
    "ConditionalAccumulator": "tvtf runs in one process: add gradients up in a Variable",
    "SparseConditionalAccumulator": "tvtf runs in one process: add gradients up in a Variable",
    "LMDBReader": "tvtf reads TFRecord files and text",
    "NodeDef": "a traced function's IR is TVM Relax",
}
"""Reasons why tvtf does not have some of TensorFlow 1's own names."""

names: dict[str, Any] = {}
"""The names that only TensorFlow 1 has, with their values."""
_wrapped_values: dict[str, Any] = {}


def v1(*paths: str) -> Callable[[Named], Named]:
    """Returns a decorator that declares a function or class as ``tf.compat.v1.<path>``, for each of the paths."""

    def declare(value: Named) -> Named:
        names.update(dict.fromkeys(paths, value))
        return value

    return declare


def tf_(path: str) -> Any:
    """Returns the value of ``tf.<path>``; imports its module if that is imported lazily."""
    value = public_names().get(path)
    return value if value is not None else attrgetter(path)(sys.modules["tvtf"])


def called(path: str, *args: Any, **kwargs: Any) -> Any:
    """Calls the function ``tf.<path>``."""
    return tf_(path)(*args, **kwargs)


def missing(path: str) -> UnsupportedNameError:
    """Returns the error for an access of ``tf.compat.v1.<path>``, with the reason."""
    space = path.partition(".")[0]
    return UnsupportedNameError(f"tvtf has no tf.compat.v1.{path}: {REASONS.get(path) or REASONS.get(space) or ENOUGH}")


class Space(ModuleType):
    """A namespace of TensorFlow 1: its own names, and those of the same namespace of ``tf``."""

    def __init__(self, path: str) -> None:
        super().__init__(f"tvtf.compat.v1.{path}")
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return find(f"{self._path}.{name}")

    def __dir__(self) -> list[str]:
        return listed(self._path)


class Alias:
    """Another path of a value in ``tf``; it is looked up, and its module imported, on the first access."""

    def __init__(self, target: str) -> None:
        self.target = target


class LazyValue:
    """A value that ``make`` creates on access, so that its dependencies are imported only then."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def find(path: str) -> Any:
    """Returns the object ``tf.compat.v1.<path>``: one that only TensorFlow 1 has, or the object in ``tf``.

    Functions are wrapped to name their results in a graph. A namespace is returned as a ``Space``.

    Raises:
      AttributeError: there is no such name. If TensorFlow has the name, the error is a NotImplementedError, too.
    """
    value = names[path] if path in names else _value_in_tf2(path)
    if isinstance(value, Alias):
        value = _value_in_tf2(value.target)
    if isinstance(value, LazyValue):
        return value.make()
    if isinstance(value, ModuleType):
        is_module_of_v1 = value.__name__.startswith("tvtf.v1.")
        return value if is_module_of_v1 else _wrapped_values.setdefault(path, Space(path))
    if not isfunction(value) and not isinstance(value, Primitive):
        return value
    wrapper = _wrapped_values.get(path)
    if wrapper is None or wrapper.__wrapped__ is not value:
        wrapper = _wrapped_values[path] = _wrapped_to_name_results(value, path)
    return wrapper


def _value_in_tf2(path: str) -> Any:
    """Returns the object that TensorFlow 1's name ``path``, such as ``nn.relu``, means in TensorFlow 2.

    The object may have another path there.
    """
    if any(name.startswith(f"{path}.") for name in names):  # a namespace with names of TensorFlow 1
        return ModuleType(path)
    value: Any = sys.modules["tvtf"]
    for name in PATHS.get(path, path).split("."):
        try:
            value = getattr(value, name)
        except NotImplementedError:  # a name that tvtf doesn't support: the error says why
            raise
        except AttributeError:
            raise missing(path) from None
    return value


def listed(path: str) -> list[str]:
    """Returns the declared names in ``tf.compat.v1.<path>``."""
    prefix = f"{path}." if path else ""
    listed_names = set()
    for name in (*names, *PATHS):
        if name.startswith(prefix):
            listed_names.add(name.removeprefix(prefix).partition(".")[0])
    space: Any = sys.modules["tvtf"]
    for name in path.split(".") if path else ():
        space = getattr(space, name, None)  # None for a namespace that only TensorFlow 1 has
    if space:
        listed_names.update(name for name in dir(space) if not name.startswith("_"))
    return sorted(listed_names)


OP_NAMES = {
    "zeros": "zeros",
    "ones": "ones",
    "zeros_like": "zeros_like",
    "ones_like": "ones_like",
    "fill": "Fill",
    "concat": "concat",
    "stack": "stack",
    "split": "split",
    "transpose": "transpose",
    "divide": "truediv",
    "truediv": "truediv",
    "constant": "Const",
    "floordiv": "floordiv",
    "rank": "Rank",
    "size": "Size",
    "shape": "Shape",
    "expand_dims": "ExpandDims",
    "gather": "GatherV2",
    "multiply": "Mul",
    "abs": "Abs",
    "where": "Where",
    "count_nonzero": "count_nonzero",
    "boolean_mask": "boolean_mask",
    "softmax": "Softmax",
    "convert_to_tensor": "Const",
    "group": "group_deps",
    "no_op": "NoOp",
    "one_hot": "one_hot",
    "pow": "Pow",
}
"""The default names of ops for which TensorFlow uses neither the op's type nor the function's name."""


KINDS = {
    "constant": "Const",
    "no_op": "NoOp",
    "group": "NoOp",
    "zeros": "Fill",
    "ones": "Fill",
    "getitem": "StridedSlice",
}


def _wrapped_to_name_results(function: Any, path: str) -> Any:
    """Wraps a public function so that it names its results in a graph: by its argument ``name``, or by a default.

    The default is TensorFlow's: the type of the op, if it is known, without a version such as "V2" at the end.
    """
    function_name = path.rpartition(".")[2]
    implementation = public_names().get(function.target) if hasattr(function, "target") else function
    primitive_name = implementation.tf_name if isinstance(implementation, Primitive) else function_name
    op_type = KINDS.get(function_name) or primitive_name
    unversioned_type = op_type if op_type == function_name else op_type.removesuffix("V2").removesuffix("V3")
    default_name = OP_NAMES.get(function_name) or unversioned_type

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not getattr(state.trace, "has_keys", False):  # no graph is being built
            return function(*args, **kwargs)
        return state.trace.named_call(function, args, kwargs, default_name, op_type)

    run.__wrapped__ = function
    return run
