"""Lists what a saved model may call: primitives without effects on the machine, and public functions that only compute.

Both are lists of what is allowed: a new primitive with effects or a new public function is rejected until it has been
decided that an untrusted file may call it. Nothing on the lists reaches files, processes or Python functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from tvtf.api.namespaces import all_names
from tvtf.core.primitive import Primitive, table
from tvtf.frontend.control_flow import map_scan_fold, vectorized_map
from tvtf.frontend.control_flow.cond_while import deferred_cond
from tvtf.frontend.function.deferred_call import with_shape
from tvtf.ops import operators
from tvtf.ops.getitem import getitem
from tvtf.ops.rules import filled_like

EFFECTS: Final = frozenset(("guard", "write", "effect_cond", "effect_while", "effect_recompute", "print_text"))
"""Primitives whose effects are limited to the program: checks, its Variables, control flow, and the standard streams."""

CALLS_PYTHON: Final = frozenset(("call_python", "recall_python"))
"""Primitives that call a Python function of the process by a number; the second one's gradient does."""

STREAMS: Final = ("stdout", "stderr")
"""Where a saved model may print; ``tf.print`` can also append to files."""

COMPUTING_MODULES: Final = (
    *("tvtf.ops.", "tvtf.composites.ragged.", "tvtf.composites.sparse.", "tvtf.images."),
    *(f"tvtf.arrays.{name}" for name in ("create", "elementwise", "products", "reductions", "shaping")),
    *(f"tvtf.examples.{name}" for name in ("parsing", "records")),
    *(f"tvtf.frontend.control_flow.{name}" for name in ("cases", "cond_while", "map_scan_fold", "vectorized_map")),
    *(f"tvtf.frontend.library.{name}" for name in ("conjugate_gradient", "ctc", "ctc_decode", "fake_quantized")),
    "tvtf.frontend.host.parse_tensor",
    *("tvtf.rng.candidate_sampling", "tvtf.rng.fractional_pool", "tvtf.public.raw_ops", "tvtf.rng.stateful"),
)
"""Modules whose public functions only compute; a name that ends in a dot is a package with all its modules."""

EXCLUDED_MODULES: Final = (
    *("tvtf.ops.strings.files", "tvtf.ops.strings.gfile"),  # they read, write and delete files
    "tvtf.ops.check_numerics",  # they switch checks of the whole process
)
"""Modules in those packages whose public functions do more than compute."""

EXCLUDED_FUNCTIONS: Final = frozenset(("match_filenames_once", "fixed_unigram_candidate_sampler"))
"""Functions in those modules that read the file system."""

INTERNAL: Final[Mapping[str, Callable[..., Any]]] = {
    "[]": getitem,
    "==": operators.equals,
    "!=": operators.differs,
    "filled_like": filled_like,
    "set_shape": with_shape,
    "one_of": deferred_cond,
    "rows mapped": map_scan_fold.run_deferred_map,
    "rows mapped at once": vectorized_map.run_deferred_map,
}
"""Internal functions that operators on tensors and the tracer call, by their names in files."""


class NotAllowed(ValueError):
    """A call that a saved model may not make; the text names it."""


def is_allowed(prim: Primitive[Any]) -> bool:
    """Returns whether a saved model may call a primitive.

    It may if the primitive only computes, or if its effects are limited to the program: checks, the program's own
    Variables, control flow and printing.
    """
    return (prim.pure and prim.name not in CALLS_PYTHON) or (prim.is_own and prim.name in EFFECTS)


def check_ops(names: Iterable[str]) -> None:
    """Checks that a saved model may call the primitives ``names``.

    Raises:
      NotAllowed: a primitive does not exist, or may access files, processes or Python functions.
    """
    requested = set(names)
    for name in sorted(requested):
        if name not in table.among(requested):
            raise NotAllowed(f"it calls {name!r}, which isn't there")
        if not is_allowed(table[name]):
            raise NotAllowed(f"it calls {table[name].tf_name} ({name!r}), which no saved model may: {_effect(name)}")


def _effect(name: str) -> str:
    """Returns the reason, for an error text, why a saved model may not call a primitive."""
    return "it calls Python" if name in CALLS_PYTHON else "it does more than compute"


@lru_cache(maxsize=1)
def functions() -> dict[str, Any]:
    """Returns the public functions and primitives that a saved model may call, and `INTERNAL`, by name."""
    return {path: public for path, public in all_names().items() if _only_computes(public)} | dict(INTERNAL)


def _only_computes(public: Any) -> bool:
    """Returns whether a public function or primitive only computes, without any effects.

    A function is judged by the module in which it is defined, and by the lists of exceptions.
    """
    if isinstance(public, Primitive):
        return is_allowed(public) and public.name not in EFFECTS
    if not inspect.isfunction(public):
        return False
    undecorated = inspect.unwrap(public)
    module = undecorated.__module__
    if undecorated.__name__ in EXCLUDED_FUNCTIONS or module in EXCLUDED_MODULES:
        return False
    for allowed in COMPUTING_MODULES:
        is_in_package = allowed.endswith(".") and module.startswith(allowed)  # "a.b." stands for all modules of a.b
        if module == allowed or is_in_package:
            return True
    return False


def function(name: Any) -> Any:
    """Returns the public function, primitive or internal function that a saved model calls by a name.

    Raises:
      NotAllowed: a saved model may not call a function of this name.
    """
    allowed = functions().get(name) if isinstance(name, str) else None
    if allowed is None:
        raise NotAllowed(f"it calls {name!r:.60}, which is not a function that a saved model may call")
    return allowed


def primitive(name: Any) -> Primitive[Any]:
    """Returns the primitive ``name``, for a deferred call of a saved model.

    A call is deferred if the rank of an argument was unknown while tracing.

    Raises:
      NotAllowed: a saved model may not defer a call of the primitive.
    """
    check_ops([str(name)])
    if str(name) in EFFECTS:
        raise NotAllowed(f"it defers a call of {name!r}, which has effects")
    return table[str(name)]
