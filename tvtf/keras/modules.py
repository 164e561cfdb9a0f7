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
    """A layer's name scope. Calling the scope returns its name, because ``layer.name_scope`` is a method in Keras 2."""

    def __call__(self) -> str:
        return self.name.rstrip("/")


class LayerModule(tvtf.Module):
    """A mixin for Keras's base class of layers that adds the methods of a module."""

    name: Any = None  # Keras sets it
    _attributes_not_saved = FUNCTIONS_OF_FIT

    @property
    def name_scope(self) -> Any:
        """The name scope of the layer's ops, which also can be called to get its name."""
        return _Scope(f"{self.name}/")

    def __dir__(self) -> list[str]:
        """Lists the attributes without those of tvtf, which a layer made from another layer's config does not have."""
        return [name for name in super().__dir__() if name not in (CALLED_ON, CONTAINERS)]

    def _attributes_to_walk(self, key: Callable[[str], Any] | None) -> dict[str, Any]:
        """Returns the attributes in which `tf.Module` searches for Variables and submodules: Keras's own lists of them.

        The lists are in Keras's order. All other attributes are left out, because they may contain the same objects again.
        The parameter ``key`` is not used.
        """
        layer: Any = self
        return {
            "_trainable_variables": layer._trainable_variables,
            "_non_trainable_variables": layer._non_trainable_variables,
            "_seed_generators": [generator.state for generator in layer._seed_generators],
            # A proxy of a tf.Module is replaced by the module.
            "_layers": [getattr(part, "module", part) for part in layer._layers],
        }

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Returns the trackable attributes of the layer by name, with trackable copies of its lists and dicts.

        Keras's own classes of lists and dicts are not trackable.
        """
        containers = self._containers()
        if save_type == "checkpoint" and self._has_layers_in_functional():
            containers.pop("_layers", None)
        return {**containers, **tvtf.Module._trackable_children(self, save_type, **kwargs)}

    def _containers(self) -> dict[str, Any]:
        """Returns wrapped copies of the layer's lists, sets and dicts, by attribute name.

        Checkpoints search the wrapped copies for Variables. A copy is cached in the layer's attribute `CONTAINERS`. The
        cached copy is returned as long as the container has the same objects as its elements.
        """
        cache = vars(self).setdefault(CONTAINERS, {})
        # Keras appends the name to `_tracked` whenever a list, set or dict is assigned to an attribute.
        for name in dict.fromkeys(vars(self).get("_tracked", ())):
            content = _identities(getattr(self, name, None))
            cached_content, _ = cache.get(name, (None, None))
            if name not in cache or cached_content != content:
                cache[name] = content, wrap(_as_python_containers(getattr(self, name, None)))
        # `wrap` returns a value as it is if the attribute has meanwhile got a value that is no container.
        return {name: wrapped for name, (_, wrapped) in cache.items() if hasattr(wrapped, "_trackable_children")}

    def _has_layers_in_functional(self) -> bool:
        """Returns whether this is a Sequential model whose layers are, or will be, those of its functional model.

        A checkpoint must refer to the layers of the functional model, as in TensorFlow. Building a Sequential model inserts an
        input layer into its list of layers. With references into that list, a checkpoint that is restored before would
        assign each layer's values to the next one.
        """
        functional = vars(self).get("_functional", self)
        return functional is not self and (functional is not None or not vars(self).get("built"))

    @property
    def _default_save_signature(self) -> Any:
        """The inference function that a saved model of the layer serves, for batches of any size.

        None if the specs of the layer's inputs are not known.
        """
        specs = input_specs(self)
        return None if specs is None else called_on(self, specs)

    def _parts_of_saved_model(self) -> dict[str, Any]:
        """Returns the additional parts of a saved model of a Keras layer: lists of variables, and functions, by name.

        They are those that TensorFlow saves. The functions call the layer. They are left out if the specs of the layer's
        inputs are not known.
        """
        layer: Any = self
        variables = [variable.handle for variable in layer.variables]
        trainable_variables = [variable.handle for variable in layer.trainable_variables]
        lists = {"variables": wrap(variables), "trainable_variables": wrap(trainable_variables)}
        specs = input_specs(self)
        if not specs:
            return lists
        functions = {DEFAULT_FUNCTION: called_on(self, specs), "__call__": traced_on(self, specs)}
        return {**functions, **lists}


def _as_python_containers(value: Any) -> Any:
    """Converts Keras's tracked lists, sets and dicts in nested containers to plain lists and dicts."""
    if isinstance(value, dict):
        return {key: _as_python_containers(child) for key, child in value.items()}
    if isinstance(value, (list, set)):
        return list(map(_as_python_containers, value))
    # A named tuple is no plain tuple, and is left unchanged.
    return tuple(map(_as_python_containers, value)) if type(value) is tuple else value


