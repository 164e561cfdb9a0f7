"""``tf.distribute`` for one device: strategies with one replica, so that scripts for several devices run unchanged."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvtf.api.namespaces import install as _install
from tvtf.core import nest
from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.autograph import convert
from tvtf.frontend.configuration.device import device
from tvtf.ops.rules import bind
from tvtf.state.variable import ResourceVariable, Variable
from tvtf.state.variable_options import VariableSynchronization

ONE_DEVICE = "tvtf runs a program on one device: {what}; train in several processes by averaging gradients between them"
_active: list[Any] = []
"""The strategies whose scopes are entered, innermost last, each with whether the program is in a replica."""


@export("distribute.ReduceOp")
class ReduceOp(enum.Enum):
    """How the values of replicas are combined.

    >>> import tvtf as tf
    >>> tf.distribute.ReduceOp.SUM
    <ReduceOp.SUM: 'SUM'>

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/ReduceOp
    """

    SUM = "SUM"
    MEAN = "MEAN"


@export("distribute.InputContext")
class InputContext:
    """Information for an input pipeline about the replica that it feeds.

    >>> import tvtf as tf
    >>> tf.distribute.InputContext().get_per_replica_batch_size(32)
    32

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/InputContext
    """

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1) -> None:
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Returns the number of elements of a global batch that each replica processes.

        Raises:
          ValueError: the batch size is not divisible by the number of replicas.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size!r} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync!r} "
            )
        return global_batch_size // self.num_replicas_in_sync

    def __str__(self) -> str:
        return (
            f"tf.distribute.InputContext(input pipeline id {self.input_pipeline_id}, total: {self.num_input_pipelines})"
        )


class ValueContext:
    """Information for a function that creates a replica's value."""

    def __init__(self, replica_id_in_sync_group: int = 0, num_replicas_in_sync: int = 1) -> None:
        self.replica_id_in_sync_group = replica_id_in_sync_group
        self.num_replicas_in_sync = num_replicas_in_sync


@export("distribute.RunOptions")
class RunOptions:
    """Options of ``Strategy.run``, all accepted.

    >>> import tvtf as tf
    >>> _ = tf.distribute.RunOptions()

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/RunOptions
    """

    def __init__(self, experimental_enable_dynamic_batch_size: bool = True, **_: Any) -> None:
        self.experimental_enable_dynamic_batch_size = experimental_enable_dynamic_batch_size


@export("distribute.InputOptions")
class InputOptions(RunOptions):
    """Options of distributed datasets, all accepted.

    >>> import tvtf as tf
    >>> _ = tf.distribute.InputOptions(experimental_fetch_to_device=False)

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/InputOptions
    """


@export("distribute.CrossDeviceOps")
class CrossDeviceOps:
    """How devices exchange values. With one device it has no effect.

    >>> import tvtf as tf
    >>> _ = tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.ReductionToOneDevice())

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/CrossDeviceOps
    """

    def __init__(self, *_: Any, **__: Any) -> None: ...


for _name in ("HierarchicalCopyAllReduce", "NcclAllReduce", "ReductionToOneDevice"):
    _kind = type(_name, (CrossDeviceOps,), {"__doc__": CrossDeviceOps.__doc__, "__module__": __name__})
    export(f"distribute.{_name}")(_kind)


