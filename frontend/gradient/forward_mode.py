"""``tf.autodiff.ForwardAccumulator``: forward mode, op by op, by transposing each primitive's ``vjp``.

The vjp of an op is linear in its cotangent ``u``; the derivative of ``vjp(u) . t`` by ``u`` is the op's Jacobian
times ``t``. Source: J. Townsend, A new trick for calculating Jacobian vector products, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.log import logger
from tvtf.core.primitive import as_tuple, export
from tvtf.core.shape import agree_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.gradient.tape import GradientTape, UnconnectedGradients, wants_zeros
from tvtf.ops.custom import with_gradient
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, zeros_like
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep, with_all_cotangents
from tvtf.state.variable import ReadVariable, Variable

MSG_TWICE = (
    "Tensor {} was specified as a primal multiple times. This may indicate an error. If it was intended, please sum the "
    "corresponding tangents."
)


@export("autodiff.ForwardAccumulator")
class ForwardAccumulator:
    """Computes Jacobian-vector products as ops run: how results change when ``primals`` move along ``tangents``.

    Args:
      primals: a tensor or Variable, or a nest of them.
      tangents: tensors of the same shapes and dtypes, in the same structure.

    >>> import tvtf as tf
    >>> x = tf.constant([2.0, 3.0])
    >>> with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
    ...     y = x * x
    >>> acc.jvp(y).numpy()
    array([4., 0.], dtype=float32)

    Raises:
      ValueError: a tensor is listed twice, or the structure of the tangents differs from that of the primals.

    Source: https://www.tensorflow.org/api_docs/python/tf/autodiff/ForwardAccumulator
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        """Pairs each primal with its tangent. Recording starts when the accumulator is entered as a context."""
        flat = nest.flatten(primals)
        if len({id(primal) for primal in flat}) < len(flat):  # the same tensor twice
            raise ValueError(MSG_TWICE)
        self.level = state.batches  # the number of vectorized maps around the accumulator
        self._recording = False
        self._tangents: dict[int, tuple[Any, Tensor]] = {}
        nest.map_structure(self._watch, primals, tangents)

    def _watch(self, primal: Any, tangent: Any) -> None:
        """Records the tangent of a primal, converted to the primal's dtype."""
        if not primal.dtype.is_floating:
            logger.warning("The dtype of the watched primal must be floating (e.g. tf.float32), got %r", primal.dtype)
        tangent = convert_to_tensor(tangent, dtype=primal.dtype)
        if not agree_shape(primal._type.shape, tangent._type.shape):
            raise incompatible_shapes(
                ValueError(f"A tangent of shape {tangent.shape} does not fit a primal of shape {primal.shape}")
            )
        self._tangents[id(primal)] = primal, tangent

    def __enter__(self) -> ForwardAccumulator:
        """Starts recording: ops now propagate tangents to this accumulator."""
        if self._recording:
            raise ValueError("Accumulator is already recording.")
        state.tapes = [*state.tapes, self]
        self._recording = True
        return self

    def __exit__(self, *_: Any) -> None:
        state.tapes = [tape for tape in state.tapes if tape is not self]
        self._recording = False

    def jvp(self, primals: Any, unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE) -> Any:
        """Returns the tangents of ``primals``: the Jacobian-vector products computed while the accumulator recorded.

        Args:
          primals: a tensor or nest of them.
          unconnected_gradients: the result for a tensor that no primal influences: "none" for None, "zero" for zeros.

        Returns:
          Tensors in the structure of ``primals``.
        """

        def tangent_of(tensor: Any) -> Any:
            """Returns the tangent of a tensor; None or zeros if no primal influences the tensor."""
            entry = self._tangents.get(id(tensor))
            if entry is not None:
                _, tangent = entry
                return tangent
            return zeros_like(convert_to_tensor(tensor)) if wants_zeros(unconnected_gradients) else None

        return nest.map_structure(tangent_of, primals)

    # -- as a tape

    def watches(self, tensor: Any) -> bool:
        return id(tensor) in self._tangents

    def records_uses_of(self, source: Any) -> bool:
        return self.watches(source)

    def active_tensors(self) -> list[Any]:
        """Returns the tensors that have tangents."""
        return [tensor for tensor, _ in self._tangents.values()]

    def read(self, variable: Variable, tensor: Tensor) -> None:
        """Records that a Variable was read: the tensor read has the same tangent as the Variable."""
        if self.watches(variable):
            _, tangent = self._tangents[id(variable)]
            self._tangents[id(tensor)] = tensor, tangent

    def record(self, prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
        """Computes the tangents of an op's results from the tangents of its inputs, and stores them.

        Every op calls this method while the accumulator is among the active tapes.
        """
        input_tangents = [
            (i, self._tangents[id(input_tensor)][1])
            for i, input_tensor in enumerate(inputs)
            if id(input_tensor) in self._tangents
        ]
        results = [result for result in as_tuple(outputs) if result.dtype.is_differentiable]
        if not input_tangents or not results or prim is ReadVariable:  # `read` handles reads of Variables
            return
        # A custom gradient is ignored: in TensorFlow, tangents follow the function's own ops.
        if prim.tf_name == with_gradient.tf_name:
            self._pass_on(inputs, outputs)
            return
        if prim.vjp is None:
            raise LookupError(f"gradient registry has no entry for: {prim.tf_name}")
        tapes = state.tapes
        try:
            # Only tapes opened before this one record, and so differentiate, how tangents are computed.
            state.tapes = tapes[: tapes.index(self)]
            result_tangents = jacobian_vector_product(prim, inputs, outputs, attrs, input_tangents, results)
        finally:
            state.tapes = tapes
        for result, tangent in zip(results, result_tangents):
            if tangent is not None:
                self._tangents[id(result)] = result, tangent

    def _pass_on(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Stores the tangent of each input as the tangent of the output at the same position."""
        for x, y in zip(inputs, outputs):
            if id(x) in self._tangents:
                _, tangent = self._tangents[id(x)]
                self._tangents[id(y)] = y, tangent


def jacobian_vector_product(
    prim: Any,
    inputs: Sequence[Any],
    outputs: Any,
    attrs: dict[str, Any],
    input_tangents: Sequence[tuple[int, Tensor]],
    results: Sequence[Tensor],
) -> list[Any]:
    """Computes the tangents of ``results``, the differentiable outputs of an op, by forward-mode differentiation.

    ``input_tangents`` are pairs of an input's index and its tangent. The op's vjp is linear in the cotangents u, and
    the derivative of ``sum(vjp(u) * tangents)`` by u is the Jacobian times the tangents. So the vjp is recorded for
    zero cotangents, and the record is swept backward.
    """
    cotangents = {id(output): bind.identity(zeros_like(output)) for output in as_tuple(outputs)}
    recorder = Recorder()
    for output in results:
        recorder.watch(cotangents[id(output)])
    outer = state.tapes
    state.tapes = [*state.tapes, recorder]
    try:
        output_cotangents = tuple(cotangents[id(output)] for output in as_tuple(outputs))
        vjp = with_all_cotangents(prim.vjp)
        cotangent = output_cotangents if type(outputs) is tuple else output_cotangents[0]
        input_cotangents = vjp(cotangent, outputs, *inputs, **attrs)
        pairs = [
            (as_dense(input_cotangents[i]), tangent) for i, tangent in input_tangents if input_cotangents[i] is not None
        ]
    finally:
        state.tapes = outer
    return sweep(recorder.records, pairs, [cotangents[id(output)] for output in results])


export("autodiff.GradientTape")(GradientTape)
