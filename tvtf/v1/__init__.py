"""``tf.compat.v1``: graphs built first and run later, and every name of ``tf`` besides.

A :class:`~tvtf.v1.graph.Graph` is a trace that stays open; ``Session.run`` cuts out of it what the fetches need, in the order
in which it was written, and compiles that.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any


def find(name: str) -> Any:
    """A name of TensorFlow 1: its own, else that of ``tf``; the compiler is imported with its own names.

    Raises:
      AttributeError: there is none; NotImplementedError too where TensorFlow has it.
    """
    import tvtf
    from tvtf.v1 import names
    from tvtf.v1.aliases import PATHS

    return names.PUBLIC[name] if name in names.PUBLIC else attrgetter(PATHS.get(name, name))(tvtf)
