"""Type specs of operators: the specs of their tensor parameters and the values of the others."""

from __future__ import annotations

from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import shape_tensor
from tvtf.core import nest
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.shape import is_static, is_static_shape
from tvtf.core.tensor import is_tensor
from tvtf.core.tensor_spec import TensorSpec


class LinearOperatorSpec(TypeSpec):
    """The type of an operator: the specs of its tensor parameters, and the values of the others."""

    def __init__(
        self, param_specs: dict[str, Any], non_tensor_params: dict[str, Any], prefer_static_fields: tuple[str, ...] = ()
    ) -> None:
        self._param_specs = param_specs
        self._non_tensor_params = non_tensor_params
        self._prefer_static_fields = prefer_static_fields

    @property
    def value_type(self) -> type:
        raise NotImplementedError

    @classmethod
    def from_operator(cls, operator: Any) -> LinearOperatorSpec:
        """Returns the type spec of a linear operator: specs of its tensor parameters, and the values of the others.

        Parameters without tensors, such as hints, are compared by value.
        """
        specs, values = {}, {}
        for name, parameter in _parameters(operator).items():
            if _is_of_tensors(parameter):
                specs[name] = nest.map_structure(_spec_of, parameter)
            else:
                values[name] = parameter
        return cls(specs, values, operator._static_fields)

    @property
    def _component_specs(self) -> Any:
        return self._param_specs

    def _to_components(self, value: Any) -> Any:
        result = _parameters(value)
        return {name: result[name] for name in self._param_specs}

    def _from_components(self, components: Any) -> Any:
        return self.value_type(**self._non_tensor_params, **components)

    def _serialize(self) -> tuple[Any, ...]:
        return self._param_specs, self._non_tensor_params, self._prefer_static_fields


def spec_type(operator_type: type) -> type[LinearOperatorSpec]:
    """Creates the spec class for a class of operators."""
    return type(f"{operator_type.__name__}Spec", (LinearOperatorSpec,), {"value_type": operator_type})


def _parameters(operator: Any) -> dict[str, Any]:
    """Returns the arguments that recreate an operator: its converted parameters, sorted, with the inferred hints."""
    named = [name for name in operator._parameters if name not in (*hints.NAMES, "name")]
    parameters = {name: getattr(operator, f"_{name}", operator._parameters[name]) for name in named}
    result = {name: getattr(operator, f"_{name}") for name in hints.NAMES}
    return {name: _with_dims_as_tensors(value) for name, value in sorted((parameters | result).items())}


def _with_dims_as_tensors(value: Any) -> Any:
    """Converts symbolic dims in a linear operator's parameter, such as a batch shape, to tensors."""
    if isinstance(value, list):
        return [_with_dims_as_tensors(each) for each in value]
    if isinstance(value, tuple):
        return value if is_static_shape(value) else shape_tensor(value)
    if _is_dim(value):
        return shape_tensor((value,))[0]
    return value


def _is_dim(value: Any) -> bool:
    """Returns whether an argument of an operator is a symbolic dim: neither a static value nor a tensor."""
    return (
        not is_static(value)
        and hasattr(value, "dtype")
        and not (is_tensor(value) or isinstance(value, CompositeTensor))
    )


def _is_of_tensors(value: Any) -> bool:
    leaves = nest.flatten(value)
    return bool(leaves) and all(is_tensor(leaf) or isinstance(leaf, CompositeTensor) for leaf in leaves)


def _spec_of(value: Any) -> TypeSpec:
    return value._type_spec if isinstance(value, CompositeTensor) else TensorSpec(value.shape, value.dtype)
