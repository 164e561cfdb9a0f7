"""Names of ``tensorflow.python.ops`` that are not public functions.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/ops
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvtf
from tvtf.frontend.gradient.custom_gradient import custom_gradient
from tvtf.private.framework import VariableSpec
from tvtf.state.variable import ResourceVariable


def pfor(
    loop_fn: Callable[[Any], Any],
    iters: Any,
    fallback_to_while_loop: bool = True,
    parallel_iterations: int | None = None,
    warn: bool = False,
) -> Any:
    """Calls ``loop_fn`` on each number below ``iters`` and stacks the results: a parallel ``for`` loop, vectorized."""
    return tvtf.vectorized_map(loop_fn, tvtf.range(iters), fallback_to_while_loop, warn)


def case_helper(
    cond_fn: Callable[..., Any], pred_fn_pairs: Any, default: Any, exclusive: bool, name: str | None,
    allow_python_preds: bool = False, **cond_kwargs: Any,
) -> Any:  # fmt: skip
    """Implements ``tf.case`` by nested calls of ``cond_fn``, such as ``tf.cond``; without a default the last pair is it.

    Raises:
      ValueError: there are no pairs.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    if not pairs:
        raise ValueError("Argument `pred_fn_pairs` must not be empty.")
    if default is None:
        *pairs, (_, default) = pairs
    for pred, branch in reversed(pairs):
        default = _conditional(cond_fn, pred, branch, default, cond_kwargs)
    return default()


def _conditional(cond_fn: Any, pred: Any, branch: Any, otherwise: Any, options: dict[str, Any]) -> Callable[[], Any]:
    """Returns a function that calls ``cond_fn`` on one predicate."""
    return lambda: cond_fn(pred, true_fn=branch, false_fn=otherwise, **options)


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Any:  # noqa: A002
    """Returns ``input`` unchanged, and raises LookupError with ``message`` if its gradient is computed."""

    @custom_gradient  # type: ignore[untyped-decorator]
    def identity_without_gradient(x: Any) -> Any:
        def raise_error(*_: Any) -> Any:
            raise LookupError(f"Gradient explicitly disabled. Reason: {message}")

        return tvtf.identity(x), raise_error

    return identity_without_gradient(tvtf.convert_to_tensor(input))


