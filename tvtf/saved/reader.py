"""Reads a saved model: checks all of it, then creates its objects and connects them."""

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
from tvtf.state.random_streams import Stream
from tvtf.state.variable import Variable
from tvtf.train.bundle import Reader


@dataclass(frozen=True)
class LoadOptions:
    """Options of `load`.

    Args:
      experimental_skip_checkpoint: set the Variables to zero instead of their saved values.
      experimental_load_function_aliases: set the attribute ``function_aliases``, a dict of functions by alias.

    The other arguments are TensorFlow's and have no effect here.

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/LoadOptions
    """

    allow_partial_checkpoint: bool = False
    experimental_io_device: Any = None
    experimental_skip_checkpoint: bool = False
    experimental_variable_policy: Any = None
    experimental_load_function_aliases: bool = False


def load(export_dir: Any, tags: Any = None, options: LoadOptions | None = None) -> Any:
    """Loads a saved model: an object with the saved attributes, Variables and functions, but not of the user's classes.

    Files, versions, checksums, shapes and dtypes are checked before any object is created.

    Args:
      export_dir: the folder.
      tags: None, or ``"serve"``.
      options: see `LoadOptions`.

    Returns:
      The object; its ``signatures`` are functions of named tensors.

    Raises:
      OSError: the folder holds no saved model.
      SavedModuleError: the model has another version, is damaged, or was saved by TensorFlow; a ValueError.
      ValueError: ``tags`` are not those of the model.

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/load
    """
    folder = os.fspath(export_dir)
    _check_tags(tags, folder)
    with layout.damage_named(folder):
        return _load_consistent(folder, options or LoadOptions())


def _load_consistent(folder: str, options: LoadOptions) -> Any:
    """Loads the saved model in a folder. If a save replaces the model meanwhile, loads the new model.

    A lock makes saves wait while the folder is read. On file systems without locks, ``layout.stamp`` shows whether the
    model has changed. The model is then read again.
    """
    while True:
        with _locked_if_present(folder):
            stamp_before = layout.stamp(folder)
            try:
                data, files_folder = layout.locate(folder)
                model = _Model(data, Path(folder), files_folder, options).create()
            except Exception:  # if the stamp has changed, the replacement may have caused the error
                if layout.stamp(folder) == stamp_before:
                    raise
            else:
                if layout.stamp(folder) == stamp_before:
                    return model


