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

BY_SIGNAL = 128 + 2
"""The exit status of a program that the user interrupted."""


class _Program(click.Command):
    """A command whose own options end where the program's name is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["-m"]:
            args = [*args[:2], "--", *args[2:]]
        elif args[:1] and args[0].startswith("-m"):
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
    import tvtf

    tvtf.as_tensorflow()
    if module is not None:
        spec = _of_module(module)
        _run(spec, spec.parent, [str(spec.origin), *program], os.getcwd())
    else:
        path = program[0]
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path))
        _run(_of_script(path), None, list(program), folder)


def _of_module(name: str) -> ModuleSpec:
    """The module that ``python -m`` would run.

    Raises:
      ClickException: there is none.
    """
    _begin_path(os.getcwd())
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name, spec = f"{name}.__main__", find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    if spec is None or spec.loader is None:
        raise click.ClickException(f"No module named {name!r}")
    return spec


def _of_script(path: str) -> ModuleSpec:
    """A script's code, or that of a folder or archive with a `__main__`.

    Raises:
      ClickException: there is no such file.
    """
    if not os.path.exists(path):
        raise click.ClickException(f"can't open file {os.path.abspath(path)!r}: No such file or directory")
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None and os.path.isdir(path):
        raise click.ClickException(f"can't find '__main__' module in {os.path.abspath(path)!r}")
    return spec or ModuleSpec(
        "__main__", SourceFileLoader("__main__", os.path.abspath(path)), origin=os.path.abspath(path)
    )


def _begin_path(folder: str) -> None:
    """Has imports look in a folder first, unless Python was told not to."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _run(spec: ModuleSpec, package: str | None, argv: list[str], folder: str) -> None:
    """Runs code as the program of this process; ends it as Python would, where an error does."""
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
    _begin_path(folder)
    try:
        exec(_code(spec), vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        told = error.with_traceback(_of_program(error.__traceback__))
        sys.excepthook(type(told), told, told.__traceback__)
        raise SystemExit(BY_SIGNAL if isinstance(error, KeyboardInterrupt) else 1) from None


def _code(spec: ModuleSpec) -> CodeType:
    loader: Any = spec.loader
    if spec.name == "__main__" and isinstance(loader, SourceFileLoader):
        return compile(Path(loader.path).read_bytes(), loader.path, "exec", dont_inherit=True)
    code: CodeType = loader.get_code(spec.name)
    return code


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that called the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename in OURS:
        trace = trace.tb_next
    return trace


OURS = {__file__}
