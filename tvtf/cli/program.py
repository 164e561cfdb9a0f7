"""``tvtf exec``: runs a program written for TensorFlow, unchanged, as ``python`` would.

Source: https://docs.python.org/3/using/cmdline.html#interface-options
"""

from __future__ import annotations

import builtins
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

import click

import tvtf

BY_SIGNAL = 128 + 2
"""The exit status of a program that the user interrupted."""


class _Program(click.Command):
    """A command that passes all arguments after the name of a program on to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Inserts ``--`` after ``-m MODULE``, so that click does not parse the module's own options."""
        if args[:1] == ["-m"] and len(args) > 1:
            args = [*args[:2], "--", *args[2:]]
        elif args[:1] and args[0].startswith("-m") and args[0] != "-m":
            args = ["-m", args[0][2:], "--", *args[1:]]
        return super().parse_args(ctx, args)


@click.command("exec", cls=_Program, context_settings={"allow_interspersed_args": False})
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT] [ARGS]...")
def exec_(module: str | None, program: tuple[str, ...]) -> None:
    """Run a TensorFlow program on tvtf: in it, `import tensorflow` is tvtf.

    SCRIPT is a file, or a folder with a `__main__.py`; what follows belongs to it.

    \b
    Examples:
      tvtf exec train.py --steps 100
      tvtf exec -m pytest tests
    """
    if module is None and not program:
        raise click.UsageError(
            "Missing argument 'SCRIPT': tvtf exec SCRIPT [ARGS]..., or tvtf exec -m MODULE [ARGS]..."
        )
    tvtf.as_tensorflow()
    if module is not None:
        spec = _module_spec(module)
        _run_as_main(spec, spec.parent, [str(spec.origin), *program], os.getcwd())
    else:
        path = program[0]
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path))
        _run_as_main(_script_spec(path), None, list(program), folder)


def _module_spec(name: str) -> ModuleSpec:
    """Returns the import spec of the module that ``python -m <name>`` would run.

    For a package, this is its module ``__main__``.

    Raises:
      ClickException: the module does not exist.
    """
    _prepend_path(os.getcwd())
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:  # a package
            name, spec = f"{name}.__main__", find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    if spec is None or spec.loader is None:
        raise click.ClickException(f"No module named {name!r}")
    return spec


def _script_spec(path: str) -> ModuleSpec:
    """Returns the import spec of a script. Like Python, it accepts a folder or ZIP archive that contains ``__main__.py``.

    Raises:
      ClickException: the file does not exist, or a folder has no ``__main__.py``.
    """
    if not os.path.exists(path):
        raise click.ClickException(f"can't open file {os.path.abspath(path)!r}: No such file or directory")
    spec = PathFinder.find_spec("__main__", [path])  # finds a module only in a folder or archive
    if spec is None and os.path.isdir(path):
        raise click.ClickException(f"can't find '__main__' module in {os.path.abspath(path)!r}")
    return spec or ModuleSpec(
        "__main__", SourceFileLoader("__main__", os.path.abspath(path)), origin=os.path.abspath(path)
    )


def _prepend_path(folder: str) -> None:
    """Replaces the first folder of the import path, that of the command, by the program's folder.

    In Python's safe-path mode (``python -P``) it does nothing, like Python.
    """
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _run_as_main(spec: ModuleSpec, package: str | None, argv: list[str], folder: str) -> None:
    """Runs a script or module as ``__main__``, the main program of the process, as Python itself would.

    An exception is printed without the frames of this command, and ends the process.

    Args:
      spec: the script or module.
      package: the name of the module's package, None for a script.
      argv: the program's ``sys.argv``.
      folder: the first folder of the import path.
    """
    main = ModuleType("__main__")
    is_script = package is None
    vars(main).update(
        __file__=spec.origin,
        __builtins__=builtins,
        __loader__=spec.loader,
        __package__=package,
        __spec__=None if is_script else spec,
    )
    sys.modules["__main__"], sys.argv = main, argv
    _prepend_path(folder)
    try:
        exec(_code(spec), vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        program_error = error.with_traceback(_without_own_frames(error.__traceback__))
        sys.excepthook(type(program_error), program_error, program_error.__traceback__)
        raise SystemExit(BY_SIGNAL if isinstance(error, KeyboardInterrupt) else 1) from None


def _code(spec: ModuleSpec) -> CodeType:
    """Compiles a script or module, and returns its code object."""
    loader: Any = spec.loader
    # Without the future imports of this file, and, like Python, without a file of byte code for a script.
    if spec.name == "__main__" and isinstance(loader, SourceFileLoader):
        return compile(Path(loader.path).read_bytes(), loader.path, "exec", dont_inherit=True)
    code: CodeType = loader.get_code(spec.name)
    return code


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Removes the leading frames of a traceback that belong to this command, which called the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    return trace


_OWN_FILES = {__file__}
