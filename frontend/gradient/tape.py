"""``GradientTape``: the user's view of the recorder and of its reverse sweep, eager and traced."""

from __future__ import annotations

from contextlib import contextmanager
from enum import Enum
from typing import Any

from tvtf.core import nest
from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.composite import CompositeTensor
from tvtf.core.log import logger
from tvtf.core.shape import TensorType, agree_shape, same_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.vectorized_map import Batched, level, one_hot_cotangents, unwrapped
from tvtf.frontend.function.signature import flatten_up_to
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, number, zeros_like
from tvtf.passes.autodiff.reverse_mode import Recorder, needed_by, ones_for, sweep
from tvtf.state.variable import ReadVariable, ResourceVariable, UnreadVariable, Variable, of_library

MSG_ONCE = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"


class UnconnectedGradients(Enum):
    """The result of :meth:`GradientTape.gradient` for sources that no target depends on: None, or zeros.

    >>> UnconnectedGradients("zero")
    <UnconnectedGradients.ZERO: 'zero'>
    """

    NONE = "none"
    ZERO = "zero"


def wants_zeros(unconnected: UnconnectedGradients | str) -> bool:
    """Returns whether the gradient of a source that no target depends on is zeros, rather than None.

    Raises:
      ValueError: ``unconnected`` is neither an :class:`UnconnectedGradients` nor the value of one.
    """
    if unconnected is UnconnectedGradients.NONE:
        return False
    try:
        return UnconnectedGradients(unconnected) is UnconnectedGradients.ZERO
    except ValueError:
        raise ValueError(f"Unknown value for unconnected_gradients: {unconnected!r}") from None


