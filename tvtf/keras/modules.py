"""Makes Keras's layers TensorFlow's modules, with ``tf.Variable`` and ``tf.Module`` objects as parts.

Keras 3 tracks only its own variables and layers. In TensorFlow's programs a layer may also have a ``tf.Variable``, or a
``tf.Module`` with Variables, as attributes, which are trained, counted and saved with it. Each of these gets a proxy among
the layer's parts: a Keras variable on the same memory, or a layer that lists the module's Variables.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

import tvtf
from tvtf.dtypes import DType
from tvtf.state.containers import wrap
from tvtf.state.module import camel_to_snake
from tvtf.state.trackable import DEFAULT_FUNCTION, VARIABLE_VALUE

FUNCTIONS_OF_FIT = frozenset({"train_function", "test_function", "predict_function"})
"""Attributes that belong to a process and are not saved with a model."""
KERAS_VARIABLE = "_keras_variable"
"""The attribute of a Variable that holds its proxy, which all layers share."""
CALLED_ON = "_self_called_on"
"""The attribute of a layer that holds the specs of its first call's arguments."""
CONTAINERS = "_self_containers"
"""The attribute of a layer that holds its lists and dicts as trackable containers."""


# -- layers as modules


class _Scope(tvtf.name_scope):
    """A layer's name scope; calling it returns the name, as in Keras 2."""

    def __call__(self) -> str:
        return self.name.rstrip("/")


