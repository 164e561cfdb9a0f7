"""Keras's layers are TensorFlow's modules, and hold its Variables and modules as parts of their own.

Keras 3 tracks its own variables and layers alone. In TensorFlow's way of writing programs a layer may hold a ``tf.Variable``,
or a ``tf.Module`` with Variables of its own, which are trained, counted and saved with it. So each of them gets something of
Keras's that stands for it among the parts of the layer: a variable on the same memory, a layer that asks the module.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import tvtf
from tvtf.state.containers import wrap
from tvtf.state.module import camel_to_snake
from tvtf.state.trackable import DEFAULT_FUNCTION, VARIABLE_VALUE

FUNCTIONS_OF_FIT = frozenset({"train_function", "test_function", "predict_function"})
"""They belong to a process, not to a model that is saved."""
KERAS_VARIABLE = "_keras_variable"
"""The attribute of a Variable that holds what stands for it in every layer."""
CALLED_ON = "_self_called_on"
"""The attribute of a layer that says what its first call was on."""
CONTAINERS = "_self_containers"
"""The attribute of a layer that holds its lists and dicts as trackable ones."""


# -- layers as modules


class _Scope(tvtf.name_scope):
    """A layer's name scope; where it is called, as with Keras 2, it gives the name."""

    def __call__(self) -> str:
        return self.name.rstrip("/")


class LayerModule(tvtf.Module):
    """What Keras's base class of layers lacks of a module."""

    name: Any = None  # Keras sets it
    _attributes_not_saved = FUNCTIONS_OF_FIT

    @property
    def name_scope(self) -> Any:
        return _Scope(f"{self.name}/")

    def __dir__(self) -> list[str]:
        """Without what is kept here for saving: a layer made of another's config has the same attributes."""
        return [name for name in super().__dir__() if name not in (CALLED_ON, CONTAINERS)]

    def _attributes_to_walk(self, key: Callable[[str], Any] | None) -> dict[str, Any]:
        """Keras's own lists of parts, in its order: attributes hold some of them several times."""
        layer: Any = self
        return {
            "_trainable_variables": layer._trainable_variables,
            "_non_trainable_variables": layer._non_trainable_variables,
            "_seed_generators": [generator.state for generator in layer._seed_generators],
            "_layers": [getattr(part, "module", part) for part in layer._layers],
        }

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """With the lists and dicts among the attributes, for which Keras has classes that nothing tracks."""
        return {**self._containers(), **tvtf.Module._trackable_children(self, save_type, **kwargs)}

    def _containers(self) -> dict[str, Any]:
        """The same objects each time, as long as they hold the same."""
        known = vars(self).setdefault(CONTAINERS, {})
        for name in dict.fromkeys(vars(self).get("_tracked", ())):
            held = _identities(getattr(self, name, None))
            if name not in known or known[name][0] != held:
                known[name] = held, wrap(_bare(getattr(self, name, None)))
        return {name: wrapped for name, (_, wrapped) in known.items() if hasattr(wrapped, "_trackable_children")}

    @property
    def _default_save_signature(self) -> Any:
        """The layer called on tensors such as it was called on, in batches of any size; None where it never was."""
        specs = input_specs(self)
        return None if specs is None else called_on(self, specs)

    def _parts_of_saved_model(self) -> dict[str, Any]:
        layer: Any = self
        lists = {name: [v.handle for v in getattr(layer, name)] for name in ("variables", "trainable_variables")}
        parts = {name: wrap(variables) for name, variables in lists.items()}
        specs = input_specs(self)
        functions = {DEFAULT_FUNCTION: called_on(self, specs), "__call__": traced_on(self, specs)} if specs else {}
        return {**functions, **parts}


def _bare(value: Any) -> Any:
    """Keras's lists and dicts as Python's."""
    if isinstance(value, dict):
        return {key: _bare(part) for key, part in value.items()}
    if isinstance(value, (list, set)):
        return [_bare(part) for part in value]
    return tuple(map(_bare, value)) if type(value) is tuple else value


def _identities(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _identities(part)) for key, part in value.items()]
    return [_identities(part) for part in value] if isinstance(value, (list, tuple, set)) else id(value)


def input_specs(layer: Any) -> Any:
    """What a layer takes as its arguments, with batches of any size; None where nobody knows.

    A model that was made of layers has inputs; another took some when it was first called.
    """
    inputs = getattr(getattr(layer, "_functional", None) or layer, "_inputs_struct", None)
    if inputs is not None:
        return [_named(tvtf.nest.map_structure(lambda x: tvtf.TensorSpec(x.shape, x.dtype), inputs))]
    called_on = vars(layer).get(CALLED_ON)
    return called_on and [_named(called_on[0]), *called_on[1:]]


