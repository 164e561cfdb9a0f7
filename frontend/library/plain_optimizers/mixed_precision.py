"""Mixed precision: a policy for functions traced from now on, and an optimizer that scales losses for 16-bit gradients.

Source: https://keras.io/api/mixed_precision/
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from tvtf.api.namespaces import late
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import precision
from tvtf.dtypes import int64
from tvtf.frontend.control_flow.cond_while import cond
from tvtf.frontend.library.plain_optimizers.base import Optimizer, deserialize, serialize
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable

COMPUTE = {"float32": None, "mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


@export("mixed_precision.Policy")
class Policy:
    """The dtypes in which a program computes and stores its Variables.

    Args:
      name: "float32", "mixed_float16" or "mixed_bfloat16"; the mixed ones compute matrix products and convolutions in 16
        bits, and everything else in float32.

    Raises:
      ValueError: the name is unknown.

    >>> import tvtf as tf
    >>> policy = tf.mixed_precision.Policy("mixed_bfloat16")
    >>> policy.compute_dtype, policy.variable_dtype
    ('bfloat16', 'float32')

    Source: https://keras.io/api/mixed_precision/policy/
    """

    def __init__(self, name: str) -> None:
        if name not in COMPUTE:
            raise ValueError(f"Policy: name must be one of {sorted(COMPUTE)}, but got {name!r}")
        self.name = name

    @property
    def compute_dtype(self) -> str:
        return COMPUTE[self.name] or "float32"

    @property
    def variable_dtype(self) -> str:
        return "float32"

    def __repr__(self) -> str:
        return f'<Policy "{self.name}">'


@export("mixed_precision.set_global_policy")
def set_global_policy(policy: Policy | str) -> None:
    """Sets the policy of functions traced from now on; eager calls and existing traces are not affected.

    Raises:
      ValueError: no policy has this name.

    >>> import tvtf as tf
    >>> tf.mixed_precision.set_global_policy("mixed_bfloat16")
    >>> product = tf.function(lambda x: tf.matmul(x, x))
    >>> product([[1.001]]).numpy()
    array([[1.]], dtype=float32)
    >>> tf.mixed_precision.set_global_policy("float32")

    Source: https://keras.io/api/mixed_precision/policy/
    """
    new_policy = policy if isinstance(policy, Policy) else Policy(policy)
    precision.compute = COMPUTE[new_policy.name]


@export("mixed_precision.global_policy")
def global_policy() -> Policy:
    """Returns the policy for functions that are traced now.

    >>> import tvtf as tf
    >>> tf.mixed_precision.global_policy()
    <Policy "float32">

    Source: https://keras.io/api/mixed_precision/policy/
    """
    return Policy(next(name for name, compute in COMPUTE.items() if compute == precision.compute))


@export("mixed_precision.LossScaleOptimizer")
class LossScaleOptimizer(Optimizer):
    """Another optimizer's steps with gradients of a scaled loss, so that none vanishes in float16.

    A step whose gradients are not all finite is skipped and halves the scale; many finite steps in a row double it.

    Args:
      inner_optimizer: the optimizer that performs the steps.
      initial_scale: the initial scale.
      dynamic_growth_steps: the number of finite steps after which the scale is doubled.
      name: the optimizer's name.

    >>> import tvtf as tf
    >>> w = tf.Variable(1.)
    >>> optimizer = tf.mixed_precision.LossScaleOptimizer(tf.optimizers.SGD(0.5), initial_scale=8.)
    >>> with tf.GradientTape() as tape:
    ...     loss = optimizer.scale_loss(w * w)
    >>> _ = optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    >>> w.numpy(), optimizer.dynamic_scale.numpy()
    (np.float32(0.0), np.float32(8.0))

    Source: https://keras.io/api/mixed_precision/loss_scale_optimizer/
    """

    def __init__(
        self,
        inner_optimizer: Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
    ) -> None:
        """Wraps an optimizer; the loss scale grows after ``dynamic_growth_steps`` steps with finite gradients."""
        super().__init__(learning_rate=0.0, name=name)  # unused: the inner optimizer has the learning rate
        self.inner_optimizer = inner_optimizer
        self.initial_scale = float(initial_scale)
        self.dynamic_growth_steps = int(dynamic_growth_steps)
        self.step_counter = self.add_variable((), dtype=int64, name="step_counter")
        self.dynamic_scale = self.add_variable((), self.initial_scale, name="dynamic_scale")

    @property
    def iterations(self) -> Variable:
        """The inner optimizer's number of steps."""
        return self.inner_optimizer.iterations

    @property
    def learning_rate(self) -> Any:
        """The inner optimizer's learning rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    @property
    def variables(self) -> list[Variable]:
        return [*super().variables, *self.inner_optimizer.variables]

    def build(self, variables: Sequence[Variable]) -> None:
        self.inner_optimizer.build(variables)
        super().build(variables)

    def scale_loss(self, loss: Any) -> Any:
        """Multiplies the loss by the current scale, in the loss's dtype."""
        loss = convert_to_tensor(loss)
        return loss * bind.cast(self.dynamic_scale.value(), dtype=loss.dtype)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None) -> None:
        """Performs one step of the inner optimizer if all gradients are finite."""
        variables = self._step_variables(grads, trainable_variables)
        grads_present, variables = self._drop_missing(list(grads), variables)
        unscaled = [self._unscale(convert_to_tensor(grad)) for grad in grads_present]
        cond(_all_finite(unscaled), lambda: self._apply_step(unscaled, variables), self._skip)

    def _unscale(self, gradient: Tensor) -> Tensor:
        return gradient / bind.cast(self.dynamic_scale.value(), dtype=gradient.dtype)

    def _apply_step(self, gradients: list[Tensor], variables: list[Variable]) -> None:
        """Performs one step; doubles the scale after ``dynamic_growth_steps`` steps with finite gradients in a row."""
        self.inner_optimizer.apply(gradients, variables)
        steps = self.step_counter.value() + 1
        scale = self.dynamic_scale.value()
        grows = steps >= self.dynamic_growth_steps
        self.dynamic_scale.assign(bind.select(grows, scale * 2.0, scale))
        self.step_counter.assign(bind.select(grows, steps * 0, steps))

    def _skip(self) -> None:
        """Skips the step and halves the scale."""
        self.step_counter.assign(0)
        self.dynamic_scale.assign(self.dynamic_scale.value() * 0.5)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that create an equal optimizer."""
        return {
            "name": self.name,
            "inner_optimizer": _serialized(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        return cls(**config | {"inner_optimizer": _deserialized(config["inner_optimizer"])})


def _keras() -> Any:
    """Returns ``tf.optimizers``, for inner optimizers of Keras."""
    return late(sys.modules["tvtf"], "optimizers")


def _serialized(optimizer: Any) -> dict[str, Any]:
    return serialize(optimizer) if isinstance(optimizer, Optimizer) else _keras().serialize(optimizer)


def _deserialized(config: dict[str, Any]) -> Any:
    """Creates the inner optimizer; a configuration written by Keras names the module of its class."""
    return _keras().deserialize(config) if config.get("module") else deserialize(config)


def _all_finite(gradients: Sequence[Tensor]) -> Tensor:
    """Returns a bool scalar tensor: whether all elements of all gradients are finite."""
    are_finite = []
    for gradient in gradients:
        all_axes = tuple(range(gradient.ndim))
        are_finite.append(bind.reduce_all(bind.is_finite(gradient), axis=all_axes, keepdims=False))
    return functools.reduce(bind.logical_and, are_finite)