def _identities(value: Any) -> Any:
    """Replaces the values in nested containers by their ids. Two results are compared to detect changes of the content."""
    if isinstance(value, dict):
        return [(key, _identities(part)) for key, part in value.items()]
    return [_identities(part) for part in value] if isinstance(value, (list, tuple, set)) else id(value)


def input_specs(layer: Any) -> Any:
    """Returns the tensor specs of the arguments of a Keras layer, for batches of any size.

    A functional model declares its inputs. For other layers, the specs are those of the first call. Before the first call the
    result is None.
    """
    inputs = getattr(getattr(layer, "_functional", None) or layer, "_inputs_struct", None)
    if inputs is not None:
        return [_with_input_names(tvtf.nest.map_structure(lambda x: tvtf.TensorSpec(x.shape, x.dtype), inputs))]
    specs_of_first_call = vars(layer).get(CALLED_ON)
    # Only the first argument, ``inputs``, gets names.
    return specs_of_first_call and [_with_input_names(specs_of_first_call[0]), *specs_of_first_call[1:]]


def _with_input_names(specs: Any) -> Any:
    """Gives the tensor specs in a nested structure the names ``inputs``, ``inputs_1``, ``inputs_2`` and so on.

    TensorFlow gives these names to the tensors of an argument ``inputs``.
    """
    names = itertools.chain(["inputs"], (f"inputs_{number}" for number in itertools.count(1)))

    def with_name(spec: Any) -> Any:
        name = next(names)
        return tvtf.TensorSpec(spec.shape, spec.dtype, name) if isinstance(spec, tvtf.TensorSpec) else spec

    return tvtf.nest.map_structure(with_name, specs)


def _spec_of(x: Any) -> Any:
    """Returns the tensor spec of an argument of a layer's call, with an unknown batch size.

    For example, a float32 tensor of shape ``(32, 10)`` gives ``TensorSpec([None, 10], float32)``. A value without shape and
    dtype is returned unchanged.
    """
    if isinstance(x, tvtf.__internal__.CompositeTensor):
        return tvtf.type_spec_from_value(x)
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return x
    shape = tvtf.TensorShape(x.shape)
    # A column of pandas may have a dtype of pandas' own.
    dtype = x.dtype if isinstance(x.dtype, (str, np.dtype, DType)) else tvtf.convert_to_tensor(x).dtype
    return tvtf.TensorSpec([None, *shape[1:]] if shape.rank else shape, dtype)


def called_on(layer: Any, specs: Any) -> Any:
    """Returns a ``tf.function`` that calls a Keras layer for inference, on inputs of the given tensor specs."""

    # The name is that of the saved model's default signature.
    def serving_default(inputs: Any, *others: Any) -> Any:
        return layer(inputs, *others)

    return tvtf.function(serving_default, input_signature=specs, autograph=False)


def traced_on(layer: Any, specs: Any) -> Any:
    """Returns a ``tf.function`` that calls a Keras layer, already traced for inference and training with inputs of the specs."""

    def call(inputs: Any, *others: Any, training: bool = False) -> Any:
        return layer(inputs, *others, training=training)

    function = tvtf.function(call, autograph=False)
    for training in (False, True):
        function.get_concrete_function(*specs, training=training)
    return function