class LayerModule(tvtf.Module):
    """A mixin for Keras's base class of layers that adds the methods of a module."""

    name: Any = None  # Keras sets it
    _attributes_not_saved = FUNCTIONS_OF_FIT

    @property
    def name_scope(self) -> Any:
        return _Scope(f"{self.name}/")

    def __dir__(self) -> list[str]:
        """Lists attributes except those stored for saving, which a layer made from another's config does not have."""
        return [name for name in super().__dir__() if name not in (CALLED_ON, CONTAINERS)]

    def _attributes_to_walk(self, key: Callable[[str], Any] | None) -> dict[str, Any]:
        """Returns the lists in which Keras has the layer's variables and layers, for traversals of `tf.Module`.

        These are in Keras's order, while attributes may hold an object several times.
        """
        layer: Any = self
        return {
            "_trainable_variables": layer._trainable_variables,
            "_non_trainable_variables": layer._non_trainable_variables,
            "_seed_generators": [generator.state for generator in layer._seed_generators],
            "_layers": [getattr(part, "module", part) for part in layer._layers],
        }

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Adds the lists and dicts among the attributes, whose Keras classes are not trackable."""
        return {**self._containers(), **tvtf.Module._trackable_children(self, save_type, **kwargs)}

    def _containers(self) -> dict[str, Any]:
        """Returns copies of the layer's lists and dicts, by attribute, which checkpoints can search for Variables.

        A copy is cached, and the same object as long as the content of the list or dict is the same.
        """
        cache = vars(self).setdefault(CONTAINERS, {})
        for name in dict.fromkeys(vars(self).get("_tracked", ())):
            content = _identities(getattr(self, name, None))
            cached_content, _ = cache.get(name, (None, None))
            if name not in cache or cached_content != content:
                cache[name] = content, wrap(_as_python_containers(getattr(self, name, None)))
        return {name: wrapped for name, (_, wrapped) in cache.items() if hasattr(wrapped, "_trackable_children")}

    @property
    def _default_save_signature(self) -> Any:
        """A function of the layer for batches of any size; None if its input specs are not known."""
        specs = input_specs(self)
        return None if specs is None else called_on(self, specs)

    def _parts_of_saved_model(self) -> dict[str, Any]:
        """Returns what TensorFlow's saved models of Keras layers contain beside the attributes: functions and variable lists.

        The functions are left out if the input specs are not known.
        """
        layer: Any = self
        lists = {name: [v.handle for v in getattr(layer, name)] for name in ("variables", "trainable_variables")}
        parts = {name: wrap(variables) for name, variables in lists.items()}
        specs = input_specs(self)
        functions = {DEFAULT_FUNCTION: called_on(self, specs), "__call__": traced_on(self, specs)} if specs else {}
        return {**functions, **parts}


def _as_python_containers(value: Any) -> Any:
    """Converts Keras's lists and dicts to Python's."""
    if isinstance(value, dict):
        return {key: _as_python_containers(part) for key, part in value.items()}
    if isinstance(value, (list, set)):
        return [_as_python_containers(part) for part in value]
    return tuple(map(_as_python_containers, value)) if type(value) is tuple else value


def _identities(value: Any) -> Any:
    """Returns the ids of the values in nested containers, by which changes of the content are detected."""
    if isinstance(value, dict):
        return [(key, _identities(part)) for key, part in value.items()]
    return [_identities(part) for part in value] if isinstance(value, (list, tuple, set)) else id(value)


def input_specs(layer: Any) -> Any:
    """Returns the tensor specs of a layer's arguments, for batches of any size; None if they are not known.

    A functional model declares its inputs; for other layers the arguments of the first call are taken.
    """
    inputs = getattr(getattr(layer, "_functional", None) or layer, "_inputs_struct", None)
    if inputs is not None:
        return [_with_input_names(tvtf.nest.map_structure(lambda x: tvtf.TensorSpec(x.shape, x.dtype), inputs))]
    specs_of_first_call = vars(layer).get(CALLED_ON)
    return specs_of_first_call and [_with_input_names(specs_of_first_call[0]), *specs_of_first_call[1:]]


def _with_input_names(specs: Any) -> Any:
    """Names the tensor specs in a nest as TensorFlow names the tensors of an argument ``inputs``: inputs, inputs_1 ..."""
    names = itertools.chain(["inputs"], (f"inputs_{number}" for number in itertools.count(1)))

    def with_name(spec: Any) -> Any:
        name = next(names)
        return tvtf.TensorSpec(spec.shape, spec.dtype, name) if isinstance(spec, tvtf.TensorSpec) else spec

    return tvtf.nest.map_structure(with_name, specs)


def _spec_of(x: Any) -> Any:
    """Returns the tensor spec of an argument of a layer's call, with an unknown batch size; other values unchanged."""
    if isinstance(x, tvtf.__internal__.CompositeTensor):
        return tvtf.type_spec_from_value(x)
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return x
    shape = tvtf.TensorShape(x.shape)
    # A column of pandas may have a dtype of pandas' own.
    dtype = x.dtype if isinstance(x.dtype, (str, np.dtype, DType)) else tvtf.convert_to_tensor(x).dtype
    return tvtf.TensorSpec([None, *shape[1:]] if shape.rank else shape, dtype)


def called_on(layer: Any, specs: Any) -> Any:
    """Returns a function of the specs that calls the layer for inference."""

    def serving_default(inputs: Any, *others: Any) -> Any:
        return layer(inputs, *others)

    return tvtf.function(serving_default, input_signature=specs, autograph=False)


def traced_on(layer: Any, specs: Any) -> Any:
    """Returns a ``tf.function`` that calls the layer, traced for inputs of the given specs, for inference and training."""

    def call(inputs: Any, *others: Any, training: bool = False) -> Any:
        return layer(inputs, *others, training=training)

    function = tvtf.function(call, autograph=False)
    for training in (False, True):
        function.get_concrete_function(*specs, training=training)
    return function


def make_layers_modules(module: ModuleType) -> None:
    """Patches Keras's ``backend.tensorflow.layer`` so that all layers are instances of ``tf.Module``, as in TensorFlow."""

    class TFLayer(module.TFLayer, LayerModule):  # type: ignore[name-defined, misc]
        _trackable_children = LayerModule._trackable_children
        _default_save_signature = LayerModule._default_save_signature

    vars(module)["TFLayer"] = TFLayer


