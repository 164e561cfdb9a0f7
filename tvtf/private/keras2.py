"""What Keras 2 asks of TensorFlow in private: the package ``tf_keras``, as GPflow and TensorFlow Probability import it.

Most are other names of what is public. What is for several devices, TensorFlow's own saved models or its estimators is there
to be imported, and does nothing.

Source: https://github.com/keras-team/tf-keras
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

import tvtf
from tvtf.core import nest
from tvtf.core.primitive import Primitive, fallbacks, overridden, public_names
from tvtf.data import sources
from tvtf.frontend.autograph.calls import converted_call
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.lookup.tables import _Table
from tvtf.private import nest as private_nest
from tvtf.private.ops import assign_moving_average
from tvtf.private.platform import sticky_attribute_assignment
from tvtf.private.util import make_decorator, unwrap
from tvtf.state.containers import TrackableDataStructure, wrap
from tvtf.state.module import current_scope
from tvtf.state.trackable import Trackable
from tvtf.train.checkpoint_state import update_checkpoint_state

# -- decorators


def as_it_is(value: Any = None, *_: Any, **__: Any) -> Any:
    """Decorates, or keeps, what is of no concern here."""
    return value


def add_dispatch_support(target: Any = None, iterable_parameters: Any = None) -> Any:
    """Decorates a function of a library's that may be told what to do on types of others: `dispatch_for_types`."""
    if target is None:
        return add_dispatch_support
    rules: list[Any] = []

    @wraps(target)
    def run(*args: Any, **kwargs: Any) -> Any:
        found = overridden(rules, args, kwargs) if rules else NotImplemented
        return target(*args, **kwargs) if found is NotImplemented else found

    made = make_decorator(target, run)
    made.overrides = rules
    return made


def dispatch_for_types(op: Any, *types: type) -> Callable[[Any], Any]:
    """Decorates what ``op`` does where one of its arguments is of one of the types."""

    def decorate(function: Any) -> Any:
        def rule(args: Any, kwargs: Any) -> Any:
            is_meant = any(isinstance(x, types) for x in nest.flatten([args, kwargs]))
            return function(*args, **kwargs) if is_meant else NotImplemented

        op.overrides.append(rule)
        return function

    return decorate


class OpDispatcher:
    """What one function does on arguments that it can't work with: those that `handle` takes."""

    NOT_SUPPORTED = object()

    def handle(self, args: Any, kwargs: Any) -> Any:
        return self.NOT_SUPPORTED

    def register(self, op: Any) -> None:
        """Asks it where ``op`` is a public function; methods have no place for it."""
        if isinstance(op, Primitive) or hasattr(op, "overrides"):
            rules = op.composites if isinstance(op, Primitive) else op.overrides
            rules.append(lambda args, kwargs: self._taken(self.handle(args, kwargs)))

    def _taken(self, found: Any) -> Any:
        return NotImplemented if found is self.NOT_SUPPORTED else found


class GlobalOpDispatcher(OpDispatcher):
    """The same for all public functions."""

    def handle(self, op: Any, args: Any, kwargs: Any) -> Any:  # type: ignore[override]
        return self.NOT_SUPPORTED

    def register(self) -> None:  # type: ignore[override]
        fallbacks.append(lambda op, args, kwargs: self._taken(self.handle(op, args, kwargs)))


def tf_convert(f: Any, ctx: Any = None, convert_by_default: bool = True, user_requested: bool = False) -> Any:
    """``f``, converted by AutoGraph when it is called."""

    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        return converted_call(f, args, kwargs)

    return make_decorator(f, run)


def get_symbol_from_name(name: str) -> Any:
    """The public function or class of a path; None where there is none."""
    return public_names().get(name)


# -- values


def broadcast_weights(weights: Any, values: Any) -> Any:
    """Weights in the shape of what they weigh, which differs in sizes of one at most."""
    values = tvtf.convert_to_tensor(values)
    weights = tvtf.cast(weights, values.dtype) if not tvtf.is_tensor(weights) else tvtf.convert_to_tensor(weights)
    if weights.shape.is_fully_defined() and weights.shape == values.shape:
        return weights
    return tvtf.multiply(weights, tvtf.ones_like(values, weights.dtype))


def assert_splits_match(nested_splits_lists: Iterable[Iterable[Any]]) -> list[Any]:
    """Checks that ragged tensors have the same rows.

    Raises:
      ValueError: they are nested differently.
    """
    first, *others = [list(splits) for splits in nested_splits_lists]
    if any(len(each) != len(first) for each in others):
        raise ValueError("Inputs must have identical ragged splits")
    told = "Inputs must have identical ragged splits"
    return [tvtf.debugging.assert_equal(a, b, told) for each in others for a, b in zip(first, each)]


def execute_fn_for_device(device_branch_fns: dict[str, Any], default_fn: Any, name: str = "") -> Any:
    """What the branch for CPUs gives, where there is one."""
    return device_branch_fns.get("CPU", default_fn)()


