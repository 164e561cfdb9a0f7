"""Private names of TensorFlow that Keras 2 uses: the package ``tf_keras``, which GPflow and TensorFlow Probability import.

Most are other names of public functions. Names for several devices, TensorFlow's saved models or estimators exist only
so that they can be imported, and do nothing.

Source: https://github.com/keras-team/tf-keras
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

import tvtf
from tvtf.core import nest
from tvtf.core.primitive import Primitive, fallbacks, overridden
from tvtf.data import sources
from tvtf.frontend.autograph.calls import converted_call
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.lookup.tables import _Table
from tvtf.private import nest as private_nest
from tvtf.private.keras2_updates import RAW_OPS
from tvtf.private.ops import assign_moving_average, broadcast_weights
from tvtf.private.platform import sticky_attribute_assignment
from tvtf.private.util import KerasExport, make_decorator, unwrap
from tvtf.state.containers import TrackableDataStructure, wrap
from tvtf.state.module import current_scope
from tvtf.state.trackable import Trackable
from tvtf.train.checkpoint_state import update_checkpoint_state

# -- decorators


def unchanged(value: Any = None, *_: Any, **__: Any) -> Any:
    """Returns the first argument unchanged. It replaces decorators and setters of TensorFlow that have no effect in tvtf."""
    return value


def add_dispatch_support(target: Any = None, iterable_parameters: Any = None) -> Any:
    """Decorates a library's function so that `dispatch_for_types` can override it for arguments of other types.

    The parameter ``iterable_parameters`` is that of TensorFlow, and has no effect.
    """
    if target is None:  # used as ``@add_dispatch_support(...)``
        return add_dispatch_support
    handlers: list[Any] = []

    @wraps(target)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        """Calls the first handler that accepts the arguments, or else the function itself."""
        overriding_result = overridden(handlers, args, kwargs) if handlers else NotImplemented
        return target(*args, **kwargs) if overriding_result is NotImplemented else overriding_result

    decorated = make_decorator(target, dispatch)
    decorated.overrides = handlers
    return decorated


def dispatch_for_types(op: Any, *types: type) -> Callable[[Any], Any]:
    """Returns a decorator that registers an implementation of ``op`` for calls with an argument of one of the types."""

    def register(implementation: Any) -> Any:
        """Registers an implementation of the op, and returns the implementation."""

        def handler(args: Any, kwargs: Any) -> Any:
            # After NotImplemented, the next handler or the op itself is called.
            matches = any(isinstance(x, types) for x in nest.flatten([args, kwargs]))
            return implementation(*args, **kwargs) if matches else NotImplemented

        op.overrides.append(handler)
        return implementation

    return register


class OpDispatcher:
    """The base class of a library's dispatchers. A dispatcher implements one op for a library's own types of arguments."""

    NOT_SUPPORTED = object()

    def handle(self, args: Any, kwargs: Any) -> Any:
        """Returns the op's result for the arguments, or NOT_SUPPORTED to leave the call to others; subclasses override it."""
        return self.NOT_SUPPORTED

    def register(self, op: Any) -> None:
        """Adds this dispatcher to a public function. Other callables, such as methods, are left unchanged."""
        if isinstance(op, Primitive) or hasattr(op, "overrides"):
            handlers = op.composites if isinstance(op, Primitive) else op.overrides
            handlers.append(lambda args, kwargs: self._converted(self.handle(args, kwargs)))

    def _converted(self, result: Any) -> Any:
        """Converts NOT_SUPPORTED, the result for an unsupported call, to NotImplemented, as tvtf's handlers return it."""
        return NotImplemented if result is self.NOT_SUPPORTED else result


class GlobalOpDispatcher(OpDispatcher):
    """The base class of a library's dispatchers of all public functions."""

    def handle(self, op: Any, args: Any, kwargs: Any) -> Any:  # type: ignore[override]
        """Returns the result of ``op`` for the arguments, or NOT_SUPPORTED; subclasses override it."""
        return self.NOT_SUPPORTED

    def register(self) -> None:  # type: ignore[override]
        """Adds this dispatcher to all public functions."""
        fallbacks.append(lambda op, args, kwargs: self._converted(self.handle(op, args, kwargs)))


def tf_convert(f: Any, ctx: Any = None, convert_by_default: bool = True, user_requested: bool = False) -> Any:
    """Wraps a function so that AutoGraph converts its Python control flow when the function is called.

    Args:
      f: the function.
      ctx, convert_by_default, user_requested: TensorFlow's arguments; not used.
    """

    @wraps(f)
    def call_converted(*args: Any, **kwargs: Any) -> Any:
        return converted_call(f, args, kwargs)

    return make_decorator(f, call_converted)


