"""Names of ``tensorflow.python.framework`` and ``eager``: types of tensors, graphs, contexts.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/framework
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, nullcontext
from inspect import Parameter, Signature
from typing import Any

import tvtf
from tvtf.core.composite import BatchableTypeSpec, CompositeTensor, ShapedSpec, TypeSpec, register, registered
from tvtf.core.function_types import PolymorphicFunction
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.shape import TensorShape, as_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor, static_value
from tvtf.core.tensor_spec import BoundedTensorSpec, TensorSpec, type_spec_from_value
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype, float32
from tvtf.frontend.control_flow.control_dependencies import init_scope
from tvtf.public.internal import EagerTensor
from tvtf.public.tensorflow_view import Context
from tvtf.state.variable import ResourceVariable, Variable

# -- types


class DenseSpec(ShapedSpec):
    """A TypeSpec with a shape and a dtype, like that of a tensor. Libraries derive their own types from this class."""

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None) -> None:
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @property
    def name(self) -> str | None:
        return self._name

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Returns whether another spec, or the spec of a value, has the same dtype and a compatible shape."""
        other: Any = spec_or_value if isinstance(spec_or_value, TypeSpec) else type_spec_from_value(spec_or_value)
        return self.dtype == other.dtype and self.shape.is_compatible_with(other.shape)

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


DenseSpec.register(TensorSpec)


