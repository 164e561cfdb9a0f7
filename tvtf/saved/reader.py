"""Reading a saved model: all of it is checked first, then its objects are made and tied together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.composites.value_json import decode, decode_signature
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor
from tvtf.errors import OpError
from tvtf.fileio.folder_locks import shared
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.lookup.tables import TableRead
from tvtf.saved import layout, objects, program
from tvtf.saved.asset import Asset
from tvtf.saved.description import entry
from tvtf.saved.program import Program
from tvtf.saved.restored_functions import RestoredFunction
from tvtf.saved.signatures import SignatureFunction, SignatureMap
from tvtf.state.autotrackable import wrap
from tvtf.state.variable import Variable
from tvtf.train.bundle import Reader


@dataclass(frozen=True)
class LoadOptions:
    """How to load a model.

    Args:
      experimental_skip_checkpoint: leave the Variables zero.
      experimental_load_function_aliases: give the model ``function_aliases``, a dict of functions by their other names.

    The other arguments are TensorFlow's, for which there is nothing to do here.

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/LoadOptions
    """

    allow_partial_checkpoint: bool = False
    experimental_io_device: Any = None
    experimental_skip_checkpoint: bool = False
    experimental_variable_policy: Any = None
    experimental_load_function_aliases: bool = False


def load(export_dir: Any, tags: Any = None, options: LoadOptions | None = None) -> Any:
    """Reads what `save` wrote: an object with the saved one's attributes, Variables and functions, of no class of yours.

    Files, versions, checksums, shapes and dtypes are checked before anything is made.

    Args:
      export_dir: the folder.
      tags: None, or ``"serve"``.
      options: see `LoadOptions`.

    Returns:
      The object; its ``signatures`` are functions of named tensors.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: it is of another version, damaged, or TensorFlow's; a ValueError.
      ValueError: other tags.

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/load
    """
    place = os.fspath(export_dir)
    _check_tags(tags, place)
    with layout.damage_named(place):
        return _made(place, options or LoadOptions())


def _made(place: str, options: LoadOptions) -> Any:
    """The model; of another one that takes its place meanwhile, all.

    A save waits while its folder is read; where the disk knows no locks, what was read during one is read again.
    """
    while True:
        with _unchanged(place):
            before = layout.stamp(place)
            try:
                data, base = layout.found(place)
                model = _Model(data, Path(place), base, options).made()
            except Exception:  # of a model that was replaced while it was read; else it is raised again
                if layout.stamp(place) == before:
                    raise
            else:
                if layout.stamp(place) == before:
                    return model


def _unchanged(place: str) -> contextlib.AbstractContextManager[None]:
    """Has saves to a folder wait while it is read; a folder that isn't there has no saves."""
    return shared(place) if os.path.isdir(place) else contextlib.nullcontext()


def _check_tags(tags: Any, place: str) -> None:
    if tags is not None and set([tags] if isinstance(tags, str) else tags) != set(layout.TAGS):
        raise ValueError(
            f"Got an incompatible argument to `tags`: {tags}. The SavedModel at {place} has one MetaGraph with tags "
            f"{list(layout.TAGS)}. You may omit the argument, pass 'None', or pass matching tags."
        )


