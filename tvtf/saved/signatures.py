"""Makes signatures: functions of named tensors that return a dict of tensors, which servers call by name.

Source: ``tensorflow/python/saved_model/signature_serialization.py``
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.tensor import Tensor, is_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.state.trackable import DEFAULT_FUNCTION, Trackable
from tvtf.state.variable import Variable

DEFAULT = "serving_default"


class SignatureFunction(ConcreteFunction):
    """A concrete function of named tensors; a single one may be passed by position."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the signature with tensors by name; the only tensor of a signature may be passed by position."""
        names = self.arguments.names
        if args and len(names) == len(args) == 1 and not kwargs:
            return super().__call__(**dict(zip(names, args)))
        return super().__call__(*args, **kwargs)

    def set_names(self, names: Sequence[str]) -> SignatureFunction:
        """Sets the order of the signature's arguments to that of ``names``, and returns the signature.

        Tracing sorted the arguments by name, as ``tf.nest`` does. Saved functions and libraries take tensors by
        position, in the order of the function that was saved.

        Raises:
          ValueError: ``names`` are not the names of the arguments.
        """
        if sorted(names) != sorted(self.arguments.names):
            raise ValueError(f"the signature has the arguments {sorted(self.arguments.names)}, not {sorted(names)}")
        kind = inspect.Parameter.KEYWORD_ONLY
        self._signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        return self

    @property
    def positions(self) -> list[int]:
        """The index, among the sorted arguments, of each argument in the order that `set_names` has set."""
        return [self.arguments.names.index(name) for name in self._signature.parameters]

    @property
    def structured_outputs(self) -> Any:
        return {name: TensorSpec(t.shape, t.dtype, name) for name, t in self.results.traced.items()}