def make_layers_modules(module: ModuleType) -> None:
    """Patches Keras's ``backend.tensorflow.layer`` so that all layers are instances of ``tf.Module``, as in TensorFlow."""

    class TFLayer(module.TFLayer, LayerModule):  # type: ignore[name-defined, misc]
        # Keras's own class comes first, and would override these.
        _trackable_children = LayerModule._trackable_children
        _default_save_signature = LayerModule._default_save_signature

    vars(module)["TFLayer"] = TFLayer


def restore_unbuilt_variables(module: ModuleType) -> None:
    """Patches Keras's ``backend.tensorflow.core`` so that a variable without a value can be restored from a checkpoint.

    While Keras builds a layer by a symbolic call, its variables have an initializer instead of a value. If a checkpoint was
    read before, its value becomes the initializer.
    """
    variable_class: Any = vars(module)["Variable"]
    keras_restore = variable_class._restore_from_tensors

    @functools.wraps(keras_restore)
    def _restore_from_tensors(self: Any, restored_tensors: Any) -> Any:
        """Restores the variable's value; before the variable is built, the value becomes its initial value."""
        if self._value is not None:
            return keras_restore(self, restored_tensors)
        restored = restored_tensors[VARIABLE_VALUE]
        self._initializer = lambda shape, dtype: tvtf.convert_to_tensor(restored)
        return None

    def _tensor_specs(self: Any) -> Any:
        """Returns what a checkpoint must contain for the variable: by key, a shape and a dtype."""
        return {VARIABLE_VALUE: (tuple(self._shape), tvtf.as_dtype(self._dtype).as_numpy_dtype)}

    variable_class._restore_from_tensors, variable_class._tensor_specs = _restore_from_tensors, _tensor_specs


# -- Variables and modules as parts of layers


class _PlainVariable:
    """A mixin for a Keras variable that is the proxy of a ``tf.Variable``, with the same memory and its own ``trainable``."""

    def __init__(self, tf_variable: Any, without_scope: Callable[[], Any]) -> None:
        """Shares the memory of ``tf_variable``; ``without_scope`` returns a context in which Keras allows new variables."""
        keras_variable: Any = super()
        with without_scope():
            # "scope/weights:0" -> "weights"
            name = tf_variable.name.rpartition("/")[2].partition(":")[0]
            keras_variable.__init__(
                tf_variable, dtype=tf_variable.dtype.name, trainable=tf_variable.trainable, autocast=False, name=name
            )

    def _validate_shape(self, shape: Any) -> Any:
        """Returns the current shape of the Variable, in place of Keras's check that the shape is known.

        Keras's variables never change their shape. A ``tf.Variable`` of unknown shape may.
        """
        variable: Any = self
        return tuple(variable._value._type.shape)


