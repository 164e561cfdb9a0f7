"""TensorFlow's private modules that well-known libraries use: their names that are not public functions, by area.

Neither TensorFlow nor tvtf promises them; only programs run by ``tvtf exec`` or after ``as_tensorflow`` find them.
"""

from __future__ import annotations

from typing import Any

import tvtf
from tvtf.private import (
    combinations,
    data_nest,
    framework,
    keras2,
    messages,
    monitoring,
    nest,
    ops,
    platform,
    test_util,
    tpu,
    training,
    util,
)


def names() -> dict[str, dict[str, Any]]:
    """Returns the names in TensorFlow's private modules that are no public functions, with their values, by module path.

    For example, the module path ``"python.util.nest"`` has the name ``"flatten_up_to"``.
    """
    by_path: dict[str, dict[str, Any]] = _forms_of_tensorflow_1()
    areas = (
        *(combinations, data_nest, framework, keras2, messages, monitoring, nest),
        *(ops, platform, test_util, tpu, training, util),
    )
    for area in areas:
        for path, area_names in area.NAMES.items():
            by_path.setdefault(path, {}).update(area_names)
    return by_path


_POOLS_AND_CONVOLUTIONS = [
    *("avg_pool", "conv1d", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "convolution", "dilation2d"),
    *("erosion2d", "max_pool", "max_pool_with_argmax", "pool"),
]
_NN_IMPL = [
    *("batch_norm_with_global_normalization", "depthwise_conv2d", "moments", "nce_loss", "sampled_softmax_loss"),
    *("separable_conv2d", "sufficient_statistics", "weighted_moments"),
]
_NN_OPS = [*_POOLS_AND_CONVOLUTIONS, "dropout", "softmax_cross_entropy_with_logits"]
_EMBEDDINGS = ["embedding_lookup", "embedding_lookup_sparse", "safe_embedding_lookup_sparse"]
_OF_TENSORFLOW_1: dict[str, tuple[str, list[str]]] = {
    "python.ops.array_ops": ("", ["batch_to_space", "ones_like", "space_to_batch", "zeros_like"]),
    "python.ops.ctc_ops": ("nn", ["ctc_loss"]),
    "python.ops.embedding_ops": ("nn", _EMBEDDINGS),
    "python.ops.math_ops": ("", ["argmax", "argmin", "count_nonzero"]),
    "python.ops.nn": ("nn", [*_NN_IMPL, *_NN_OPS, *_EMBEDDINGS, "ctc_loss"]),
    "python.ops.nn_impl": ("nn", _NN_IMPL),
    "python.ops.nn_ops": ("nn", _NN_OPS),
    "python.ops.parsing_ops": ("", ["parse_example", "parse_single_example"]),
}
"""Functions of private modules that have the arguments of TensorFlow 1, with their namespace there.

TensorFlow's source calls the form of TensorFlow 2 ``dropout_v2``, say: ``nn_ops.dropout(x, 0.9)`` keeps nine tenths.
"""


def _forms_of_tensorflow_1() -> dict[str, dict[str, Any]]:
    """Returns the functions in `_OF_TENSORFLOW_1`, by module path and name."""
    v1: Any = tvtf.compat.v1  # type: ignore[attr-defined] # imported when first used
    return {
        path: {name: getattr(getattr(v1, namespace) if namespace else v1, name) for name in names}
        for path, (namespace, names) in _OF_TENSORFLOW_1.items()
    }


_OPS = {
    "array_ops": ["", "compat.v1"],
    "array_ops_stack": [""],
    "bincount_ops": ["math"],
    "bitwise_ops": ["bitwise"],
    "candidate_sampling_ops": ["random", "nn"],
    "check_ops": ["debugging", "compat.v1"],
    "clip_ops": ["", "linalg"],
    "clustering_ops": [""],
    "cond": [""],
    "confusion_matrix": ["math"],
    "control_flow_assert": ["debugging"],
    "control_flow_case": [""],
    "control_flow_ops": ["", "compat.v1"],
    "control_flow_switch_case": [""],
    "ctc_ops": ["nn"],
    "custom_gradient": [""],
    "data_flow_ops": ["queue", "compat.v1"],
    "embedding_ops": ["nn", "compat.v1.nn"],
    "functional_ops": ["", "compat.v1"],
    "gradient_checker": ["compat.v1.test"],
    "gradient_checker_v2": ["test"],
    "gradients": ["", "compat.v1"],
    "gradients_impl": ["", "compat.v1"],
    "histogram_ops": [""],
    "image_ops": ["image", "compat.v1.image"],
    "image_ops_impl": ["image"],
    "init_ops": ["compat.v1"],
    "init_ops_v2": ["initializers", ""],
    "io_ops": ["io", "compat.v1"],
    "linalg.linalg": ["linalg"],
    "linalg.linalg_impl": ["linalg"],
    "linalg.sparse.sparse": ["linalg.experimental"],
    "linalg_ops": ["linalg"],
    "linalg_ops_impl": ["linalg"],
    "list_ops": [""],
    "logging_ops": ["", "compat.v1"],
    "lookup_ops": ["lookup", "compat.v1"],
    "losses.losses": ["compat.v1.losses"],
    "losses.losses_impl": ["compat.v1.losses"],
    "manip_ops": [""],
    "map_fn": [""],
    "math_grad": [""],
    "math_ops": ["math", "", "compat.v1"],
    "metrics": ["compat.v1.metrics"],
    "metrics_impl": ["compat.v1.metrics"],
    "nn": ["nn", "compat.v1.nn"],
    "nn_impl": ["nn", "compat.v1.nn"],
    "nn_ops": ["nn", "compat.v1.nn"],
    "numerics": ["debugging"],
    "numpy_ops": ["experimental.numpy"],
    "parallel_for": [""],
    "parsing_ops": ["io", "compat.v1"],
    "ragged.ragged_array_ops": ["ragged", ""],
    "ragged.ragged_concat_ops": [""],
    "ragged.ragged_factory_ops": ["ragged"],
    "ragged.ragged_functional_ops": ["ragged"],
    "ragged.ragged_math_ops": ["ragged", "math"],
    "ragged.ragged_tensor": [""],
    "ragged.row_partition": ["experimental"],
    "random_ops": ["random", "compat.v1"],
    "resource_variable_ops": [""],
    "resource_variables_toggle": ["compat.v1"],
    "script_ops": ["", "compat.v1"],
    "sets": ["sets"],
    "sets_impl": ["sets"],
    "signal.fft_ops": ["signal"],
    "signal.signal": ["signal"],
    "signal.spectral_ops": ["signal"],
    "sort_ops": [""],
    "sparse_ops": ["sparse", "compat.v1"],
    "special_math_ops": ["math.special", "math", ""],
    "standard_ops": [""],
    "state_ops": ["compat.v1"],
    "stateful_random_ops": ["random"],
    "stateless_random_ops": ["random"],
    "string_ops": ["strings", ""],
    "summary_ops_v2": ["summary"],
    "template": ["compat.v1"],
    "tensor_array_ops": [""],
    "unconnected_gradients": [""],
    "variable_scope": ["compat.v1"],
    "variable_v1": [],
    "variables": ["", "compat.v1"],
    "while_loop": [""],
}

