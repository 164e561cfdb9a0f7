"""``tf.compat.v1``: graphs built first and run later, and every name of ``tf`` besides.

A :class:`~tvtf.v1.graph.Graph` is a trace that stays open; ``Session.run`` cuts out of it what the fetches need, in the order
in which it was written, and compiles that. ``registry`` finds names; the other files declare those that TensorFlow 1 has for
itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILES = (
    *("names", "variables", "initializers", "arguments", "nn", "composites", "losses", "optimizers", "decays"),
    *("saver", "warm_start", "supervision", "metrics", "inputs", "datasets", "summaries", "machine"),
)


def find(name: str) -> Any:
    """A name of TensorFlow 1: its own, else that of ``tf``; the compiler is imported with its own names.

    Raises:
      AttributeError: there is none; NotImplementedError too where TensorFlow has it.
    """
    from tvtf.v1 import registry

    if not name.endswith("__"):  # AutoGraph asks every module for its file
        for each in _FILES:
            import_module(f"tvtf.v1.{each}")
    return registry.find(name)
