"""A printed program: lines of tokens, as plain text, in colour on terminals, and as HTML with types on hover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from tvtf.core.display import Displayed

if TYPE_CHECKING:
    from rich.text import Text

INDENT = "  "
LAST_COMMENT_COLUMN = 72
"""Comments are aligned up to here. The comment of a longer line follows it directly, and doesn't shift the others."""
STYLES = {
    "function": "bold",
    "kernel": "bold magenta",
    "op": "cyan",
    "type": "green",
    "literal": "yellow",
    "attribute": "blue",
    "keyword": "bold red",
    "comment": "bright_black",
}
"""By kind of token, the terminal's colours: those of its own palette, which fit its background."""
# Mid tones, which can be read on the white and on the dark theme of a notebook.
COLOURS = {
    "function": "font-weight: bold",
    "kernel": "color: #b0479b; font-weight: bold",
    "op": "color: #1f7fa8",
    "type": "color: #3a8a3f",
    "literal": "color: #a8741a",
    "attribute": "color: #5b6fd0",
    "keyword": "color: #c8503c; font-weight: bold",
    "comment": "color: #8a8a8a",
}


class Token(NamedTuple):
    """A piece of a line: its kind determines the colour, ``hover`` is the tooltip in notebooks."""

    text: str
    kind: str = ""
    hover: str = ""


@dataclass
class Line:
    """One line; ``source`` is the line of the user's program that it comes from, ``train.py:12``."""

    depth: int
    tokens: Sequence[Token]
    source: str = ""

    @property
    def code(self) -> str:
        """The line without its source."""
        return INDENT * self.depth + "".join(token.text for token in self.tokens)


@dataclass
class Listing(Displayed):
    """A program as people read it; ``text`` is the plain text.

    >>> listing = Listing([Line(0, [Token("f"), Token("()")]), Line(1, [Token("return 1")], "a.py:2")])
    >>> print(listing.text)
    f()
      return 1  # a.py:2
    """

    lines: list[Line] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The plain text, wherever it is printed."""
        return "\n".join("".join(token.text for token in tokens).rstrip() for tokens in self._tokens())

    def _tokens(self) -> Iterable[list[Token]]:
        """Yields the tokens of each line, with indentation. A comment at the end has the line of the user's program.

        Comments start in a common column. It is right of all lines of code, without those that are extremely long.
        """
        widths = [len(line.code) for line in self.lines if line.source]
        column = max((width for width in widths if width <= LAST_COMMENT_COLUMN), default=0)
        for line in self.lines:
            tokens = [Token(INDENT * line.depth), *line.tokens]
            if line.source:
                tokens += [Token(" " * max(column - len(line.code), 0) + INDENT), Token(f"# {line.source}", "comment")]
            yield tokens

    def __rich__(self) -> Text:
        """Returns the listing as a coloured text of the library rich, which calls this method to print the object."""
        from rich.text import Text

        text = Text()
        for number, tokens in enumerate(self._tokens()):
            text.append("\n" if number else "")
            for token in tokens:
                text.append(token.text, STYLES.get(token.kind))
        return text

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Returns the listing in HTML, for notebooks."""
        lines = "\n".join("".join(map(_html, tokens)) for tokens in self._tokens())
        return f'<pre style="line-height: 1.35; overflow-x: auto; white-space: pre">{lines}</pre>'


def _html(token: Token) -> str:
    """Formats a token in HTML, with the colour of its kind and its tooltip."""
    attributes = ""
    if token.kind in COLOURS:
        attributes += f' style="{COLOURS[token.kind]}"'
    if token.hover:
        attributes += f' title="{escape(token.hover)}"'
    text = escape(token.text)
    return f"<span{attributes}>{text}</span>" if token.kind or token.hover else text
