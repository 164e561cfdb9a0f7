"""Text that is coloured on a terminal, plain in pipes and files, and HTML in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMN_GAP = "  "


def on_terminal(renderable: RenderableType) -> str | None:
    """Renders an object of the library rich as coloured text for a terminal; None if stdout is not a terminal.

    Rich reads the environment variables ``NO_COLOR``, ``FORCE_COLOR`` and ``TERM``.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        return None
    with console.capture() as captured:
        console.print(renderable, soft_wrap=True)
    return captured.get().rstrip("\n")


def as_printed(text: str, renderable: RenderableType) -> str:
    """Returns the text that ``print`` writes: ``renderable`` drawn by rich on a terminal, the plain ``text`` elsewhere."""
    coloured = on_terminal(renderable)
    return text if coloured is None else coloured


class Displayed:
    """Base of results that people read: ``print`` colours them on a terminal, notebooks show their HTML."""

    @property
    def text(self) -> str:
        """The plain text, wherever it is printed."""
        raise NotImplementedError

    def __rich__(self) -> RenderableType:
        return self.text

    def __str__(self) -> str:
        return as_printed(self.text, self.__rich__())


class Column(NamedTuple):
    """A column of a :class:`Table`; numbers are aligned at the right."""

    title: str
    is_number: bool = False


class Table:
    """Rows of text under column titles, with a sentence above them.

    >>> print(Table("Two ops:", [Column("op"), Column("us", True)], [["matmul", "12.5"], ["relu", "3"]]).text)
    Two ops:
    op        us
    matmul  12.5
    relu       3
    """

    def __init__(self, caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        self.caption = caption
        self.columns = columns
        self.rows = [list(row) for row in rows]

    @property
    def text(self) -> str:
        """The table in plain text."""
        # A table without rows is only its caption.
        lines = [[column.title for column in self.columns], *self.rows] if self.rows else []
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))] if lines else []
        return "\n".join([self.caption, *(self._line(line, widths) for line in lines)])

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        """Formats one line of the table: pads each cell to the width of its column."""
        padded = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(cells, widths, self.columns)
        ]
        return COLUMN_GAP.join(padded).rstrip()

    def rich(self) -> RenderableType:
        """Converts the table and its caption to an object that the library rich can print."""
        from rich import box, table
        from rich.console import Group
        from rich.text import Text

        rendered = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in self.columns:
            rendered.add_column(Text(column.title), justify="right" if column.is_number else "left", overflow="fold")
        for row in self.rows:
            rendered.add_row(*map(Text, row))
        return Group(Text(self.caption, "bold"), *([rendered] if self.rows else []))

    def html(self) -> str:
        """Formats the table and its caption in HTML. Special characters of HTML in texts are escaped."""
        head = "".join(_cell("th", column.title, column) for column in self.columns)
        rows = ["".join(_cell("td", cell, column) for cell, column in zip(row, self.columns)) for row in self.rows]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<div><p>{escape(self.caption)}</p>{table}</div>"


def _cell(tag: str, text: str, column: Column) -> str:
    return f'<{tag} style="padding: 2px 10px; text-align: {"right" if column.is_number else "left"}">{escape(text)}</{tag}>'
