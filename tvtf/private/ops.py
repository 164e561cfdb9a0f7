"""Names of ``tensorflow.python.ops`` that are not public functions.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/ops
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tvtf
from tvtf.frontend.gradient.custom_gradient import custom_gradient
from tvtf.ops.loss import check_weights
from tvtf.private.framework import VariableSpec
from tvtf.state.variable import ResourceVariable


def pfor(
    loop_fn: Callable[[Any], Any],
    iters: Any,
    fallback_to_while_loop: bool = True,
    parallel_iterations: int | None = None,
    warn: bool = False,
) -> Any:
    """Calls ``loop_fn`` on each number below ``iters``, and stacks the results.

    The loop is vectorized: all iterations are computed together.

    Args:
      loop_fn: a function of the number of an iteration.
      iters: the number of iterations.
      fallback_to_while_loop: whether ops that can't be vectorized run in a loop; otherwise they are errors.
      parallel_iterations: not used.
      warn: whether a warning is logged for such ops.
    """
    return tvtf.vectorized_map(loop_fn, tvtf.range(iters), fallback_to_while_loop, warn)


def case_helper(
    cond_fn: Callable[..., Any], pred_fn_pairs: Any, default: Any, exclusive: bool, name: str | None,
    allow_python_preds: bool = False, **cond_kwargs: Any,
) -> Any:  # fmt: skip
    """Calls the function of the first pair with a true predicate, by nested calls of a conditional such as ``tf.cond``.

    Args:
      cond_fn: the conditional, called as ``cond_fn(pred, true_fn=..., false_fn=...)``.
      pred_fn_pairs: a list or dict of predicates and functions.
      default: the function to call if no predicate is true; the last pair's function if it is None.
      exclusive, name, allow_python_preds: TensorFlow's arguments; not used.
      cond_kwargs: further arguments of ``cond_fn``.

    Raises:
      ValueError: there are no pairs.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    if not pairs:
        raise ValueError("Argument `pred_fn_pairs` must not be empty.")
    if default is None:
        *pairs, (_, default) = pairs
    for pred, branch in reversed(pairs):  # from the innermost conditional to the outermost
        default = _conditional(cond_fn, pred, branch, default, cond_kwargs)
    return default()


def _conditional(cond_fn: Any, pred: Any, branch: Any, otherwise: Any, options: dict[str, Any]) -> Callable[[], Any]:
    """Returns a function that calls ``branch`` if ``pred`` is true, else ``otherwise``, by the conditional ``cond_fn``."""
    return lambda: cond_fn(pred, true_fn=branch, false_fn=otherwise, **options)


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Any:  # noqa: A002
    """Returns ``input`` as a tensor. If the gradient of this tensor is computed, a LookupError with ``message`` is raised."""

    @custom_gradient  # type: ignore[untyped-decorator]
    def identity_without_gradient(x: Any) -> Any:
        """Returns a tensor, and the function that is called to compute its gradient."""

        def raise_error(*_: Any) -> Any:
            raise LookupError(f"Gradient explicitly disabled. Reason: {message}")

        return tvtf.identity(x), raise_error

    return identity_without_gradient(tvtf.convert_to_tensor(input))


