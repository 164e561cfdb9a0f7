"""Binds the arguments of a ``tf.function`` call to its Python signature, flattens them, and keys the trace cache.

The key follows TensorFlow's trace types: tensors by dtype and shape, Python values by value, objects by identity.
Source: https://www.tensorflow.org/guide/function#rules_of_tracing
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tvtf.core import nest
from tvtf.core.composite import TypeSpec
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec, type_spec_from_value
from tvtf.dtypes import TRACED
from tvtf.state.variable import Variable

_DATASET_KIND = "held"
_CAPTURED_KIND = "captured"


class Leaf:
    """One leaf of the arguments: a tensor with its spec, a Variable, or a Python value with its key.

    An object with ``as_argument`` (a dataset, an iterator) is passed as a number, so that one trace serves all of its
    kind: otherwise a function that takes ``iter(dataset)`` would be traced once an epoch.
    """

    __slots__ = ("name", "spec", "tensor", "value", "key")

    def __init__(self, name: str, value: Any) -> None:
        """Computes the cache key of an argument's value, and its tensor and spec if it is traced as a tensor.

        A tensor's key is the type in its spec, so that calls with other values use the same trace. The key of a Python value has
        the value: the trace treats it as a constant.
        """
        self.name = name
        self.value = value
        self.tensor = self.as_tensor(value)
        self.spec = value if isinstance(value, TensorSpec) else None
        if self.tensor is not None:
            self.spec = TensorSpec(self.tensor.shape, self.tensor.dtype, name)
        self.key = ("tensor", self.spec.trace_type()) if self.spec is not None else value_key(value)
        if self.spec is None and hasattr(type(value), "as_argument"):  # a dataset: a scalar tensor with its id
            self.tensor, dataset_spec = value.as_argument()
            self.spec = TensorSpec([], self.tensor.dtype, name)
            self.key = (_DATASET_KIND, dataset_spec)

    @property
    def is_dataset(self) -> bool:
        """Whether a tensor stands for this object: a dataset or an iterator."""
        return self.key[0] == _DATASET_KIND  # type: ignore[no-any-return]

    @property
    def is_variable(self) -> bool:
        """Whether the leaf is a Variable that each call passes, so that calls with other Variables share the trace."""
        return isinstance(self.value, Variable) and self.key[0] != _CAPTURED_KIND

    def as_captured(self) -> Leaf:
        """Returns the leaf of a Variable that the trace also captures, keyed by identity: the trace uses it directly."""
        leaf = Leaf.__new__(Leaf)
        leaf.name, leaf.value, leaf.tensor, leaf.spec = self.name, self.value, None, None
        leaf.key = (_CAPTURED_KIND, id(self.value))
        return leaf

    def as_value(self) -> Leaf:
        """Returns the leaf with its dataset as a Python value, keyed by identity: each dataset has its own trace then.

        Raises:
          UnknownDataset: the object is itself known by a tensor only.
        """
        if not self.is_dataset:
            return self
        self.value.require_value()
        leaf = Leaf.__new__(Leaf)  # the constructor would make a tensor of the dataset
        leaf.name, leaf.value, leaf.tensor, leaf.spec = self.name, self.value, None, None
        leaf.key = value_key(self.value)
        return leaf

    @staticmethod
    def as_tensor(value: Any) -> Tensor | None:
        """Converts an argument to a tensor if ``tf.function`` traces it as a tensor. Returns None for other arguments."""
        if isinstance(value, Tensor):
            return value if value.dtype in TRACED else None
        return convert_to_tensor(value) if isinstance(value, (np.ndarray, np.generic)) else None

    def accepts(self, other: Leaf) -> bool:
        """Returns whether a trace for this leaf serves the ``other`` leaf: an equal value, or a tensor that fits the spec."""
        if self.spec is None or other.spec is None or self.is_dataset or other.is_dataset:
            return self.key == other.key
        return self.spec.dtype is other.spec.dtype and _covers(self.spec, other.spec)

    def widened(self, other: Leaf) -> Leaf | None:
        """Returns a leaf that accepts both this one and ``other``, or None if they differ in more than their shapes."""
        if self.spec is None or other.spec is None or self.is_dataset or other.is_dataset:
            return self if self.key == other.key else None
        if self.spec.dtype is not other.spec.dtype:
            return None
        of_unknown_rank = TensorSpec(None, self.spec.dtype, self.spec.name)
        return self.with_spec(self.spec.most_general(other.spec) or of_unknown_rank)

    def of_rank(self, rank: int) -> Leaf:
        """Returns the leaf with a spec of the given rank. A leaf of known rank is returned unchanged."""
        if self.spec is None or self.spec.shape.rank is not None:
            return self
        return self.with_spec(TensorSpec([None] * rank, self.spec.dtype, self.spec.name))

    def of_sizes(self, tensor: Any) -> Leaf:
        """Returns the leaf with a spec of the shape of ``tensor``."""
        if self.is_dataset:
            return self
        spec: Any = self.spec
        return self.with_spec(TensorSpec(tensor.shape, spec.dtype, spec.name))

    def with_spec(self, spec: TensorSpec) -> Leaf:
        """Returns a copy of the leaf with another spec."""
        leaf = Leaf.__new__(Leaf)  # the constructor would take the spec from the value
        leaf.name, leaf.value, leaf.tensor, leaf.spec = self.name, self.value, self.tensor, spec
        leaf.key = ("tensor", spec.trace_type())
        return leaf

    def typed_text(self) -> str:
        """Returns the leaf's trace type as TensorFlow prints it."""
        if self.is_dataset:
            return repr(self.value.argument_spec())
        if self.spec is None:
            return f"Literal[{self.value!r}]"
        return repr(TensorSpec(self.spec.shape, self.spec.dtype))

    def describe(self) -> str:
        """Returns a short text for messages about retracing."""
        if self.is_dataset:
            return repr(self.value.argument_spec())
        if self.spec is None:
            return repr(self.value)
        return f"{self.spec.dtype.name}{list(self.spec.shape)}"


