"""The programs in README.md and the pages of ``docs/``, and what the pages say that they print.

The Python blocks of a page are one program. A block of text right after one is what it prints, in which ``...`` stands for
anything. ``python tests/pages.py PAGE...`` runs pages and writes what their programs print into them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import re
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")
DIGITS = 2e-3
"""How far a float may be from what the page says, absolutely and relatively: machines sum in other orders."""
IMPORTS = re.compile(r"(?:^# from .*\n)+\n", re.MULTILINE)
HEADER = re.compile(r"(^.*TypeVar.*\n)?^@I\.ir_module\nclass Module:\n((?:^    .*\n|^\n)+)", re.MULTILINE)
METADATA = re.compile(r"\n*^# Metadata omitted\..*\n?", re.MULTILINE)
TYPE = re.compile(r", attrs=\{(?P<attrs>[^{}]*)\}, ret_ty=metadata\[[^)]*\]\[\d+\]\)")


@dataclass
class Block:
    """One block of a page's program."""

    code: str
    line: int
    output: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(m["code"], text.count("\n", 0, m.start("code")), m["output"]) for m in BLOCK.finditer(text)]


def printed(page: Path) -> list[str]:
    """What each block of a page prints, run in the folder at work in one namespace.

    The program is a file there, since AutoGraph reads the sources of functions.
    """
    found = blocks(page)
    source = Path(f"{page.stem.lower()}_page.py").absolute()
    source.write_text("".join(block.code for block in found))
    linecache.checkcache(str(source))
    module = ModuleType(source.stem)
    module.__file__ = str(source)
    sys.modules[module.__name__] = module
    outputs, lines = [], 0
    for block in found:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile("\n" * lines + block.code, str(source), "exec"), vars(module))
        lines += block.code.count("\n")
        outputs.append(shown(out.getvalue().replace(f"{source.parent}/", "")))
    return outputs


def shown(text: str) -> str:
    """A program's output as pages show it: TVMScript without its imports and the references to its metadata."""
    text = HEADER.sub(
        lambda found: (found[1] or "") + textwrap.dedent(found[2]), IMPORTS.sub("\n", METADATA.sub("\n", text))
    )
    text = TYPE.sub(lambda found: f", {{{found['attrs']}}})" if found["attrs"] else ")", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + ("\n" if text.strip() else "")


def agrees(expected: str, got: str) -> bool:
    """Whether a program prints what its page says, floats within ``DIGITS``."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not doctest.OutputChecker().check_output(NUMBER.sub("#", expected), NUMBER.sub("#", got), flags):
        return False
    if "..." in expected:
        return True
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(got), strict=True)
    return all(abs(float(a) - float(b)) <= DIGITS * (1 + abs(float(b))) for a, b in pairs)


def write(page: Path) -> None:
    """Writes what a page's program prints into the page; what says ``...`` stays where it agrees."""
    outputs = iter(printed(page))

    def block(found: re.Match[str]) -> str:
        got = next(outputs)
        said = found["output"]
        if not got.strip() or (said is not None and "..." in said and agrees(said, got)):
            return found[0]
        return f"```python\n{found['code']}```\n\n```text\n{got.rstrip()}\n```\n"

    page.write_text(BLOCK.sub(block, page.read_text()))


def main() -> None:
    for page in [Path(name).absolute() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write(page)
            os.chdir(DOCS)


if __name__ == "__main__":
    main()