def restore_unbuilt_variables(module: ModuleType) -> None:
    """Patches Keras's ``backend.tensorflow.core`` to restore a variable from a checkpoint before it has a value.

    While Keras builds a layer by a symbolic call, its variables have an initializer instead of a value. The value in a
    checkpoint that was read before then becomes the initializer.
    """
    variable_class: Any = vars(module)["Variable"]
    keras_restore = variable_class._restore_from_tensors

    @functools.wraps(keras_restore)
    def _restore_from_tensors(self: Any, restored_tensors: Any) -> Any:
        if self._value is not None:
            return keras_restore(self, restored_tensors)
        restored = restored_tensors[VARIABLE_VALUE]
        self._initializer = lambda shape, dtype: tvtf.convert_to_tensor(restored)
        return None

    def _tensor_specs(self: Any) -> Any:
        return {VARIABLE_VALUE: (tuple(self._shape), tvtf.as_dtype(self._dtype).as_numpy_dtype)}

    variable_class._restore_from_tensors, variable_class._tensor_specs = _restore_from_tensors, _tensor_specs


# -- Variables and modules as parts of layers


class _PlainVariable:
    """Keras's proxy of a ``tf.Variable``: it has the same memory and its own ``trainable``."""

    def __init__(self, plain: Any, without_scope: Callable[[], Any]) -> None:
        proxy: Any = super()
        with without_scope():
            name = plain.name.rpartition("/")[2].partition(":")[0]
            proxy.__init__(plain, dtype=plain.dtype.name, trainable=plain.trainable, autocast=False, name=name)

    def _validate_shape(self, shape: Any) -> Any:
        """Returns the current shape: Keras's variables never change their shape, a Variable of unknown shape may."""
        variable: Any = self
        return tuple(variable._value._type.shape)


class _ModuleLayer:
    """Keras's proxy of a ``tf.Module``: a layer among the layers of the one that has the module.

    It walks the module each time, because the first call may create Variables.
    """

    @classmethod
    def of(cls, module: Any, above: tuple[Any, ...], proxy_factory: ProxyFactory, trainable: bool) -> Any:
        """Makes the proxy of a module; ``above`` are the layer and the modules that contain it, to stop at cycles."""
        proxy: Any = cls()
        proxy.name = camel_to_snake(type(module).__name__)
        vars(proxy).update(module=module, _above=(*above, module), _kinds=proxy_factory, _known={})
        vars(proxy).update(built=True, _trainable=trainable)
        return proxy

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)["module"](*args, **kwargs)

    def _parts(self, is_part: Callable[[Any], bool]) -> Iterator[Any]:
        """Yields the values in the module's attributes that satisfy a predicate, except objects that contain the module."""
        attributes = vars(self)
        if "module" not in attributes:
            return  # Keras inspects a layer while creating it.
        for leaf in attributes["module"]._flatten(recursive=False, predicate=is_part):
            if all(leaf is not container for container in attributes["_above"]):
                yield leaf

    def _variables_of(self, is_trainable: bool) -> list[Any]:
        """Returns Keras's variables for those of the module: the trainable ones, or the others."""
        attributes = vars(self)
        leaves = self._parts(
            lambda leaf: attributes["_kinds"].is_variable(leaf) or attributes["_kinds"].is_keras_variable(leaf)
        )
        variables = [attributes["_kinds"].variable_for(leaf, attributes["_trainable"]) for leaf in leaves]
        return [variable for variable in variables if attributes["_kinds"].was_trainable(variable) == is_trainable]

    # Keras assigns the lists when it makes a layer.
    _trainable_variables = property(lambda self: self._variables_of(True), lambda self, _: None)
    _non_trainable_variables = property(lambda self: self._variables_of(False), lambda self, _: None)

    def _find_layers(self) -> list[Any]:
        return [self._layer_for(leaf) for leaf in self._parts(lambda leaf: isinstance(leaf, tvtf.Module))]

    def _layer_for(self, leaf: Any) -> Any:
        """Returns Keras's layer for a part of the module: a layer itself, or the proxy of a ``tf.Module``, created once."""
        attributes = vars(self)
        if attributes["_kinds"].is_layer(leaf):
            return leaf
        if id(leaf) not in attributes["_known"]:
            proxy = attributes["_kinds"].layer_for(leaf, attributes["_above"], attributes["_trainable"])
            attributes["_known"][id(leaf)] = proxy
        return attributes["_known"][id(leaf)]

    _layers = property(_find_layers, lambda self, _: None)