# -- updates of Variables, whose handles are they themselves


def apply_gradient_descent(*, var: Any, alpha: Any, delta: Any, **_: Any) -> Any:
    return var.assign_sub(alpha * delta)


def apply_keras_momentum(
    *, var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_nesterov: bool = False, **_: Any
) -> Any:
    step = accum.assign(accum * momentum - lr * grad)
    return var.assign_add(step * momentum - lr * grad if use_nesterov else step)


def apply_adam(
    *, var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any,
    grad: Any, vhat: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """``vhat``, the largest second moment so far, is that of AMSGrad."""
    rate = lr * tvtf.sqrt(1 - beta2_power) / (1 - beta1_power)
    first = m.assign(beta1 * m + (1 - beta1) * grad)
    second = v.assign(beta2 * v + (1 - beta2) * tvtf.square(grad))
    largest = second if vhat is None else vhat.assign(tvtf.maximum(vhat, second))
    return var.assign_sub(rate * first / (tvtf.sqrt(largest) + epsilon))


def apply_adagrad(*, var: Any, accum: Any, lr: Any, epsilon: Any, grad: Any, **_: Any) -> Any:
    total = accum.assign_add(tvtf.square(grad))
    return var.assign_sub(lr * grad / (tvtf.sqrt(total) + epsilon))


def apply_rms_prop(
    *, var: Any, ms: Any, mom: Any, lr: Any, rho: Any, momentum: Any, epsilon: Any, grad: Any, mg: Any = None, **_: Any
) -> Any:
    """``mg``, the average gradient, is that of the centered one."""
    squares = ms.assign(rho * ms + (1 - rho) * tvtf.square(grad))
    if mg is not None:
        squares = squares - tvtf.square(mg.assign(rho * mg + (1 - rho) * grad))
    return var.assign_sub(mom.assign(momentum * mom + lr * grad / tvtf.sqrt(squares + epsilon)))


def scatter_add(*, resource: Any, indices: Any, updates: Any, **_: Any) -> Any:
    return resource.scatter_add(tvtf.IndexedSlices(updates, indices))


# -- objects


class CheckpointInitialValueCallable:
    """What gives a Variable's first value out of a checkpoint: values are restored once it is made."""


class DelegatingTrackableMixin:
    """An object whose checkpoint is that of another one."""

    def __init__(self, trackable_obj: Any) -> None:
        self._trackable = trackable_obj

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> Any:
        return self._trackable._trackable_children(save_type, **options)

    def _lookup_dependency(self, name: str) -> Any:
        return self._trackable._lookup_dependency(name)


class ObjectGraphView:
    """The objects that checkpoints find from one on."""

    def __init__(self, root: Any, attached_dependencies: Any = None) -> None:
        self.root = root

    def breadth_first_traversal(self) -> tuple[list[Any], dict[Any, tuple[Any, ...]]]:
        """The objects, each once, and by object the edges that lead to it."""
        paths: dict[int, tuple[Any, ...]] = {id(self.root): ()}
        found = [self.root]
        for each in found:
            for name, child in each._trackable_children().items():
                if id(child) not in paths:
                    paths[id(child)] = (*paths[id(each)], _Edge(name, child))
                    found.append(child)
        return found, _ByIdentity((each, paths[id(each)]) for each in found)


class _Edge:
    def __init__(self, name: str, ref: Any) -> None:
        self.name, self.ref = name, ref


class _ByIdentity(dict[Any, Any]):
    """A dictionary of objects that need not be hashable."""

    def __init__(self, items: Iterable[tuple[Any, Any]]) -> None:
        self._kept = list(items)  # that no other object gets their addresses
        super().__init__((id(key), value) for key, value in self._kept)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(id(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(id(key))


class Nothing:
    """A class of which no value is: TensorFlow's own of what is not here."""


class FeatureColumn(Nothing):
    """A column of TensorFlow's ``tf.feature_column``, which TensorFlow has deprecated."""


class StateManager:
    """What makes the Variables of feature columns."""


class KerasModeKeys:
    """What a model is run for."""

    TRAIN, TEST, PREDICT = "train", "test", "predict"


def _undisturbed(*_: Any, **__: Any) -> Any:
    """A scope in which Variables are read where they are: there is one copy of each."""
    return nullcontext()


def _dataset(name: str) -> type:
    """The class of the datasets that a public function makes."""
    return getattr(sources, name)  # type: ignore[no-any-return]


_INTERNAL: dict[str, dict[str, Any]] = {
    "": {
        "create_c_op": as_it_is,
        "execute_fn_for_device": execute_fn_for_device,
        "get_name_scope": current_scope,
        "load_context": lambda options=None: nullcontext(),
        "record_gradient": as_it_is,
        "register_call_context_function": as_it_is,
        "register_clear_session_function": as_it_is,
        "register_get_session_function": as_it_is,
        "register_load_model_function": as_it_is,
    },
    "autograph": {"control_status_ctx": lambda: None, "tf_convert": tf_convert},
    "decorator": {"make_decorator": make_decorator, "unwrap": unwrap},
    "dispatch": {
        "GlobalOpDispatcher": GlobalOpDispatcher,
        "OpDispatcher": OpDispatcher,
        "add_dispatch_support": add_dispatch_support,
    },
    "distribute": {"ShardedVariable": Nothing, "variable_sync_on_read_context": _undisturbed},
    "feature_column": {
        "DenseColumn": FeatureColumn,
        "FeatureColumn": FeatureColumn,
        "SequenceDenseColumn": FeatureColumn,
        "StateManager": StateManager,
    },
    "function": {"Function": Function},
    "mixed_precision": {"register_loss_scale_wrapper": as_it_is},
    "nest": private_nest.NAMES["python.util.nest"] | {"sequence_like": private_nest.sequence_like},
    "ops": {"broadcast_weights": broadcast_weights, "is_resource_variable": lambda x: isinstance(x, tvtf.Variable)},
    "saved_model.load": {
        "VersionedTypeRegistration": lambda **options: options,
        "register_revived_type": as_it_is,
        "registered_identifiers": list,
    },
    "tracking": {
        "CheckpointInitialValueCallable": CheckpointInitialValueCallable,
        "DelegatingTrackableMixin": DelegatingTrackableMixin,
        "ObjectGraphView": ObjectGraphView,
        "TrackableDataStructure": TrackableDataStructure,
        "register_session_provider": as_it_is,
        "saveable_objects_from_trackable": lambda trackable, **_: trackable._serialize_to_tensors(),
        "sticky_attribute_assignment": sticky_attribute_assignment,
        "wrap": wrap,
    },
    "train": {
        "assign_moving_average": assign_moving_average,
        "is_mixed_precision_graph_rewrite_enabled": lambda: False,
        "set_using_mixed_precision_policy": as_it_is,
        "update_checkpoint_state": lambda save_relative_paths=False, **told: update_checkpoint_state(**told),
    },
}


_v1: Any = tvtf.compat.v1  # type: ignore[attr-defined] # found when asked for
NAMES: dict[str, dict[str, Any]] = {
    **{f"__internal__{path and '.'}{path}": names for path, names in _INTERNAL.items()},
    "__operators__": {"getitem": tvtf.Tensor.__getitem__, "ragged_getitem": tvtf.RaggedTensor.__getitem__},
    "distribute.experimental.coordinator": dict.fromkeys(
        ("ClusterCoordinator", "PerWorkerValues", "RemoteValue"), Nothing
    ),
    "experimental.dtensor": dict.fromkeys(("DTensorDataset", "DVariable", "Layout"), Nothing),
    "python.data.ops.from_generator_op": {"_GeneratorDataset": _dataset("Generator")},
    "python.data.ops.from_sparse_tensor_slices_op": {"_SparseTensorSliceDataset": Nothing},
    "python.data.ops.from_tensor_slices_op": {"_TensorSliceDataset": _dataset("Slices")},
    "python.data.ops.from_tensors_op": {"_TensorDataset": _dataset("Tensors")},
    "python.data.ops.range_op": {"_RangeDataset": _dataset("Range")},
    "python.data.util.structure": {"NoneTensorSpec": type(None)},
    "python.distribute.distribute_utils": {"cache_variable_reads": _undisturbed},
    "python.distribute.input_lib": {"DistributedDataset": Nothing},
    "python.distribute.input_ops": {"auto_shard_dataset": lambda dataset, *_, **__: dataset},
    "python.eager.context": {"get_config": lambda: None, "get_device_name": lambda: ""},
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
    "python.util.deprecation": {"deprecated_endpoints": lambda *_: as_it_is},
    "python.util.dispatch": {"add_dispatch_support": add_dispatch_support, "dispatch_for_types": dispatch_for_types},
    "python.util.tf_contextlib": {"contextmanager": contextmanager},
    "python.util.tf_export": {"get_symbol_from_name": get_symbol_from_name},
    "raw_ops": {
        "ResourceApplyAdagradV2": apply_adagrad,
        "ResourceApplyAdam": apply_adam,
        "ResourceApplyAdamWithAmsgrad": apply_adam,
        "ResourceApplyCenteredRMSProp": apply_rms_prop,
        "ResourceApplyGradientDescent": apply_gradient_descent,
        "ResourceApplyKerasMomentum": apply_keras_momentum,
        "ResourceApplyRMSProp": apply_rms_prop,
        "ResourceScatterAdd": scatter_add,
    },
    "tools.docs.doc_controls": dict.fromkeys(
        (
            "do_not_doc_inheritable",
            "do_not_generate_docs",
            "doc_in_current_and_subclasses",
            "for_subclass_implementers",
        ),
        as_it_is,
    ),
}
