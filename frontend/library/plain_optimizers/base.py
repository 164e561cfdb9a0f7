"""The base class of optimizers: step counter, learning rate, slots, clipping, weight decay."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import export
from tvtf.core.shape import brackets, broadcast_shapes
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import DType, float32, int64
from tvtf.frontend.gradient.tape import GradientTape
from tvtf.frontend.library.plain_optimizers import clipping, schedules
from tvtf.frontend.library.plain_optimizers.repeated import Repeated
from tvtf.frontend.library.plain_optimizers.schedules import LearningRateSchedule
from tvtf.ops.cast import cast_tensor
from tvtf.ops.indexed_slices import IndexedSlices, on_values
from tvtf.ops.rules import number
from tvtf.state.autotrackable import AutoTrackable, NoDependency
from tvtf.state.variable import Variable, of_library

_building = Lock()
"""Held while an optimizer creates its slots, because several threads may run the first steps at the same time."""

MSG_RATE = (
    "Argument `learning_rate` should be float, or an instance of LearningRateSchedule, or a callable (that takes in the "
    "current iteration value and returns the corresponding learning rate value). Received instead: learning_rate={}"
)
MSG_CLIPPING = (
    "Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set. Received: clipnorm={}, clipvalue={}, "
    "global_clipnorm={}"
)
MSG_UNKNOWN = (
    "Unknown variable: {}. This optimizer can only be called for the variables it was originally built with. When working "
    "with a new set of variables, you should recreate a new optimizer instance."
)
MSG_UNBUILT = (
    "When passing `grads` without `variables`, the optimizer must already be built on a list of variables. Call "
    "`optimizer.build(trainable_variables)` first. "
)
MSG_COUNT = (
    "When passing `grads` as a list of gradient tensors, the gradients must match `optimizer.variables` one-to-on. Received "
    "a list of {} gradients, but the optimizer is tracking {} trainable variables."
)
MSG_MISSING = (
    "Gradients do not exist for variables {} when minimizing the loss. If using `model.compile()`, did you forget to provide "
    "a `loss` argument?"
)
MSG_BUILT = "`exclude_from_weight_decay()` can only be configured before the optimizer is built."
MSG_SCHEDULED = (
    "This optimizer was created with a `LearningRateSchedule` object as its `learning_rate` constructor argument, hence its "
    "learning rate is not settable. If you need the learning rate to be settable, you should instantiate the optimizer with "
    "a float `learning_rate` argument."
)


def _identity_of(variable: Any) -> int:
    """Returns the identity of a Variable, which is also that of the object that replaces it in a trace."""
    return getattr(variable, "_identity", id(variable))


@export("optimizers.Optimizer")
class Optimizer(AutoTrackable):
    """The base class of optimizers: subclasses create slots in ``build`` and update one variable in ``update_step``.

    Args:
      learning_rate: a float, a Variable, a schedule, or a function of no arguments that returns it.
      weight_decay: each step first subtracts ``weight_decay * learning_rate`` times the variable; None for no decay.
      clipnorm: the largest norm of each gradient; larger ones are scaled.
      clipvalue: each gradient's elements are clipped to [-clipvalue, clipvalue].
      global_clipnorm: the largest norm of all gradients together; larger ones are scaled by one factor.
      loss_scale_factor: gradients are divided by it; :meth:`scale_loss` multiplies the loss by it.
      name: the optimizer's name; derived from the class by default.

    Raises:
      ValueError: the learning rate is invalid, there is more than one way of clipping, or an argument is unknown.

    >>> import tvtf as tf
    >>> w = tf.Variable([1., 2.])
    >>> optimizer = tf.optimizers.SGD(0.5)
    >>> _ = optimizer.apply_gradients([(tf.constant([1., 1.]), w)])
    >>> w.numpy(), int(optimizer.iterations)
    (array([0.5, 1.5], dtype=float32), 1)

    Source: https://keras.io/api/optimizers/
    """

    def __init__(
        self,
        learning_rate: Any,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        loss_scale_factor: float | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise ValueError(f"Argument(s) not recognized: {kwargs}")
        if sum(limit is not None for limit in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError(MSG_CLIPPING.format(clipnorm, clipvalue, global_clipnorm))
        self.name = name or _snake(type(self).__name__)
        self.weight_decay = weight_decay
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self.loss_scale_factor = loss_scale_factor
        self.built = False
        # In checkpoints of Keras, slots are the elements of this list, so that it is tracked.
        self._variables: Any = []
        self._slot_positions: Any = NoDependency({})
        self._values_of_step: Any = NoDependency({})
        self._decay_exclusions: Any = NoDependency((frozenset(), None))
        self._repeated: Any = NoDependency(Repeated(self._update))
        self._iterations = self.add_variable((), dtype=int64, name="iteration")
        self._learning_rate = self._rate_or_variable(learning_rate)

    def _rate_or_variable(self, learning_rate: Any) -> Any:
        """Returns the learning rate: a new Variable for a float, otherwise the Variable, schedule or function."""
        if isinstance(learning_rate, Variable) or callable(learning_rate):
            return learning_rate
        if not isinstance(learning_rate, float):
            raise ValueError(MSG_RATE.format(learning_rate))
        return self.add_variable((), learning_rate, name="learning_rate")

    # -- state

    @property
    def iterations(self) -> Variable:
        """The number of steps so far: an int64 Variable."""
        return self._iterations

    @property
    def variables(self) -> list[Variable]:
        """The optimizer's own Variables, in the order of their creation."""
        return list(self._variables)

    @property
    def learning_rate(self) -> Any:
        """The Variable of the learning rate; for a schedule or function, its current value."""
        rate = self._learning_rate
        if isinstance(rate, LearningRateSchedule):
            return rate(self._iterations)
        return rate if isinstance(rate, Variable) else rate()

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        """Assigns a number to the Variable of the learning rate, or replaces the rate by a schedule or function.

        Raises:
          TypeError: the rate is a schedule or function, which has no Variable, and the value a number.
        """
        if isinstance(value, LearningRateSchedule) or (callable(value) and not isinstance(value, Variable)):
            self._learning_rate = value
        elif isinstance(self._learning_rate, Variable):
            self._learning_rate.assign(value)
        else:
            raise TypeError(MSG_SCHEDULED)

    def add_variable(
        self, shape: Any, initializer: float = 0.0, dtype: Any = float32, name: str | None = None
    ) -> Variable:
        """Creates a Variable of the optimizer's own state, filled with the number ``initializer``."""
        initial_value = np.full(tuple(shape), initializer, dtype.np)
        variable = Variable(initial_value, trainable=False, name=f"{self.name}/{name or 'variable'}")
        self._variables.append(variable)
        return variable

    def add_variable_from_reference(
        self, reference_variable: Variable, name: str | None = None, initializer: float = 0.0
    ) -> Variable:
        """Creates a slot, the optimizer's state of one trained variable, with that variable's shape and dtype.

        Args:
          reference_variable: the trained variable.
          name: the name of the slot; "var" if it is None.
          initializer: the slot's initial value, or an initializer.
        """
        reference_variable = of_library(reference_variable)
        reference_name = re.sub("[/:]", "_", reference_variable.name.removesuffix(":0"))
        return self.add_variable(
            reference_variable.shape, initializer, reference_variable.dtype, f"{reference_name}_{name or 'var'}"
        )

    def add_optimizer_variables(
        self, trainable_variables: Sequence[Variable], name: Any, initializer: float = 0.0
    ) -> Any:
        """Creates slots and returns them in a list, one per variable.

        For a list of names, returns a list for each name. Slots are created variable by variable, because checkpoints
        refer to them by their position in the order of creation.

        Args:
          trainable_variables: the trained variables.
          name: the name of the slots, or a list of names.
          initializer: the slots' initial value.
        """
        names = [name] if isinstance(name, str) else list(name)
        slots_by_name: list[list[Variable]] = [[] for _ in names]
        for variable in trainable_variables:
            for slots, slot_name in zip(slots_by_name, names):
                slots.append(self.add_variable_from_reference(variable, slot_name, initializer))
        return slots_by_name[0] if isinstance(name, str) else slots_by_name

    def build(self, variables: Sequence[Variable]) -> None:
        """Creates the slots for ``variables``; later steps may update only some of these."""
        variables = list(map(of_library, variables))
        self._built_for: Any = NoDependency(variables)
        self._slot_positions = NoDependency({_identity_of(variable): i for i, variable in enumerate(variables)})
        self.built = True

    def _slot(self, slots: Sequence[Variable], variable: Variable) -> Variable:
        return slots[self._slot_positions[_identity_of(variable)]]

    # -- a step

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], name: str | None = None) -> Variable:
        """Performs one step.

        Args:
          grads_and_vars: pairs of a gradient and its Variable; a gradient of None causes a warning and no update.

        Returns:
          The step counter.

        Raises:
          ValueError: every gradient is None, or the optimizer was not built with a variable.
        """
        pairs = list(grads_and_vars)
        self.apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
        return self._iterations

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None) -> None:
        """Performs one step with gradients in the order of ``trainable_variables``, or of those it was built with."""
        if not len(grads):
            return
        grads, variables = self._drop_missing(list(grads), self._step_variables(grads, trainable_variables))
        self._values_of_step = NoDependency({})
        gradients = [self._as_gradient(grad) for grad in grads]
        for grad, variable in zip(gradients, variables):
            _require_fitting(grad, variable)
        # All gradients have been checked before the first update, so that no step is left half done.
        self._repeated(self, gradients, variables)
        for variable in variables:
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable.value()))
        self._iterations.assign_add(1)
        self._values_of_step = NoDependency({})

    def _step_variables(self, grads: Sequence[Any], variables: Sequence[Variable] | None) -> list[Variable]:
        """Returns the variables that a step updates, after checks; the first step builds the optimizer for them.

        Raises:
          TypeError: an argument is not a Variable. ValueError: the optimizer was not built with a variable.
        """
        if variables is None:
            return self._built_with(len(grads))
        variables = list(map(of_library, variables))
        for variable in variables:
            if not hasattr(variable, "assign"):
                raise TypeError(f"an optimizer updates Variables, but was given a gradient for {variable!r}")
        with _building:  # `build` sets `built` before a subclass has created its slots
            if not self.built:
                self.build(variables)
        for variable in variables:
            if _identity_of(variable) not in self._slot_positions:
                raise ValueError(MSG_UNKNOWN.format(variable))
        return variables

    def _built_with(self, count: int) -> list[Variable]:
        """Returns the variables that the optimizer was built with.

        Raises ValueError unless there are ``count`` of them.
        """
        if not self.built:
            raise ValueError(MSG_UNBUILT)
        if count != len(self._built_for):
            raise ValueError(MSG_COUNT.format(count, len(self._built_for)))
        return list(self._built_for)

    @staticmethod
    def _drop_missing(grads: list[Any], variables: list[Variable]) -> tuple[list[Any], list[Variable]]:
        """Removes variables without a gradient (None), with a warning. Returns the other gradients and variables."""
        present_grads, variables_with_grad, missing = [], [], []
        for grad, variable in zip(grads, variables):
            if grad is None:
                missing.append(variable.name)
            else:
                present_grads.append(grad)
                variables_with_grad.append(variable)
        if not present_grads:
            raise ValueError("No gradients provided for any variable.")
        if missing:
            warnings.warn(MSG_MISSING.format(missing), stacklevel=4)
        return present_grads, variables_with_grad

    takes_rows = False
    """Whether :meth:`update_step` accepts IndexedSlices as gradients; otherwise they are made dense."""

    def _as_gradient(self, grad: Any) -> Any:
        return grad if self.takes_rows and isinstance(grad, IndexedSlices) else convert_to_tensor(grad)

    def _unscaled(self, grad: Any) -> Any:
        factor = self.loss_scale_factor
        return grad if factor is None else on_values(lambda g: g / number(factor, g), grad)

    def scale_loss(self, loss: Any) -> Any:
        """Multiplies the loss by ``loss_scale_factor``, so that 16-bit gradients don't vanish."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def _update(self, grads: list[Any], variables: list[Variable]) -> None:
        """Updates each variable by its gradient: divides by the loss scale, clips, applies weight decay, then steps.

        Args:
          grads: a gradient for each variable.
          variables: the variables to train.
        """
        grads = [self._unscaled(grad) for grad in grads]
        grads = clipping.clipped(grads, self.clipnorm, self.clipvalue, self.global_clipnorm)
        # A schedule or function is evaluated once per step.
        rate = convert_to_tensor(self.learning_rate)
        for grad, variable in zip(grads, variables):
            self._apply_weight_decay(variable, rate)
            self.update_step(_cast(grad, variable.dtype), variable, rate)

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Tensor) -> None:
        """Updates one variable; subclasses override it."""
        raise NotImplementedError(f"{type(self).__name__} must override update_step(gradient, variable, learning_rate)")

    def once(self, key: str, dtype: DType, compute: Callable[[], Any]) -> Any:
        """Returns a value that is the same for all variables of a dtype, computed once per step."""
        value = self._values_of_step.get((key, dtype))
        if value is None:
            value = self._values_of_step[key, dtype] = compute()
        return value

    def rate_for(self, variable: Variable, learning_rate: Tensor) -> Tensor:
        """Returns the learning rate in a variable's dtype."""
        return self.once("rate", variable.dtype, lambda: cast_tensor(learning_rate, variable.dtype))

    # -- weight decay

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Excludes variables from weight decay.

        Args:
          var_list: the Variables to exclude.
          var_names: patterns; a variable is excluded if one is found in its name.

        Raises:
          ValueError: the optimizer is already built.
        """
        if self.built:
            raise ValueError(MSG_BUILT)
        pattern = None
        if var_names:
            distinct_names = sorted(set(var_names))
            pattern = "|".join(distinct_names)
        identities = frozenset(_identity_of(variable) for variable in var_list or ())
        self._decay_exclusions = NoDependency((identities, pattern))

    def _decays(self, variable: Variable) -> bool:
        """Returns whether weight decay applies to a variable."""
        excluded, pattern = self._decay_exclusions
        return _identity_of(variable) not in excluded and not (pattern and re.search(pattern, variable.name))

    def _apply_weight_decay(self, variable: Variable, learning_rate: Tensor) -> None:
        """Applies weight decay to a variable."""
        if self.weight_decay is None or not self._decays(variable):
            return
        value = variable.value()
        rate = self.rate_for(variable, learning_rate)
        variable.assign(value - value * number(self.weight_decay, value) * rate, read_value=False)

    # -- by loss

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> Variable:
        """Computes the gradients of a loss and performs one step with them, and returns the step counter.

        Args:
          loss: a function of no arguments, or a tensor recorded by ``tape``.
          var_list: Variables, or a function that returns them.
          tape: the tape that recorded ``loss``.

        Raises:
          ValueError: the loss is a tensor, and there is no tape.
        """
        if not callable(loss) and tape is None:
            raise ValueError("`tape` is required when a `Tensor` loss is passed.")
        value, tape = _loss_and_tape(loss, tape)
        variables = list(var_list() if callable(var_list) else var_list)
        return self.apply_gradients(zip(tape.gradient(value, variables), variables))

    # -- configuration

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that create an equal optimizer."""
        rate = self._learning_rate
        if isinstance(rate, LearningRateSchedule):
            rate = {"class_name": type(rate).__name__, "config": rate.get_config()}
        elif isinstance(rate, Variable):
            rate = float(rate)
        config = {"name": self.name, "learning_rate": rate}
        for name in ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "loss_scale_factor"):
            config[name] = getattr(self, name)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """Creates the optimizer that :meth:`get_config` describes."""
        rate = config.get("learning_rate")
        if isinstance(rate, dict):
            config = config | {"learning_rate": schedules.deserialize(rate)}
        return cls(**config)