class ProxyFactory:
    """Makes Keras's proxies of Variables and modules, and recognizes these; ``module`` is Keras's module of layers."""

    def __init__(self, module: Any) -> None:
        self.keras_layer, self.keras_variable = module.Layer, module.backend.Variable
        self.global_state = module.global_state
        self.variable_class: Any = type("PlainVariable", (_PlainVariable, self.keras_variable), {})
        self.layer_class: Any = type("ModuleLayer", (_ModuleLayer, self.keras_layer), {})

    def __deepcopy__(self, memo: Any) -> ProxyFactory:
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
        """Returns the variable that Keras uses for a ``tf.Variable``, its proxy, created once; a Keras variable itself.

        A proxy of a Variable in a frozen layer is not trainable.
        """
        if self.is_keras_variable(value):
            return value
        proxy = vars(value).get(KERAS_VARIABLE)
        if proxy is None:
            proxy = vars(value)[KERAS_VARIABLE] = self.variable_class(value, self.without_scope)
            proxy.trainable = proxy.trainable and trainable
        return proxy

    def was_trainable(self, variable: Any) -> bool:
        """Returns whether a variable is trainable when its layer is not frozen."""
        return bool(variable.handle.trainable if type(variable) is self.variable_class else variable.trainable)

    def layer_for(self, value: Any, above: tuple[Any, ...], trainable: bool) -> Any:
        return self.layer_class.of(value, above, self, trainable)

    @contextmanager
    def without_scope(self) -> Iterator[None]:
        """Suspends, in a block, Keras's scope that forbids creating variables: a proxy allocates no memory."""
        keras_scope = self.global_state.get_global_attribute("stateless_scope")
        self.global_state.set_global_attribute("stateless_scope", None)
        try:
            yield
        finally:
            self.global_state.set_global_attribute("stateless_scope", keras_scope)


class Parts(list[Any]):
    """A list in a layer's tracker of TensorFlow's objects; adding one adds its proxy to Keras's lists."""

    def __init__(self, layer: Any, proxy_factory: ProxyFactory) -> None:
        self.layer, self.proxy_factory = layer, proxy_factory
        self.proxies: list[Any] = []

    def append(self, value: Any) -> None:
        """Adds a ``tf.Variable`` or ``tf.Module``, and its proxy to the layer's variables or layers."""
        super().append(value)
        trainable = vars(self.layer).get("_trainable", True)
        if self.proxy_factory.is_variable(value):
            proxy = self.proxy_factory.variable_for(value, trainable)
            store = "trainable_variables" if value.trainable else "non_trainable_variables"
        else:
            proxy, store = self.proxy_factory.layer_for(value, (self.layer,), trainable), "layers"
        self.proxies.append(proxy)
        if not self.layer._tracker.is_in_store(store, proxy):
            self.layer._tracker.add_to_store(store, proxy)

    def __delitem__(self, index: Any) -> None:
        self.layer._tracker.untrack(self.proxies.pop(index))
        super().__delitem__(index)


def accept_parts_when_locked(module: ModuleType) -> None:
    """Patches Keras's ``utils.tracking`` so that a built layer, which Keras locks, still accepts Variables and modules."""

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
    """For ``layers.layer``: makes layers track Variables and modules, accept lists, and build outside of traces."""
    layer, proxy_factory = module.Layer, ProxyFactory(module)
    vars(module)["tvtf_kinds"] = proxy_factory
    for change in (_patch_tracking, _patch_setattr, _patch_delattr, _patch_call, _patch_build):
        change(layer, proxy_factory)


