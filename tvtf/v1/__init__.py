"""``tf.compat.v1``: graphs that are built first and run later, and all names of ``tf``.

A :class:`~tvtf.v1.graph.Graph` is a trace that stays open; ``Session.run`` takes from it the bindings that the fetches need, in the order
in which they were written, and compiles them. ``registry`` finds names; the other files declare the names that only
TensorFlow 1 has.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILES = (
    *("names", "variables", "initializers", "arguments", "nn", "composites", "losses", "optimizers", "decays"),
    *("saver", "warm_start", "supervision", "metrics", "inputs", "datasets", "summaries", "app_and_flags"),
    "gradient_checker",
)


def find(name: str) -> Any:
    """Returns the value of ``tf.compat.v1.<name>``, which is that of ``tf.<name>`` if TensorFlow 1 has no other.

    The modules that declare TensorFlow 1's names import the compiler, so they are imported on the first look-up only.

    Raises:
      AttributeError: there is no such name. If TensorFlow has it and tvtf doesn't, it is a NotImplementedError, too.
    """
    from tvtf.v1 import registry

    if not name.endswith("__"):  # AutoGraph reads every module's file name
        _declare()
    return registry.find(name)


def listed(path: str = "") -> list[str]:
    """Returns the names in ``tf.compat.v1.<path>``, as ``dir`` and the completion of editors show them."""
    from tvtf.v1 import registry

    _declare()
    return registry.listed(path)


def _declare() -> None:
    for module_name in _FILES:
        import_module(f"tvtf.v1.{module_name}")
