"""The workloads by name, smallest first."""

from benchmarks.workload import Workload
from benchmarks.workloads import calls, cnn, elementwise, imports, inference, loops, matmul, mlp, transformer

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for module in (imports, calls, mlp, cnn, transformer, elementwise, matmul, loops, inference)
    for workload in module.WORKLOADS
}
