"""The API reference, a page for each public namespace, from the docstrings of what tvtf declares.

Namespaces are made when tvtf is imported, so the names are taken from the imported package rather than from its sources.
Docstrings have the form of Google's style: sections ``Args:``, ``Returns:``, ``Raises:``, examples after ``>>>``, a line
``Source:``.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

SECTION = re.compile(r"^(Args|Arguments|Attributes|Returns|Raises|Yields|Example|Examples|Sources?|Note):\s*(.*)$")
ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?\.?([^`]+)`")
LONGEST_DEFAULT = 40
LEFT_OUT = ("__internal__",)


def pages() -> dict[str, str]:
    """Generates the pages of the API reference, one for each public namespace; returns their texts by path in the site."""
    spaces: dict[str, dict[str, Any]] = defaultdict(dict)
    root = import_module("tvtf")
    for path, value in import_module("tvtf.api.namespaces").all_names().items():
        space, _, name = path.rpartition(".")
        if not space.startswith(LEFT_OUT):
            spaces[space][name] = value
    for name in root.__all__:
        if not name.startswith("_") and not isinstance(getattr(root, name), ModuleType):
            spaces[""][name] = getattr(root, name)
    for space in ("train", "saved_model", "errors", "nest", "onnx", "passes"):
        module = import_module(f"tvtf.{space}")
        own = {name: getattr(module, name) for name in getattr(module, "__all__", ()) or _own_names(module)}
        spaces[space] |= {name: value for name, value in own.items() if callable(value)}
    texts = {f"api/{space or 'tf'}.md": _page(space, names) for space, names in spaces.items()}
    return texts | {"api/index.md": _index(spaces)}


def _own_names(module: ModuleType) -> list[str]:
    return [
        n for n, v in vars(module).items() if not n.startswith("_") and getattr(v, "__module__", "") == module.__name__
    ]


def _index(spaces: dict[str, dict[str, Any]]) -> str:
    lines = ["# API reference", "", "What `import tvtf as tf` gives, by namespace; made from the docstrings.", ""]
    lines += ["[Public symbols](../symbols.md) says for each name of TensorFlow's whether it is there.", ""]
    lines += ["| namespace | names |", "|---|---|"]
    for space in sorted(spaces):
        lines.append(f"| [`tf{'.' + space if space else ''}`]({space or 'tf'}.md) | {len(spaces[space])} |")
    return "\n".join(lines) + "\n"


def _page(space: str, names: dict[str, Any]) -> str:
    prefix = f"tf.{space}" if space else "tf"
    lines = [f"# {prefix}", ""]
    for name in sorted(names, key=str.lower):
        lines += [f"## {prefix}.{name}", "", *_entry(f"{prefix}.{name}", names[name]), ""]
    return "\n".join(lines)


def _entry(path: str, value: Any) -> Iterator[str]:
    """Yields the lines of the page about a public name: its signature and docstring, of a class also its methods."""
    if not callable(value):
        yield f"`{value!r}`"
        return
    yield from ("```python", f"{path}{_signature(value)}", "```", "")
    yield from markdown(inspect.getdoc(value) or "")
    if isinstance(value, type) and (value.__module__ or "").startswith("tvtf"):
        yield from _methods(value)


def _methods(owner: type) -> Iterator[str]:
    """Yields the lines of the page about a class's public methods and properties that have a docstring."""
    for name in sorted(name for name in dir(owner) if not name.startswith("_")):
        attribute = inspect.getattr_static(owner, name)
        function = getattr(attribute, "__func__", None) or getattr(attribute, "fget", None) or attribute
        if not inspect.isfunction(function) or not (function.__doc__ or "").strip():
            continue
        signature_text = "" if isinstance(attribute, property) else _signature(function)
        yield from ("", f"**`{name}{signature_text}`**", "", *markdown(inspect.getdoc(function) or ""))


def _signature(value: Any) -> str:
    """Formats a function's signature without annotations, which are of types within tvtf, and with short defaults."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    with_defaults = [
        parameter if parameter.default is parameter.empty else parameter.replace(default=_Default(parameter.default))
        for parameter in parameters
        if parameter.name != "self"
    ]
    return str(inspect.Signature(with_defaults))


class _Default:
    """A default as a signature shows it, short."""

    def __init__(self, value: Any) -> None:
        plain = isinstance(value, (bool, int, float, str, tuple, type(None)))
        text = repr(value) if plain else getattr(value, "name", "...")
        self.text = text if isinstance(text, str) and len(text) <= LONGEST_DEFAULT and " at 0x" not in text else "..."

    def __repr__(self) -> str:
        return self.text


def markdown(docstring: str) -> Iterator[str]:
    """A docstring as lines of Markdown."""
    is_example = is_list = False
    for line in _plain(docstring).splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not is_example:
            yield from ("", "```pycon")
            is_example = True
        elif is_example and not line.strip():
            yield "```"
            is_example = False
        if is_example:
            yield line.strip() if starts else line
            continue
        section = SECTION.match(line)
        if section:
            is_list = not section[2]
            yield from ("", f"**{section[1]}:** {section[2]}", "")
        elif is_list and line.startswith("  ") and not line.startswith("    ") and ":" in line:
            name, _, text = line.strip().partition(":")
            yield f"- `{name}`:{text}"
        elif is_list and line.startswith("    "):
            yield f"  {line.strip()}"
        else:
            is_list = is_list and line.startswith(" ")
            yield line
    if is_example:
        yield "```"


def _plain(text: str) -> str:
    """A docstring's reStructuredText as Markdown: roles and doubled backticks become code, links stay."""
    text = ROLE.sub(r"`\1`", text).replace("::\n", ":\n")
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    return re.sub(r"(?<!\S)(https?://\S+)", r"<\1>", text)