def _patch_tracking(layer: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers so that its tracker collects ``tf.Variable`` and ``tf.Module`` attributes, too."""
    keras_initialize_tracker = layer._initialize_tracker

    @functools.wraps(keras_initialize_tracker)
    def _initialize_tracker(self: Any) -> None:
        """Creates a layer's tracker with two more lists, for Variables and modules among the attributes."""
        if hasattr(self, "_tracker"):
            return
        keras_initialize_tracker(self)
        tracker = self._tracker
        for name, is_of_type in (("tf_variables", proxy_factory.is_variable), ("tf_modules", proxy_factory.is_module)):
            tracker.config[name] = is_of_type, Parts(self, proxy_factory)
            tracker.stored_ids[name] = set()

    layer._initialize_tracker = _initialize_tracker


def _patch_setattr(layer: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers to stop tracking a Variable or module whose attribute is set to another one."""
    keras_setattr_hook = layer._setattr_hook

    @functools.wraps(keras_setattr_hook)
    def _setattr_hook(self: Any, name: str, value: Any) -> Any:
        if proxy_factory.is_of_tensorflow(value) and vars(self).get(name) is not value:
            _untrack(self, name, proxy_factory)
        return keras_setattr_hook(self, name, value)

    layer._setattr_hook = _setattr_hook


def _untrack(layer: Any, name: str, proxy_factory: ProxyFactory) -> None:
    """Stops tracking an attribute's value, unless another attribute has it, too."""
    old = vars(layer).get(name)
    if proxy_factory.is_of_tensorflow(old) and not any(old is v for other, v in vars(layer).items() if other != name):
        layer._tracker.untrack(old)


def _patch_delattr(layer: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers to stop tracking a Variable or module whose attribute is deleted."""
    keras_delattr = layer.__delattr__

    @functools.wraps(keras_delattr)
    def __delattr__(self: Any, name: str) -> None:
        _untrack(self, name, proxy_factory)
        keras_delattr(self, name)

    layer.__delattr__ = __delattr__


def _patch_call(layer: Any, proxy_factory: ProxyFactory) -> None:
    """Patches the call of Keras's layers to accept nested lists of numbers, and to store the specs of the first call.

    The specs are needed to save or export the layer.
    """
    keras_call = layer.__call__

    @functools.wraps(keras_call)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], (list, tuple, int, float)) and _takes_tensors(self) and _are_numbers(args[0]):
            args = (tvtf.convert_to_tensor(args[0]), *args[1:])
        outputs = keras_call(self, *args, **kwargs)
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


def _patch_build(layer: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's layers to run ``build`` outside of a function being traced, as Keras 2 does.

    So initial values are eager tensors.
    """
    keras_new = layer.__new__

    @functools.wraps(keras_new)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Creates a layer whose ``build`` runs outside of the function that is being traced."""
        instance = keras_new(cls, *args, **kwargs)
        build = instance.build

        @functools.wraps(build)
        def build_outside_trace(*args: Any, **kwargs: Any) -> Any:
            with tvtf.init_scope():
                return build(*args, **kwargs)

        instance.build = build_outside_trace
        return instance

    layer.__new__ = staticmethod(__new__)


def save_modules(module: Any) -> None:
    """Patches Keras's ``saving.saving_lib`` to save ``tf.Module`` attributes of layers in its files, too."""
    keras_walk_saveable = module._walk_saveable

    def _walk_saveable(saveable: Any) -> Iterator[tuple[str, Any]]:
        """Yields the names and values of an object's parts to save; a layer's modules come last, by their proxies."""
        if isinstance(saveable, _ModuleLayer):
            yield "layers", saveable._layers
            return
        yield from keras_walk_saveable(saveable)
        modules = [part for part in getattr(saveable, "_layers", ()) if isinstance(part, _ModuleLayer)]
        if modules:
            yield "modules", modules

    vars(module)["_walk_saveable"] = _walk_saveable