class _Model:
    """A description that was read, and what is made of it."""

    def __init__(self, data: dict[str, Any], folder: Path, base: Path, options: LoadOptions) -> None:
        self.folder, self.base, self.skip = folder, base, options.experimental_skip_checkpoint
        self.has_aliases = options.experimental_load_function_aliases
        self.place = str(folder / layout.FILE)
        self.nodes: list[dict[str, Any]] = entry(data, "objects", self.place)
        objects.check_nodes(self.nodes, self.place)
        self.listed = set(entry(data, "files", self.place))
        self.programs = self._programs(entry(data, "functions", self.place))
        self.things: list[Any] = entry(data, "things", self.place)
        self.arrays = self._arrays()
        self.constants = self._constants()
        self.made_nodes: dict[int, Any] = {}

    def _damaged(self, why: object) -> SavedModuleError:
        return SavedModuleError(f"{self.place} is damaged: {why}; save the model again")

    # -- checks

    def _programs(self, listed: Any) -> list[Program]:
        if not isinstance(listed, list):
            raise self._damaged("it lists no functions")
        try:
            return [program.read(data) for data in listed]
        except SavedModuleError as cause:
            raise self._damaged(cause) from cause

    def _open(self, name: str) -> Reader:
        if layout.index_of(name) not in self.listed:
            raise self._damaged(f"it has no {name}")
        try:
            reader = Reader(self.base / name)
            reader.verify()
        except OpError as cause:
            raise SavedModuleError(f"the values in {self.folder} can't be read: {cause}") from cause
        return reader

    def _arrays(self) -> dict[int, np.ndarray]:
        """The Variables' values by node."""
        variables = {i: node for i, node in enumerate(self.nodes) if node.get("kind") == "variable"}
        reader = self._open(layout.VARIABLES)
        return {number: self._array(reader, node) for number, node in variables.items()}

    def _array(self, reader: Reader, node: dict[str, Any]) -> np.ndarray:
        key, name = str(entry(node, "key", self.place)), entry(node, "name", self.place)
        found = reader.entries.get(key)
        shape = entry(node, "shape", self.place)
        told = f"{entry(node, 'dtype', self.place)} {shape}"
        if found is None:
            raise self._damaged(f"the value of {name} isn't in {layout.VARIABLES}")
        fits = shape is None or (
            len(shape) == len(found.shape) and all(d in (None, s) for d, s in zip(shape, found.shape))
        )
        if not fits or found.dtype.name != node["dtype"]:
            raise SavedModuleError(
                f"the variables in {self.folder} don't fit its description: {name} must be {told}, but is {found.dtype.name} "
                f"{list(found.shape)}; save the model again"
            )
        return np.zeros(found.shape, found.dtype.np) if self.skip else reader.read(key)

    def _constants(self) -> dict[str, EagerTensor]:
        things = self._checked_things()
        keys = [which for kind, which in things if kind == "constant"]
        keys += [key for kind, which in things if kind == "table" for key in which]
        if not keys:
            return {}
        reader = self._open(layout.CONSTANTS)
        missing = [key for key in keys if key not in reader.entries]
        if missing:
            raise self._damaged(f"constant {missing[0]} isn't in {layout.CONSTANTS}")
        return {key: EagerTensor(reader.read(key)) for key in keys}

    def _checked_things(self) -> list[tuple[str, Any]]:
        for thing in self.things if isinstance(self.things, list) else [None]:
            kind, which = thing if isinstance(thing, list) and len(thing) == 2 else (None, None)
            is_node = kind == "object" and type(which) is int and 0 <= which < len(self.nodes)
            is_table = kind == "table" and isinstance(which, list) and len(which) == len(TABLE)
            keys: list[Any] = which if is_table else [which] if kind == "constant" else [None]  # type: ignore[assignment]
            if not is_node and not all(isinstance(key, str) for key in keys):
                raise self._damaged(f"{thing!r:.60} is nothing that a function could capture")
        return [(kind, which) for kind, which in self.things]

    # -- making

    def made(self) -> Any:
        """The root object, with everything that hangs from it."""
        for number, node in enumerate(self.nodes):
            maker = _MAKERS.get(str(node.get("kind")))
            if maker is None and node.get("kind") != "tuple":
                raise self._damaged(f"object {number} is of kind {node.get('kind')!r}")
            if maker is not None and node["kind"] in FIRST:
                self.made_nodes[number] = maker(self, number, node)
        self._bind_programs()
        for number, node in enumerate(self.nodes):
            if node["kind"] in objects.CONTAINERS:
                for name, child in node["children"]:
                    objects.adopt(self.made_nodes[number], name, self._node(child))
        self._name_aliases()
        return self.made_nodes[0]

    def _name_aliases(self) -> None:
        """The object that holds the root's functions by their other names is a dict of them, where that is asked for."""
        numbers = [child for name, child in self.nodes[0].get("children", ()) if name == objects.ALIASES]
        if not numbers or self.nodes[numbers[0]]["kind"] != "object":
            return
        root, holder = self.made_nodes[0], self.made_nodes[numbers[0]]
        delattr(root, objects.ALIASES)
        if self.has_aliases:
            named = {name: getattr(holder, name) for name, _ in self.nodes[numbers[0]]["children"]}
            object.__setattr__(root, objects.ALIASES, named)

    def _bind_programs(self) -> None:
        known = [self._thing(kind, which) for kind, which in self.things]
        for each in self.programs:
            program.bind(each, known, self.place)

    def _thing(self, kind: str, which: Any) -> Any:
        if kind == "constant":
            return self.constants[which]
        if kind == "table":
            return self._table(*(self.constants[key].eager_array() for key in which))
        made = self.made_nodes.get(which)
        return made.asset_path if isinstance(made, Asset) else made if isinstance(made, Variable) else None

    def _table(self, keys: np.ndarray, values: np.ndarray, default: np.ndarray) -> TableRead:
        if keys.ndim != 1 or keys.shape != values.shape or default.ndim or default.dtype != values.dtype:
            raise self._damaged("a table has other values than keys")
        return TableRead(keys, values, default)

    def _node(self, number: int) -> Any:
        """An object; functions and tuples are made when they are first asked for."""
        if number not in self.made_nodes:
            node = self.nodes[number]
            self.made_nodes[number] = (
                self._tuple(node) if node["kind"] == "tuple" else _MAKERS[node["kind"]](self, number, node)
            )
        return self.made_nodes[number]

    def _tuple(self, node: dict[str, Any]) -> Any:
        try:
            return wrap(tuple(self._node(child) for name, child in node["children"] if name.isdecimal()))
        except RecursionError:
            raise self._damaged("a tuple holds itself") from None

    def program(self, number: Any) -> Program:
        if type(number) is not int or not 0 <= number < len(self.programs):
            raise self._damaged(f"function {number!r} isn't there")
        return self.programs[number]


