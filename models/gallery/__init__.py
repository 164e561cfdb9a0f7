"""Short example programs, one per file; ``main(folder, steps, seed)`` trains a model and draws a picture.

docs/gallery.md shows them with their pictures; ``tvtf gallery`` lists and runs them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from tvtf.models import pictures
from tvtf.models.digits_run import without_warnings


def programs() -> dict[str, str]:
    """Lists the programs of the gallery by name, each with a line that describes it, of its docstring.

    >>> programs()["pinn"]
    "A physics-informed network that solves Burgers' equation without examples of solutions"
    """
    names = sorted(module.name for module in iter_modules(__path__))
    return {name: line(import_module(f"{__name__}.{name}").__doc__ or "") for name in names}


def line(docstring: str) -> str:
    """Returns the first line of a docstring without its full stop.

    >>> line("What it does.\\n\\nMore.")
    'What it does'
    """
    return docstring.partition("\n")[0].rstrip(".")


@without_warnings()
def run(name: str, folder: Path, steps: int | None = None, seed: int = 0) -> dict[str, float]:
    """Runs a program of the gallery, which trains a model and writes its picture to ``folder/name.png``.

    Args:
      name: one of `programs`.
      folder: the folder for the picture.
      steps: the number of training steps; default: the program's own.
      seed: the seed of all random numbers.

    Returns:
      The program's results, by name.

    Raises:
      ImportError: Matplotlib, or for some programs Keras, isn't installed.
      ValueError: the gallery has no program of this name.
    """
    if name not in programs():
        raise ValueError(f"there is no program {name!r}; there are {', '.join(programs())}")
    pictures.require()
    main = import_module(f"{__name__}.{name}").main
    numbers: dict[str, float] = main(folder, seed=seed) if steps is None else main(folder, steps=steps, seed=seed)
    return numbers
