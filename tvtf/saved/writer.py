"""Writing a saved model: everything beside what is there, and then in its place."""

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
from tvtf.saved import layout, objects, program
from tvtf.saved.asset import Asset
from tvtf.saved.fingerprint import VariablePolicy
from tvtf.saved.signatures import SignatureMap, canonical
from tvtf.saved.swap import Swap
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.trackable import Trackable
from tvtf.state.variable import Variable
from tvtf.train import bundle, object_graph


@dataclass(frozen=True)
class SaveOptions:
    """How to save a model.

    Args:
      targets: what to compile its signatures for: ``"cpu"``, or the architecture of a GPU such as ``"sm_90"``. Each gives a
        library ``compiled/SIGNATURE.TARGET.so``, which runs without the compiler (`tvtf run`, C++).
      function_aliases: other names of functions: a model that is loaded with them has them as ``function_aliases``.

    The other arguments are TensorFlow's, for which there is nothing to do here.

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

    A ``tf.function`` is saved with every trace that it has; one with an ``input_signature`` is traced if it has none.

    Args:
      obj: a ``tf.Module``, or another object that tracks what it is made of.
      export_dir: the folder. What was saved there before is replaced in one step, when all is written.
      signatures: a function with an ``input_signature``, a concrete function, or a dict of such by name.
      options: see `SaveOptions`.

    Raises:
      ValueError: ``obj`` tracks nothing, or a signature takes or gives something else than tensors.
      AssertionError: a function reads a Variable that hangs from no object, or a function is being traced.
      ResourceExhaustedError: the disk is full; what was in the folder is untouched.

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
    """:func:`save`, with the contents of ``extra`` files by name, which are replaced in the same step.

    Raises:
      As :func:`save`.
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


def _aliases(named: Mapping[str, Any]) -> AutoTrackable:
    """An object that holds functions by their other names."""
    holder = AutoTrackable()
    for name, function in named.items():
        if not isinstance(function, (Function, ConcreteFunction)):
            raise TypeError(f"function_aliases names functions of tf.function; {name!r} is {function!r}")
        setattr(holder, name, function)
    return holder


def _check_attribute(obj: Any) -> None:
    own = vars(obj).get(objects.SIGNATURES)
    if own is not None and not isinstance(own, SignatureMap):
        raise ValueError(
            f"Exporting an object {obj} which has an attribute named '{objects.SIGNATURES}'. This is a reserved attribute used "
            "to store SavedModel signatures in objects which come from `tf.saved_model.load`. Delete this attribute (e.g. "
            f"`del obj.{objects.SIGNATURES}`) before saving if this shadowing is acceptable."
        )