def _named(specs: Any) -> Any:
    """With the names that TensorFlow gives the tensors of an argument ``inputs`` in a signature."""
    names = itertools.chain(["inputs"], (f"inputs_{number}" for number in itertools.count(1)))

    def with_name(spec: Any) -> Any:
        name = next(names)
        return tvtf.TensorSpec(spec.shape, spec.dtype, name) if isinstance(spec, tvtf.TensorSpec) else spec

    return tvtf.nest.map_structure(with_name, specs)


def _spec_of(x: Any) -> Any:
    """What stands for an argument in a signature: tensors are in batches."""
    if isinstance(x, tvtf.__internal__.CompositeTensor):
        return tvtf.type_spec_from_value(x)
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return x
    shape = tvtf.TensorShape(x.shape)
    return tvtf.TensorSpec([None, *shape[1:]] if shape.rank else shape, x.dtype)


def called_on(layer: Any, specs: Any) -> Any:
    """A function of such arguments that calls the layer as a finished one is called."""

    def serving_default(inputs: Any, *others: Any) -> Any:
        return layer(inputs, *others)

    return tvtf.function(serving_default, input_signature=specs, autograph=False)


def traced_on(layer: Any, specs: Any) -> Any:
    """A function that calls the layer in training, too."""

    def call(inputs: Any, *others: Any, training: bool = False) -> Any:
        return layer(inputs, *others, training=training)

    function = tvtf.function(call, autograph=False)
    for training in (False, True):
        function.get_concrete_function(*specs, training=training)
    return function


def be_modules(module: ModuleType) -> None:
    """For ``backend.tensorflow.layer``: the base class of all layers is a module."""

    class TFLayer(module.TFLayer, LayerModule):  # type: ignore[name-defined, misc]
        _trackable_children = LayerModule._trackable_children
        _default_save_signature = LayerModule._default_save_signature

    vars(module)["TFLayer"] = TFLayer


def restore_early(module: ModuleType) -> None:
    """For ``backend.tensorflow.core``: a checkpoint that was read before a layer was built gives its variables their values.

    While Keras builds a layer by a symbolic call, its variables have none yet, but an initializer.
    """
    variable: Any = vars(module)["Variable"]
    keras = variable._restore_from_tensors

    @functools.wraps(keras)
    def _restore_from_tensors(self: Any, restored_tensors: Any) -> Any:
        if self._value is not None:
            return keras(self, restored_tensors)
        restored = restored_tensors[VARIABLE_VALUE]
        self._initializer = lambda shape, dtype: tvtf.convert_to_tensor(restored)
        return None

    def _tensor_specs(self: Any) -> Any:
        return {VARIABLE_VALUE: (tuple(self._shape), tvtf.as_dtype(self._dtype).as_numpy_dtype)}

    variable._restore_from_tensors, variable._tensor_specs = _restore_from_tensors, _tensor_specs


# -- Variables and modules as parts of layers


class _PlainVariable:
    """Stands for a ``tf.Variable`` among Keras's: it has its memory, and is trainable or not by itself."""

    def __init__(self, plain: Any, without_scope: Callable[[], Any]) -> None:
        made: Any = super()
        with without_scope():
            name = plain.name.rpartition("/")[2].partition(":")[0]
            made.__init__(plain, dtype=plain.dtype.name, trainable=plain.trainable, autocast=False, name=name)

    def _validate_shape(self, shape: Any) -> Any:
        """Keras's have one shape for ever; this is the one that a value of unknown shape has now."""
        variable: Any = self
        return tuple(variable._value._type.shape)


