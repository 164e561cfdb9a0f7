"""Defines ``tf.data.Options``, which are checked and stored but have no effect: pipelines run as they are written."""

from __future__ import annotations

import copy
import enum
import functools
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tvtf.core.primitive import export


@export("data.experimental.AutoShardPolicy")
class AutoShardPolicy(enum.IntEnum):
    """How a dataset is split between workers.

    >>> import tvtf as tf
    >>> tf.data.experimental.AutoShardPolicy.DATA.value
    2

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutoShardPolicy
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@export("data.experimental.ExternalStatePolicy")
class ExternalStatePolicy(enum.Enum):
    """What saving a pipeline does about state outside of it.

    >>> import tvtf as tf
    >>> tf.data.experimental.ExternalStatePolicy.FAIL.value
    2

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/ExternalStatePolicy
    """

    WARN = 0
    IGNORE = 1
    FAIL = 2


@export("data.experimental.AutotuneAlgorithm")
class AutotuneAlgorithm(enum.Enum):
    """The algorithms by which TensorFlow tunes buffer sizes and numbers of threads.

    >>> import tvtf as tf
    >>> tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB.value
    1

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutotuneAlgorithm
    """

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


S = TypeVar("S", bound="Settings")


def _alias(name: str) -> Any:
    """Returns a property that is an alias of another attribute."""
    return property(attrgetter(name), lambda self, value: setattr(self, name, value))


class Settings:
    """A set of attributes declared in the class with types and defaults; setting any other raises AttributeError."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an option. Raises AttributeError if there is no such option, TypeError for a value of another type."""
        if not hasattr(self, name):
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        expected_type = self.kinds().get(name, object)
        if not isinstance(value, expected_type):
            raise TypeError(f'Property "{name}" must be of type {expected_type}, got: {value} (type: {type(value)!r})')
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = object.__hash__

    @classmethod
    @functools.cache
    def kinds(cls) -> dict[str, type]:
        """Returns the type that each option must have, from its annotation; those annotated ``Any`` are not checked."""
        # An option annotated ``T | None`` has the type T.
        alternatives = {
            name: get_args(hint) or (hint,) for name, hint in get_type_hints(cls, globals()).items() if hint is not Any
        }
        return {name: get_origin(first) or first for name, (first, *_) in alternatives.items()}


@export("data.experimental.AutotuneOptions")
class AutotuneOptions(Settings):
    """Options of autotuning; without effect: pipelines use the threads and buffers that they request.

    >>> import tvtf as tf
    >>> options = tf.data.experimental.AutotuneOptions()
    >>> options.cpu_budget = 2

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutotuneOptions
    """

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None
    autotune_algorithm: AutotuneAlgorithm | None = None
    initial_parallelism: int | None = None
    min_parallelism: int | None = None


@export("data.experimental.DistributeOptions")
class DistributeOptions(Settings):
    """Options of distribution; without effect: there is one process.

    >>> import tvtf as tf
    >>> tf.data.experimental.DistributeOptions().auto_shard_policy
    <AutoShardPolicy.AUTO: 0>

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/DistributeOptions
    """

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO
    num_devices: int | None = None


@export("data.experimental.OptimizationOptions")
class OptimizationOptions(Settings):
    """Options of graph rewrites; without effect: pipelines run as they are written.

    >>> import tvtf as tf
    >>> options = tf.data.experimental.OptimizationOptions()
    >>> options.noop_elimination = True

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/OptimizationOptions
    """

    apply_default_optimizations: bool | None = None
    filter_fusion: bool | None = None
    filter_parallelization: bool | None = None
    inject_prefetch: bool | None = None
    map_and_batch_fusion: bool | None = None
    map_and_filter_fusion: bool | None = None
    map_fusion: bool | None = None
    map_parallelization: bool | None = None
    noop_elimination: bool | None = None
    parallel_batch: bool | None = None
    seq_interleave_prefetch: bool | None = None
    shuffle_and_repeat_fusion: bool | None = None


@export("data.ThreadingOptions", "data.experimental.ThreadingOptions")
class ThreadingOptions(Settings):
    """Options of threading; without effect: compiled functions use all cores available to them.

    >>> import tvtf as tf
    >>> options = tf.data.ThreadingOptions()
    >>> options.private_threadpool_size = 2

    Source: https://www.tensorflow.org/api_docs/python/tf/data/ThreadingOptions
    """

    max_intra_op_parallelism: int | None = None
    private_threadpool_size: int | None = None


@export("data.Options")
class Options(Settings):
    """Options of a pipeline: stored and checked, without effect.

    Raises:
      AttributeError: an attribute is set that TensorFlow's options don't have.

    >>> import tvtf as tf
    >>> options = tf.data.Options()
    >>> options.deterministic = False
    >>> tf.data.Dataset.range(3).with_options(options).options().deterministic
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Options
    """

    dataset_name: str | None = None
    deterministic: bool | None = None
    experimental_external_state_policy: ExternalStatePolicy | None = None
    experimental_slack: bool | None = None
    experimental_symbolic_checkpoint: bool | None = None
    experimental_warm_start: bool | None = None
    framework_type: list[str] | None = None
    autotune: Any = None
    experimental_distribute: Any = None
    experimental_optimization: Any = None
    threading: Any = None
    experimental_deterministic = _alias("deterministic")
    experimental_threading = _alias("threading")

    def __init__(self) -> None:
        self.autotune = AutotuneOptions()
        self.experimental_distribute = DistributeOptions()
        self.experimental_optimization = OptimizationOptions()
        self.threading = ThreadingOptions()

    def merge(self, options: Options) -> Options:
        """Returns these options, overridden by those set in ``options``."""
        return _merged(self, options)


def _merged(one: S, other: S) -> S:
    """Returns a copy of ``one`` with the options that are set in ``other``; nested settings are merged, too."""
    merged = copy.copy(one)
    for name, value in vars(other).items():
        old_value = getattr(one, name)
        setattr(merged, name, _merged(old_value, value) if isinstance(old_value, Settings) else value)
    return merged
