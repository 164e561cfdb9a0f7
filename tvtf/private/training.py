"""Names of ``tensorflow.python.training``, and of TensorFlow 1's metrics, that are not public functions.

TF-Slim builds its metrics and evaluations on them.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/training
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvtf
from tvtf.core.log import logger
from tvtf.core.thread_state import executing_eagerly
from tvtf.v1.decays import get_global_step
from tvtf.v1.graph import get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.metrics import remove_squeezable_dimensions, weights_of_rank
from tvtf.v1.supervision import (
    ChiefSessionCreator,
    FinalOpsHook,
    MonitoredSession,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tvtf.v1.variables import Variable, get_variable

# -- evaluations


def get_or_create_eval_step() -> Any:
    """Returns the graph's local variable that counts the batches of an evaluation. Creates it if there is none.

    Raises:
      ValueError: there are several.
    """
    steps = get_default_graph().get_collection(GraphKeys.EVAL_STEP)
    if len(steps) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if steps:
        return steps[0]
    zero = tvtf.constant(0, tvtf.int64)
    collections = [GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP]
    return get_variable("eval_step", initializer=zero, trainable=False, collections=collections)


class StopAfterNEvalsHook(SessionRunHook):
    """Ends an evaluation after a number of batches. If the number is None, the end of the input ends it."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals, self._log_progress = num_evals, log_progress
        # Of 20 batches or more, about ten are logged.
        self._log_frequency = 1 if num_evals is None or num_evals < 20 else num_evals // 10
        self._evals_completed: Any = None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._evals_completed = updated_eval_step

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs the number of batches, and requests a stop after the last."""
        done, all_evals = run_values.results["evals_completed"], self._num_evals
        if self._log_progress and (all_evals is None or done % self._log_frequency == 0 or done == all_evals):
            logger.info("Evaluation [%d]" if all_evals is None else f"Evaluation [%d/{all_evals}]", done)
        if all_evals is not None and done >= all_evals:
            run_context.request_stop()


def evaluate_once(
    checkpoint_path: str | None, master: str = "", scaffold: Any = None, eval_ops: Any = None, feed_dict: Any = None,
    final_ops: Any = None, final_ops_feed_dict: Any = None, hooks: Sequence[Any] | None = None, config: Any = None,
) -> Any:  # fmt: skip
    """Restores a checkpoint, runs ``eval_ops`` until a hook or the end of the input stops it, then ``final_ops``.

    Returns the values of ``final_ops``, or None if there are none.
    """
    eval_step = get_or_create_eval_step()
    all_hooks = list(hooks or ())
    if eval_ops is not None:
        counted = eval_step.assign_add(1)
        if isinstance(eval_ops, dict):
            eval_ops["update_eval_step"] = counted
        else:
            eval_ops = [*(eval_ops if isinstance(eval_ops, (list, tuple)) else [eval_ops]), counted]
        with tvtf.control_dependencies(tvtf.nest.flatten(eval_ops)):
            step_after = tvtf.identity(eval_step.read_value())
        for hook in all_hooks:
            if isinstance(hook, StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(step_after)
    final_ops_hook = FinalOpsHook(final_ops, final_ops_feed_dict)
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_filename_with_path=checkpoint_path)
    with MonitoredSession(creator, [*all_hooks, final_ops_hook]) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops, feed_dict)
    return final_ops_hook.final_ops_values


# -- steps, dependencies, metrics


def assert_global_step(global_step_tensor: Any) -> None:
    """Checks that a global step is a scalar of integers.

    Raises:
      TypeError: it is neither a tensor nor a Variable, or no integer, or no scalar.
    """
    if not (tvtf.is_tensor(global_step_tensor) or isinstance(global_step_tensor, tvtf.Variable)):
        raise TypeError(f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor}.')
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}')
    if global_step_tensor.shape.rank not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: {global_step_tensor.shape}')


def with_dependencies(dependencies: Sequence[Any], output_tensor: Any, name: str | None = None) -> Any:
    """Returns a tensor that is computed after ``dependencies`` have run; eagerly, the tensor itself."""
    if executing_eagerly():
        return output_tensor
    with tvtf.control_dependencies(dependencies):
        return tvtf.identity(output_tensor, name=name or "control_dependency")


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """Creates a local variable of zeros, for a metric's sums."""
    collections = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    zeros = tvtf.zeros(shape, dtype)
    return Variable(zeros, trainable=False, collections=collections, validate_shape=validate_shape, name=name)


def with_equal_ranks(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Converts predictions, labels and weights to tensors of equal rank: removes or adds a last dim of size 1.

    ``labels`` or ``weights`` may be None. Scalar weights stay scalars.
    """
    predictions = tvtf.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
    if weights is not None:
        weights = weights_of_rank(tvtf.convert_to_tensor(weights), predictions)
    return predictions, labels, weights


def aggregate_variable(variable: Any, collections: Any) -> Any:
    """Returns the value of a metric's variable, added to graph collections: tvtf has one replica."""
    value = tvtf.identity(variable)
    if collections:
        get_default_graph().add_to_collections(collections, value)
    return value


NAMES: dict[str, dict[str, Any]] = {
    "python.framework.device_spec": {"DeviceSpecV1": tvtf.DeviceSpec},
    "python.ops.confusion_matrix": {"remove_squeezable_dimensions": remove_squeezable_dimensions},
    "python.ops.control_flow_ops": {"with_dependencies": with_dependencies},
    "python.ops.metrics_impl": {
        "_aggregate_variable": aggregate_variable,
        "_remove_squeezable_dimensions": with_equal_ranks,
        "_safe_scalar_div": lambda numerator, denominator, name: tvtf.math.divide_no_nan(
            numerator, denominator, name=name
        ),
        "metric_variable": metric_variable,
    },
    "python.ops.variable_v1": {"VariableV1": Variable},
    "python.training.evaluation": {
        "_StopAfterNEvalsHook": StopAfterNEvalsHook,
        "_evaluate_once": evaluate_once,
        "_get_or_create_eval_step": get_or_create_eval_step,
    },
    "python.training.training": {"assert_global_step": assert_global_step},
    "python.training.training_util": {"assert_global_step": assert_global_step, "get_global_step": get_global_step},
}