class _ModuleLayer:
    """Stands for a ``tf.Module`` among the layers of the one that holds it.

    It asks the module each time: Variables may be made in the first call.
    """

    @classmethod
    def of(cls, module: Any, above: tuple[Any, ...], kinds: Kinds, trainable: bool) -> Any:
        """For what a layer holds, or what is in such a module, ``above`` both."""
        made: Any = cls()
        made.name = camel_to_snake(type(module).__name__)
        vars(made).update(module=module, _above=(*above, module), _kinds=kinds, _known={})
        vars(made).update(built=True, _trainable=trainable)
        return made

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)["module"](*args, **kwargs)

    def _parts(self, is_part: Callable[[Any], bool]) -> Iterator[Any]:
        held = vars(self)
        if "module" not in held:
            return  # Keras looks at layers that it makes.
        for leaf in held["module"]._flatten(recursive=False, predicate=is_part):
            if all(leaf is not other for other in held["_above"]):
                yield leaf

    def _own(self, is_trainable: bool) -> list[Any]:
        held = vars(self)
        leaves = self._parts(lambda leaf: held["_kinds"].is_variable(leaf) or held["_kinds"].is_keras_variable(leaf))
        found = [held["_kinds"].variable_for(leaf, held["_trainable"]) for leaf in leaves]
        return [variable for variable in found if held["_kinds"].was_trainable(variable) == is_trainable]

    # Keras assigns the lists when it makes a layer.
    _trainable_variables = property(lambda self: self._own(True), lambda self, _: None)
    _non_trainable_variables = property(lambda self: self._own(False), lambda self, _: None)

    def _find_layers(self) -> list[Any]:
        return [self._layer_for(leaf) for leaf in self._parts(lambda leaf: isinstance(leaf, tvtf.Module))]

    def _layer_for(self, leaf: Any) -> Any:
        held = vars(self)
        if held["_kinds"].is_layer(leaf):
            return leaf
        if id(leaf) not in held["_known"]:
            made = held["_kinds"].layer_for(leaf, held["_above"], held["_trainable"])
            held["_known"][id(leaf)] = made
        return held["_known"][id(leaf)]

    _layers = property(_find_layers, lambda self, _: None)


class Kinds:
    """What is whose, and what of Keras's stands for what of TensorFlow's; ``module`` is Keras's of its layers."""

    def __init__(self, module: Any) -> None:
        self.keras_layer, self.keras_variable = module.Layer, module.backend.Variable
        self.global_state = module.global_state
        self.variable_class: Any = type("PlainVariable", (_PlainVariable, self.keras_variable), {})
        self.layer_class: Any = type("ModuleLayer", (_ModuleLayer, self.keras_layer), {})

    def __deepcopy__(self, memo: Any) -> Kinds:
        return self

    def is_variable(self, value: Any) -> bool:
        return isinstance(value, tvtf.Variable)

    def is_keras_variable(self, value: Any) -> bool:
        return isinstance(value, self.keras_variable)

    def is_layer(self, value: Any) -> bool:
        return isinstance(value, self.keras_layer)

    def is_module(self, value: Any) -> bool:
        return isinstance(value, tvtf.Module) and not self.is_layer(value)

    def is_of_tensorflow(self, value: Any) -> bool:
        return self.is_variable(value) or self.is_module(value)

    def variable_for(self, value: Any, trainable: bool) -> Any:
        if self.is_keras_variable(value):
            return value
        known = vars(value).get(KERAS_VARIABLE)
        if known is None:
            known = vars(value)[KERAS_VARIABLE] = self.variable_class(value, self.without_scope)
            known.trainable = known.trainable and trainable
        return known

    def was_trainable(self, variable: Any) -> bool:
        """Whether it is one of those that freezing a layer and thawing it again is about."""
        return bool(variable.handle.trainable if type(variable) is self.variable_class else variable.trainable)

    def layer_for(self, value: Any, above: tuple[Any, ...], trainable: bool) -> Any:
        return self.layer_class.of(value, above, self, trainable)

    @contextmanager
    def without_scope(self) -> Iterator[None]:
        """Outside the scope in which Keras refuses to make variables: what is wrapped is there already."""
        scope = self.global_state.get_global_attribute("stateless_scope")
        self.global_state.set_global_attribute("stateless_scope", None)
        try:
            yield
        finally:
            self.global_state.set_global_attribute("stateless_scope", scope)


class Parts(list[Any]):
    """What a layer holds of TensorFlow's, in a list of Keras's tracker; adding one adds what stands for it."""

    def __init__(self, layer: Any, kinds: Kinds) -> None:
        self.layer, self.kinds = layer, kinds
        self.stand_ins: list[Any] = []

    def append(self, value: Any) -> None:
        super().append(value)
        trainable = vars(self.layer).get("_trainable", True)
        if self.kinds.is_variable(value):
            stand_in = self.kinds.variable_for(value, trainable)
            store = "trainable_variables" if value.trainable else "non_trainable_variables"
        else:
            stand_in, store = self.kinds.layer_for(value, (self.layer,), trainable), "layers"
        self.stand_ins.append(stand_in)
        if not self.layer._tracker.is_in_store(store, stand_in):
            self.layer._tracker.add_to_store(store, stand_in)

    def __delitem__(self, index: Any) -> None:
        self.layer._tracker.untrack(self.stand_ins.pop(index))
        super().__delitem__(index)