_TRAINING = [
    "adadelta",
    "adagrad",
    "adagrad_da",
    "adam",
    "basic_loops",
    "basic_session_run_hooks",
    "coordinator",
    "evaluation",
    "ftrl",
    "gradient_descent",
    "input",
    "learning_rate_decay",
    "momentum",
    "monitored_session",
    "optimizer",
    "proximal_adagrad",
    "proximal_gradient_descent",
    "queue_runner",
    "queue_runner_impl",
    "rmsprop",
    "saver",
    "session_run_hook",
    "supervisor",
    "sync_replicas_optimizer",
    "training",
    "training_util",
]

BEHIND: dict[str, list[str]] = {
    "distribute.experimental": ["distribute.experimental"],
    "raw_ops": ["raw_ops"],
    **{f"python.ops.{path}": places for path, places in _OPS.items()},
    "python.autograph": ["autograph"],
    "python.checkpoint.checkpoint": ["train"],
    "python.checkpoint.checkpoint_management": ["train"],
    "python.client.session": ["compat.v1"],
    "python.client.timeline": [],
    "python.data": ["data"],
    "python.data.ops.dataset_ops": ["data"],
    "python.data.ops.iterator_ops": ["data"],
    "python.distribute.distribute_lib": ["distribute"],
    "python.distribute.distribution_strategy_context": ["distribute"],
    "python.eager.backprop": [""],
    "python.eager.def_function": [""],
    "python.eager.forwardprop": ["autodiff"],
    "python.eager.polymorphic_function.polymorphic_function": [""],
    "python.framework.config": ["config"],
    "python.framework.constant_op": ["", "compat.v1"],
    "python.framework.device": [""],
    "python.framework.device_spec": [""],
    "python.framework.dtypes": ["dtypes", ""],
    "python.framework.errors": ["errors"],
    "python.framework.errors_impl": ["errors"],
    "python.framework.func_graph": ["__internal__"],
    "python.framework.indexed_slices": [""],
    "python.framework.ops": ["", "compat.v1"],
    "python.framework.random_seed": ["random", "compat.v1"],
    "python.framework.smart_cond": ["__internal__.smart_cond"],
    "python.framework.sparse_tensor": ["", "compat.v1"],
    "python.framework.tensor": [""],
    "python.framework.tensor_shape": ["", "compat.v1"],
    "python.framework.tensor_spec": [""],
    "python.layers.utils": [],
    "python.lib.io.file_io": ["compat.v1.gfile", "io.gfile"],
    "python.lib.io.tf_record": ["io", "compat.v1.io"],
    "python.module.module": [""],
    "python.platform.app": ["compat.v1.app"],
    "python.platform.flags": ["compat.v1.flags"],
    "python.platform.gfile": ["compat.v1.gfile"],
    "python.platform.test": ["test"],
    "python.platform.tf_logging": ["compat.v1.logging"],
    "python.saved_model.load": ["saved_model"],
    "python.saved_model.nested_structure_coder": ["__internal__.saved_model"],
    "python.saved_model.save": ["saved_model"],
    "python.summary.summary": ["compat.v1.summary"],
    "python.summary.summary_iterator": ["compat.v1.train"],
    "python.trackable.autotrackable": ["__internal__.tracking"],
    "python.trackable.base": ["__internal__.tracking"],
    **{f"python.training.{path}": ["compat.v1.train"] for path in _TRAINING},
    "python.training.checkpoint_management": ["train", "compat.v1.train"],
    "python.training.checkpoint_utils": ["train"],
    "python.training.moving_averages": ["train", "compat.v1.train"],
    "python.types.core": ["types.experimental"],
    "python.util.compat": ["compat"],
}
"""The public namespaces of tvtf that have a private module's functions, in the order in which they are searched."""