def _locked_if_present(folder: str) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager that locks a folder, so that saves to it wait; it does nothing without the folder."""
    return shared(folder) if os.path.isdir(folder) else contextlib.nullcontext()


def _check_tags(tags: Any, folder: str) -> None:
    """Checks the argument ``tags`` of `load`. A saved model has only one set of tags, ``serve``.

    Raises:
      ValueError: ``tags`` is not that set.
    """
    if tags is not None and set([tags] if isinstance(tags, str) else tags) != set(layout.TAGS):
        raise ValueError(
            f"Got an incompatible argument to `tags`: {tags}. The SavedModel at {folder} has one MetaGraph with tags "
            f"{list(layout.TAGS)}. You may omit the argument, pass 'None', or pass matching tags."
        )


class _Model:
    """The description of a saved model, and the objects created from it."""

    def __init__(self, data: dict[str, Any], folder: Path, files_folder: Path, options: LoadOptions) -> None:
        """Reads and checks a saved model's description ``data``, programs and arrays, before objects are created.

        ``folder`` holds the description, ``files_folder`` the other files.
        """
        self.folder, self.files_folder, self.skip = folder, files_folder, options.experimental_skip_checkpoint
        self.has_aliases = options.experimental_load_function_aliases
        self.description_path = str(folder / layout.FILE)
        self.nodes: list[dict[str, Any]] = entry(data, "objects", self.description_path)
        objects.check_nodes(self.nodes, self.description_path)
        self.file_names = set(entry(data, "files", self.description_path))
        self.programs = self._programs(entry(data, "functions", self.description_path))
        self.captures: list[Any] = entry(data, "things", self.description_path)
        self.arrays = self._arrays()
        self.constants = self._constants()
        self.objects_by_node: dict[int, Any] = {}

    def _damaged(self, reason: object) -> SavedModuleError:
        """Returns the error that the model's description is damaged, for the caller to raise."""
        return SavedModuleError(f"{self.description_path} is damaged: {reason}; save the model again")

    # -- checks

    def _programs(self, descriptions: Any) -> list[Program]:
        """Reads and checks the programs of all functions in a saved model's description."""
        if not isinstance(descriptions, list):
            raise self._damaged("it lists no functions")
        try:
            return [program.read(description) for description in descriptions]
        except SavedModuleError as cause:
            raise self._damaged(cause) from cause

    def _open(self, name: str) -> Reader:
        """Opens the checkpoint bundle ``name`` of a saved model, and verifies the checksums of all values in it."""
        if layout.index_of(name) not in self.file_names:
            raise self._damaged(f"it has no {name}")
        try:
            reader = Reader(self.files_folder / name)
            reader.verify()
        except OpError as cause:
            raise SavedModuleError(f"the values in {self.folder} can't be read: {cause}") from cause
        return reader

    def _arrays(self) -> dict[int, np.ndarray]:
        """Reads the values of the model's Variables, and returns them by the Variables' node IDs."""
        variables = {i: node for i, node in enumerate(self.nodes) if node.get("kind") == "variable"}
        reader = self._open(layout.VARIABLES)
        return {node_id: self._array(reader, node) for node_id, node in variables.items()}

    def _array(self, reader: Reader, node: dict[str, Any]) -> np.ndarray:
        """Reads the value of a Variable, after checking the value's dtype and shape against the model's description.

        The checkpoint and the description are separate files, which may not belong together.

        Args:
          reader: reads the checkpoint.
          node: the Variable's entry in the description.
        """
        key = str(entry(node, "key", self.description_path))
        name = entry(node, "name", self.description_path)
        shape = entry(node, "shape", self.description_path)
        dtype = entry(node, "dtype", self.description_path)
        stored = reader.entries.get(key)
        if stored is None:
            raise self._damaged(f"the value of {name} isn't in {layout.VARIABLES}")
        has_shape = shape is None or (
            len(shape) == len(stored.shape)
            and all(dim in (None, stored_dim) for dim, stored_dim in zip(shape, stored.shape))
        )
        if not has_shape or stored.dtype.name != dtype:
            raise SavedModuleError(
                f"the variables in {self.folder} don't fit its description: {name} must be {dtype} {shape}, but is "
                f"{stored.dtype.name} {list(stored.shape)}; save the model again"
            )
        return np.zeros(stored.shape, stored.dtype.np) if self.skip else reader.read(key)

    def _constants(self) -> dict[str, EagerTensor]:
        """Reads the constants that functions capture, and the arrays of lookup tables. Returns the tensors by key."""
        keys: list[str] = []
        for kind, reference in self._checked_captures():
            if kind == "constant":
                keys.append(reference)
            elif kind == "table":
                keys += reference
        if not keys:
            return {}
        reader = self._open(layout.CONSTANTS)
        missing = [key for key in keys if key not in reader.entries]
        if missing:
            raise self._damaged(f"constant {missing[0]} isn't in {layout.CONSTANTS}")
        return {key: EagerTensor(reader.read(key)) for key in keys}

    def _checked_captures(self) -> list[tuple[str, Any]]:
        """Returns the objects that functions capture as pairs of a kind and a reference, after checking the pairs.

        The kinds and references are: "object" with a node ID, "constant" with a key, "table" with the list of the
        keys of its arrays, and "stream" with the list of the numbers of a generator state, or an empty list.
        """
        if not isinstance(self.captures, list):
            raise self._damaged("None is not something that a function can capture")
        checked = []
        for capture in self.captures:
            is_pair = isinstance(capture, list) and len(capture) == 2
            if not is_pair or not _is_valid_capture(capture[0], capture[1], len(self.nodes)):
                raise self._damaged(f"{capture!r:.60} is not something that a function can capture")
            kind, reference = capture
            checked.append((kind, reference))
        return checked

    # -- making

    def create(self) -> Any:
        """Creates all objects of a saved model, connects them, and returns the root object."""
        for node_id, node in enumerate(self.nodes):
            create_object = _MAKERS.get(str(node.get("kind")))
            if create_object is None and node.get("kind") != "tuple":
                raise self._damaged(f"object {node_id} is of the unknown kind {node.get('kind')!r}")
            # Objects of the other kinds refer to objects of these kinds. `_node` creates them later.
            if create_object is not None and node["kind"] in FIRST:
                self.objects_by_node[node_id] = create_object(self, node_id, node)
        self._bind_programs()
        for node_id, node in enumerate(self.nodes):
            if node["kind"] in objects.CONTAINERS:
                for name, child in node["children"]:
                    objects.adopt(self.objects_by_node[node_id], name, self._node(child))
        self._name_aliases()
        return self.objects_by_node[0]

    def _name_aliases(self) -> None:
        """Sets the root's attribute ``function_aliases`` to a dict if the load options request it; otherwise deletes it.

        The loaded attribute is an object, whose attributes are the functions by alias.
        """
        root_children = dict(self.nodes[0].get("children", ()))
        if objects.ALIASES not in root_children:
            return
        alias_node_id = root_children[objects.ALIASES]
        alias_node = self.nodes[alias_node_id]
        if alias_node["kind"] != "object":
            return
        root, alias_object = self.objects_by_node[0], self.objects_by_node[alias_node_id]
        delattr(root, objects.ALIASES)
        if self.has_aliases:
            aliases = {name: getattr(alias_object, name) for name, _ in alias_node["children"]}
            # Not by `setattr`, because the root would track the dict.
            object.__setattr__(root, objects.ALIASES, aliases)

    def _bind_programs(self) -> None:
        """Connects the programs of all functions to the Variables, constants and tables that they capture."""
        captures = [self._captured(kind, reference) for kind, reference in self.captures]
        for unbound_program in self.programs:
            program.bind(unbound_program, captures, self.description_path)

    def _captured(self, kind: str, reference: Any) -> Any:
        """Returns the object that a function captures: a constant, a table, a stream's state, an asset's path or a Variable.

        Returns None for other objects.

        Args:
          kind: "constant", "table", "stream" or "object".
          reference: the constant's key, the keys of the table's arrays, the state at which the stream starts, or the
            object's node ID.
        """
        if kind == "constant":
            return self.constants[reference]
        if kind == "table":
            return self._table(*(self.constants[key].eager_array() for key in reference))
        if kind == "stream":
            return Stream(np.array(reference, np.uint64) if reference else None).variable
        node = self.objects_by_node.get(reference)
        if isinstance(node, Asset):
            return node.asset_path
        return node if isinstance(node, Variable) else None

    def _table(self, keys: np.ndarray, values: np.ndarray, default: np.ndarray) -> TableRead:
        """Returns a lookup in a table of the given keys, values and default, after checking their shapes."""
        if keys.ndim != 1 or keys.shape != values.shape or default.ndim or default.dtype != values.dtype:
            raise self._damaged("a table's keys and values differ in shape, or its default in dtype")
        return TableRead(keys, values, default)

    def _node(self, node_id: int) -> Any:
        """Returns the object of a node in the saved object graph. A function or tuple is created on the first call.

        Functions and tuples can't be created earlier, because they refer to other objects.
        """
        if node_id not in self.objects_by_node:
            node = self.nodes[node_id]
            if node["kind"] == "tuple":
                created = self._tuple(node)
            else:
                created = _MAKERS[node["kind"]](self, node_id, node)
            self.objects_by_node[node_id] = created
        return self.objects_by_node[node_id]

    def _tuple(self, node: dict[str, Any]) -> Any:
        """Creates a tuple of a loaded model from its children; children with other names than indices are left out."""
        try:
            return wrap(tuple(self._node(child) for name, child in node["children"] if name.isdecimal()))
        except RecursionError:
            raise self._damaged("a tuple contains itself") from None

    def program(self, function_index: Any) -> Program:
        """Returns the program of the function at an index. Raises SavedModuleError if there is none."""
        if type(function_index) is not int or not 0 <= function_index < len(self.programs):
            raise self._damaged(f"function {function_index!r} isn't there")
        return self.programs[function_index]