def track_parts(module: ModuleType) -> None:
    """For ``utils.tracking``: a built layer takes what is TensorFlow's, as it did when nothing was tracked."""

    class Tracker(module.Tracker):  # type: ignore[name-defined, misc]
        locked: bool

        def add_to_store(self, store_name: str, value: Any) -> None:
            was_locked = self.locked
            self.locked = was_locked and not isinstance(self.config[store_name][1], Parts)
            try:
                super().add_to_store(store_name, value)
            finally:
                self.locked = was_locked

    vars(module)["Tracker"] = Tracker


def hold_parts(module: Any) -> None:
    """For ``layers.layer``: layers that hold Variables and modules, are called on lists, and build outside of traces."""
    layer, kinds = module.Layer, Kinds(module)
    vars(module)["tvtf_kinds"] = kinds
    for change in (_tracking, _replacing, _deleting, _called, _built_outside):
        change(layer, kinds)


def _tracking(layer: Any, kinds: Kinds) -> None:
    keras = layer._initialize_tracker

    @functools.wraps(keras)
    def _initialize_tracker(self: Any) -> None:
        if hasattr(self, "_tracker"):
            return
        keras(self)
        tracker = self._tracker
        for name, is_kind in (("tf_variables", kinds.is_variable), ("tf_modules", kinds.is_module)):
            tracker.config[name] = is_kind, Parts(self, kinds)
            tracker.stored_ids[name] = set()

    layer._initialize_tracker = _initialize_tracker


def _replacing(layer: Any, kinds: Kinds) -> None:
    """A Variable or module that takes the place of another is tracked in its place."""
    keras = layer._setattr_hook

    @functools.wraps(keras)
    def _setattr_hook(self: Any, name: str, value: Any) -> Any:
        if kinds.is_of_tensorflow(value) and vars(self).get(name) is not value:
            _forget(self, name, kinds)
        return keras(self, name, value)

    layer._setattr_hook = _setattr_hook


def _forget(layer: Any, name: str, kinds: Kinds) -> None:
    held = vars(layer).get(name)
    if kinds.is_of_tensorflow(held) and not any(held is v for other, v in vars(layer).items() if other != name):
        layer._tracker.untrack(held)


def _deleting(layer: Any, kinds: Kinds) -> None:
    keras = layer.__delattr__

    @functools.wraps(keras)
    def __delattr__(self: Any, name: str) -> None:
        _forget(self, name, kinds)
        keras(self, name)

    layer.__delattr__ = __delattr__


def _called(layer: Any, kinds: Kinds) -> None:
    """The first argument may be numbers in lists; what a layer was first called on tells what its saved model takes."""
    keras = layer.__call__

    @functools.wraps(keras)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], (list, tuple, int, float)) and _takes_tensors(self) and _are_numbers(args[0]):
            args = (tvtf.convert_to_tensor(args[0]), *args[1:])
        outputs = keras(self, *args, **kwargs)
        if args and CALLED_ON not in vars(self):
            vars(self)[CALLED_ON] = tvtf.nest.map_structure(_spec_of, list(args))
        return outputs

    layer.__call__ = __call__


def _takes_tensors(layer: Any) -> bool:
    return bool(layer._convert_input_args and not layer._allow_non_tensor_positional_args)


def _are_numbers(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_are_numbers, value))
    return isinstance(value, (int, float))


def _built_outside(layer: Any, kinds: Kinds) -> None:
    """``build`` runs outside of the function that is traced, as Keras 2 had it: its initial values are tensors."""
    keras = layer.__new__

    @functools.wraps(keras)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = keras(cls, *args, **kwargs)
        build = made.build

        @functools.wraps(build)
        def outside(*args: Any, **kwargs: Any) -> Any:
            with tvtf.init_scope():
                return build(*args, **kwargs)

        made.build = outside
        return made

    layer.__new__ = staticmethod(__new__)


def save_parts(module: Any) -> None:
    """For ``saving.saving_lib``: Keras's files hold modules, too, after the parts that it looks for by their names."""
    keras = module._walk_saveable

    def _walk_saveable(saveable: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(saveable, _ModuleLayer):
            yield "layers", saveable._layers
            return
        yield from keras(saveable)
        modules = [part for part in getattr(saveable, "_layers", ()) if isinstance(part, _ModuleLayer)]
        if modules:
            yield "modules", modules

    vars(module)["_walk_saveable"] = _walk_saveable
