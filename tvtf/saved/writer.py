"""Writes a saved model: all files are written to a new folder first, then moved into place."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvtf.core.tensor import EagerTensor
from tvtf.core.thread_state import state
from tvtf.fileio import atomic_file
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.lookup.tables import TableRead
from tvtf.saved import layout, library, objects, program
from tvtf.saved.asset import Asset
from tvtf.saved.fingerprint import VariablePolicy
from tvtf.saved.saved_function import SavedFunction
from tvtf.saved.signatures import SignatureMap, canonical
from tvtf.saved.swap import Swap
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.random_streams import stream_of
from tvtf.state.trackable import Trackable
from tvtf.state.variable import Variable
from tvtf.train import bundle, object_graph


@dataclass(frozen=True)
class SaveOptions:
    """Options of `save`.

    Args:
      targets: the targets to compile signatures for: ``"cpu"``, or a GPU architecture such as ``"sm_90"``. Each produces a
        library ``compiled/SIGNATURE.TARGET.so``, which runs without the compiler (`tvtf run`, C++).
      function_aliases: a dict of functions by alias; a loaded model may have it as its attribute ``function_aliases``.

    The other arguments are TensorFlow's and have no effect here.

    >>> import tvtf as tf
    >>> tf.saved_model.SaveOptions(targets=("cpu",)).targets
    ('cpu',)

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/SaveOptions
    """

    namespace_whitelist: Any = None
    save_debug_info: bool = False
    function_aliases: Any = None
    experimental_debug_stripper: bool = False
    experimental_io_device: Any = None
    experimental_variable_policy: Any = None
    experimental_custom_gradients: bool = True
    experimental_image_format: bool = False
    experimental_skip_saver: bool = False
    experimental_sharding_callback: Any = None
    extra_tags: Any = None
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "experimental_variable_policy", VariablePolicy.from_obj(self.experimental_variable_policy)
        )


def save(obj: Any, export_dir: Any, signatures: Any = None, options: SaveOptions | None = None) -> None:
    """Writes an object with its Variables and functions, so that `load` needs none of its classes.

    A ``tf.function`` is saved with all its traces; one with an ``input_signature`` is traced first if necessary.

    Args:
      obj: a ``tf.Module``, or another object that tracks its parts.
      export_dir: the folder. An older model there is replaced in one step, after everything is written.
      signatures: a function with an ``input_signature``, a concrete function, or a dict of them by name.
      options: see `SaveOptions`.

    Raises:
      ValueError: ``obj`` is not trackable, or a signature takes or returns something other than tensors.
      AssertionError: a function reads a Variable that ``obj`` does not track, or `save` is called in a traced function.
      ResourceExhaustedError: the disk is full; the folder's old content is unchanged.

    >>> import tempfile
    >>> import tvtf as tf
    >>> model = tf.Module()
    >>> model.scale = tf.Variable(2.)
    >>> model.scaled = tf.function(lambda x: x * model.scale, input_signature=[tf.TensorSpec([None])])
    >>> folder = tempfile.mkdtemp()
    >>> tf.saved_model.save(model, folder)
    >>> tf.saved_model.load(folder).scaled(tf.constant([1., 2.])).numpy()
    array([2., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/save
    """
    save_with(obj, export_dir, signatures, options, {})


def save_with(
    obj: Any, export_dir: Any, signatures: Any, options: SaveOptions | None, extra: Mapping[str, bytes]
) -> None:
    """Saves a model as `save` does, with further files: ``extra`` has their contents by name.

    Raises:
      The errors of `save`.
    """
    if state.trace is not None:
        raise AssertionError(
            "`tf.saved_model.save` is not supported inside a traced @tf.function. Move the call to the outer "
            "eagerly-executed context."
        )
    if not isinstance(obj, Trackable):
        raise ValueError(
            "Expected an object of type `Trackable`, such as `tf.Module` or a subclass of the `Trackable` class, for export. "
            f"Got {obj} with type {type(obj)}."
        )
    _check_attribute(obj)
    functions = objects.functions_of(obj)
    parts = obj._parts_of_saved_model() if isinstance(obj, AutoTrackable) else {}
    options = options or SaveOptions()
    if options.function_aliases:
        parts = {**parts, objects.ALIASES: _aliases(options.function_aliases)}
    view = objects.ModelView(obj, canonical(signatures, {**functions, **parts}), parts)
    _Writer(view, os.fspath(export_dir)).write(options.targets, extra)


def _aliases(functions_by_alias: Mapping[str, Any]) -> AutoTrackable:
    """Returns an object that has each function as an attribute, named by its alias. The object is saved with the model.

    Raises:
      TypeError: an alias stands for something other than a ``tf.function`` or concrete function.
    """
    holder = AutoTrackable()
    for name, function in functions_by_alias.items():
        if not isinstance(function, (Function, ConcreteFunction)):
            raise TypeError(
                f"function_aliases must map names to functions made by tf.function, but {name!r} is {function!r}"
            )
        setattr(holder, name, function)
    return holder


def _check_attribute(obj: Any) -> None:
    """Checks that an object has no attribute ``signatures``, except for the map of signatures of a loaded model.

    Raises:
      ValueError: ``obj.signatures`` is an object of a different type.
    """
    signatures = vars(obj).get(objects.SIGNATURES)
    if signatures is not None and not isinstance(signatures, SignatureMap):
        raise ValueError(
            f"Exporting an object {obj} which has an attribute named '{objects.SIGNATURES}'. This is a reserved attribute used "
            "to store SavedModel signatures in objects which come from `tf.saved_model.load`. Delete this attribute (e.g. "
            f"`del obj.{objects.SIGNATURES}`) before saving if this shadowing is acceptable."
        )


class _Writer:
    """One save: assigns indices to the objects that functions capture, and collects the files."""

    def __init__(self, view: objects.ModelView, folder: str) -> None:
        """Prepares the save of the objects in ``view``; see `write`."""
        self.view = view
        self.folder = folder
        self.nodes = {id(node.trackable): node_id for node_id, node in enumerate(view.nodes())}
        self.functions: list[dict[str, Any]] = []
        self.function_indices: dict[int, int | str] = {}
        self.captures: list[list[Any]] = []
        self.capture_indices: dict[int, int] = {}
        self.constants: dict[str, Any] = {}
        # The objects whose indices are stored by id: they must stay alive during the save, so that no id is used twice.
        self.references: list[Any] = []

    def write(self, targets: tuple[str, ...], extra: Mapping[str, bytes]) -> None:
        """Writes all files of the model to a new folder, then replaces the older model.

        Args:
          targets: the targets to compile signatures for; see `SaveOptions`.
          extra: contents of further files, by name.
        """
        described_objects = objects.describe(self.view, self._function_index)
        contents = (
            self._assets(described_objects)
            | self._libraries(targets)
            | {f"{layout.EXTRA}/{n}": extra[n] for n in extra}
        )
        with Swap(self.folder, layout.FILE) as swap, atomic_file.Replacement() as replacement:
            names = self._bundle(swap, replacement, layout.VARIABLES, object_graph.serialize(self.view))
            # The files whose digests the description has. The digest of an index file covers the bundle's data.
            checked = [layout.index_of(layout.VARIABLES), *contents]
            if self.constants:
                names += self._bundle(swap, replacement, layout.CONSTANTS, self.constants)
                checked.append(layout.index_of(layout.CONSTANTS))
            for name, content in contents.items():
                replacement.add(swap.path(name), [content])
            document = {
                **layout.MARK,
                "generation": swap.name,
                "files": {name: replacement.digest(swap.path(name)) for name in checked},
                "functions": self.functions,
                "things": self.captures,
                "objects": described_objects,
            }
            replacement.add(swap.path(layout.FILE), [json.dumps(document, indent=1).encode()])
            os.makedirs(swap.target(layout.ASSETS), exist_ok=True)
            replacement.commit()
            swap.commit([*names, *contents], _data_files() - set(names))
        logging.getLogger("tvtf").info("Assets written to: %s", swap.target(layout.ASSETS))

    def _bundle(
        self, swap: Swap, replacement: atomic_file.Replacement, name: str, tensors: Mapping[str, Any]
    ) -> list[str]:
        """Writes a checkpoint bundle of tensors.

        The data file has another name than that of the older model's bundle, which stays valid until the index file is
        replaced. The number of shards makes the difference.

        Args:
          swap: the save, which replaces the content of a folder.
          replacement: the files that replace others together.
          name: the name of the bundle.
          tensors: the tensors, by key.

        Returns:
          the names of the bundle's files, the data before the index.
        """
        shards = bundle.spare_shard_count(swap.target(name))
        bundle.add(replacement, swap.path(name), tensors, shards)
        return [bundle.data_name(name, 0, shards), layout.index_of(name)]

    # -- functions

    def _function_index(self, concrete: ConcreteFunction) -> int | str:
        """Returns the index of a concrete function in the saved model, or the reason why the function is not saved.

        The first call for a function adds the function to the model.
        """
        index = self.function_indices.get(id(concrete))
        if index is None:
            self.references.append(concrete)
            index = self.function_indices[id(concrete)] = self._describe(concrete)
        return index

    def _describe(self, concrete: ConcreteFunction) -> int | str:
        """Adds a concrete function to the saved model, and returns the function's index, or why it can't be saved.

        A model is saved for its signatures, so an error in a signature is raised. Other functions are left out with a
        warning.
        """
        try:
            description = program.describe(concrete, lambda captured: self._capture_index(concrete, captured))
        except program.NotSaveable as reason:
            if any(concrete is signature for signature in self.view.signatures.values()):
                raise
            logging.getLogger("tvtf").warning("saved_model.save leaves out a trace of %s: %s", concrete.name, reason)
            return str(reason)
        self.functions.append(description)
        return len(self.functions) - 1

    def _capture_index(self, concrete: ConcreteFunction, captured: Any) -> int:
        """Returns the index of a captured object in the saved model; a new object is added to the model.

        Several functions may capture the same Variable, which is stored once.
        """
        index = self.capture_indices.get(id(captured))
        if index is None:
            self.captures.append(self._describe_capture(concrete, captured))
            self.references.append(captured)
            index = self.capture_indices[id(captured)] = len(self.captures) - 1
        return index

    def _describe_capture(self, concrete: ConcreteFunction, captured: Any) -> list[Any]:
        """Encodes an object that a function captures as a list of a kind and a reference.

        A Variable or asset is an "object" with a node ID. A lookup table is a "table" with the keys of its arrays.
        Another tensor is a "constant" with its key. The arrays of tables and constants are added to the model. The state
        of an op's random numbers is a "stream" with the state at which it starts, or an empty list for a random one.

        Args:
          concrete: the function.
          captured: the object.
        """
        stream = stream_of(captured) if isinstance(captured, Variable) else None
        if stream is not None:
            return ["stream", [] if stream.start is None else stream.start.tolist()]
        node_owner = captured if isinstance(captured, Variable) else Asset.of(captured)
        if node_owner is not None:
            node_id = self.nodes.get(id(node_owner))
            if node_id is None:
                raise AssertionError(_untracked(concrete, node_owner))
            return ["object", node_id]
        if isinstance(captured, TableRead):
            table_arrays = (captured.keys, captured.values, captured.default)
            return ["table", list(map(self._constant, table_arrays))]
        if not isinstance(captured, EagerTensor):
            raise program.NotSaveable(f"{concrete.name} captures {captured!r}, which a saved module does not hold")
        return ["constant", self._constant(captured.eager_array())]

    def _constant(self, array: Any) -> str:
        """Adds an array to the constants of the saved model, and returns its key."""
        key = str(len(self.constants))
        self.constants[key] = array
        return key

    # -- files

    def _assets(self, descriptions: list[dict[str, Any]]) -> dict[str, bytes]:
        """Reads the model's asset files, and returns their contents by file name in the saved model.

        Also sets the entry ``file`` in the descriptions of the assets' nodes. Equal file names get different suffixes.
        """
        contents: dict[str, bytes] = {}
        for node, description in zip(self.view.nodes(), descriptions):
            if isinstance(node.trackable, Asset):
                name = os.path.basename(node.trackable.path)
                while f"{layout.ASSETS}/{name}" in contents:
                    name = f"{name}_1"
                description["file"] = f"{layout.ASSETS}/{name}"
                contents[description["file"]] = node.trackable.content()
        return contents

    def _libraries(self, targets: tuple[str, ...]) -> dict[str, bytes]:
        """Compiles each signature for each target, "cpu" or a GPU's architecture.

        Returns the contents of the libraries by file name in the saved model.
        """
        if not targets:
            return {}
        libraries: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, signature in self.view.signatures.items():
                for target in targets:
                    path = Path(folder) / "lib.so"
                    library.write(SavedFunction(signature), path, None if target == "cpu" else target)
                    libraries[f"{layout.COMPILED}/{name}.{target}.so"] = path.read_bytes()
        return libraries


def _data_files() -> set[str]:
    """Returns the names of all data files that the bundles of a saved model may have.

    A bundle's data file has one of two names. Successive saves alternate between them.
    """
    return {bundle.data_name(prefix, 0, n) for prefix in (layout.VARIABLES, layout.CONSTANTS) for n in (1, 2)}


def _untracked(concrete: ConcreteFunction, captured: Any) -> str:
    """Returns TensorFlow's error text for a captured object that the saved object does not track."""
    return (
        "Tried to export a function which references an 'untracked' resource. TensorFlow objects (e.g. tf.Variable) captured "
        "by functions must be 'tracked' by assigning them to an attribute of a tracked object or assigned to an attribute of "
        f"the main object directly. See the information below:\n\tFunction name = {concrete.name}\n\tCaptured Tensor = {captured!r}"
    )