def parameterized_truncated_normal(
    shape: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0, maxvals: Any = 2.0, dtype: Any = tvtf.float32,
    seed: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Draws random numbers from normal distributions that are truncated at ``minvals`` and ``maxvals``."""
    mean, stddev, low, high = (tvtf.convert_to_tensor(each, dtype) for each in (means, stddevs, minvals, maxvals))
    seeds = tvtf.random.uniform([2], -(2**31), 2**31 - 1, tvtf.int32, seed)
    return tvtf.random.stateless_parameterized_truncated_normal(shape, seeds, mean, stddev, low, high)


class Convolution:
    """A convolution with fixed window, strides and padding, called with inputs and filters."""

    def __init__(
        self, input_shape: Any, filter_shape: Any, padding: Any, strides: Any = None, dilation_rate: Any = None,
        name: str | None = None, data_format: str | None = None,
    ) -> None:  # fmt: skip
        self.input_shape, self.filter_shape = tvtf.TensorShape(input_shape), tvtf.TensorShape(filter_shape)
        self.padding, self.strides, self.dilation_rate = padding, strides, dilation_rate
        self.data_format, self.name = data_format, name

    def __call__(self, inp: Any, filter: Any) -> Any:  # noqa: A002
        return tvtf.nn.convolution(
            inp, filter, self.strides, self.padding, self.data_format, self.dilation_rate, self.name
        )


def add_operators(operators: Sequence[Any], operator_name: str | None = None, addition_tiers: Any = None) -> list[Any]:
    """Returns a list of one operator, whose matrix is the sum of the operators' matrices."""
    if len(operators) == 1:
        return list(operators)
    total = tvtf.add_n([each.to_dense() for each in operators])
    return [tvtf.linalg.LinearOperatorFullMatrix(total, name=operator_name or "add")]


def index_table_from_tensor(
    vocabulary_list: Any, num_oov_buckets: int = 0, default_value: int = -1, hasher_spec: Any = None,
    dtype: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns a lookup table from a vocabulary's entries to their positions.

    Other keys get ``default_value``, or with ``num_oov_buckets`` the number of a bucket, chosen by a hash.

    Raises:
      ValueError: there is no vocabulary, or the number of buckets is negative.
    """
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` must be specified.")
    if num_oov_buckets < 0:
        raise ValueError(f"`num_oov_buckets` must be greater or equal than 0, got {num_oov_buckets}.")
    keys = tvtf.convert_to_tensor(vocabulary_list)
    values = tvtf.range(tvtf.size(keys, tvtf.int64), dtype=tvtf.int64)
    initializer = tvtf.lookup.KeyValueTensorInitializer(keys, values)
    if num_oov_buckets:
        return tvtf.lookup.StaticVocabularyTable(initializer, num_oov_buckets)
    return tvtf.lookup.StaticHashTable(initializer, default_value)


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """Updates an exponential moving average: sets a Variable to ``variable * decay + value * (1 - decay)``.

    With ``zero_debias`` it is set to the average of the values since the first call, without the bias of its initial value.
    """
    decay = tvtf.cast(tvtf.convert_to_tensor(1.0 - decay if isinstance(decay, float) else 1 - decay), variable.dtype)
    if not zero_debias:
        return variable.assign_sub((variable - value) * decay)
    biased, step = _average_state(variable)
    biased.assign_sub((biased - value) * decay)
    step.assign_add(1)
    return variable.assign(biased / (1 - tvtf.pow(1 - decay, tvtf.cast(step, variable.dtype))))


def _average_state(variable: Any) -> tuple[Any, Any]:
    """Returns two Variables that `assign_moving_average` keeps for a Variable: the biased average, and the number of updates.

    They are created on the first call, and stored as an attribute of the Variable.
    """
    pair = vars(variable).get("_moving_average")
    if pair is None:
        # Outside of a trace, because the Variables outlive it.
        with tvtf.init_scope():
            pair = (
                tvtf.Variable(tvtf.zeros(variable.shape, variable.dtype), trainable=False, name="biased"),
                tvtf.Variable(0, dtype=tvtf.int64, trainable=False, name="local_step"),
            )
        variable._moving_average = pair
    return pair


def _unchanged(cls: Any) -> Any:
    """Returns the class: linear operators need no composite tensors here."""
    return cls


NAMES: dict[str, dict[str, Any]] = {
    "python.data.ops.iterator_ops": {"OwnedIterator": tvtf.data.Iterator},
    "python.ops.array_ops": {"prevent_gradient": prevent_gradient},
    "python.ops.control_flow_case": {"_case_helper": case_helper},
    "python.ops.control_flow_util": {
        "ENABLE_CONTROL_FLOW_V2": True,
        "EnableControlFlowV2": lambda graph: True,
        "GraphOrParentsInXlaContext": lambda graph: False,
        "InXlaContext": lambda graph: False,
    },
    "python.ops.linalg.linear_operator": {"make_composite_tensor": _unchanged},
    "python.ops.linalg.linear_operator_addition": {"add_operators": add_operators},
    "python.ops.lookup_ops": {"index_table_from_tensor": index_table_from_tensor},
    "python.ops.nn_ops": {"Convolution": Convolution},
    "python.ops.parallel_for.control_flow_ops": {"pfor": pfor, "vectorized_map": tvtf.vectorized_map},
    "python.ops.random_ops": {"parameterized_truncated_normal": parameterized_truncated_normal},
    "python.ops.resource_variable_ops": {
        "BaseResourceVariable": ResourceVariable,
        "ResourceVariable": ResourceVariable,
        "VariableSpec": VariableSpec,
        "is_resource_variable": lambda var: isinstance(var, ResourceVariable),
    },
    "python.training.moving_averages": {"assign_moving_average": assign_moving_average},
}