@export("distribute.Strategy")
class Strategy:
    """The distribution of a program over replicas: one replica, on the current device.

    >>> import tvtf as tf
    >>> strategy = tf.distribute.get_strategy()
    >>> strategy.num_replicas_in_sync
    1
    >>> total = strategy.run(lambda x: x + 1., (tf.constant(1.),))
    >>> strategy.reduce("SUM", total, axis=None).numpy()
    np.float32(2.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/Strategy
    """

    num_replicas_in_sync = 1
    cluster_resolver = None
    _devices: tuple[str, ...] = ()
    _should_use_with_coordinator = False
    """Whether separate workers run the program; libraries read it."""
    should_checkpoint = should_save_summary = _global_batch_size = True
    """What ``extended`` says of one replica: it writes all files, and its batches are whole ones. Keras 2 reads it."""
    experimental_require_static_shapes = False

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Makes this the current strategy in the ``with`` block."""
        is_in_replica = False
        _active.append((self, is_in_replica))
        try:
            yield self
        finally:
            _active.pop()

    @property
    def extended(self) -> Strategy:
        return self

    @contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Opens a scope that creates Variables on another's device. There is only one device."""
        yield

    def variable_created_in_scope(self, v: Any) -> bool:
        """Returns True: with one replica all Variables belong to the strategy."""
        return True

    def update(self, var: Any, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, group: bool = True) -> Any:
        """Calls ``fn(var, *args, **kwargs)`` for each replica's copy of a Variable: once."""
        return fn(var, *args, **(kwargs or {}))

    def _in_multi_worker_mode(self) -> bool:
        return False

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Calls ``fn(*args, **kwargs)`` as the strategy's only replica, and returns its result.

        Raises:
          ValueError: ``fn`` is not callable, or ``args`` is not a list or tuple.
        """
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"positional args must be a list or tuple, got {type(args)}")
        converted = fn if state.trace is None else convert(fn)  # while tracing, AutoGraph converts the function
        with self.scope():
            is_in_replica = True
            _active.append((self, is_in_replica))
            try:
                return converted(*args, **(kwargs or {}))
            finally:
                _active.pop()

    def reduce(self, reduce_op: Any, value: Any, axis: int | None) -> Any:
        """Combines the replicas' values; also along ``axis`` unless that is None."""
        op = _reduce_op(reduce_op)
        return self._reduced_across(op, value) if axis is None else _reduced(op, value, axis)

    def _reduced_across(self, op: ReduceOp, value: Any) -> Any:
        """Combines the replicas' values: returns the value, even one that is no tensor, since there is one replica."""
        return value

    def gather(self, value: Any, axis: int) -> Any:
        """Concatenates the replicas' values along ``axis``."""
        return convert_to_tensor(value)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Returns the values of this process's replicas."""
        return (value,)

    unwrap = experimental_local_results

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Returns the dataset unchanged: the only replica receives all elements."""
        return dataset

    def distribute_datasets_from_function(self, dataset_fn: Callable[..., Any], options: Any = None) -> Any:
        """Returns the dataset that ``dataset_fn`` creates for an :class:`InputContext`."""
        return dataset_fn(InputContext())

    def experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        """Returns the value that ``value_fn`` creates for the replica."""
        return value_fn(ValueContext())


def _reduce_op(value: Any) -> ReduceOp:
    try:
        return value if isinstance(value, ReduceOp) else ReduceOp(str(value).upper())
    except ValueError:
        raise ValueError(f"{str(value).upper()!r} is not a valid ReduceOp") from None


def _reduced(op: ReduceOp, value: Any, axis: int) -> Any:
    """Reduces a value along an axis by sum or mean."""
    reduce = bind.reduce_sum if op is ReduceOp.SUM else bind.reduce_mean
    tensor = convert_to_tensor(value)
    return reduce(tensor, axis=(axis % max(tensor.ndim, 1),), keepdims=False)


@export("distribute.OneDeviceStrategy")
class OneDeviceStrategy(Strategy):
    """A strategy with one replica on a given device.

    >>> import tvtf as tf
    >>> strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    >>> with strategy.scope():
    ...     v = tf.Variable(2.)
    >>> strategy.run(lambda: v * 2.).numpy()
    np.float32(4.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/OneDeviceStrategy
    """

    def __init__(self, device: str) -> None:
        self._devices = (device,)

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        with device(self._devices[0]):
            return super().run(fn, args, kwargs, options)


class MirroredVariable(ResourceVariable):
    """The Variable of a mirrored strategy: one copy per replica, here one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.synchronization is VariableSynchronization.AUTO:
            self.synchronization = VariableSynchronization.ON_WRITE

    @property
    def values(self) -> tuple[Variable, ...]:
        """The replicas' copies."""
        return (self,)

    _values = values

    @property
    def _primary(self) -> Variable:
        return self


@export("distribute.MirroredStrategy")
class MirroredStrategy(Strategy):
    """A strategy with one replica on each device of a machine; tvtf supports one device.

    Args:
      devices: names of devices, at most one; None for the current device.
      cross_device_ops: ignored.

    Raises:
      NotImplementedError: ``devices`` names more than one device.

    >>> import tvtf as tf
    >>> strategy = tf.distribute.MirroredStrategy()
    >>> strategy.num_replicas_in_sync
    1

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/MirroredStrategy
    """

    _collective_key_base = 0
    """The first key by which replicas find each other. Libraries' tests count it up; one replica needs none."""

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        self._devices = tuple(devices or ())
        if len(self._devices) > 1:
            raise NotImplementedError(ONE_DEVICE.format(what=f"{len(self._devices)} were given, {self._devices}"))

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        with super().scope(), _variables_of_class(MirroredVariable):
            yield self

    def _reduced_across(self, op: ReduceOp, value: Any) -> Any:
        """Combines the replicas' values, as TensorFlow does: it adds up tensors, but takes any value as its own mean."""
        return nest.map_structure(convert_to_tensor, value) if op is ReduceOp.SUM else value


@contextmanager
def _variables_of_class(variable_class: type[Variable]) -> Iterator[None]:
    """Makes ``tf.Variable(...)`` create instances of ``variable_class`` in the ``with`` block."""
    outer_class, state.variable_class = state.variable_class, variable_class
    try:
        yield
    finally:
        state.variable_class = outer_class


class _DefaultDistributionStrategy(Strategy):
    """The strategy outside all scopes."""


_default = _DefaultDistributionStrategy()


@export("distribute.ReplicaContext")
class ReplicaContext:
    """The replica in which code runs.

    >>> import tvtf as tf
    >>> context = tf.distribute.get_replica_context()
    >>> context.all_reduce("SUM", tf.constant(3.)).numpy()
    np.float32(3.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/ReplicaContext
    """

    num_replicas_in_sync = 1

    def __init__(self, strategy: Strategy, replica_id_in_sync_group: int = 0) -> None:
        self.strategy = strategy
        self.replica_id_in_sync_group = replica_id_in_sync_group

    @property
    def devices(self) -> tuple[str, ...]:
        return self.strategy._devices

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Combines the replicas' values; each replica receives the result."""
        _reduce_op(reduce_op)
        return value

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """Concatenates the replicas' values along ``axis``; each replica receives the result."""
        return value

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Calls ``merge_fn`` with the strategy, outside the replica."""
        with self.strategy.scope():
            return merge_fn(self.strategy, *args, **(kwargs or {}))


@export("distribute.get_strategy")
def get_strategy() -> Strategy:
    """Returns the current strategy.

    >>> import tvtf as tf
    >>> with tf.distribute.OneDeviceStrategy("/cpu:0").scope() as strategy:
    ...     tf.distribute.get_strategy() is strategy
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/get_strategy
    """
    if not _active:
        return _default
    strategy, _ = _active[-1]
    return strategy


@export("distribute.has_strategy")
def has_strategy() -> bool:
    """Returns whether a strategy other than the default is in use.

    >>> import tvtf as tf
    >>> tf.distribute.has_strategy()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/has_strategy
    """
    return get_strategy() is not _default


@export("distribute.in_cross_replica_context")
def in_cross_replica_context() -> bool:
    """Returns whether the program is in a strategy's scope, but not in a replica.

    >>> import tvtf as tf
    >>> with tf.distribute.MirroredStrategy().scope():
    ...     tf.distribute.in_cross_replica_context()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/in_cross_replica_context
    """
    if not _active:
        return False
    _, is_in_replica = _active[-1]
    return not is_in_replica


@export("distribute.get_replica_context")
def get_replica_context() -> ReplicaContext | None:
    """Returns the current replica, or None in a strategy's scope outside ``run``.

    >>> import tvtf as tf
    >>> tf.distribute.get_replica_context().replica_id_in_sync_group
    0

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/get_replica_context
    """
    return None if in_cross_replica_context() else ReplicaContext(get_strategy())


@export("distribute.experimental_set_strategy")
def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Sets the current strategy without a ``with``; None resets it.

    >>> import tvtf as tf
    >>> tf.distribute.experimental_set_strategy(tf.distribute.MirroredStrategy())
    >>> tf.distribute.has_strategy()
    True
    >>> tf.distribute.experimental_set_strategy(None)

    Raises:
      RuntimeError: called inside a strategy's ``scope``.

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/experimental_set_strategy
    """
    if len(_active) > 1:
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    _active[:] = [] if strategy is None else [(strategy, False)]


_install()
