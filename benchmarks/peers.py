"""The frameworks that are compared: how each is loaded, configured to use all cores, and given a workload."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.workload import CORES, Workload

Builder = Callable[[Workload, Any], Any]


@dataclass(frozen=True)
class Peer:
    """A framework in one of its modes; ``load`` imports it and returns a function from a workload to its call, or None."""

    name: str
    package: str
    load: Callable[[], Builder]
    mode: str = ""

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    def runs(self, workload: Workload) -> bool:
        """Returns whether the workload is written for this framework, and differs from its other mode."""
        program = getattr(workload, self.family)
        return program is not None and not (self.mode and workload.is_eager)

    @property
    def family(self) -> str:
        return "tensorflow" if self.package == "tvtf" else self.package


def load_tvtf() -> Builder:
    import tvtf as tf

    return lambda workload, size: workload.tensorflow(tf, tf.function, size)


def load_tensorflow(jit: bool) -> Builder:
    """Imports TensorFlow, on all cores; with ``jit`` its functions are compiled by XLA."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(CORES)
    tf.config.threading.set_inter_op_parallelism_threads(CORES)
    function = partial(tf.function, jit_compile=True) if jit else tf.function
    return lambda workload, size: workload.tensorflow(tf, function, size)


def load_jax() -> Builder:
    import jax

    return lambda workload, size: workload.jax(jax, size)


def load_torch(compiled: bool) -> Builder:
    """Imports PyTorch, on all cores; with ``compiled`` its functions are compiled by ``torch.compile``."""
    import torch

    torch.set_num_threads(CORES)
    wrap = torch.compile if compiled else _as_it_is
    return lambda workload, size: workload.torch(torch, wrap, size)


def _as_it_is(function: Any) -> Any:
    return function


def load_onnxruntime() -> Builder:
    return lambda workload, size: workload.onnxruntime(size)


TVTF = Peer("tvtf", "tvtf", load_tvtf)
PEERS = (
    TVTF,
    Peer("TF", "tensorflow", partial(load_tensorflow, False)),
    Peer("TF jit", "tensorflow", partial(load_tensorflow, True), "compiled"),
    Peer("JAX", "jax", load_jax),
    Peer("torch", "torch", partial(load_torch, False)),
    Peer("torch.compile", "torch", partial(load_torch, True), "compiled"),
    Peer("ONNX Runtime", "onnxruntime", load_onnxruntime),
)