def parameterized_truncated_normal(
    shape: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0, maxvals: Any = 2.0, dtype: Any = tvtf.float32,
    seed: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Draws random numbers from truncated normal distributions.

    Args:
      shape: the shape of the result.
      means, stddevs: the parameters of the normal distributions before they are truncated.
      minvals, maxvals: the limits between which the numbers lie.
      dtype: the dtype of the result.
      seed: the seed of the random numbers, which differ in each call.
    """
    mean = tvtf.convert_to_tensor(means, dtype)
    stddev = tvtf.convert_to_tensor(stddevs, dtype)
    low = tvtf.convert_to_tensor(minvals, dtype)
    high = tvtf.convert_to_tensor(maxvals, dtype)
    # The stateless op gets a random seed, which differs in each call.
    seeds = tvtf.random.uniform([2], -(2**31), 2**31 - 1, tvtf.int32, seed)
    return tvtf.random.stateless_parameterized_truncated_normal(shape, seeds, mean, stddev, low, high)


class Convolution:
    """A convolution with fixed strides, padding and dilations. It is called on inputs and filters."""

    def __init__(
        self, input_shape: Any, filter_shape: Any, padding: Any, strides: Any = None, dilation_rate: Any = None,
        name: str | None = None, data_format: str | None = None,
    ) -> None:  # fmt: skip
        """Stores the arguments of the convolution, which are those of ``tf.nn.convolution``."""
        self.input_shape = tvtf.TensorShape(input_shape)
        self.filter_shape = tvtf.TensorShape(filter_shape)
        self.padding, self.strides, self.dilation_rate = padding, strides, dilation_rate
        self.data_format, self.name = data_format, name

    def __call__(self, inp: Any, filter: Any) -> Any:  # noqa: A002
        return tvtf.nn.convolution(
            inp, filter, self.strides, self.padding, self.data_format, self.dilation_rate, self.name
        )


def add_operators(operators: Sequence[Any], operator_name: str | None = None, addition_tiers: Any = None) -> list[Any]:
    """Adds the matrices of linear operators, and returns a list with one operator of the sum.

    ``addition_tiers``, TensorFlow's choice of the sum's structure, has no effect: the sum is a dense matrix.
    """
    if len(operators) == 1:  # keeps the structure of the matrix
        return list(operators)
    # The operators' batches may be of different shapes, which `add_n` doesn't broadcast.
    total = functools.reduce(tvtf.add, [each.to_dense() for each in operators])
    return [tvtf.linalg.LinearOperatorFullMatrix(total, name=operator_name or "add")]


def index_table_from_tensor(
    vocabulary_list: Any, num_oov_buckets: int = 0, default_value: int = -1, hasher_spec: Any = None,
    dtype: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Makes a lookup table from the entries of a vocabulary to their positions.

    Args:
      vocabulary_list: the vocabulary, a vector.
      num_oov_buckets: the number of buckets for keys outside of the vocabulary. A hash of the key chooses the bucket, and the
        indices of buckets follow those of the entries.
      default_value: the value of keys outside of the vocabulary if there are no buckets.
      hasher_spec, dtype, name: TensorFlow's arguments; not used.

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

    Args:
      variable: the Variable with the average.
      value: the value to include.
      decay: the weight of the old average, from 0 to 1.
      zero_debias: whether the average starts from 0 at the first call, and is corrected for the bias towards 0, as in
        Adam.
    """
    weight_of_value = 1.0 - decay if isinstance(decay, float) else 1 - decay
    weight = tvtf.cast(tvtf.convert_to_tensor(weight_of_value), variable.dtype)
    if not zero_debias:
        return variable.assign_sub((variable - value) * weight)
    biased, step = _average_state(variable)
    biased.assign_sub((biased - value) * weight)
    step.assign_add(1)
    # After n updates the weights of all values add up to 1 - decay**n.
    sum_of_weights = 1 - tvtf.pow(1 - weight, tvtf.cast(step, variable.dtype))
    return variable.assign(biased / sum_of_weights)


def _average_state(variable: Any) -> tuple[Any, Any]:
    """Returns the two Variables in which `assign_moving_average` stores the state of a moving average.

    They contain the average with its bias towards 0, and the number of updates. They are created on the first call, and stored
    in an attribute of the averaged Variable.
    """
    state = vars(variable).get("_moving_average")
    if state is None:
        # Outside of a trace, because the Variables outlive it.
        with tvtf.init_scope():
            state = (
                tvtf.Variable(tvtf.zeros(variable.shape, variable.dtype), trainable=False, name="biased"),
                tvtf.Variable(0, dtype=tvtf.int64, trainable=False, name="local_step"),
            )
        variable._moving_average = state
    return state


def sparse_reorder(input_indices: Any, input_values: Any, input_shape: Any, name: str | None = None) -> SparseReorder:
    """Sorts the elements of a sparse tensor in row-major order, and returns their indices and values."""
    ordered = tvtf.sparse.reorder(tvtf.SparseTensor(input_indices, input_values, input_shape))
    return SparseReorder(ordered.indices, ordered.values)


class SparseReorder(NamedTuple):
    """The results of the op ``SparseReorder``."""

    output_indices: Any
    output_values: Any


def broadcast_weights(weights: Any, values: Any) -> Any:
    """Broadcasts weights to the shape of the values that they weigh.

    Raises:
      ValueError: the weights are no scalar, have another rank than the values, or a size that is neither 1 nor the values'.
    """
    values = tvtf.convert_to_tensor(values)
    weights = tvtf.convert_to_tensor(weights, values.dtype)
    check_weights(values, weights)
    return tvtf.broadcast_to(weights, tvtf.shape(values))


def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """Calls the branch that a predicate chooses: in Python if its value is known, and with ``tf.cond`` for a Variable's."""
    if isinstance(pred, tvtf.Variable):
        return tvtf.cond(pred, true_fn, false_fn, name=name)
    return tvtf.__internal__.smart_cond.smart_cond(pred, true_fn, false_fn, name)


def gen_new_seed(seed: int | None, salt: str) -> int | None:
    """Makes another seed from a seed and a string; None gives None."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def _unchanged(cls: Any) -> Any:
    """Returns a class of linear operators unchanged, in place of TensorFlow's decorator, which tvtf does not need."""
    return cls


NAMES: dict[str, dict[str, Any]] = {
    "python.data.ops.iterator_ops": {"OwnedIterator": tvtf.data.Iterator},
    "python.layers.utils": {"smart_cond": smart_cond},
    "python.ops.array_ops": {"prevent_gradient": prevent_gradient},
    "python.ops.control_flow_case": {"_case_helper": case_helper},
    "python.ops.control_flow_util": {
        "ENABLE_CONTROL_FLOW_V2": True,
        "EnableControlFlowV2": lambda graph: True,
        "GraphOrParentsInXlaContext": lambda graph: False,
        "InXlaContext": lambda graph: False,
    },
    "python.ops.distributions.util": {"gen_new_seed": gen_new_seed},
    "python.ops.gen_sparse_ops": {"sparse_reorder": sparse_reorder},
    "python.ops.weights_broadcast_ops": {"broadcast_weights": broadcast_weights},
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