class _ModuleLayer:
    """A mixin for a Keras layer that is the proxy of a ``tf.Module``, a sublayer of the layer with this attribute.

    The proxy searches the module's attributes each time, because the module's first call may create Variables.
    """

    @classmethod
    def of(cls, module: Any, containers: tuple[Any, ...], proxy_factory: ProxyFactory, trainable: bool) -> Any:
        """Makes a Keras layer that is the proxy of a ``tf.Module``.

        ``containers`` are the layer and the modules that contain the module. Where the module refers to one of them, the search
        for its parts stops. ``trainable`` is False for a module in a frozen layer.
        """
        proxy: Any = cls()
        proxy.name = camel_to_snake(type(module).__name__)
        # Set without ``__setattr__``, by which Keras would track the values.
        vars(proxy).update(module=module, _enclosing=(*containers, module), _factory=proxy_factory, _proxies={})
        vars(proxy).update(built=True, _trainable=trainable)
        return proxy

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return vars(self)["module"](*args, **kwargs)

    def _parts(self, is_part: Callable[[Any], bool]) -> Iterator[Any]:
        """Yields the values in the module's attributes that satisfy a predicate, except objects that contain the module."""
        attributes = vars(self)
        if "module" not in attributes:
            return  # Keras inspects a layer while creating it.
        for leaf in attributes["module"]._flatten(recursive=False, predicate=is_part):
            if all(leaf is not container for container in attributes["_enclosing"]):
                yield leaf

    def _variables_of(self, is_trainable: bool) -> list[Any]:
        """Returns the Keras variables for the module's Variables: either the trainable or the non-trainable variables."""
        attributes = vars(self)
        factory: Any = attributes.get("_factory")  # None while Keras creates the layer; the layer has no parts then
        leaves = self._parts(lambda leaf: factory.is_variable(leaf) or factory.is_keras_variable(leaf))
        variables = [factory.variable_for(leaf, attributes["_trainable"]) for leaf in leaves]
        return [variable for variable in variables if factory.was_trainable(variable) == is_trainable]

    # Keras assigns these lists when it makes a layer. The setters do nothing.
    _trainable_variables = property(lambda self: self._variables_of(True), lambda self, _: None)
    _non_trainable_variables = property(lambda self: self._variables_of(False), lambda self, _: None)

    def _find_layers(self) -> list[Any]:
        """Returns the Keras layers for the layers and modules among the module's attributes."""
        return [self._layer_for(leaf) for leaf in self._parts(lambda leaf: isinstance(leaf, tvtf.Module))]

    def _layer_for(self, leaf: Any) -> Any:
        """Returns the Keras layer for a part of the module: a layer itself, or the proxy of a ``tf.Module``, made once."""
        attributes = vars(self)
        factory, proxies = attributes["_factory"], attributes["_proxies"]
        if factory.is_layer(leaf):
            return leaf
        if id(leaf) not in proxies:
            proxy = factory.layer_for(leaf, attributes["_enclosing"], attributes["_trainable"])
            proxies[id(leaf)] = proxy
        return proxies[id(leaf)]

    _layers = property(_find_layers, lambda self, _: None)


class ProxyFactory:
    """Makes the proxies by which Keras tracks ``tf.Variable`` and ``tf.Module`` objects as parts of layers."""

    def __init__(self, module: Any) -> None:
        """Makes the classes of proxies. ``module`` is Keras's ``layers.layer``."""
        self.keras_layer, self.keras_variable = module.Layer, module.backend.Variable
        self.global_state = module.global_state
        self.variable_class: Any = type("PlainVariable", (_PlainVariable, self.keras_variable), {})
        self.layer_class: Any = type("ModuleLayer", (_ModuleLayer, self.keras_layer), {})

    def __deepcopy__(self, memo: Any) -> ProxyFactory:
        """Returns the factory itself: copies of a layer share its classes of proxies."""
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
        """Returns the Keras variable for a ``tf.Variable``, its proxy. A Keras variable is returned unchanged.

        The proxy is created on the first call for a Variable. With ``trainable=False``, for a Variable in a frozen layer, the
        new proxy is not trainable.
        """
        if self.is_keras_variable(value):
            return value
        proxy = vars(value).get(KERAS_VARIABLE)
        if proxy is None:
            proxy = vars(value)[KERAS_VARIABLE] = self.variable_class(value, self.without_scope)
            proxy.trainable = proxy.trainable and trainable
        return proxy

    def was_trainable(self, variable: Any) -> bool:
        """Returns whether a variable is trainable as long as its layer is not frozen."""
        return bool(variable.handle.trainable if type(variable) is self.variable_class else variable.trainable)

    def layer_for(self, module: Any, containers: tuple[Any, ...], trainable: bool) -> Any:
        """Makes the proxy of a ``tf.Module``; ``containers`` are the layer and the modules that contain the module."""
        return self.layer_class.of(module, containers, self, trainable)

    @contextmanager
    def without_scope(self) -> Iterator[None]:
        """Suspends Keras's stateless scope in a ``with`` block. The scope forbids creating variables.

        A proxy may be created nevertheless, because it allocates no memory.
        """
        keras_scope = self.global_state.get_global_attribute("stateless_scope")
        self.global_state.set_global_attribute("stateless_scope", None)
        try:
            yield
        finally:
            self.global_state.set_global_attribute("stateless_scope", keras_scope)