class GradientTape(Recorder):
    """Records operations for reverse-mode differentiation.

    Args:
      persistent: allow several calls of :meth:`gradient`.
      watch_accessed_variables: watch trainable Variables as they are read.

    >>> import tvtf as tf
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x)
    <tf.Tensor: shape=(), dtype=float32, numpy=6.0>

    Source: https://www.tensorflow.org/api_docs/python/tf/GradientTape
    """

    _recording = False
    _started = False
    _used = False

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        super().__init__()
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self._variables: dict[int, Variable] = {}

    # -- recording

    def __enter__(self) -> GradientTape:
        self._start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._recording:
            self._stop()

    def _start(self) -> None:
        """Starts recording on this tape, in addition to the tapes that are active."""
        if self._recording:
            raise ValueError("Tape is still recording, This can happen if you try to re-enter an already-active tape.")
        state.tapes = [*state.tapes, self]
        self.level = state.batches
        self._recording = self._started = True

    def _stop(self) -> None:
        if not self._started:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        if not self._recording:
            raise ValueError("Tape is not recording.")
        state.tapes = [tape for tape in state.tapes if tape is not self]
        self._recording = False

    def watch(self, tensor: Any) -> None:  # type: ignore[override]
        """Watches a tensor or Variable, or each tensor of a nested structure: operations on it are recorded.

        Raises:
          ValueError: a value is not a tensor.
        """
        for leaf in [tensor] if type(tensor) is EagerTensor else nest.flatten(tensor, expand_composites=True):
            if not is_tensor(leaf) or not isinstance(leaf, (Tensor, Variable)):
                raise ValueError(
                    f"Passed in object {leaf} of type {type(leaf).__name__!r}, not tf.Tensor or tf.Variable or ExtensionType."
                )
            if not leaf.dtype.is_differentiable:
                logger.warning("The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", leaf.dtype)
            self._watch_one(leaf)

    def _watch_one(self, watched: Any) -> None:
        """Watches one tensor or Variable: ops that use it are recorded from now on."""
        key = id(watched)
        self.watched.add(key)
        self.active[key] = watched
        if isinstance(watched, Variable):
            self._variables[key] = watched

    def read(self, variable: Variable, tensor: Tensor) -> None:
        """Records that a Variable was read. The gradient of the tensor read then flows to the Variable."""
        if self.watch_accessed_variables and variable.trainable:
            self._watch_one(variable)
        if self.watches(variable):
            self.record(ReadVariable, (variable,), tensor, {})

    def records_uses_of(self, source: Any) -> bool:
        if self.watches(source):
            return True
        return self.watch_accessed_variables and isinstance(source, Variable) and source.trainable

    def watched_variables(self) -> tuple[Variable, ...]:
        """Returns the watched Variables, in order of first use."""
        return tuple(self._variables.values())

    @contextmanager
    def stop_recording(self) -> Any:
        """Suspends recording inside of the context."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def reset(self) -> None:
        """Drops everything recorded."""
        self.records.clear()
        self.active.clear()
        self.watched.clear()
        self._variables.clear()

    # -- gradients

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
    ) -> Any:
        """Returns the gradient of the sum of ``target`` with respect to each of ``sources``.

        Args:
          output_gradients: a cotangent for each target element, in place of ones.
          unconnected_gradients: the result for a source that no target depends on: "none" for None, "zero" for zeros.

        Returns:
          Gradients in the structure of ``sources``.

        Raises:
          RuntimeError: the tape was used already and isn't persistent.
          LookupError: an op on the way has no gradient.
          TypeError: a target or source is not a tensor; the tape stays usable.
        """
        # The usual case, a list of tensors or Variables, needs none of the functions for nested structures.
        is_flat_list = type(sources) in (list, tuple) and all(type(source) in _LEAVES for source in sources)
        if not (is_flat_list and isinstance(target, Tensor)):
            _check_differentiable(target, sources)
        self._use(unconnected_gradients)
        if isinstance(target, Tensor):
            targets = [target]
        else:
            target = nest.map_structure(gradient_parts, target)
            targets = [self._tensor_of(leaf) for leaf in nest.flatten(target)]
        if is_flat_list:
            grads = self._gradients(targets, list(sources), target, output_gradients, unconnected_gradients)
            return grads if type(sources) is list else tuple(grads)
        if isinstance(sources, Tensor):
            (grad,) = self._gradients(targets, [sources], target, output_gradients, unconnected_gradients)
            return grad
        flat_sources = list(map(of_library, nest.flatten(sources)))
        if not any(map(nest.is_composite, flat_sources)):
            grads = self._gradients(targets, flat_sources, target, output_gradients, unconnected_gradients)
            return nest.pack_sequence_as(sources, grads)
        # Gradients are taken by the components of composite tensors, and packed to composite tensors.
        parts = list(map(gradient_parts, flat_sources))
        grads = self._gradients(targets, nest.flatten(parts), target, output_gradients, unconnected_gradients)
        grads_of_parts = nest.pack_sequence_as(parts, grads)
        return nest.pack_sequence_as(sources, list(map(_gradient_by, flat_sources, grads_of_parts)))

    def _gradients(
        self, targets: list[Any], sources: list[Any], structure: Any, output_gradients: Any, unconnected: Any
    ) -> list[Any]:
        """Computes the gradient of the targets by each source.

        If no target depends on a source, the gradient is None, or zeros if ``unconnected`` says so.

        Args:
          targets, sources: tensors and Variables.
          structure: the targets in the user's structure.
          output_gradients: the targets' cotangents in this structure, None for ones.
          unconnected: an :class:`UnconnectedGradients`, or the value of one.
        """
        grads = self._sweep(targets, sources, self._seeds(targets, structure, output_gradients))
        if wants_zeros(unconnected):
            return [_zeros(source) if grad is None else grad for grad, source in zip(grads, sources)]
        return grads

    def _use(self, unconnected: UnconnectedGradients | str) -> None:
        """Marks the tape as used for a gradient. A tape that isn't persistent stops recording.

        Raises:
          RuntimeError: the tape has never recorded, or was used already and isn't persistent.
          ValueError: ``unconnected`` is not valid.
        """
        wants_zeros(unconnected)  # checks the argument
        if not self._started or self._used and not self.persistent:
            raise RuntimeError(MSG_ONCE)
        self._used = True
        if self._recording and not self.persistent:
            self._stop()

    def _sweep(self, targets: list[Any], sources: list[Any], seeds: list[Tensor]) -> list[Any]:
        """Sweeps the records backward from the targets, and returns the cotangents of the sources.

        ``seeds`` are the cotangents of the targets. The records of a tape that isn't persistent are then dropped.
        """
        if self.watched.issubset(map(id, sources)):
            needed: Any = self.active  # everything recorded depends on a source
        else:
            needed = needed_by(self.records, [source for source in sources if self.watches(source)])
        grads = sweep(tuple(self.records), zip(targets, seeds), sources, needed)
        if not self.persistent:
            self.records.clear()
        return grads

    def _tensor_of(self, target: Any) -> Any:
        """Returns a target of a gradient as a tensor or Variable that the tape may have recorded."""
        if isinstance(target, UnreadVariable):
            return target._original
        return target if is_tensor(target) else convert_to_tensor(target)

    def _seeds(self, targets: list[Any], structure: Any, output_gradients: Any) -> list[Tensor]:
        """Returns the cotangents of the targets, with which the backward sweep starts.

        These are the user's ``output_gradients``, or ones in their place if they are None. ``structure`` is the
        structure of the targets, which ``output_gradients`` must have.
        """
        ones = ones_for(targets)
        if output_gradients is None:
            return ones
        seeds = flatten_up_to(structure, output_gradients)
        if seeds is None:
            raise ValueError("output_gradients must have the structure of the target")
        return [one if seed is None else _seed(seed, one) for one, seed in zip(ones, seeds)]

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Returns the derivative of each element of ``target`` by each element of each source.

        Returns:
          Tensors of shape target.shape + source.shape, in the structure of ``sources``.

        >>> import tvtf as tf
        >>> x = tf.constant([1., 2.])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy()
        array([[2., 0.],
               [0., 4.]], dtype=float32)
        """
        _check_differentiable(target, sources)
        self._use(unconnected_gradients)
        flat = [*map(of_library, nest.flatten(sources))]
        target = self._tensor_of(target)
        jacobians = self._mapped_sweep(target, one_hot_cotangents(_value(target)._type), flat)
        shaped = [_jacobian(jacobian, target, leaf, unconnected_gradients) for jacobian, leaf in zip(jacobians, flat)]
        return nest.pack_sequence_as(sources, shaped)

    def _mapped_sweep(self, target: Any, cotangents: Tensor, sources: list[Any]) -> list[Any]:
        """Sweeps the records backward for many cotangents of one target at once, and returns the sources' cotangents.

        The leading axis of ``cotangents``, and of the results, is over the sweeps. The result is None for a source that
        the target doesn't depend on.
        """
        sweep_count = cotangents._type.shape[0]
        with level() as map_level:
            grads = self._sweep([target], sources, [Batched(cotangents, map_level)])
            return [None if grad is None else unwrapped(as_dense(grad), map_level, sweep_count) for grad in grads]

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Returns the jacobian of each row: shape (batch, *target.shape[1:], *source.shape[1:]).

        Raises:
          ValueError: target and source have different leading dimensions.
        """
        self._use(unconnected_gradients)
        source = of_library(source)
        target, value, source_value = self._tensor_of(target), _value(target), _value(source)
        shape, source_shape = value._type.shape, source_value._type.shape
        if not shape or not source_shape or not same_dim(shape[0], source_shape[0]):
            raise ValueError(
                f"Need first dimension of target shape ({value.shape}) and source shape ({source_value.shape}) to match."
            )
        batch, *row_shape = shape
        jacobian_shape = (*shape, *source_shape[1:])
        # One cotangent for each element of a row. It is 1 for this element of all rows, because rows are independent.
        one_hot_rows = one_hot_cotangents(TensorType(tuple(row_shape), value.dtype))
        element_count = one_hot_rows._type.shape[0]
        with_batch_axis = bind.reshape(one_hot_rows, shape=(element_count, 1, *row_shape))
        cotangents = bind.broadcast_to(with_batch_axis, shape=(element_count, batch, *row_shape))
        (grad,) = self._mapped_sweep(target, cotangents, [source])
        if grad is None:
            return _unconnected(unconnected_gradients, jacobian_shape, source_value)
        # grad has the shape (elements, batch, ...); in the jacobian the batch comes first
        batch_first = bind.transpose(grad, perm=(1, 0, *range(2, len(source_shape) + 1)))
        return bind.reshape(batch_first, shape=jacobian_shape)


_LEAVES = frozenset([EagerTensor, SymbolicTensor, Variable, ResourceVariable])
"""Types of sources that have no parts. A list of them, the usual case, needs none of the functions for nests."""


def _check_differentiable(target: Any, sources: Any) -> None:
    """Raises TypeError if a target or source is neither a tensor nor a Variable."""
    if target is None:
        raise TypeError(
            "Argument `target` should be a list or nested structure of Tensors, Variables or CompositeTensors to be "
            "differentiated, but received None."
        )
    for x in (*nest.flatten(target), *nest.flatten(sources)):
        if not is_tensor(x) and not isinstance(x, (Variable, CompositeTensor)):
            raise TypeError(f"Cannot convert the argument `type_value`: {x!r} to a TensorFlow DType.")


def gradient_parts(x: Any) -> Any:
    """Returns the parts of a value that have gradients: some components of a composite tensor, else the value."""
    return x._gradient_components() if isinstance(x, CompositeTensor) else x


def _gradient_by(source: Any, parts: Any) -> Any:
    """Packs the gradients of a composite tensor's parts into a gradient of the composite tensor.

    If all of them are None, or the source is a plain tensor, ``parts`` is returned unchanged.
    """
    if not isinstance(source, CompositeTensor) or all(grad is None for grad in nest.flatten(parts)):
        return parts
    return source._with_gradient(parts)


def _seed(cotangent: Any, like: Tensor) -> Tensor:
    """Converts the user's cotangent of a target to a tensor. Raises ValueError if it hasn't the shape of ``like``."""
    seed = convert_to_tensor(cotangent, like.dtype)
    if not agree_shape(seed._type.shape, like._type.shape):
        message = f"output_gradients of shape {seed.shape} do not fit a target of shape {like.shape}"
        raise incompatible_shapes(ValueError(message))
    return seed


def _value(x: Any) -> Tensor:
    """Returns a tensor, or the value of a Variable."""
    return x._as_tensor() if isinstance(x, Variable) else convert_to_tensor(x)


def _jacobian(grad: Any, target: Any, source: Any, unconnected: UnconnectedGradients | str) -> Any:
    """Reshapes a jacobian from (target elements, *source.shape) to (*target.shape, *source.shape).

    If ``grad`` is None, the target doesn't depend on the source, and None or zeros are returned.
    """
    shape = (*target._type.shape, *source._type.shape)
    return _unconnected(unconnected, shape, source) if grad is None else bind.reshape(grad, shape=shape)


def _unconnected(unconnected: UnconnectedGradients | str, shape: tuple[Any, ...], like: Any) -> Any:
    """Returns the gradient by a source that no target depends on: zeros in the dtype of ``like``, or None."""
    return bind.broadcast_to(number(0, like), shape=shape) if wants_zeros(unconnected) else None


def _zeros(source: Any) -> Tensor:
    return zeros_like(_value(source))
