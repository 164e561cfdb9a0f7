"""Writes ``.pyi`` stubs of the public namespaces into a built package: ``python tools/write_stubs.py FOLDER``.

``tvtf.nn`` and most other namespaces are made when tvtf is imported, from what ops declare, so editors and type checkers find
no source for them. The build of a wheel (``build_backend.py``) runs this on its folder of built files; nothing here is committed.

A class is imported from the module that defines it. A function has its signature, the first line of its docstring, and the
annotations that are plain types; everything else is ``Any``, since most functions take whatever becomes a tensor.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
import sys
import textwrap
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PLAIN_TYPES = {"bool", "bytes", "complex", "float", "int", "str"}
OPEN = {
    "compat.v1": "TensorFlow 1's names are found when they are named.",
    "compat.v2": "The same as ``tvtf``.",
    "initializers": "Keras's module where Keras is installed.",
    "losses": "Keras's module.",
    "metrics": "Keras's module.",
    "optimizers": "Keras's module where Keras is installed.",
    "raw_ops": "Further names may be found when they are named.",
}
"""Namespaces that have more names than are known here, with the reason."""
SHADOWED = ("data", "lookup", "summary")
"""Packages with a source file that binds only modules: a stub beside it adds their public names."""
MODULES = ("errors", "keras", "onnx", "ops", "passes", "saved", "saved_model", "train", "version")
"""Modules with a source file that type checkers read as it is."""
VIEWS = "_typing"
"""Where the stubs of other modules with a source file lie, which bind what that file has and its public names."""
WRITTEN_OUT = "tvtf.data.base", "Dataset"
"""The class whose methods are set when ``tvtf.data`` is imported: its stub, and those of its subclasses, list them."""
SPECIAL = ("__init__", "__iter__", "__len__", "__next__")
HEAD = '"""{doc}"""\n\nfrom typing import Any\n'
LONGEST_DEFAULT = 40


@dataclass
class Namespace:
    """A public namespace: its names, and the namespaces below it."""

    path: str
    names: dict[str, Any] = field(default_factory=dict)
    children: set[str] = field(default_factory=set)


def namespaces() -> dict[str, Namespace]:
    """Returns every public namespace of tvtf with its names, by path; the root's path is ``""``."""
    root = import_module("tvtf")
    api = import_module("tvtf.api.namespaces")
    public = api.all_names()
    api.install()
    spaces = {"": Namespace("", {name: getattr(root, name) for name in root.__all__})}
    for path, value in public.items():
        space, _, name = path.rpartition(".")
        _namespace_at(spaces, space).names[name] = value
    for path in OPEN:
        _namespace_at(spaces, path)
    spaces[""].children = {name for name in spaces[""].children if not name.startswith("_")}
    return {path: namespace for path, namespace in spaces.items() if not path.startswith("_")}


def _namespace_at(found: dict[str, Namespace], path: str) -> Namespace:
    if path not in found:
        found[path] = Namespace(path)
        parent, _, name = path.rpartition(".")
        _namespace_at(found, parent).children.add(name)
    return found[path]


def write(package: Path) -> list[Path]:
    """Writes ``.pyi`` stubs of all public namespaces beside the built modules in the folder ``package``; returns their paths.

    A namespace that has a source file itself gets its stub in the folder `VIEWS`, which does not hide that file.
    """
    spaces = namespaces()
    views = {path for path in spaces if path not in ("", *SHADOWED, *MODULES) and _has_source(package, path)}
    written = []
    for path, space in spaces.items():
        if path.partition(".")[0] in MODULES:
            continue
        is_view = path not in ("", *SHADOWED) and any(path == view or path.startswith(f"{view}.") for view in views)
        file = _file(package, f"{VIEWS}.{path}" if is_view else path, bool(space.children))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Stub(space, views, is_view).text())
        written.append(file)
    doc = '"""Public namespaces that add names to a module with a source file; for type checkers alone."""\n'
    for folder in {package / VIEWS, *(path.parent for path in written if VIEWS in path.parts)}:
        if not (folder / "__init__.pyi").exists():
            (folder / "__init__.pyi").write_text(doc)
    return written


