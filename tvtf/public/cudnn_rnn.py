"""``tf.raw_ops.CudnnRNN``: recurrent layers whose parameters lie in one vector, in cuDNN's order.

Of TensorFlow's devices GPUs alone have this op. Here it is composed of other ops, and runs wherever they do.
Source: https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html#cudnnrnnmode-t
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tvtf.core.primitive import export, public_names
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.errors import InvalidArgumentError

GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


class CudnnRNNResult(NamedTuple):
    """What the op gives: of each step, and of the last one; ``reserve_space`` is empty, as no gradient op reads it."""

    output: Tensor
    output_h: Tensor
    output_c: Tensor
    reserve_space: Tensor


CudnnRNNResult.__name__ = CudnnRNNResult.__qualname__ = "CudnnRNN"


class _Cell(NamedTuple):
    """The parameters of one layer in one direction: two matrices and two vectors, gate after gate."""

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
    """Recurrent layers over ``input`` of shape (time, batch, features).

    Args:
      input_h: the states before the first step, (layers * directions, batch, units).
      input_c: the same of an LSTM's cells; of others it is not read.
      params: all weights, then all biases, of each layer and direction those by the input before those by the state.
      rnn_mode: "lstm", "gru", "rnn_relu" or "rnn_tanh".
      direction: "unidirectional", or "bidirectional": the second one reads backwards, and each layer reads both.

    Returns:
      A named tuple: all states of the last layer, the last states of all layers, the last cells, an empty tensor.

    >>> import tvtf as tf
    >>> zero, parameters = tf.zeros([1, 1, 2]), tf.zeros([2 * (3 + 2) + 4])
    >>> found = tf.raw_ops.CudnnRNN(
    ...     input=tf.ones([4, 1, 3]), input_h=zero, input_c=zero, params=parameters, rnn_mode="rnn_tanh"
    ... )
    >>> print(found.output.shape, found.output_h.shape)
    (4, 1, 2) (1, 1, 2)

    Raises:
      InvalidArgumentError: an unknown mode or direction, an input that skips its weights, or dropout.

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/CudnnRNN
    """
    tf: Any = public_names()
    for value, allowed, what in (
        (rnn_mode, GATES, "rnn_mode"),
        (direction, DIRECTIONS, "direction"),
        (input_mode, ("linear_input", "auto_select"), "input_mode"),
        (float(dropout), (0.0,), "dropout"),
    ):
        if value not in allowed:
            raise InvalidArgumentError(None, None, f"CudnnRNN: {what} must be one of {[*allowed]}, but is {value!r}")
    x, start, cells, flat = (convert_to_tensor(t) for t in (input, input_h, input_c, params))
    ways = DIRECTIONS[direction]
    layers, features, units = start.shape[0] // ways, x.shape[-1], start.shape[-1]
    step = _steps(tf)[rnn_mode]
    parameters = _cells(
        tf, flat, GATES[rnn_mode] * units, units, [features] * ways + [ways * units] * (layers - 1) * ways
    )
    is_lstm = rnn_mode == "lstm"
    last_h, last_c = [], []
    for layer in range(layers):
        found = []
        for way in range(ways):
            k = layer * ways + way
            state = (start[k], cells[k]) if is_lstm else (start[k],)
            outputs = tf["scan"](_through(tf, step, parameters[k]), x, state, reverse=way == 1)
            found.append(outputs[0])
            end = 0 if way else -1
            last_h.append(outputs[0][end])
            if is_lstm:
                last_c.append(outputs[1][end])
        x = tf["concat"](found, axis=-1)
    nothing = tf["zeros"]([], x.dtype)
    whole_c = tf["stack"](last_c) if is_lstm else nothing
    return CudnnRNNResult(x, tf["stack"](last_h), whole_c, tf["zeros"]([0], x.dtype))


def _through(tf: Any, step: Callable[..., Any], cell: _Cell) -> Callable[..., Any]:
    def run(state: tuple[Tensor, ...], x: Tensor) -> Any:
        by_input = tf["matmul"](x, cell.by_input, transpose_b=True) + cell.input_bias
        by_state = tf["matmul"](state[0], cell.by_state, transpose_b=True) + cell.state_bias
        return step(by_input, by_state, *state)

    return run


def _steps(tf: Any) -> dict[str, Callable[..., Any]]:
    """From what the input and the state come to, and the state itself, the next state."""
    sigmoid, tanh = tf["sigmoid"], tf["tanh"]

    def lstm(by_input: Tensor, by_state: Tensor, h: Tensor, c: Tensor) -> Any:
        into, forget, fresh, out = tf["split"](by_input + by_state, 4, axis=-1)
        cell = sigmoid(forget) * c + sigmoid(into) * tanh(fresh)
        return sigmoid(out) * tanh(cell), cell

    def gru(by_input: Tensor, by_state: Tensor, h: Tensor) -> Any:
        reset, update, fresh = tf["split"](by_input, 3, axis=-1)
        own_reset, own_update, own_fresh = tf["split"](by_state, 3, axis=-1)
        stays = sigmoid(update + own_update)
        return ((1.0 - stays) * tanh(fresh + sigmoid(reset + own_reset) * own_fresh) + stays * h,)

    return {
        "lstm": lstm,
        "gru": gru,
        "rnn_relu": lambda by_input, by_state, h: (tf["nn.relu"](by_input + by_state),),
        "rnn_tanh": lambda by_input, by_state, h: (tanh(by_input + by_state),),
    }


def _cells(tf: Any, flat: Tensor, rows: int, units: int, inputs: list[int]) -> list[_Cell]:
    """The parameters of each layer and direction, whose inputs are of these sizes."""
    at = 0

    def part(*shape: int) -> Tensor:
        nonlocal at
        begin, at = at, at + (shape[0] * shape[1] if len(shape) == 2 else shape[0])
        found: Tensor = tf["reshape"](flat[begin:at], shape)
        return found

    weights = [(part(rows, size), part(rows, units)) for size in inputs]
    return [_Cell(*pair, part(rows), part(rows)) for pair in weights]
