"""Short programs that show how things are written: each a file with ``main(folder, steps, seed)``, which trains and draws a picture.

docs/gallery.md shows them with their pictures; ``tvtf gallery`` lists and runs them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from tvtf.models import pictures
from tvtf.models.digits_run import without_warnings


def programs() -> dict[str, str]:
    """The names of all programs, with a line on each.

    >>> programs()["pinn"]
    "A physics-informed network: Burgers' equation solved without a single solution to learn from"
    """
    names = sorted(module.name for module in iter_modules(__path__))
    return {name: line(import_module(f"{__name__}.{name}").__doc__ or "") for name in names}


def line(docstring: str) -> str:
    """The first line of a docstring without its full stop.

    >>> line("What it does.\\n\\nMore.")
    'What it does'
    """
    return docstring.partition("\n")[0].rstrip(".")


@without_warnings()
def run(name: str, folder: Path, steps: int | None = None, seed: int = 0) -> dict[str, float]:
    """Runs a program: its picture is ``folder/name.png``.

    Args:
      name: one of `programs`.
      folder: where the picture goes.
      steps: how long to train; the program's own number unless given.
      seed: decides all that is random.

    Returns:
      The numbers that matter, by name.

    Raises:
      ImportError: what it takes isn't installed: Matplotlib; for some, Keras.
      ValueError: there is no such program.
    """
    if name not in programs():
        raise ValueError(f"there is no program {name!r}; there are {', '.join(programs())}")
    pictures.require()
    main = import_module(f"{__name__}.{name}").main
    numbers: dict[str, float] = main(folder, seed=seed) if steps is None else main(folder, steps=steps, seed=seed)
    return numbers