def _covers(wide: TensorSpec, narrow: TensorSpec) -> bool:
    """Returns whether the spec ``wide`` allows every shape that the spec ``narrow`` allows.

    For example, ``(None, 2)`` covers ``(3, 2)``.
    """
    if wide.shape.rank is None:
        return True
    if wide.shape.rank != narrow.shape.rank:
        return False
    size_pairs = zip(wide.shape, narrow.shape)
    return all(wide_size is None or wide_size == narrow_size for wide_size, narrow_size in size_pairs)


def value_key(value: Any) -> Any:
    """Returns the cache key of a Python value: the value if it compares by value, else its identity.

    An identity stays valid because traces keep their arguments alive.
    """
    if isinstance(value, Variable):
        return "variable", value._type, value.shape, value.trainable
    if isinstance(value, Tensor):
        return "eager", id(value)
    try:
        hash(value)
    except TypeError:
        return "object", id(value)
    return ("value", value) if _compares_by_value(value) else ("object", id(value))


def _compares_by_value(value: Any) -> bool:
    """Returns whether equality of such values means equal values: true for numbers, texts and types that define a hash."""
    return (
        value is None
        or isinstance(value, (bool, int, float, complex, str, bytes))
        or type(value).__hash__ is not object.__hash__
    )


class Arguments:
    """The flattened arguments of one call; a composite tensor is its spec in the structure, its components leaves."""

    def __init__(self, structure: Any, leaves: list[Leaf]) -> None:
        """Stores the flattened arguments of a call, and computes the keys by which a trace for them is found.

        The key ``form`` consists of the structure and of the positions at which the same Variable occurs: a trace can
        serve only arguments of the same form. ``key`` also has the types and values.
        """
        self.structure = structure
        self.leaves = leaves
        self.variables = [leaf.value for leaf in leaves if leaf.is_variable]
        self.composites = tuple(filter(nest.is_composite, nest.flatten(structure)))
        self.form = structure_key(structure), aliases(self.variables)
        self.key = (self.form, self.composites, tuple(leaf.key for leaf in leaves))
        self.are_of_sizes = False

    @property
    def tensors(self) -> list[Tensor | None]:
        """The tensors among the arguments; None for one of which only the spec was given."""
        return [leaf.tensor for leaf in self.leaves if leaf.spec is not None]

    @property
    def values(self) -> list[Tensor]:
        """The tensors of a call, which gives them all."""
        return cast("list[Tensor]", self.tensors)

    @property
    def specs(self) -> list[TensorSpec]:
        return [leaf.spec for leaf in self.leaves if leaf.spec is not None]

    @property
    def names(self) -> list[str]:
        return [leaf.name for leaf in self.leaves if leaf.spec is not None]

    def accepts(self, other: Arguments) -> bool:
        """Returns whether a trace for these arguments serves the others."""
        if self.form != other.form or not all(map(_has_subtype, self.composites, other.composites)):
            return False
        return all(leaf.accepts(other_leaf) for leaf, other_leaf in zip(self.leaves, other.leaves))

    def generalized_with(self, earlier: Arguments) -> Arguments | None:
        """Returns arguments that accept both these and the earlier ones, with unknown dims where shapes differ.

        One trace then serves both calls, and others like them. Returns None if anything but shapes differs.
        """
        if self.form != earlier.form:
            return None
        composite_specs = [
            spec.most_specific_common_supertype([old]) for spec, old in zip(self.composites, earlier.composites)
        ]
        leaves = [leaf.widened(old) for leaf, old in zip(self.leaves, earlier.leaves)]
        if any(wider is None for wider in (*composite_specs, *leaves)):
            return None
        remaining_specs = iter(composite_specs)

        def with_wider_spec(leaf: Any) -> Any:
            """Replaces the spec of a composite argument; in the structure all other leaves are placeholders."""
            return next(remaining_specs) if nest.is_composite(leaf) else leaf

        return Arguments(nest.map_structure(with_wider_spec, self.structure), leaves)  # type: ignore[arg-type]

    def of_ranks(self, tensors: Sequence[Any]) -> Arguments:
        """Returns the arguments with the tensors' ranks in place of unknown ones."""
        values = iter(tensors)
        return Arguments(
            self.structure, [leaf if leaf.spec is None else leaf.of_rank(next(values).ndim) for leaf in self.leaves]
        )

    def of_sizes(self, tensors: Sequence[Any]) -> Arguments:
        """Returns the arguments with specs of static shapes, those of ``tensors``, for a trace that needs sizes."""
        remaining_tensors = iter(tensors)
        leaves = [leaf if leaf.spec is None else leaf.of_sizes(next(remaining_tensors)) for leaf in self.leaves]
        sized = Arguments(self.structure, leaves)
        sized.are_of_sizes = True
        return sized

    def are_refined_by(self, tensors: Sequence[Any]) -> bool:
        """Returns whether the shapes of the tensors have sizes that the specs of these arguments leave unknown."""
        if all(spec.shape.is_fully_defined() for spec in self.specs) or any(tensor is None for tensor in tensors):
            return False
        return self.of_sizes(tensors).key != self.key

    def with_captured(self, variables: Sequence[Variable]) -> Arguments:
        """Returns the arguments with some of their Variables as values that the trace captures; see `Leaf.as_captured`."""
        ids = set(map(id, variables))
        leaves = [leaf.as_captured() if leaf.is_variable and id(leaf.value) in ids else leaf for leaf in self.leaves]
        return Arguments(self.structure, leaves)

    def with_datasets_as_values(self) -> Arguments:
        """Returns the arguments with datasets and iterators as Python values."""
        return Arguments(self.structure, [leaf.as_value() for leaf in self.leaves])

    @property
    def are_of_any_rank(self) -> bool:
        return any(spec.shape.rank is None for spec in self.specs)

    def rebuild(
        self, tensors: Sequence[Any], variables: Sequence[Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the Python function's ``(args, kwargs)`` with other tensors and Variables.

        Args:
          tensors: the tensors, in the order of the leaves.
          variables: the Variables, in the order of the leaves; the original ones if None.
        """
        remaining_tensors = iter(tensors)
        remaining_variables = iter(self.variables if variables is None else variables)
        leaves = [self._replaced(leaf, remaining_tensors, remaining_variables) for leaf in self.leaves]
        return nest.pack_sequence_as(self.structure, leaves, expand_composites=True)

    def described(self, describe: Callable[[Leaf], Any]) -> Any:
        """Returns ``(args, kwargs)`` with ``describe(leaf)`` for each leaf; composite tensors are their specs."""
        leaves = iter(self.leaves)

        def description(part: Any) -> Any:
            """Describes a part of the arguments by its leaf; a composite's spec describes itself."""
            if not nest.is_composite(part):
                return describe(next(leaves))
            # Each of its components is a leaf.
            for _ in nest.flatten(part, expand_composites=True):
                next(leaves)
            return part

        return nest.map_structure(description, self.structure)

    @staticmethod
    def _replaced(leaf: Leaf, tensors: Iterator[Any], variables: Iterator[Any]) -> Any:
        """Returns a leaf's value in a new call: the next tensor, a dataset of it, the next Variable, or the same value."""
        if leaf.is_dataset:
            return leaf.value.from_argument(next(tensors))
        if leaf.spec is not None:
            return next(tensors)
        return next(variables) if leaf.is_variable else leaf.value


def aliases(variables: Sequence[Any]) -> tuple[int, ...]:
    """Returns the index of the first occurrence of each Variable: ``(0, 1, 0)`` if the third is the first one again."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(variable), i) for i, variable in enumerate(variables))


def _has_subtype(wide: Any, narrow: Any) -> bool:
    return narrow.is_subtype_of(wide)


def structure_key(structure: Any) -> Any:
    """Returns a hashable key of a nested structure, without its leaves.

    A list and a tuple are different structures, as in TensorFlow.
    """
    if not nest.is_nested(structure):
        return type(structure) if nest.is_composite(structure) else "."
    if isinstance(structure, Mapping):
        named_keys = tuple((name, structure_key(structure[name])) for name in nest.sorted_keys(structure))
        return type(structure).__name__, named_keys
    container_key: Any = type(structure).__name__
    if nest.is_record(structure):
        container_key = type(structure), nest.metadata_of(structure)
    return container_key, tuple(map(structure_key, nest.parts_of(structure)))


class Signature:
    """A Python signature with an optional ``input_signature``."""

    def __init__(self, function: Callable[..., Any], input_signature: Any) -> None:
        self.python = inspect.signature(function)
        self.specs = None if input_signature is None else tuple(input_signature)
        self._check_specs()

    def _check_specs(self) -> None:
        """Raises TensorFlow's TypeError unless ``input_signature`` contains nothing but specs."""
        for spec in nest.flatten(list(self.specs or ())):
            if not isinstance(spec, TypeSpec):
                raise TypeError(
                    f"input_signature must be a possibly nested sequence of TensorSpec objects, got {self.specs!r}"
                )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Binds a call's arguments to the Python signature, and to ``input_signature`` if the function has one.

        Missing arguments get their defaults. The result contains the structure of the arguments and its leaves. A
        composite tensor, such as a ragged tensor, has a leaf for each component, and its spec is in the structure.

        Raises:
          TypeError: the arguments don't fit the function or its input_signature.
        """
        if self.specs is not None:  # the function has an input_signature
            return self._bind_specs(args, kwargs)
        structure = self._structure(args, kwargs)  # with the defaults
        names = self._leaf_names(structure)
        values = nest.flatten(structure)
        leaves = [leaf for name, value in zip(names, values) for leaf in _leaves_of(name, value)]
        structure_of_specs = nest.map_structure(spec_if_composite, structure)
        return Arguments(structure_of_specs, leaves)

    def _structure(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Binds a call to the Python signature, fills in defaults, and returns the pair ``(args, kwargs)``."""
        try:
            bound = self.python.bind(*args, **kwargs)
        except TypeError as error:
            raise self._binding_error(error, args, kwargs) from None
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _received(self, args: Any, kwargs: Any) -> str:
        return f"Received args: {args} and kwargs: {kwargs} for signature: {self}."

    def _leaf_names(self, structure: Any, expand_composites: bool = False) -> list[str]:
        """Returns a name for each leaf of ``structure``, a pair (args, kwargs)."""
        args, kwargs = structure
        named_arguments = list(zip(_positional_names(self.python, len(args)), args))
        named_arguments += [(name, kwargs[name]) for name in nest.sorted_keys(kwargs)]
        leaf_names: list[str] = []
        for name, value in named_arguments:
            leaf_names += _names_of(name, value, expand_composites)
        return leaf_names

    def _bind_specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Binds the arguments of a call to ``input_signature``.

        Arguments without a spec are Python values, which the trace embeds.

        Raises:
          TypeError: the call has more or fewer arguments than specs, or an argument doesn't fit its spec.
        """
        values, keyword_values = self._structure(args, kwargs)
        specs = self.specs or ()
        specified, unspecified = tuple(values[: len(specs)]), tuple(values[len(specs) :])
        flat_specs = nest.flatten(list(specs), expand_composites=True)
        flat_values = self._flat(specs, specified, args, kwargs) if len(specified) == len(specs) else None
        if flat_values is None or args[len(specs) :]:
            reason = f"expected {len(specs)} arguments but got {len(args) + len(kwargs)}"
            raise self._binding_error(reason, args, kwargs)
        names = self._leaf_names((specs, {}), expand_composites=True)
        leaves = [
            self._specified(name, value, spec, args, kwargs)
            for name, value, spec in zip(names, flat_values, flat_specs)
        ]
        # Parameters beyond the specs have their defaults.
        default_leaves = [
            leaf
            for i, value in enumerate(nest.flatten((unspecified, keyword_values)))
            for leaf in _leaves_of(f"default_{i}", value)
        ]
        return Arguments(
            nest.map_structure(spec_if_composite, (specs + unspecified, keyword_values)), leaves + default_leaves
        )

    def _flat(self, specs: Any, values: Any, args: Any, kwargs: Any) -> list[Any] | None:
        try:
            return flatten_up_to(list(specs), list(values))
        except TypeError as error:
            raise self._binding_error(error, args, kwargs) from None

    def _binding_error(self, why: Any, args: Any, kwargs: Any) -> TypeError:
        return TypeError(f"Binding inputs to tf.function failed due to `{why}`. {self._received(args, kwargs)}")

    def _specified(self, name: str, value: Any, spec: TypeSpec, args: Any, kwargs: Any) -> Leaf:
        """Returns the leaf of an argument that has a spec; ``args`` and ``kwargs`` of the call are for error messages."""
        if isinstance(spec, TensorSpec):
            return self._tensor_leaf(name, value, spec, args, kwargs)
        if not spec.is_compatible_with(value):
            raise self._binding_error(f"{value!r} is not compatible with {spec!r}", args, kwargs)
        return Leaf(name, value)

    def _tensor_leaf(self, name: str, value: Any, spec: TensorSpec, args: Any, kwargs: Any) -> Leaf:
        """Returns the leaf of a tensor argument. The name is the spec's name or, if the spec has none, the parameter's.

        ``args`` and ``kwargs`` of the call are for error messages.
        """
        # The constructor takes the dims' names from the shape, which has lost them.
        named = TensorSpec.__new__(TensorSpec)
        named.shape, named.dtype = spec.shape, spec.dtype
        named.dim_names = spec.dim_names
        named.name = spec.name or name
        if isinstance(value, TensorSpec):
            return Leaf(name, value).with_spec(named)
        tensor = self._cast(value, spec, args, kwargs)
        leaf = Leaf(name, tensor)
        leaf.tensor = tensor
        return leaf.with_spec(named)

    def _cast(self, value: Any, spec: TensorSpec, args: Any, kwargs: Any) -> Tensor:
        """Converts an argument to a tensor, and raises TypeError if the tensor doesn't fit the spec.

        ``args`` and ``kwargs`` of the call are for error messages.
        """
        try:
            tensor = convert_to_tensor(value, dtype_hint=spec.dtype)
        except (TypeError, ValueError) as error:
            raise self._binding_error(error, args, kwargs) from None
        actual = TensorSpec(tensor.shape, tensor.dtype)
        if not spec.is_compatible_with(tensor):
            raise self._binding_error(f"Can not cast {actual!r} to {spec!r}", args, kwargs)
        return tensor

    def __str__(self) -> str:
        if self.specs is None:
            return str(self.python)
        return f"({', '.join(f'{parameter}: {spec!r}' for parameter, spec in zip(self.python.parameters, self.specs))})"


def flatten_up_to(shallow: Any, deep: Any) -> list[Any] | None:
    """Flattens ``deep`` only as far as ``shallow`` is nested. Returns None if their structures differ.

    For example, ``shallow = (a, b)`` and ``deep = (1, [2, 3])`` give ``[1, [2, 3]]``.

    Raises:
      TypeError: ``shallow`` has the spec of a composite tensor where ``deep`` has something else.
    """
    if nest.is_composite(shallow):
        if not shallow.is_compatible_with(deep):
            raise TypeError(f"Can not cast {type_spec_from_value(deep)!r} to {shallow!r}")
        return nest.flatten(deep, expand_composites=True)
    if not nest.is_nested(shallow):
        return [deep]
    if not nest.is_nested(deep):
        return None
    shallow_parts, deep_parts = dict(nest.named_parts(shallow)), dict(nest.named_parts(deep))
    if shallow_parts.keys() != deep_parts.keys():
        return None
    # All parts are flattened even if one differs, since another may have an error that says more.
    leaves_of_parts = [flatten_up_to(part, deep_parts[key]) for key, part in shallow_parts.items()]
    leaves: list[Any] = []
    for part_leaves in leaves_of_parts:
        if part_leaves is None:
            return None
        leaves += part_leaves
    return leaves


def _positional_names(signature: inspect.Signature, count: int) -> list[str]:
    """Returns the parameter names of ``count`` positional arguments. Arguments in ``*args`` are numbered: ``args_0``."""
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[:count]


def _names_of(name: str, value: Any, expand_composites: bool = False) -> list[str]:
    """Returns TensorFlow's names for the leaves of an argument: the argument's name, followed by keys or indices.

    For example, argument ``x`` with the value ``[1, {"a": 2}]`` gives ``["x_0", "x_1_a"]``.
    """
    if expand_composites and nest.is_composite(value):
        return _component_names(name, len(nest.flatten(value, expand_composites=True)))
    if not nest.is_nested(value):
        return [name]
    leaf_names: list[str] = []
    for key, part in nest.named_parts(value):
        leaf_names += _names_of(f"{name}_{key}", part, expand_composites)
    return leaf_names


def _component_names(name: str, count: int) -> list[str]:
    return [name, *(f"{name}_{i}" for i in range(1, count))]


def spec_if_composite(value: Any) -> Any:
    """Returns the spec of a composite tensor. Other values are returned unchanged."""
    return nest.spec_of(value) if nest.is_composite(value) else value


def _leaves_of(name: str, value: Any) -> list[Leaf]:
    """Returns the leaf of an argument or, for a composite tensor, the leaves of its components."""
    if not nest.is_composite(value):
        return [Leaf(name, value)]
    components = nest.flatten(value, expand_composites=True)
    specs = nest.flatten(nest.spec_of(value), expand_composites=True)
    names = _component_names(name, len(components))
    return [
        _component(Leaf(component_name, component), spec)
        for component_name, component, spec in zip(names, components, specs)
    ]


def _component(leaf: Leaf, spec: TensorSpec) -> Leaf:
    """Returns the leaf of a component of a composite tensor with the component's spec, of known rank if possible."""
    shape = spec.shape
    if shape.rank is None and leaf.spec is not None and leaf.spec.shape.rank is not None:
        shape = TensorShape([None] * leaf.spec.shape.rank)
    return leaf.with_spec(TensorSpec(shape, spec.dtype, leaf.name))