def _require_fitting(grad: Any, variable: Variable) -> None:
    """Raises an error if a gradient doesn't fit its variable: the dtype must be castable, and the shape broadcastable.

    The check comes before any update, so a failing step leaves every variable unchanged.
    """
    if isinstance(grad, IndexedSlices):
        _require_rows(grad.indices, variable)
        return
    if grad.dtype is not variable.dtype:  # casting an empty tensor raises the error for dtypes that can't be cast
        cast_tensor(EagerTensor(np.zeros(0, grad.dtype.np)), variable.dtype)
    expected, actual = variable._type.shape, grad._type.shape
    if expected == actual or AnyShape in map(type, (expected, actual)):  # an unknown rank can't be checked
        return
    broadcast = broadcast_shapes(expected, actual)
    if broadcast is None or len(broadcast) != len(expected):
        raise ArgumentError(f"Incompatible shapes: {brackets(expected)} vs. {brackets(actual)}").for_op("Sub")


def _require_rows(indices: Tensor, variable: Variable) -> None:
    """Raises an error if an eager sparse gradient has an index that is not a row of the variable.

    While tracing, the scatter op checks its indices when it runs.
    """
    rows = variable.shape[0]
    if not isinstance(indices, EagerTensor) or rows is None:
        return
    for index in indices.eager_array().ravel().tolist():
        if not 0 <= index < rows:
            raise ArgumentError(f"indices has {index}, which is not in [0, {rows})").for_op("ResourceScatterAdd")