class Parts(list[Any]):
    """A list of the ``tf.Variable`` or ``tf.Module`` objects of a Keras layer, in the layer's tracker.

    When an object is added, a proxy of the object is added to Keras's own list of variables or layers.
    """

    def __init__(self, layer: Any, proxy_factory: ProxyFactory) -> None:
        self.layer, self.proxy_factory = layer, proxy_factory
        self.proxies: list[Any] = []

    def append(self, value: Any) -> None:
        """Adds a ``tf.Variable`` or ``tf.Module`` to the list, and its proxy to the layer's variables or sublayers."""
        super().append(value)
        trainable = vars(self.layer).get("_trainable", True)
        if self.proxy_factory.is_variable(value):
            proxy = self.proxy_factory.variable_for(value, trainable)
            store = "trainable_variables" if value.trainable else "non_trainable_variables"
        else:
            proxy = self.proxy_factory.layer_for(value, (self.layer,), trainable)
            store = "layers"
        self.proxies.append(proxy)
        if not self.layer._tracker.is_in_store(store, proxy):
            self.layer._tracker.add_to_store(store, proxy)

    def __delitem__(self, index: Any) -> None:
        """Removes an object from the list, and its proxy from the layer's variables or sublayers."""
        self.layer._tracker.untrack(self.proxies.pop(index))
        super().__delitem__(index)


def accept_parts_when_locked(module: ModuleType) -> None:
    """Patches Keras's ``utils.tracking`` so that a ``tf.Variable`` or ``tf.Module`` can be added to a layer after ``build``.

    Keras locks the tracker of a built layer against new variables and sublayers.
    """

    class Tracker(module.Tracker):  # type: ignore[name-defined, misc]
        locked: bool

        def add_to_store(self, store_name: str, value: Any) -> None:
            """Adds a value to one of the tracker's lists, also to a locked one if the list is of the class `Parts`."""
            was_locked = self.locked
            _, store = self.config[store_name]
            self.locked = was_locked and not isinstance(store, Parts)
            try:
                super().add_to_store(store_name, value)
            finally:
                self.locked = was_locked

    vars(module)["Tracker"] = Tracker


def track_tensorflow_objects(module: Any) -> None:
    """Patches Keras's ``layers.layer`` so that layers track ``tf.Variable`` and ``tf.Module`` attributes.

    Layers can also be called on nested lists of numbers, and run ``build`` outside of a function being traced.
    """
    layer_class = module.Layer
    proxy_factory = ProxyFactory(module)
    for patch in (_patch_tracking, _patch_setattr, _patch_delattr, _patch_call, _patch_build):
        patch(layer_class, proxy_factory)