def _serializing_primitives(serialize: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``keras.activations.serialize``, which knows Python's functions only: ``tf.nn.relu`` is a primitive, an object."""

    @wraps(serialize)
    def serialize_activation(activation: Any, use_legacy_format: bool = False) -> Any:
        if isinstance(activation, Primitive):
            primitive = activation
            activation = wraps(primitive)(lambda *args, **kwargs: primitive(*args, **kwargs))
        return serialize(activation, use_legacy_format)

    return serialize_activation


KerasExport.changes["keras.activations.serialize"] = _serializing_primitives


# -- values


def assert_splits_match(nested_splits_lists: Iterable[Iterable[Any]]) -> list[Any]:
    """Returns assertions that ragged tensors have the same row splits.

    ``nested_splits_lists`` contains for each ragged tensor the splits of its ragged dims, outermost first.

    Raises:
      ValueError: the numbers of ragged dims differ.
    """
    expected, *remaining = [list(splits) for splits in nested_splits_lists]
    message = "Inputs must have identical ragged splits"
    if any(len(splits) != len(expected) for splits in remaining):
        raise ValueError(message)
    assertions = []
    for splits in remaining:
        assertions += [tvtf.debugging.assert_equal(wanted, split, message) for wanted, split in zip(expected, splits)]
    return assertions


def execute_fn_for_device(device_branch_fns: dict[str, Any], default_fn: Any, name: str = "") -> Any:
    """Calls the function for CPUs among ``device_branch_fns``, or else the default, and returns its result."""
    return device_branch_fns.get("CPU", default_fn)()


# -- objects


class CheckpointInitialValueCallable:
    """A class of initial values from checkpoints, never used: values are restored after a Variable is created."""


class DelegatingTrackableMixin:
    """A trackable object in whose place a checkpoint saves and restores another object."""

    def __init__(self, trackable_obj: Any) -> None:
        self._trackable = trackable_obj

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> Any:
        return self._trackable._trackable_children(save_type, **options)

    def _lookup_dependency(self, name: str) -> Any:
        return self._trackable._lookup_dependency(name)


class ObjectGraphView:
    """The graph of the trackable objects that a checkpoint of ``root`` contains."""

    def __init__(self, root: Any, attached_dependencies: Any = None) -> None:
        self.root = root

    def breadth_first_traversal(self) -> tuple[list[Any], dict[Any, tuple[Any, ...]]]:
        """Returns all objects that a checkpoint of the root contains, and the path from the root to each object.

        The first result is a list in breadth-first order. The second result maps an object to its path, a tuple of edges. An
        edge has the name of an attribute, and the object in this attribute.
        """
        paths: dict[int, tuple[Any, ...]] = {id(self.root): ()}
        reachable = [self.root]
        for trackable in reachable:  # the list grows during the loop
            for name, child in trackable._trackable_children().items():
                if id(child) not in paths:
                    paths[id(child)] = (*paths[id(trackable)], _Edge(name, child))
                    reachable.append(child)
        return reachable, _ByIdentity((trackable, paths[id(trackable)]) for trackable in reachable)


class _Edge:
    """An edge of the object graph: the name of an attribute, and the object in this attribute."""

    def __init__(self, name: str, ref: Any) -> None:
        self.name, self.ref = name, ref


class _ByIdentity(dict[Any, Any]):
    """A dictionary that compares keys by identity. So the keys need not be hashable."""

    def __init__(self, items: Iterable[tuple[Any, Any]]) -> None:
        self._keys = list(items)  # keeps the keys alive, so that their ids stay unique
        super().__init__((id(key), value) for key, value in self._keys)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(id(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(id(key))


class Unsupported:
    """A class without instances, in place of TensorFlow's classes that tvtf does not have."""


class FeatureColumn(Unsupported):
    """A column of ``tf.feature_column``, which TensorFlow has deprecated."""


class StateManager:
    """The manager of feature columns' Variables."""


class KerasModeKeys:
    """The modes in which a model runs."""

    TRAIN, TEST, PREDICT = "train", "test", "predict"


def _no_scope(*_: Any, **__: Any) -> Any:
    """Returns a context without effect. TensorFlow's controls copies of a Variable on several devices; here is one copy."""
    return nullcontext()


def _dataset(name: str) -> type:
    """Returns a class of datasets by its name, such as "Range" for those of ``Dataset.range``."""
    return getattr(sources, name)  # type: ignore[no-any-return]


_INTERNAL: dict[str, dict[str, Any]] = {
    "": {
        "create_c_op": unchanged,
        "execute_fn_for_device": execute_fn_for_device,
        "get_name_scope": current_scope,
        "load_context": lambda options=None: nullcontext(),
        "record_gradient": unchanged,
        "register_call_context_function": unchanged,
        "register_clear_session_function": unchanged,
        "register_get_session_function": unchanged,
        "register_load_model_function": unchanged,
    },
    "autograph": {"control_status_ctx": lambda: None, "tf_convert": tf_convert},
    "decorator": {"make_decorator": make_decorator, "unwrap": unwrap},
    "dispatch": {
        "GlobalOpDispatcher": GlobalOpDispatcher,
        "OpDispatcher": OpDispatcher,
        "add_dispatch_support": add_dispatch_support,
    },
    "distribute": {"ShardedVariable": Unsupported, "variable_sync_on_read_context": _no_scope},
    "feature_column": {
        "DenseColumn": FeatureColumn,
        "FeatureColumn": FeatureColumn,
        "SequenceDenseColumn": FeatureColumn,
        "StateManager": StateManager,
    },
    "function": {"Function": Function},
    "mixed_precision": {"register_loss_scale_wrapper": unchanged},
    "nest": private_nest.NAMES["python.util.nest"] | {"sequence_like": private_nest.sequence_like},
    "ops": {"broadcast_weights": broadcast_weights, "is_resource_variable": lambda x: isinstance(x, tvtf.Variable)},
    "saved_model.load": {
        "VersionedTypeRegistration": lambda **options: options,
        "register_revived_type": unchanged,
        "registered_identifiers": list,
    },
    "tracking": {
        "CheckpointInitialValueCallable": CheckpointInitialValueCallable,
        "DelegatingTrackableMixin": DelegatingTrackableMixin,
        "ObjectGraphView": ObjectGraphView,
        "TrackableDataStructure": TrackableDataStructure,
        "register_session_provider": unchanged,
        "saveable_objects_from_trackable": lambda trackable, **_: trackable._serialize_to_tensors(),
        "sticky_attribute_assignment": sticky_attribute_assignment,
        "wrap": wrap,
    },
    "train": {
        "assign_moving_average": assign_moving_average,
        "is_mixed_precision_graph_rewrite_enabled": lambda: False,
        "set_using_mixed_precision_policy": unchanged,
        "update_checkpoint_state": lambda save_relative_paths=False, **kwargs: update_checkpoint_state(**kwargs),
    },
}


_v1: Any = tvtf.compat.v1  # type: ignore[attr-defined] # imported when first used
NAMES: dict[str, dict[str, Any]] = {
    **{f"__internal__{path and '.'}{path}": names for path, names in _INTERNAL.items()},
    "__operators__": {"getitem": tvtf.Tensor.__getitem__, "ragged_getitem": tvtf.RaggedTensor.__getitem__},
    "distribute.experimental.coordinator": dict.fromkeys(
        ("ClusterCoordinator", "PerWorkerValues", "RemoteValue"), Unsupported
    ),
    "experimental.dtensor": dict.fromkeys(("DTensorDataset", "DVariable", "Layout"), Unsupported),
    "python.data.ops.from_generator_op": {"_GeneratorDataset": _dataset("Generator")},
    "python.data.ops.from_sparse_tensor_slices_op": {"_SparseTensorSliceDataset": Unsupported},
    "python.data.ops.from_tensor_slices_op": {"_TensorSliceDataset": _dataset("Slices")},
    "python.data.ops.from_tensors_op": {"_TensorDataset": _dataset("Tensors")},
    "python.data.ops.range_op": {"_RangeDataset": _dataset("Range")},
    "python.data.util.structure": {"NoneTensorSpec": type(None)},
    "python.distribute.distribute_utils": {"cache_variable_reads": _no_scope},
    "python.distribute.input_lib": {"DistributedDataset": Unsupported},
    "python.distribute.input_ops": {"auto_shard_dataset": lambda dataset, *_, **__: dataset},
    "python.eager.context": {"get_config": _v1.ConfigProto, "get_device_name": lambda: ""},
    "python.framework.ops": {
        "NullContextmanager": nullcontext,
        "name_scope_v1": _v1.name_scope,
        "uid": lambda: id(object()),
    },
    "python.ops.control_flow_ops": {"get_enclosing_xla_context": lambda: None},
    "python.ops.gen_resource_variable_ops": {"assign_variable_op": None},
    "python.ops.init_ops": {
        "Constant": _v1.constant_initializer,
        "GlorotNormal": _v1.glorot_normal_initializer,
        "GlorotUniform": _v1.glorot_uniform_initializer,
        "Identity": _v1.initializers.identity,
        "Ones": _v1.ones_initializer,
        "Orthogonal": _v1.orthogonal_initializer,
        "VarianceScaling": _v1.variance_scaling_initializer,
        "Zeros": _v1.zeros_initializer,
    },
    "python.ops.lookup_ops": {"LookupInterface": _Table},
    "python.ops.ragged.ragged_map_ops": {"map_fn": tvtf.map_fn},
    "python.ops.ragged.ragged_util": {"assert_splits_match": assert_splits_match},
    "python.ops.variable_scope": {"_get_default_variable_store": lambda: None},
    "python.pywrap_tfe": {"TF_ListPluggablePhysicalDevices": list},
    "python.saved_model.model_utils.mode_keys": {"KerasModeKeys": KerasModeKeys},
    "python.tf2": {"enabled": lambda: True},
    "python.trackable.base": {"CheckpointInitialValue": CheckpointInitialValueCallable},
    "python.trackable.resource": {"RestoredResource": Trackable},
    "python.util.deprecation": {"deprecated_endpoints": lambda *_: unchanged},
    "python.util.dispatch": {"add_dispatch_support": add_dispatch_support, "dispatch_for_types": dispatch_for_types},
    "python.util.tf_contextlib": {"contextmanager": contextmanager},
    "raw_ops": RAW_OPS,
    "tools.docs.doc_controls": dict.fromkeys(
        (
            "do_not_doc_inheritable",
            "do_not_generate_docs",
            "doc_in_current_and_subclasses",
            "for_subclass_implementers",
        ),
        unchanged,
    ),
}