def _cast(grad: Any, dtype: DType) -> Any:
    return on_values(lambda g: cast_tensor(g, dtype), grad)


def _loss_and_tape(loss: Any, tape: Any) -> tuple[Any, Any]:
    """Returns the value of a loss and the gradient tape that recorded it; a function is called under a new tape."""
    if not callable(loss):
        return loss, tape
    with GradientTape() as new_tape:
        value = loss()
    return value, new_tape


def _snake(name: str) -> str:
    """Converts a class name as Keras does: ``RMSprop`` to ``rmsprop``, ``AdamW`` to ``adam_w``."""
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub(r"\W+", "", name)).lower()


@export("optimizers.serialize")
def serialize(optimizer: Optimizer) -> dict[str, Any]:
    """Returns a dict of an optimizer's class and configuration.

    >>> import tvtf as tf
    >>> tf.optimizers.serialize(tf.optimizers.SGD(0.5))["class_name"]
    'SGD'

    Source: https://keras.io/api/optimizers/
    """
    return {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}


@export("optimizers.deserialize")
def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Optimizer:
    """Creates an optimizer from the class and configuration in a dict of :func:`serialize`.

    Raises:
      ValueError: the class is unknown and not in ``custom_objects``.

    >>> import tvtf as tf
    >>> config = tf.optimizers.serialize(tf.optimizers.Adam(0.1))
    >>> tf.optimizers.deserialize(config).learning_rate.numpy()
    np.float32(0.1)

    Source: https://keras.io/api/optimizers/
    """
    name = config["class_name"]
    known_classes = _by_name()
    cls: Any = (custom_objects or {}).get(name) or known_classes.get(name.lower())
    if cls is None:
        known_names = sorted(known.__name__ for known in known_classes.values())
        raise ValueError(f"Unknown optimizer {name!r}: expected one of {known_names}")
    return cls.from_config(config["config"])


def _by_name() -> dict[str, type[Optimizer]]:
    """Returns all optimizer classes, including users', by lower-case name."""
    return {optimizer.__name__.lower(): optimizer for optimizer in _subclasses(Optimizer)}


def _subclasses(base: type[Optimizer]) -> list[type[Optimizer]]:
    classes: list[type[Optimizer]] = []
    for direct in base.__subclasses__():
        classes += [direct, *_subclasses(direct)]
    return classes


@export("optimizers.get")
def get(identifier: Any) -> Optimizer:
    """Returns an optimizer given by its name, its configuration, or itself.

    Raises:
      ValueError: the identifier is neither a known name, nor a configuration, nor an optimizer.

    >>> import tvtf as tf
    >>> type(tf.optimizers.get("adam")).__name__
    'Adam'

    Source: https://keras.io/api/optimizers/
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    known_classes = _by_name()
    if isinstance(identifier, str) and identifier.lower() in known_classes:
        return known_classes[identifier.lower()].from_config({})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")