def _patch_tracking(layer_class: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers so that its tracker also collects ``tf.Variable`` and ``tf.Module`` attributes."""
    keras_initialize_tracker = layer_class._initialize_tracker

    @functools.wraps(keras_initialize_tracker)
    def _initialize_tracker(self: Any) -> None:
        """Creates a layer's tracker with two more lists: for Variables and for modules among the attributes."""
        if hasattr(self, "_tracker"):
            return
        keras_initialize_tracker(self)
        tracker = self._tracker
        for name, is_of_type in (("tf_variables", proxy_factory.is_variable), ("tf_modules", proxy_factory.is_module)):
            tracker.config[name] = is_of_type, Parts(self, proxy_factory)
            tracker.stored_ids[name] = set()

    layer_class._initialize_tracker = _initialize_tracker


def _patch_setattr(layer_class: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers to stop tracking a Variable or module when another one replaces it as an attribute."""
    keras_setattr_hook = layer_class._setattr_hook

    @functools.wraps(keras_setattr_hook)
    def _setattr_hook(self: Any, name: str, value: Any) -> Any:
        if proxy_factory.is_of_tensorflow(value) and vars(self).get(name) is not value:
            _untrack(self, name, proxy_factory)
        return keras_setattr_hook(self, name, value)

    layer_class._setattr_hook = _setattr_hook


def _untrack(layer: Any, name: str, proxy_factory: ProxyFactory) -> None:
    """Stops tracking the Variable or module in a layer's attribute, unless another attribute has the same value."""
    old_value = vars(layer).get(name)
    other_values = (value for other_name, value in vars(layer).items() if other_name != name)
    if proxy_factory.is_of_tensorflow(old_value) and not any(old_value is value for value in other_values):
        layer._tracker.untrack(old_value)


def _patch_delattr(layer_class: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers to stop tracking a Variable or module when its attribute is deleted."""
    keras_delattr = layer_class.__delattr__

    @functools.wraps(keras_delattr)
    def __delattr__(self: Any, name: str) -> None:
        _untrack(self, name, proxy_factory)
        keras_delattr(self, name)

    layer_class.__delattr__ = __delattr__


def _patch_call(layer_class: Any, proxy_factory: ProxyFactory) -> None:
    """Patches the call of Keras's layers to accept nested lists of numbers, and to store the specs of the first call.

    The specs are needed to save or export the layer. ``proxy_factory`` is not used: all patches have this parameter.
    """
    keras_call = layer_class.__call__

    @functools.wraps(keras_call)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Converts a list of numbers to a tensor, calls the layer, and stores the tensor specs of the first call."""
        # Keras takes a list for a structure of tensors, and rejects the numbers in it.
        if args and isinstance(args[0], (list, tuple, int, float)) and _takes_tensors(self) and _are_numbers(args[0]):
            args = (tvtf.convert_to_tensor(args[0]), *args[1:])
        outputs = keras_call(self, *args, **kwargs)
        if args and CALLED_ON not in vars(self):
            vars(self)[CALLED_ON] = tvtf.nest.map_structure(_spec_of, list(args))
        return outputs

    layer_class.__call__ = __call__


def _takes_tensors(layer: Any) -> bool:
    """Returns whether a Keras layer accepts only tensors as positional arguments, and converts arrays to tensors."""
    return bool(layer._convert_input_args and not layer._allow_non_tensor_positional_args)


def _are_numbers(value: Any) -> bool:
    """Returns whether a value is a number, or nested lists or tuples of numbers, of which none is empty."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_are_numbers, value))
    return isinstance(value, (int, float))


def _patch_build(layer_class: Any, proxy_factory: ProxyFactory) -> None:
    """Patches Keras's class of layers to run ``build`` outside of a function being traced, as Keras 2 does.

    So the initial values of variables are eager tensors. ``proxy_factory`` is not used: all patches have this parameter.
    """
    keras_new = layer_class.__new__

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

    layer_class.__new__ = staticmethod(__new__)


def save_modules(module: Any) -> None:
    """Patches Keras's ``saving.saving_lib`` so that Keras's files also contain the ``tf.Module`` attributes of layers."""
    keras_walk_saveable = module._walk_saveable

    def _walk_saveable(saveable: Any) -> Iterator[tuple[str, Any]]:
        """Yields the names and values of the parts of an object to save.

        After all other parts of a layer, its modules are yielded as a list of their proxies, under the name "modules".
        """
        if isinstance(saveable, _ModuleLayer):  # Keras saves a layer's variables by itself
            yield "layers", saveable._layers
            return
        yield from keras_walk_saveable(saveable)
        modules = [part for part in getattr(saveable, "_layers", ()) if isinstance(part, _ModuleLayer)]
        if modules:
            yield "modules", modules

    vars(module)["_walk_saveable"] = _walk_saveable
