"""What a saved model may call: primitives without effects on the machine, and public functions that only compute.

Both are lists of what is allowed, so that a new primitive with effects, or a new public function, is refused until it is
found to be one that a stranger's file may call. Files, processes, and Python functions are on neither list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from tvtf.api.namespaces import all_names
from tvtf.core.primitive import Primitive, table
from tvtf.frontend.control_flow import map_scan_fold, vectorized_map
from tvtf.frontend.control_flow.cond_while import one_of
from tvtf.frontend.function.deferred_call import of_shape
from tvtf.ops import operators
from tvtf.ops.getitem import getitem
from tvtf.ops.rules import filled_like

EFFECTS: Final = frozenset(("guard", "write", "effect_cond", "effect_while", "effect_recompute", "print_text"))
"""Primitives with effects that stay in the program: checks, its Variables, control flow around them, the standard streams."""

CALLS_PYTHON: Final = frozenset(("call_python", "recall_python"))
"""Primitives that call a function of the process by a number; of the second it is the gradient that does."""

STREAMS: Final = ("stdout", "stderr")
"""Where a saved model may print; ``tf.print`` can also append to files."""

ROOMS: Final = (
    *("tvtf.ops.", "tvtf.composites.ragged.", "tvtf.composites.sparse.", "tvtf.images."),
    *(f"tvtf.arrays.{name}" for name in ("create", "elementwise", "products", "reductions", "shaping")),
    *(f"tvtf.examples.{name}" for name in ("parsing", "records")),
    *(f"tvtf.frontend.control_flow.{name}" for name in ("cases", "cond_while", "map_scan_fold", "vectorized_map")),
    *(f"tvtf.frontend.library.{name}" for name in ("conjugate_gradient", "ctc", "ctc_decode", "fake_quantized")),
    "tvtf.frontend.host.parse_tensor",
    *("tvtf.rng.candidate_sampling", "tvtf.rng.fractional_pool", "tvtf.public.raw_ops", "tvtf.rng.stateful"),
)
"""Where public functions stand that only compute; a name that ends in a dot is a folder of files."""

NEVER: Final = (
    *("tvtf.ops.strings.files", "tvtf.ops.strings.gfile"),  # they read, write and delete files
    "tvtf.ops.check_numerics",  # they switch checks of the whole process
)
"""Files in those folders whose public functions do more than compute."""

NOT_THESE: Final = frozenset(("match_filenames_once", "fixed_unigram_candidate_sampler"))
"""Functions beside computing ones that read the file system."""

INTERNAL: Final[Mapping[str, Callable[..., Any]]] = {
    "[]": getitem,
    "==": operators.equals,
    "!=": operators.differs,
    "filled_like": filled_like,
    "set_shape": of_shape,
    "one_of": one_of,
    "rows mapped": map_scan_fold.mapped_rows,
    "rows mapped at once": vectorized_map.mapped_rows,
}
"""What operators on tensors and the tracer call, by the names that files have for them."""


class NotAllowed(ValueError):
    """A saved model calls what no saved model may; the text says what."""


def is_allowed(prim: Primitive[Any]) -> bool:
    """Whether a primitive does nothing but compute, check, or change the Variables that the program has."""
    return (prim.pure and prim.name not in CALLS_PYTHON) or (prim.is_own and prim.name in EFFECTS)


def check_ops(names: Iterable[str]) -> None:
    """Refuses primitives that touch files, processes or Python.

    Raises:
      NotAllowed: for one of them, or a name that no primitive has.
    """
    wanted = set(names)
    for name in sorted(wanted):
        if name not in table.among(wanted):
            raise NotAllowed(f"it calls {name!r}, which isn't there")
        if not is_allowed(table[name]):
            raise NotAllowed(f"it calls {table[name].tf_name} ({name!r}), which no saved model may: {_effect(name)}")


def _effect(name: str) -> str:
    return "it calls Python" if name in CALLS_PYTHON else "it does more than compute"


@lru_cache(maxsize=1)
def functions() -> dict[str, Any]:
    """The public functions and primitives that a saved model may call, and `INTERNAL`, by name."""
    return {path: found for path, found in all_names().items() if _only_computes(found)} | dict(INTERNAL)


def _only_computes(found: Any) -> bool:
    if isinstance(found, Primitive):
        return is_allowed(found) and found.name not in EFFECTS
    bare = inspect.unwrap(found) if inspect.isfunction(found) else None
    if bare is None or bare.__name__ in NOT_THESE or bare.__module__ in NEVER:
        return False
    return any(bare.__module__ == room or (room.endswith(".") and bare.__module__.startswith(room)) for room in ROOMS)


def function(name: Any) -> Any:
    """The public function, primitive, or internal function of a name.

    Raises:
      NotAllowed: there is none of that name that a saved model may call.
    """
    found = functions().get(name) if isinstance(name, str) else None
    if found is None:
        raise NotAllowed(f"it calls {name!r:.60}, which is none of the functions that a saved model may call")
    return found


def primitive(name: Any) -> Primitive[Any]:
    """The primitive of a name.

    Raises:
      NotAllowed: there is none of that name that may wait in a saved model.
    """
    check_ops([str(name)])
    if str(name) in EFFECTS:
        raise NotAllowed(f"it defers a call of {name!r}, which has effects")
    return table[str(name)]