def _is_valid_capture(kind: Any, reference: Any, node_count: int) -> bool:
    """Returns whether a reference has the form of its kind. A file may have been changed by a stranger."""
    if kind == "object":
        return type(reference) is int and 0 <= reference < node_count
    if kind == "constant":
        return isinstance(reference, str)
    if not isinstance(reference, list):
        return False
    if kind == "table":
        return len(reference) == len(TABLE) and all(isinstance(key, str) for key in reference)
    is_state = len(reference) in (0, STATE_SIZE)
    return kind == "stream" and is_state and all(type(word) is int and 0 <= word < 1 << 64 for word in reference)


def _variable(model: _Model, node_id: int, node: dict[str, Any]) -> Variable:
    """Creates a Variable of a loaded model with its saved value.

    Args:
      model: the model that is loaded.
      node_id: the index of the Variable's node.
      node: the Variable's entry in the description.
    """
    array, shape = model.arrays[node_id], node["shape"]
    is_static = shape is not None and None not in shape
    variable = Variable(
        array,
        bool(node.get("trainable")),
        dtype=dtypes.from_array(array),
        shape=None if is_static else TensorShape(shape),
    )
    variable._shared_name = str(node["name"])  # the constructor would add the current name scopes
    return variable


def _asset(model: _Model, node_id: int, node: dict[str, Any]) -> Asset:
    """Creates an asset of a loaded model, whose path is that of a file in the model's folder."""
    name = str(node.get("file"))
    if name not in model.file_names:
        raise model._damaged(f"the asset {name!r} is not among its files")
    return Asset(os.path.join(model.files_folder, *name.split("/")))


