"""Defines `Workload`: a program to time, written once for each framework."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]
"""Runs the program once and waits for its result. A ``SelfTimed`` call returns the seconds that it took."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_exported(tf: Any, model: Any, images: np.ndarray) -> Call:
    """Returns a call of ``model(images)`` in ONNX Runtime, on all cores; tvtf exports the ``tf.function``."""
    import onnxruntime

    exported = tf.onnx.export(model.get_concrete_function(tf.TensorSpec(images.shape, tf.float32)))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed: dict[str, np.ndarray] = {session.get_inputs()[0].name: images}
    return lambda: session.run(None, feed)[0]


class SelfTimed(NamedTuple):
    """A call that measures itself: ``run()`` returns seconds."""

    run: Callable[[], float]


@dataclass(frozen=True)
class Workload:
    """A program to time; ``full`` and ``tiny`` are its sizes, ``goal`` the project's aim for it.

    ``tensorflow(tf, function, size)`` serves tvtf and TensorFlow alike, ``function`` being ``tf.function`` with the
    mode's options. The others are ``jax(jax, size)``, ``torch(torch, compiled, size)``, where ``compiled`` is
    ``torch.compile`` or does nothing, and ``onnxruntime(size)``. Each gives a :data:`Call`, or None where the framework
    can't run the program. With ``is_eager`` there is nothing to compile: a framework has one mode. ``operations`` are
    the floating-point operations of a call where the table is to show their rate.
    """

    name: str
    title: str
    full: Any
    tiny: Any
    tensorflow: Callable[[Any, Callable[..., Any], Any], Any]
    jax: Callable[[Any, Any], Any] | None = None
    torch: Callable[[Any, Callable[..., Any], Any], Any] | None = None
    onnxruntime: Callable[[Any], Any] | None = None
    is_eager: bool = False
    goal: str = ""
    operations: float = 0