class _Writer:
    """One save: numbers what functions capture, and collects the files."""

    def __init__(self, view: objects.ModelView, folder: str) -> None:
        self.view = view
        self.folder = folder
        self.nodes = {id(node.trackable): number for number, node in enumerate(view.nodes())}
        self.functions: list[dict[str, Any]] = []
        self.known: dict[int, int | str] = {}
        self.things: list[list[Any]] = []
        self.numbers: dict[int, int] = {}
        self.constants: dict[str, Any] = {}
        self.kept: list[Any] = []

    def write(self, targets: tuple[str, ...], extra: Mapping[str, bytes]) -> None:
        described = objects.describe(self.view, self._function_number)
        contents = self._assets(described) | self._libraries(targets) | {f"{layout.EXTRA}/{n}": extra[n] for n in extra}
        with Swap(self.folder, layout.FILE) as swap, atomic_file.Replacement() as replacement:
            names = self._bundle(swap, replacement, layout.VARIABLES, object_graph.serialize(self.view))
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
                "things": self.things,
                "objects": described,
            }
            replacement.add(swap.path(layout.FILE), [json.dumps(document, indent=1).encode()])
            os.makedirs(swap.target(layout.ASSETS), exist_ok=True)
            replacement.commit()
            swap.commit([*names, *contents], _data_files() - set(names))
        logging.getLogger("tvtf").info("Assets written to: %s", swap.target(layout.ASSETS))

    def _bundle(
        self, swap: Swap, replacement: atomic_file.Replacement, name: str, tensors: Mapping[str, Any]
    ) -> list[str]:
        """The files of a bundle, first its data, and its index after them."""
        shards = bundle.spare_shard_count(swap.target(name))
        bundle.add(replacement, swap.path(name), tensors, shards)
        return [bundle.data_name(name, 0, shards), layout.index_of(name)]

    # -- functions

    def _function_number(self, concrete: ConcreteFunction) -> int | str:
        """The function's number, or why it is left out: a trace is, a signature may not be."""
        known = self.known.get(id(concrete))
        if known is None:
            self.kept.append(concrete)
            known = self.known[id(concrete)] = self._described(concrete)
        return known

    def _described(self, concrete: ConcreteFunction) -> int | str:
        try:
            described = program.describe(concrete, lambda thing: self._thing_number(concrete, thing))
        except program.NotSaveable as reason:
            if any(concrete is signature for signature in self.view.signatures.values()):
                raise
            logging.getLogger("tvtf").warning("saved_model.save leaves out a trace of %s: %s", concrete.name, reason)
            return str(reason)
        self.functions.append(described)
        return len(self.functions) - 1

    def _thing_number(self, concrete: ConcreteFunction, thing: Any) -> int:
        known = self.numbers.get(id(thing))
        if known is None:
            self.things.append(self._thing(concrete, thing))
            self.kept.append(thing)
            known = self.numbers[id(thing)] = len(self.things) - 1
        return known

    def _thing(self, concrete: ConcreteFunction, thing: Any) -> list[Any]:
        owner = thing if isinstance(thing, Variable) else Asset.of(thing)
        if owner is not None:
            if id(owner) not in self.nodes:
                raise AssertionError(_untracked(concrete, owner))
            return ["object", self.nodes[id(owner)]]
        if isinstance(thing, TableRead):
            return ["table", [self._constant(array) for array in (thing.keys, thing.values, thing.default)]]
        if not isinstance(thing, EagerTensor):
            raise program.NotSaveable(f"{concrete.name} captures {thing!r}, which a saved module does not hold")
        return ["constant", self._constant(thing.eager_array())]

    def _constant(self, array: Any) -> str:
        key = str(len(self.constants))
        self.constants[key] = array
        return key

    # -- files

    def _assets(self, described: list[dict[str, Any]]) -> dict[str, bytes]:
        """Each asset's content by the place it gets, which its node is told; two of one file name are kept apart."""
        found: dict[str, bytes] = {}
        for node, data in zip(self.view.nodes(), described):
            if isinstance(node.trackable, Asset):
                name = os.path.basename(node.trackable.path)
                while f"{layout.ASSETS}/{name}" in found:
                    name = f"{name}_1"
                data["file"] = f"{layout.ASSETS}/{name}"
                found[data["file"]] = node.trackable.content()
        return found

    def _libraries(self, targets: tuple[str, ...]) -> dict[str, bytes]:
        if not targets:
            return {}
        from tvtf.saved.function import of_signature
        from tvtf.saved.library import write

        made: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, signature in self.view.signatures.items():
                for target in targets:
                    path = Path(folder) / "lib.so"
                    write(of_signature(signature), path, None if target == "cpu" else target)
                    made[f"{layout.COMPILED}/{name}.{target}.so"] = path.read_bytes()
        return made


def _data_files() -> set[str]:
    """The data files that bundles of a saved model may have, of which each save uses other ones than the one before."""
    return {bundle.data_name(prefix, 0, n) for prefix in (layout.VARIABLES, layout.CONSTANTS) for n in (1, 2)}


def _untracked(concrete: ConcreteFunction, thing: Any) -> str:
    return (
        "Tried to export a function which references an 'untracked' resource. TensorFlow objects (e.g. tf.Variable) captured "
        "by functions must be 'tracked' by assigning them to an attribute of a tracked object or assigned to an attribute of "
        f"the main object directly. See the information below:\n\tFunction name = {concrete.name}\n\tCaptured Tensor = {thing!r}"
    )
