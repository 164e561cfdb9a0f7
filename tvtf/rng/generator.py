"""``tf.random.Generator``: a random number generator whose state is a Variable."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import Dim, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import as_dtype, float32, int32, int64, uint64
from tvtf.ops.array import reshape
from tvtf.ops.cast import cast
from tvtf.ops.random import RESERVED_BLOCKS, check_algorithm, scaled_normal, uniform_from
from tvtf.ops.random_distributions import stateless_binomial
from tvtf.ops.rules import bind, drawn_dims, static_value
from tvtf.rng.rng_streams import elements_of_maps
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.variable import Variable

PHILOX = 1
"""TensorFlow's enum value of the algorithm."""
STATE_SIZE = 3


def _state_from_seed(seed: Any, size: int = STATE_SIZE) -> Tensor:
    """Computes a random generator's state, ``size`` int64 numbers, from a seed, as TensorFlow does.

    An int is split into 64-bit words, the lowest first. The numbers of a list become the last numbers of the state, and
    zeros are put before them.
    """
    if isinstance(seed, int):
        words = [seed >> (64 * i) & 0xFFFFFFFFFFFFFFFF for i in range(size)]
        return convert_to_tensor(np.array(words, np.uint64).view(np.int64))
    seed_words = reshape(cast(convert_to_tensor(seed), int64), [-1])[:size]
    zeros = convert_to_tensor(np.zeros(size, np.int64))
    return bind.concat(zeros, seed_words, axis=0)[-size:]


@export("random.Algorithm", "random.experimental.Algorithm")
class Algorithm(enum.Enum):
    """Algorithms of random number generation; tvtf has Philox only, and rejects ``THREEFRY``.

    >>> import tvtf as tf
    >>> tf.random.Algorithm.PHILOX.value
    1

    Source: https://www.tensorflow.org/api_docs/python/tf/random/Algorithm
    """

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


@export("random.create_rng_state", "random.experimental.create_rng_state")
def create_rng_state(seed: Any, alg: Any) -> Tensor:
    """Returns the initial state of a generator for a seed, an int64 tensor of three numbers.

    Args:
      seed: an int, or up to three ints.
      alg: the algorithm, Philox.

    >>> import tvtf as tf
    >>> tf.random.create_rng_state(1, "philox").numpy()
    array([1, 0, 0])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/create_rng_state
    """
    if getattr(alg, "value", alg) in ("threefry", 2):
        return _state_from_seed(seed, STATE_SIZE - 1)
    check_algorithm(alg)
    return _state_from_seed(seed)


