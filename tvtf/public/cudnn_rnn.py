"""Defines ``tf.raw_ops.CudnnRNN``: recurrent layers whose parameters are one vector in cuDNN's order.

TensorFlow has this op only on GPUs. Here it is composed of other ops and runs on every device.
Source: https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html#cudnnrnnmode-t
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tvtf.core.primitive import export, public_names
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.errors import InvalidArgumentError

GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


class CudnnRNNResult(NamedTuple):
    """The op's results; ``reserve_space`` is empty, as no gradient op reads it."""

    output: Tensor
    output_h: Tensor
    output_c: Tensor
    reserve_space: Tensor


CudnnRNNResult.__name__ = CudnnRNNResult.__qualname__ = "CudnnRNN"


class _Cell(NamedTuple):
    """The parameters of one layer and direction: two matrices and two vectors, with the gates' rows in order."""

    by_input: Tensor
    by_state: Tensor
    input_bias: Tensor
    state_bias: Tensor


@export("raw_ops.CudnnRNN")
def CudnnRNN(  # noqa: N802 - TensorFlow's name
    *,
    input: Any,  # noqa: A002
    input_h: Any,
    input_c: Any,
    params: Any,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0,
    seed: int = 0,
    seed2: int = 0,
    is_training: bool = True,
    name: str | None = None,
) -> CudnnRNNResult:
    """Runs recurrent layers over ``input`` of shape (time, batch, features).

    Args:
      input_h: the initial states, of shape (layers * directions, batch, units).
      input_c: an LSTM's initial cells, of the same shape; not used by other modes.
      params: all weights, then all biases; for each layer and direction those of the input before those of the state.
      rnn_mode: "lstm", "gru", "rnn_relu" or "rnn_tanh".
      direction: "unidirectional", or "bidirectional": the second direction runs backwards, and each layer reads both.

    Returns:
      A named tuple: all states of the last layer, the final states of all layers, the final cells, an empty tensor.

    >>> import tvtf as tf
    >>> zero, parameters = tf.zeros([1, 1, 2]), tf.zeros([2 * (3 + 2) + 4])
    >>> result = tf.raw_ops.CudnnRNN(
    ...     input=tf.ones([4, 1, 3]), input_h=zero, input_c=zero, params=parameters, rnn_mode="rnn_tanh"
    ... )
    >>> print(result.output.shape, result.output_h.shape)
    (4, 1, 2) (1, 1, 2)

    Raises:
      InvalidArgumentError: the mode or direction is unknown, the input has no weights, or dropout is not zero.

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/CudnnRNN
    """
    tf: Any = public_names()
    for value, allowed, argument in (
        (rnn_mode, GATES, "rnn_mode"),
        (direction, DIRECTIONS, "direction"),
        (input_mode, ("linear_input", "auto_select"), "input_mode"),
        (float(dropout), (0.0,), "dropout"),
    ):
        if value not in allowed:
            raise InvalidArgumentError(
                None, None, f"CudnnRNN: {argument} must be one of {[*allowed]}, but is {value!r}"
            )
    x = convert_to_tensor(input)
    initial_h = convert_to_tensor(input_h)
    initial_c = convert_to_tensor(input_c)
    flat = convert_to_tensor(params)
    directions = DIRECTIONS[direction]
    layers = initial_h.shape[0] // directions
    features = x.shape[-1]
    units = initial_h.shape[-1]
    next_state = _cell_functions(tf)[rnn_mode]
    parameters = _split_parameters(
        tf,
        flat,
        GATES[rnn_mode] * units,
        units,
        [features] * directions + [directions * units] * (layers - 1) * directions,
    )
    is_lstm = rnn_mode == "lstm"
    last_h, last_c = [], []
    for layer in range(layers):
        direction_outputs = []
        for direction_index in range(directions):
            cell = layer * directions + direction_index
            state = (initial_h[cell], initial_c[cell]) if is_lstm else (initial_h[cell],)
            outputs = tf["scan"](_scan_step(tf, next_state, parameters[cell]), x, state, reverse=direction_index == 1)
            direction_outputs.append(outputs[0])
            last_time = 0 if direction_index else -1  # the second direction ends at the first time step
            last_h.append(outputs[0][last_time])
            if is_lstm:
                last_c.append(outputs[1][last_time])
        x = tf["concat"](direction_outputs, axis=-1)
    empty = tf["zeros"]([], x.dtype)
    output_c = tf["stack"](last_c) if is_lstm else empty
    return CudnnRNNResult(x, tf["stack"](last_h), output_c, tf["zeros"]([0], x.dtype))