def _function(model: _Model, node_id: int, node: dict[str, Any]) -> RestoredFunction:
    """Creates a ``tf.function`` of a loaded model. Each call runs the saved program that matches the arguments."""
    signature = decode_signature(entry(node, "signature", model.description_path))
    specs = node.get("specs")
    programs = [model.program(index) for index in entry(node, "functions", model.description_path)]
    decoded_specs = None if specs is None else decode(specs)
    return RestoredFunction(str(node.get("name")), signature, decoded_specs, programs, node.get("left_out", ()))


def _concrete(model: _Model, node_id: int, node: dict[str, Any]) -> ConcreteFunction:
    """Creates a concrete function of a loaded model by tracing its saved program."""
    concrete = model.program(node.get("function")).trace()
    concrete._signature = decode_signature(entry(node, "signature", model.description_path))
    return concrete


def _signatures(model: _Model, node_id: int, node: dict[str, Any]) -> SignatureMap:
    """Creates the map of a loaded model's signatures. A signature is traced when it is first used.

    Args:
      model: the model that is being loaded.
      node_id: not used; it is passed to the creators of all kinds of objects.
      node: the map's node; its children are pairs of a signature's key and the ID of the signature's node.
    """
    return SignatureMap({name: _signature_tracer(model, model.nodes[child]) for name, child in node["children"]})


def _signature_tracer(model: _Model, node: dict[str, Any]) -> Callable[[], ConcreteFunction]:
    """Returns a function that traces the signature of a node.

    Raises:
      SavedModuleError: the argument names of the signature are not those of its program.
    """
    signature_program = model.program(node.get("function"))
    signature = decode_signature(entry(node, "signature", model.description_path))
    names = list(signature.parameters)
    program_names = signature_program.arguments.names
    if sorted(names) != sorted(program_names):
        raise model._damaged(
            f"a signature of {signature_program.name} has the arguments {names}, but its program has {program_names}"
        )

    def trace() -> ConcreteFunction:
        return signature_program.trace(SignatureFunction).set_names(names)  # type: ignore[attr-defined, no-any-return]

    return trace


TABLE = ("keys", "values", "default")
"""The names of the constants of a lookup in a table."""
STATE_SIZE = 3
"""The number of numbers in the state of a Philox generator."""
FIRST = (*objects.CONTAINERS, "variable", "asset")
"""The kinds of objects that are created first: functions capture them, or they contain others."""

_MAKERS: dict[str, Callable[[_Model, int, dict[str, Any]], Any]] = {
    **{kind: (lambda model, node_id, node, make=make: make()) for kind, make in objects.CONTAINERS.items()},  # type: ignore[misc]
    "variable": _variable,
    "asset": _asset,
    "function": _function,
    "concrete": _concrete,
    "signatures": _signatures,
}