def _has_source(package: Path, path: str) -> bool:
    place = package.joinpath(*path.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def _file(package: Path, path: str, is_package: bool) -> Path:
    place = package.joinpath(*path.split(".")) if path else package
    return place / "__init__.pyi" if is_package or place.is_dir() else place.with_suffix(".pyi")


class Stub:
    """The text of one namespace's stub."""

    def __init__(self, space: Namespace, views: set[str], is_view: bool) -> None:
        """Starts the stub of a namespace; ``views`` are the paths of all namespaces whose stubs are in the folder `VIEWS`."""
        self.space = space
        self.views = views
        self.is_view = is_view
        self.module = f"tvtf.{space.path}".rstrip(".")
        self.real = _imports_of_source_names(self.module)
        self.imports: list[str] = []
        self.body: list[str] = []
        # Names such as `int` that mean something else in this namespace: annotations import Python's under another name.
        self.hidden = PLAIN_TYPES & {*space.names, *space.children, *self.real}

    def text(self) -> str:
        """Returns the stub's text: its docstring, imports, and declarations of the namespace's names and children."""
        full, real = self.module, self.real
        if self.is_view and real:
            self.imports.append(f"from {full} import *")
        for name, value in sorted(self.space.names.items()):
            if name.isidentifier() and not keyword.iskeyword(name) and not (self.is_view and name in real):
                self._declare(name, value)
        for child in sorted(self.space.children):
            self._child(child)
        if not self.space.path:
            self.imports += [f"from tvtf import {name} as {name}" for name in MODULES]
            self.body.append("__internal__: Any")
        if self.space.path in SHADOWED:
            self.imports += [f"from {full} import {name} as {name}" for name in real if name not in self.space.children]
        doc = f"Public names of ``{full}``; written by tools/write_stubs.py."
        if self.space.path in OPEN:
            doc += f" {OPEN[self.space.path]}"
            self.body.append("def __getattr__(name: str) -> Any: ...")
        self.imports += [f"from builtins import {name} as _{name}" for name in sorted(self.hidden)]
        return "\n".join([HEAD.format(doc=doc) + "\n".join(sorted(set(self.imports))), "", *self.body, ""])

    def _child(self, name: str) -> None:
        path = f"{self.space.path}.{name}".lstrip(".")
        if path in self.views or self.is_view:
            self.imports.append(f"from tvtf.{VIEWS}{self.module.removeprefix('tvtf')} import {name} as {name}")
        elif path not in MODULES:
            self.imports.append(f"from {self.module} import {name} as {name}")

    def _declare(self, name: str, value: Any) -> None:
        """Adds the declaration of a public name to the stub, or the import of its value."""
        if name in self.space.children or (not self.space.path and name in MODULES):
            return
        if not self.space.path and name in self.real and value is not None:
            self.imports.append(self.real[name])
        elif value is None:
            self.body.append(f"{name}: None")
        elif isinstance(value, ModuleType):
            self.imports.append(f"import {value.__name__} as {name}")
        elif isinstance(value, type):
            self._declare_class(name, value)
        elif type(value).__module__ == "tvtf.dtypes":
            self.imports.append("from tvtf.dtypes import DType as _DType")
            self.body.append(f"{name}: _DType")
        elif callable(value):
            self.body.append(self._function(name, value))
        else:
            self.body.append(f"{name}: Any")

    def _declare_class(self, name: str, value: type) -> None:
        """Adds the import of a class from the module that defines it; datasets are declared with their methods instead.

        A class that its module doesn't bind by its own name can't be imported, and is declared as ``Any``.
        """
        defining_module, own_name = value.__module__ or "", value.__name__
        written_out = getattr(sys.modules[WRITTEN_OUT[0]], WRITTEN_OUT[1])
        if issubclass(value, written_out):
            self.body.append(self._class(name, value, is_base=value is written_out))
        elif not defining_module.startswith("tvtf.") or own_name not in _imports_of_source_names(defining_module):
            self.body.append(f"{name}: Any")
        elif own_name == name:
            self.imports.append(f"from {defining_module} import {own_name} as {name}")
        else:  # an import under another name isn't public in a stub
            self.imports.append(f"from {defining_module} import {own_name} as _{own_name}")
            self.body.append(f"{name} = _{own_name}")

    def _class(self, name: str, value: type, is_base: bool) -> str:
        """Returns the declaration of a class of datasets with its methods; ``is_base`` is for the class of all datasets."""
        base = "" if is_base or name == WRITTEN_OUT[1] else WRITTEN_OUT[1]
        if base and self.space.path != "data":
            self.imports.append(f"from tvtf.data import {base} as _{base}")
            base = f"_{base}"
        methods = []
        for attribute_name in dir(value):
            attribute = inspect.getattr_static(value, attribute_name)
            if (attribute_name.startswith("_") and attribute_name not in SPECIAL) or not (
                is_base or attribute_name in vars(value)
            ):
                continue
            function = getattr(attribute, "__func__", attribute)
            if callable(function) and getattr(function, "__module__", None):
                decorator = type(attribute).__name__
                lines = [f"@{decorator}"] if decorator in ("classmethod", "staticmethod") else []
                lines.append(self._function(attribute_name, function, result=WRITTEN_OUT[1]))
                methods.append(textwrap.indent("\n".join(lines), "    "))
            else:
                methods.append(f"    {attribute_name}: Any")
        return "\n".join([f"class {name}({base}):" if base else f"class {name}:", *(methods or ["    ..."])])

    def _function(self, name: str, value: Any, result: str = "Any") -> str:
        """Returns the declaration of a function, with the first line of its docstring.

        ``result`` is a class of this stub that the annotation of its result may name.
        """
        try:
            signature = inspect.signature(value)
            parameters = self._parameters(signature)
            makes_object = isinstance(inspect.unwrap(value), type)  # its signature is that of __init__
            if not makes_object and signature.return_annotation != result:
                result = self._type(signature.return_annotation)
        except (TypeError, ValueError):  # a callable written in C
            parameters, result = "*args: Any, **kwargs: Any", "Any"
        line = (
            ("" if name.startswith("__") else inspect.getdoc(value) or "")
            .partition("\n")[0]
            .replace("\\", "\\\\")
            .replace('"', "'")
        )
        doc = f'\n    """{line}"""' if line else " ..."
        return f"def {name}({parameters}) -> {result}:{doc}"

    def _parameters(self, signature: inspect.Signature) -> str:
        """Formats a signature's parameters, with ``/`` and ``*`` where they belong."""
        texts, has_star, is_positional = [], False, False
        for parameter in signature.parameters.values():
            if is_positional and parameter.kind is not parameter.POSITIONAL_ONLY:
                texts.append("/")
            is_positional = parameter.kind is parameter.POSITIONAL_ONLY
            if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
                texts.append("*")
            has_star = has_star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
            prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
            annotation = "" if parameter.name in ("self", "cls") else f": {self._type(parameter.annotation)}"
            texts.append(f"{prefix}{parameter.name}{annotation}{default}")
        return ", ".join([*texts, "/"] if is_positional else texts)

    def _type(self, annotation: Any) -> str:
        """An annotation that is made of plain types, and Any for others."""
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        parts = re.split(r"\s*\|\s*", text.strip("'\""))
        if not all(part in PLAIN_TYPES or part == "None" for part in parts):
            return "Any"
        return " | ".join(f"_{part}" if part in self.hidden else part for part in parts)


def _default(value: Any) -> str:
    text = repr(value) if isinstance(value, (bool, int, float, str, type(None))) else "..."
    return "..." if len(text) > LONGEST_DEFAULT or text in ("inf", "-inf", "nan") else text


def _imports_of_source_names(module: str) -> dict[str, str]:
    """Returns the public names that a module's source code binds, each with the import statement that binds it elsewhere."""
    origin = getattr(sys.modules.get(module), "__file__", None)
    imports: dict[str, str] = {}
    for node in ast.parse(Path(origin).read_text()).body if origin else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = alias.asname or alias.name
                imports[name] = f"from {node.module} import {alias.name} as {name}"
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            imports[node.name] = f"from {module} import {node.name} as {node.name}"
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
                imports[name] = f"from {module} import {name} as {name}"
    return {name: line for name, line in imports.items() if not name.startswith("_") and name != "annotations"}


def main() -> None:
    """Writes the stubs into the folder that the command names, of the package that is imported from there."""
    folder = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(folder))
    for path in write(folder / "tvtf"):
        compile(path.read_text(), str(path), "exec")


if __name__ == "__main__":
    main()