class VariableSpec(DenseSpec):
    """The TypeSpec of a Variable.

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/ops/resource_variable_ops.py
    """

    is_leaf = True

    def __init__(self, shape: Any, dtype: Any = float32, trainable: bool = True, alias_id: int | None = None) -> None:
        super().__init__(shape, dtype)
        self.trainable, self.alias_id = trainable, alias_id

    value_type = ResourceVariable  # type: ignore[assignment]

    @classmethod
    def from_value(cls, value: ResourceVariable) -> VariableSpec:
        return cls(value.shape, value.dtype, value.trainable)

    @property
    def _component_specs(self) -> Any:
        return [self]

    def _to_components(self, value: Any) -> Any:
        return [value]

    def _from_components(self, components: Any) -> Any:
        return components[0]

    def _serialize(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.trainable, self.alias_id

    def __repr__(self) -> str:
        return f"VariableSpec(shape={self.shape}, dtype={self.dtype!r}, trainable={self.trainable!r})"


_DOTTED = re.compile(r"^(\w+\.)+\w+$")


def register_type_spec(name: str) -> Callable[[type[TypeSpec]], type[TypeSpec]]:
    """Returns a decorator that registers a TypeSpec class under a name, by which saved functions refer to the class.

    Raises:
      TypeError: the name is not a string.
      ValueError: the name has no dot.
    """
    if not isinstance(name, str):
        raise TypeError(f"Expected `name` to be a string; got {name!r}")
    if not _DOTTED.match(name):
        raise ValueError(
            f"Registered name must have the form '{{project_name}}.{{type_name}}' (e.g. 'my_project.MyTypeSpec'); got {name!r}."
        )

    def decorate(cls: type[TypeSpec]) -> type[TypeSpec]:
        """Registers a TypeSpec class under the decorator's name, and returns the class.

        Raises:
          TypeError: the class is not a TypeSpec.
          ValueError: the class or the name is registered already.
        """
        if not (isinstance(cls, type) and issubclass(cls, TypeSpec)):
            raise TypeError(f"Expected `cls` to be a TypeSpec; got {cls!r}")
        if cls in _names_by_type:
            raise ValueError(
                f"Class {cls.__module__}.{cls.__name__} has already been registered with name {_names_by_type[cls]}."
            )
        if name in registered:
            other = registered[name]
            raise ValueError(f"Name {name} has already been registered for class {other.__module__}.{other.__name__}.")
        register(name, cls)
        return cls

    return decorate


class _NamesByType(MutableMapping[type, str]):
    """A dict from registered TypeSpec classes to their names: a view of `registered`, which maps names to classes."""

    def _entries(self) -> dict[type, str]:
        """Returns the names of all registered classes by class."""
        return {registered_class: name for name, registered_class in registered.items()}

    def __getitem__(self, key: type) -> str:
        return self._entries()[key]

    def __setitem__(self, key: type, value: str) -> None:
        register(value, key)

    def __delitem__(self, key: type) -> None:
        registered.pop(self[key])

    def pop(self, key: type, *default: Any) -> Any:
        """Removes a class from the registry. Returns it, or None if it was removed by its name already."""
        return registered.pop(self._entries().get(key, ""), None)

    def __iter__(self) -> Iterator[type]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(registered)


_names_by_type = _NamesByType()

# -- tensors


def is_symbolic_or_composite(value: Any) -> bool:
    return is_tensor(value) or isinstance(value, CompositeTensor)


def convert_to_tensor_or_composite(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Converts a value to a tensor. A composite tensor, such as a RaggedTensor, is returned unchanged.

    Raises:
      ValueError: the value is a composite tensor, and has another dtype than ``dtype``.
    """
    if not isinstance(value, CompositeTensor):
        return convert_to_tensor(value, dtype, name=name)
    actual_dtype = getattr(value, "dtype", None)
    if dtype is not None and actual_dtype is not None and not as_dtype(dtype).is_compatible_with(actual_dtype):
        raise ValueError(
            f"Tensor conversion dtype mismatch. Requested dtype is {as_dtype(dtype).name}, Tensor has dtype {actual_dtype.name}: {value!r}"
        )
    return value


def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Converts a value to a tensor. IndexedSlices are returned unchanged."""
    return value if isinstance(value, IndexedSlices) else convert_to_tensor(value, dtype, name=name)


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """Returns the value of a tensor as an array, or None if it is not known without running a graph."""
    return static_value(tensor._as_tensor()) if is_tensor(tensor) else None


def try_evaluate_constant(tensor: Any) -> Any:
    """Returns the value of a tensor, or None if it depends on other values than constants."""
    value = tvtf.get_static_value(tensor)
    if value is None and isinstance(tensor, SymbolicTensor):
        value = tensor._trace.computed_constants.value(tensor._var)
    return value


def constant_value_as_shape(tensor: Any) -> TensorShape:
    """Converts a vector of sizes to a TensorShape. Sizes of -1, and sizes not known during tracing, become unknown dims.

    Raises:
      ValueError: the tensor is not a vector.
    """
    if isinstance(tensor, (list, tuple)):
        tensor = convert_to_tensor(tensor, tvtf.int32)
    value = constant_value(tensor)
    if value is not None:
        # TensorFlow writes an unknown rank as the scalar -1.
        if value.ndim == 0 and value == -1:
            return TensorShape(None)
        if value.ndim != 1:
            raise ValueError(f"Received a tensor of shape {value.shape}: a shape is a vector")
        return TensorShape([None if size < 0 else int(size) for size in value])
    known_sizes = getattr(tensor, "known", None)  # the elements of a traced tensor: ints and symbolic dims
    if known_sizes is not None:
        dims = [size if isinstance(size, int) and size >= 0 else None for size in known_sizes.flat]
        return TensorShape(dims)
    # No size is known. The length of the vector is the rank.
    rank = tensor.shape[0]
    return TensorShape(None if rank is None else [None] * rank)


# -- graphs and contexts


@contextmanager
def graph_mode() -> Iterator[None]:
    """Adds the ops in the ``with`` block to a new TensorFlow 1 graph instead of running them."""
    with tvtf.Graph().as_default():
        yield


class _Context(Context):
    """The parts of TensorFlow's eager context that programs, including Keras, use."""

    def ensure_initialized(self) -> None:
        """Does nothing: tvtf's eager context needs no initialization."""

    @property
    def device_spec(self) -> Any:
        """The device that ``tf.device`` selects; without a selection, a spec without a device type."""
        return tvtf.DeviceSpec.from_string(state.device or "")

    @property
    def device_name(self) -> str:
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    def num_gpus(self) -> int:
        return len(tvtf.config.list_physical_devices("GPU"))


_context = _Context()


def name_scope(
    name: str | None, default_name: str | None = None, values: Any = None, skip_on_eager: bool = True
) -> Any:
    """Returns a context that prefixes names with ``name``, else with ``default_name``; eagerly one without effect.

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/ops.py
    """
    if state.trace is None and skip_on_eager:
        return nullcontext()
    return tvtf.compat.v1.name_scope(name, default_name, values)  # type: ignore[attr-defined] # imported when first used


def convert_variables_to_constants_v2(
    func: Any, lower_control_flow: bool = True, aggressive_inlining: bool = False
) -> Any:
    """Freezes a concrete function: returns a function of its tensors alone that has the Variables' present values.

    The result of a call is a list of tensors. TensorFlow's options concern its graphs, and have no effect.

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/convert_to_constants.py
    """
    constants = {id(each): tvtf.constant(each.numpy()) for each in func.captures if isinstance(each, Variable)}

    def run(*tensors: Tensor) -> list[Any]:
        return tvtf.nest.flatten(func._replay(tensors, (), constants), expand_composites=True)  # type: ignore[no-any-return]

    specs = [TensorSpec(param.shape, param.dtype) for param in func.graph.params]
    arguments = tvtf.nest.flatten(func.structured_input_signature)
    names = [argument.name or "" for argument in arguments if isinstance(argument, TensorSpec)]
    if len(set(names)) == len(specs) and all(map(str.isidentifier, names)):  # tensors may be named
        parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return tvtf.function(run, autograph=False).get_concrete_function(*specs)


def convert_variables_to_constants_v2_as_graph(func: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Freezes a concrete function as `convert_variables_to_constants_v2` does, and returns its GraphDef, too."""
    frozen = convert_variables_to_constants_v2(func, *args, **kwargs)
    return frozen, frozen.graph.as_graph_def()


NAMES: dict[str, dict[str, Any]] = {
    "python.framework.convert_to_constants": {
        "convert_variables_to_constants_v2": convert_variables_to_constants_v2,
        "convert_variables_to_constants_v2_as_graph": convert_variables_to_constants_v2_as_graph,
    },
    "python.client.device_lib": {"list_local_devices": lambda session_config=None: tvtf.config.list_physical_devices()},
    "python.eager.context": {
        "context": lambda: _context,
        "eager_mode": init_scope,
        "ensure_initialized": _context.ensure_initialized,
        "graph_mode": graph_mode,
        "in_graph_mode": lambda: not tvtf.executing_eagerly(),
        "num_gpus": _context.num_gpus,
    },
    "python.eager.def_function": {"Function": PolymorphicFunction},
    "python.eager.polymorphic_function.polymorphic_function": {"Function": PolymorphicFunction},
    "python.framework.composite_tensor": {"CompositeTensor": CompositeTensor},
    "python.framework.ops": {
        "EagerTensor": EagerTensor,
        "SymbolicTensor": SymbolicTensor,
        "_EagerTensorBase": EagerTensor,
        "convert_to_tensor_or_composite": convert_to_tensor_or_composite,
        "convert_to_tensor_or_indexed_slices": convert_to_tensor_or_indexed_slices,
        "executing_eagerly_outside_functions": lambda: True,
        "name_scope": name_scope,
        "name_scope_v2": tvtf.name_scope,
    },
    "python.framework.tensor_shape": {
        "as_shape": as_shape,
        "scalar": lambda: TensorShape([]),
        "unknown_shape": lambda rank=None: TensorShape(None if rank is None else [None] * rank),
    },
    "python.framework.tensor": {"BoundedTensorSpec": BoundedTensorSpec},
    "python.framework.tensor_spec": {"BoundedTensorSpec": BoundedTensorSpec, "DenseSpec": DenseSpec},
    "python.framework.tensor_util": {
        "MakeNdarray": tvtf.make_ndarray,
        "constant_value": constant_value,
        "constant_value_as_shape": constant_value_as_shape,
        "is_tensor": tvtf.is_tensor,
        "make_tensor_proto": tvtf.make_tensor_proto,
        "try_evaluate_constant": try_evaluate_constant,
    },
    "python.framework.type_spec": {
        "BatchableTypeSpec": BatchableTypeSpec,
        "TypeSpec": TypeSpec,
        "lookup": lambda name: registered[name],
        "register": register_type_spec,
        "type_spec_from_value": type_spec_from_value,
    },
    "python.framework.type_spec_registry": {
        "_NAME_TO_TYPE_SPEC": registered,
        "_TYPE_SPEC_TO_NAME": _names_by_type,
        "register": register_type_spec,
    },
    "python.types.core": {"Tensor": Tensor, "TensorLike": Tensor},
    "python.framework.device": {"device_v2": tvtf.device},
    "python.profiler.trace": {"Trace": lambda *_, **__: nullcontext()},
}
