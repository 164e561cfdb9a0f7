"""GradientTape: the user's view of the recorder and its sweep, eager and traced alike."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import Any

from tvtf import nest
from tvtf.context import state
from tvtf.passes.autodiff import Recorder, ones_for, sweep
from tvtf.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.variable import ReadVariable, Variable

MSG_ONCE = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
logger = logging.getLogger("tensorflow")


class UnconnectedGradients:
    """What :meth:`GradientTape.gradient` gives for sources that a target does not depend on: None, or zeros."""

    NONE = "none"
    ZERO = "zero"


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

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        super().__init__()
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self._variables: dict[int, Variable] = {}
        self._recording = False
        self._used = False

    # -- recording

    def __enter__(self) -> GradientTape:
        self._start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._recording:
            self._stop()

    def _start(self) -> None:
        if self._recording:
            raise ValueError("Tape is already recording.")
        state.tapes = [*state.tapes, self]
        self._recording = True

    def _stop(self) -> None:
        if not self._recording:
            raise ValueError("Tape is not recording.")
        state.tapes = [t for t in state.tapes if t is not self]
        self._recording = False

    def watch(self, tensor: Any) -> None:  # type: ignore[override]
        """Traces ``tensor``, or each of a nest of them.

        Raises:
          ValueError: for something that is no tensor.
        """
        for each in nest.flatten(tensor):
            if not is_tensor(each):
                raise ValueError(f"Passed in object {each} of type {type(each).__name__!r}, not tf.Tensor or tf.Variable or ExtensionType.")
            if not each.dtype.is_differentiable:
                logger.warning("The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", each.dtype)
            self._watch_one(each)

    def _watch_one(self, each: Any) -> None:
        super().watch(each)
        if isinstance(each, Variable):
            self._variables[id(each)] = each

    def read(self, variable: Variable, tensor: Tensor) -> None:
        """A Variable was read: its gradient is that of what was read."""
        if self.watch_accessed_variables and variable.trainable:
            self._watch_one(variable)
        if self.watches(variable):
            self.record(ReadVariable, (variable,), tensor, {})

    def watched_variables(self) -> tuple[Variable, ...]:
        """The Variables watched, in order of first use."""
        return tuple(self._variables.values())

    @contextmanager
    def stop_recording(self) -> Any:
        """Operations inside are not recorded."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def reset(self) -> None:
        """Forgets everything recorded."""
        self.records.clear()
        self.active.clear()
        self._variables.clear()

    # -- gradients

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradient of the sum of ``target`` (a tensor or nest of them) by each of ``sources``.

        Args:
          output_gradients: a cotangent for each target element, in place of ones.
          unconnected_gradients: "none" gives None for a source no target depends on, "zero" zeros.

        Returns:
          Gradients in the structure of ``sources``.

        Raises:
          RuntimeError: a second call on a tape that is not persistent.
          LookupError: an op on the way has no gradient.
        """
        self._use()
        targets = [self._tensor_of(t) for t in nest.flatten(target)]
        flat = nest.flatten(sources)
        found = self._sweep(targets, flat, self._seeds(targets, output_gradients))
        if unconnected_gradients == UnconnectedGradients.ZERO:
            found = [_zeros(s) if g is None else g for g, s in zip(found, flat)]
        return nest.pack_sequence_as(sources, found)

    def _use(self) -> None:
        if self._used and not self.persistent:
            raise RuntimeError(MSG_ONCE)
        self._used = True
        if self._recording and not self.persistent:
            self._stop()

    def _sweep(self, targets: list[Any], sources: list[Any], seeds: list[Tensor]) -> list[Any]:
        """The sweep itself; a persistent tape that still records does not record its own gradients' way back."""
        pairs = [(t, s) for t, s in zip(targets, seeds) if t.dtype.is_differentiable]
        found = sweep(tuple(self.records), [t for t, _ in pairs], [s for _, s in pairs], sources)
        if not self.persistent:
            self.records.clear()
        return found

    def _tensor_of(self, target: Any) -> Any:
        """A Variable as a target is what was read of it; integers are warned of, as TensorFlow does."""
        if not is_tensor(target):
            target = convert_to_tensor(target)
        if not target.dtype.is_differentiable:
            logger.warning(
                "The dtype of the target tensor must be floating (e.g. tf.float32) when calling GradientTape.gradient, got %r",
                target.dtype,
            )
        return target

    def _seeds(self, targets: list[Any], output_gradients: Any) -> list[Tensor]:
        ones = ones_for([t._as_tensor() if isinstance(t, Variable) else t for t in targets])
        if output_gradients is None:
            return ones
        given = nest.flatten(output_gradients)
        return [o if g is None else convert_to_tensor(g, o.dtype) for o, g in zip(ones, given)]


def _zeros(source: Any) -> Tensor:
    from tvtf.ops.rules import zeros_like

    return zeros_like(source._as_tensor() if isinstance(source, Variable) else source)
