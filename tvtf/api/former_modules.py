"""Aliases of modules under the names that they had before they were moved into folders, for old pickles and programs.

A pickle stores the module's name of each class and function, so the names of moved modules must stay importable.
"""

from __future__ import annotations

import sys
from importlib import import_module

from tvtf.api.module_aliases import ModuleAliases

FOLDERS = {
    "arrays": "arrays.chance=random_functions",
    "composites": "extension linear",
    "composites.extension": "extension.declared extension.dispatch extension.specs extension.types",
    "composites.linear": (
        "linear.blocks linear.circulant linear.composed linear.dense linear.diagonal linear.identity "
        "linear.low_rank linear.operator linear.structured linear.wrapped"
    ),
    "composites.ragged": (
        "ragged.build ragged.crossing ragged.dynamic_shape ragged.filling ragged.partition ragged.sparse "
        "ragged.structure ragged.tensor ragged.texts=string_ops"
    ),
    "composites.sparse": (
        "sparse.arrange sparse.cutting sparse.dense sparse.embedding sparse.math sparse.reduce sparse.sets "
        "sparse.tensor"
    ),
    "core": (
        "callables=function_types composite context=thread_state device_spec dimension=v1_dimension "
        "indexed_slices nest operation=graph_operation primitive shape spec=tensor_spec tensor"
    ),
    "data": "data.choice=choose_datasets data.lookups=lookup_tables data.tables=csv_and_sql",
    "fileio": "records=tfrecord",
    "frontend.configuration": "frontend.config frontend.device frontend.settings",
    "frontend.control_flow": (
        "frontend.cases frontend.control=cond_while frontend.functional=map_scan_fold "
        "frontend.order=control_dependencies frontend.tensor_array frontend.vectorize=vectorized_map"
    ),
    "frontend.gradient": (
        "frontend.custom=custom_gradient frontend.forward=forward_mode frontend.gradients=graph_gradients "
        "frontend.recompute=recompute_grad frontend.tape"
    ),
    "frontend.host": "frontend.critical=critical_section frontend.parsed=parse_tensor frontend.printing queues=queue",
    "frontend.library": (
        "frontend.conjugate_gradient frontend.ctc frontend.ctc_decode frontend.quantized=fake_quantized plain_optimizers"
    ),
    "frontend.library.plain_optimizers": (
        "plain_optimizers.adam plain_optimizers.base plain_optimizers.clipping plain_optimizers.mixed_precision "
        "plain_optimizers.repeated plain_optimizers.rmsprop plain_optimizers.schedules plain_optimizers.sgd"
    ),
    "images": "images.chance=random_transforms images.distorted=random_boxes",
    "ir": "emit=trace interpret=interpreter",
    "ops": (
        "ops.arrange=concat_split ops.bands=matrix_diag ops.convolution=conv_api ops.draws=random_distributions ops.frames=stft "
        "ops.shown=tensor_text ops.sound=wav ops.tapers=window_functions"
    ),
    "public": "exchange=interop frontend.xla func_graph internal raw=raw_ops recurrent=cudnn_rnn testing=test",
    "rng": (
        "candidates=candidate_sampling fractional_pool generator initial=keras_initializers "
        "plain_initializers=tf_initializers stateful_random=stateful"
    ),
    "state": "module seeds track=autotrackable trackable variable variable_options",
}
"""Folder -> the modules moved into it, ``former=present`` where the file was renamed, too."""
FORMER = {
    f"tvtf.{former}": f"tvtf.{folder}.{present or former.rpartition('.')[2]}"
    for folder, modules in FOLDERS.items()
    for former, _, present in (each.partition("=") for each in modules.split())
}
"""Former dotted name -> present one."""


def install() -> None:
    """Makes modules importable under the names that they had in earlier versions.

    Modules that are imported already are entered into ``sys.modules`` under their former names at once. The import system
    would also set an attribute of the parent package: the former module ``tvtf.shape`` would replace the function
    ``tf.shape``.
    """
    for former, present in FORMER.items():
        if present in sys.modules:
            sys.modules[former] = sys.modules[present]
    aliases = ModuleAliases(FORMER.__contains__, lambda name: import_module(FORMER[name]))
    sys.meta_path.insert(0, aliases)  # type: ignore[arg-type]