def _variable(model: _Model, number: int, node: dict[str, Any]) -> Variable:
    array, shape = model.arrays[number], node["shape"]
    fixed = shape is not None and None not in shape
    made = Variable(
        array, bool(node.get("trainable")), dtype=dtypes.from_array(array), shape=None if fixed else TensorShape(shape)
    )
    made._shared_name = str(node["name"])
    return made


def _asset(model: _Model, number: int, node: dict[str, Any]) -> Asset:
    name = str(node.get("file"))
    if name not in model.listed:
        raise model._damaged(f"the asset {name!r} is not among its files")
    return Asset(os.path.join(model.base, *name.split("/")))


def _function(model: _Model, number: int, node: dict[str, Any]) -> RestoredFunction:
    signature = decode_signature(entry(node, "signature", model.place))
    specs = node.get("specs")
    programs = [model.program(each) for each in entry(node, "functions", model.place)]
    decoded = None if specs is None else decode(specs)
    return RestoredFunction(str(node.get("name")), signature, decoded, programs, node.get("left_out", ()))


def _concrete(model: _Model, number: int, node: dict[str, Any]) -> ConcreteFunction:
    made = model.program(node.get("function")).trace()
    made._signature = decode_signature(entry(node, "signature", model.place))
    return made


def _signatures(model: _Model, number: int, node: dict[str, Any]) -> SignatureMap:
    def maker(child: int) -> Callable[[], ConcreteFunction]:
        found = model.program(model.nodes[child].get("function"))
        names = list(decode_signature(entry(model.nodes[child], "signature", model.place)).parameters)
        if sorted(names) != sorted(found.arguments.names):
            raise model._damaged(f"a signature of {found.name} names {names}, and its program {found.arguments.names}")
        return lambda: found.trace(SignatureFunction).set_names(names)  # type: ignore[attr-defined, no-any-return]

    return SignatureMap({name: maker(child) for name, child in node["children"]})


TABLE = ("keys", "values", "default")
"""The constants of a lookup in a table."""
FIRST = (*objects.CONTAINERS, "variable", "asset")
"""What functions may capture, or holds others: made before them."""

_MAKERS: dict[str, Callable[[_Model, int, dict[str, Any]], Any]] = {
    **{kind: (lambda model, number, node, make=make: make()) for kind, make in objects.CONTAINERS.items()},  # type: ignore[misc]
    "variable": _variable,
    "asset": _asset,
    "function": _function,
    "concrete": _concrete,
    "signatures": _signatures,
}