class SignatureMap(Mapping[str, Any], Trackable):
    """The signatures of a model by name; those of a loaded model are created when first used."""

    def __init__(self, makers: Mapping[str, Callable[[], ConcreteFunction]] | None = None) -> None:
        self._makers = dict(makers or {})
        self._created: dict[str, ConcreteFunction] = {}

    def __getitem__(self, name: str) -> ConcreteFunction:
        if name not in self._created:
            self._created[name] = self._makers[name]()
        return self._created[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return f"_SignatureMap({dict(self)})"


def canonical(signatures: Any, functions: Mapping[str, Any]) -> SignatureMap:
    """Converts the argument ``signatures`` of a save to a map of signature functions by name.

    Args:
      signatures: a map of functions, one function for the default signature, or None.
      functions: the model's functions by name. If ``signatures`` is None, a signature is chosen from them.

    Raises:
      ValueError: a function has no input signature, or takes or returns something other than tensors.
    """
    if signatures is None:
        signatures = _only_one(functions)
    if not isinstance(signatures, Mapping):
        signatures = {DEFAULT: signatures}

    def getter_of(signature: Any) -> Any:
        return lambda: signature

    converted = {name: _signature(function, name) for name, function in signatures.items()}
    return SignatureMap({name: getter_of(signature) for name, signature in converted.items()})


def _only_one(functions: Mapping[str, Any]) -> Any:
    """Chooses the function to save as the default signature, as TensorFlow does.

    It is the function ``_default_save_signature``, or the only function that can be a signature. Otherwise returns an
    empty dict: the model has no signatures.
    """
    if DEFAULT_FUNCTION in functions:
        return functions[DEFAULT_FUNCTION]
    candidates = [
        concrete
        for concrete in map(_concrete, functions.values())
        if concrete is not None and _can_be_signature(concrete)
    ]
    return candidates[0] if len(candidates) == 1 else {}


def _concrete(function: Any) -> ConcreteFunction | None:
    """Returns the concrete function of a function with an input signature, or a concrete function itself, or None."""
    if isinstance(function, Function) and function.input_signature is not None:
        return function.get_concrete_function()
    return function if isinstance(function, ConcreteFunction) else None


def _can_be_signature(concrete: ConcreteFunction) -> bool:
    """Returns whether a function can be a signature: it takes and returns tensors only, and returns at least one."""
    try:
        _check_inputs(concrete)
        return bool(_as_dict(concrete.results.traced, "unused", "unused")) and bool(concrete.outputs)
    except ValueError:
        return False


def _check_inputs(concrete: ConcreteFunction) -> None:
    """Raises ValueError if an argument of a function is a ``tf.Variable``, which a signature can't have."""
    if any(isinstance(leaf.value, Variable) for leaf in concrete.arguments.leaves):
        raise ValueError(
            f"Unable to serialize concrete_function '{concrete.name}'with tf.Variable input. Functions that expect "
            "tf.Variable inputs cannot be exported as signatures."
        )


def _signature(function: Any, key: str) -> ConcreteFunction:
    """Wraps a function as the signature ``key``, which takes tensors by name and returns a dict of tensors.

    Raises:
      ValueError: the function takes or returns something other than tensors. Or it has no input signature, and is not a
        concrete function.
    """
    concrete = _concrete(function)
    if concrete is None:
        raise ValueError(
            "Expected a TensorFlow function for which to generate a signature, "
            f"but got {function}. Only `tf.functions` with an input signature or "
            "concrete functions can be used as a signature."
        )
    if isinstance(concrete, SignatureFunction):
        return concrete
    _check_inputs(concrete)
    names = _unique_names(concrete)
    specs = {name: _renamed(spec, name) for name, spec in zip(names, concrete.arguments.specs)}

    def wrapper(**tensors: Any) -> Any:
        return _as_dict(concrete.call_flat([tensors[name] for name in names]), concrete.name, key)

    wrapped = Function(
        wrapper, autograph=False, name=f"signature_wrapper_{getattr(function, '__name__', concrete.name)}"
    )
    arguments = wrapped.signature.bind((), specs)
    return SignatureFunction.trace(wrapped, arguments).set_names(names)  # type: ignore[attr-defined, no-any-return]


def _renamed(spec: TensorSpec, name: str) -> TensorSpec:
    """Returns a copy of a spec with another name."""
    renamed = TensorSpec(spec.shape, spec.dtype, name)
    renamed.dim_names = spec.dim_names
    return renamed


def _unique_names(concrete: ConcreteFunction) -> list[str]:
    """Returns unique names for a signature's arguments, because servers pass tensors by name.

    The name is that of the ``TensorSpec`` or of the argument. A repeated name gets a number.
    """
    names: list[str] = []
    for spec, name in zip(concrete.arguments.specs, concrete.arguments.names):
        base_name = unique_name = spec.name or name
        count = 0
        while unique_name in names:
            count += 1
            unique_name = f"{base_name}_{count}"
        names.append(unique_name)
    return names


def _as_dict(outputs: Any, function_name: str, key: str) -> dict[str, Tensor]:
    """Returns a function's results as a dict by name, as a signature must return them.

    A single result or a list gets the names ``output_0``, ``output_1`` ...

    Raises:
      ValueError: a name is not a string, or a result is not a tensor. The text names the function, and the signature
        ``key``.
    """
    if hasattr(outputs, "_asdict"):  # a named tuple
        outputs = outputs._asdict()
    if not isinstance(outputs, Mapping):
        listed = outputs if isinstance(outputs, Sequence) else [outputs]
        outputs = {f"output_{i}": output for i, output in enumerate(listed)}
    elif all(isinstance(name, str) for name in outputs):
        outputs = {name: outputs[name] for name in sorted(outputs)}
    for name, value in outputs.items():
        if not isinstance(name, str):
            raise ValueError(
                f"Got a dictionary with a non-string key {name!r} in the output of the function {function_name} used to "
                f"generate the SavedModel signature {key!r}."
            )
        if not (is_tensor(value) or nest.is_composite(value)):
            raise ValueError(
                f"Got a non-Tensor value {value!r} for key {name!r} in the output of the function {function_name} used to "
                f"generate the SavedModel signature {key!r}. Outputs for functions used as signatures must be a single "
                "Tensor, a sequence of Tensors, or a dictionary from string to Tensor."
            )
    return dict(outputs)
