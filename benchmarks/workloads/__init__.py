"""The workloads by name, smallest first."""

from benchmarks.workload import Workload
from benchmarks.workloads import (
    attention,
    calls,
    cnn,
    convolutions,
    deep,
    elementwise,
    imports,
    inference,
    keras,
    loops,
    matmul,
    mlp,
    others,
    pipelines,
    primitives,
    recurrent,
    residual,
    resnet,
    transformer,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for module in (
        imports,
        calls,
        mlp,
        deep,
        cnn,
        transformer,
        elementwise,
        matmul,
        loops,
        recurrent,
        inference,
        residual,
        resnet,
    )
    for workload in module.WORKLOADS
}

SWEEPS: dict[str, dict[str, Workload]] = {
    module.__name__.rpartition(".")[2]: {workload.name: workload for workload in module.WORKLOADS}
    for module in (attention, convolutions, keras, others, pipelines, primitives)
}
"""Many workloads of one kind each, run where their name is given."""

ALL = {**WORKLOADS, **{name: workload for sweep in SWEEPS.values() for name, workload in sweep.items()}}