@export("random.Generator", "random.experimental.Generator")
class Generator(AutoTrackable):
    """A random number generator with a state: each call, eager or compiled, continues the stream of the one before.

    The numbers are TensorFlow's own. In a ``tf.function`` the state is read and assigned as any Variable is; a
    checkpoint holds it.

    >>> import tvtf as tf
    >>> g = tf.random.Generator.from_seed(1)
    >>> g.uniform([2]).numpy()
    array([0.78749514, 0.3906511 ], dtype=float32)
    >>> g.state.numpy()
    array([513,   0,   0])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/Generator
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = "philox") -> None:
        """Creates a generator with a given state, or with the state of the generator ``copy_from``."""
        if (copy_from is None) == (state is None):
            raise ValueError("Exactly one of copy_from and state must be given: use Generator.from_seed(seed)")
        check_algorithm(alg)
        start = copy_from.state.numpy() if copy_from is not None else np.asarray(state)
        if start.shape != (STATE_SIZE,):
            raise ValueError(
                f"state must have shape ({STATE_SIZE},), but got {start.shape}: counter low, high, and key"
            )
        self._state_var = Variable(start.astype(np.int64), trainable=False, name="StateVar")

    @classmethod
    def from_state(cls, state: Any, alg: Any = "philox") -> Generator:
        """Creates a generator from an int64 state of shape (3,): counter low, counter high, key."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = "philox") -> Generator:
        """Creates a generator from an int, or up to three ints."""
        return cls(state=static_value(_state_from_seed(seed), "seed"), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = "philox") -> Generator:
        """Creates a generator from the operating system's entropy."""
        return cls(state=np.frombuffer(os.urandom(8 * STATE_SIZE), np.int64), alg=alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any = "philox") -> Generator:
        """Creates a generator from a scalar key and a counter of shape (2,)."""
        return cls(state=np.array([*np.ravel(counter), key], np.int64), alg=alg)

    @property
    def state(self) -> Variable:
        """The state, int64 of shape (3,): counter low, counter high, key."""
        return self._state_var

    @property
    def key(self) -> Tensor:
        """The stream's key, a scalar."""
        return self._state_var.value()[-1]

    @property
    def algorithm(self) -> int:
        return PHILOX

    def reset(self, state: Any) -> None:
        """Sets the generator's state."""
        self._state_var.assign(state)

    def reset_from_seed(self, seed: Any) -> None:
        """Restarts the generator from a seed."""
        self._state_var.assign(_state_from_seed(seed))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Sets the key and the counter of the generator's state."""
        self._state_var.assign(np.array([*np.ravel(counter), key], np.int64))

    def skip(self, delta: Dim) -> Tensor:
        """Advances the generator's state by ``delta`` numbers, and returns the state before."""
        with self._state_var.lock:
            before = self._state_var.value()
            self._state_var.assign(bind.philox_skip(before, blocks=delta * RESERVED_BLOCKS), read_value=False)
            return before

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32, name: str | None = None
    ) -> Tensor:
        """Returns uniform numbers in [minval, maxval); see ``tf.random.stateless_uniform``."""
        dtype = as_dtype(dtype)
        dims = drawn_dims(shape)
        # Integers without bounds have the whole range of the dtype.
        if dtype.is_integer and (minval is None) != (maxval is None):
            raise ValueError(
                f"For integer dtype {dtype!r}, minval and maxval must be both `None` or both non-`None`; got "
                f"minval={minval} and maxval={maxval}"
            )
        return self._drawn(lambda state: uniform_from(state, dims, minval, maxval, dtype))

    def uniform_full_int(self, shape: Any, dtype: Any = uint64, name: str | None = None) -> Tensor:
        """Returns uniform integers over the whole range of a 32- or 64-bit dtype."""
        return self.uniform(shape, None, None, dtype)

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, name: str | None = None
    ) -> Tensor:
        """Returns normal numbers; see ``tf.random.normal``."""
        dims = drawn_dims(shape)
        dtype = as_dtype(dtype)

        def draw(state: Tensor) -> Tensor:
            standard = bind.stateless_random_normal(state, shape=dims, dtype=dtype)
            return scaled_normal(standard, mean, stddev, dtype)

        return self._drawn(draw)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, name: str | None = None
    ) -> Tensor:
        """Returns normal numbers within two standard deviations; see ``tf.random.truncated_normal``."""
        dims, dtype = drawn_dims(shape), as_dtype(dtype)
        normal = bind.stateless_random_truncated_normal
        return self._drawn(lambda state: scaled_normal(normal(state, shape=dims, dtype=dtype), mean, stddev, dtype))

    def _drawn(self, draw: Callable[[Tensor], Tensor]) -> Tensor:
        """Draws numbers with a function of the generator's state, then advances the state, under its lock.

        A call that raises leaves the state unchanged.
        """
        elements = elements_of_maps()
        with self._state_var.lock:
            drawn = draw(self._state_var.value())
            size = size_of(drawn._type.shape)
            if elements.index is not None:
                self.skip(size)  # TensorFlow draws once as outside of the map, and then for each element
                drawn = draw(elements.own_state(self._state_var.value(), size * RESERVED_BLOCKS))
            self.skip(size * elements.count)
            return drawn

    def binomial(self, shape: Any, counts: Any, probs: Any, dtype: Any = int32, name: str | None = None) -> Tensor:
        """Returns binomial numbers, which differ from TensorFlow's; see ``tf.random.stateless_binomial``."""
        return stateless_binomial(shape, self.make_seeds()[:, 0], counts, probs, dtype)

    def make_seeds(self, count: int = 1) -> Tensor:
        """Returns seeds for stateless functions: int64 of shape (2, count), a seed in each column."""
        keys = self.uniform_full_int((count,), int64)
        return convert_to_tensor([keys, keys - keys])  # the second numbers of the seeds are zero

    def split(self, count: int = 1) -> list[Generator]:
        """Returns ``count`` new generators with random keys from this one.

        It works only eagerly, because a generator creates a Variable.
        """
        return [Generator(state=[0, 0, key]) for key in self.uniform_full_int((count,), int64).numpy().tolist()]


class _Global:
    """The global generator of the process."""

    generator: Generator | None = None
    lock = Lock()


@export("random.get_global_generator", "random.experimental.get_global_generator")
def get_global_generator() -> Generator:
    """Returns the global generator; creates one from the operating system's entropy if none was set.

    >>> import tvtf as tf
    >>> tf.random.get_global_generator() is tf.random.get_global_generator()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/random/get_global_generator
    """
    with _Global.lock:
        if _Global.generator is None:
            _Global.generator = Generator.from_non_deterministic_state()
        return _Global.generator


@export("random.set_global_generator", "random.experimental.set_global_generator")
def set_global_generator(generator: Generator) -> None:
    """Sets the global generator.

    >>> import tvtf as tf
    >>> generator = tf.random.Generator.from_seed(1)
    >>> tf.random.set_global_generator(generator)
    >>> tf.random.get_global_generator() is generator
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/random/set_global_generator
    """
    _Global.generator = generator