def _scan_step(tf: Any, next_state: Callable[..., Any], cell: _Cell) -> Callable[..., Any]:
    """Returns the function that ``tf.scan`` calls for each time step of a recurrent layer.

    Args:
      tf: tvtf's public functions by path.
      next_state: a cell function of `_cell_functions`.
      cell: the weights and biases of the layer.
    """

    def advance(state: tuple[Tensor, ...], x: Tensor) -> Any:
        hidden_state, *_ = state  # an LSTM also has a cell state
        input_term = tf["matmul"](x, cell.by_input, transpose_b=True) + cell.input_bias
        state_term = tf["matmul"](hidden_state, cell.by_state, transpose_b=True) + cell.state_bias
        return next_state(input_term, state_term, *state)

    return advance


def _cell_functions(tf: Any) -> dict[str, Callable[..., Any]]:
    """Returns the cell functions of recurrent layers by cuDNN's mode: LSTM, GRU, and simple RNNs.

    A cell function computes the next state from three values: the input times its weights (``input_term``), the state times
    its weights (``state_term``), both with their biases, and the previous state ``h``, with ``c`` for an LSTM.
    """
    sigmoid, tanh = tf["sigmoid"], tf["tanh"]

    def lstm(input_term: Tensor, state_term: Tensor, h: Tensor, c: Tensor) -> Any:
        """Computes one step of an LSTM: the next output and the next cell state."""
        input_gate, forget_gate, candidate, output_gate = tf["split"](input_term + state_term, 4, axis=-1)
        cell = sigmoid(forget_gate) * c + sigmoid(input_gate) * tanh(candidate)
        return sigmoid(output_gate) * tanh(cell), cell

    def gru(input_term: Tensor, state_term: Tensor, h: Tensor) -> Any:
        """Computes one step of a GRU from the products of input and state with the weights.

        Args:
          input_term, state_term: the products of the input and of the state with the weights.
          h: the state.
        """
        reset, update, candidate = tf["split"](input_term, 3, axis=-1)
        state_reset, state_update, state_candidate = tf["split"](state_term, 3, axis=-1)
        update_gate = sigmoid(update + state_update)
        reset_gate = sigmoid(reset + state_reset)
        # In cuDNN's GRU the reset gate scales the state's term with the bias.
        new_candidate = tanh(candidate + reset_gate * state_candidate)
        return ((1.0 - update_gate) * new_candidate + update_gate * h,)

    return {
        "lstm": lstm,
        "gru": gru,
        "rnn_relu": lambda input_term, state_term, h: (tf["nn.relu"](input_term + state_term),),
        "rnn_tanh": lambda input_term, state_term, h: (tanh(input_term + state_term),),
    }


def _split_parameters(tf: Any, flat: Tensor, gate_rows: int, units: int, input_sizes: list[int]) -> list[_Cell]:
    """Splits cuDNN's vector of parameters into matrices and biases for each cell (a cell: one layer and direction).

    The vector contains the matrices of all cells, then the biases of all cells.

    Args:
      tf: tvtf's public functions by path.
      flat: the vector.
      gate_rows: the rows of each matrix: the number of gates times ``units``.
      units: the size of the state.
      input_sizes: the number of input features of each cell.
    """
    offset = 0

    def next_parameter(*shape: int) -> Tensor:
        """Returns the parameter of this shape that follows the previous one in the vector."""
        nonlocal offset
        start = offset
        offset += math.prod(shape)
        reshaped: Tensor = tf["reshape"](flat[start:offset], shape)
        return reshaped

    matrices = []
    for size in input_sizes:
        input_matrix = next_parameter(gate_rows, size)
        state_matrix = next_parameter(gate_rows, units)
        matrices.append((input_matrix, state_matrix))
    return [_Cell(*pair, next_parameter(gate_rows), next_parameter(gate_rows)) for pair in matrices]
