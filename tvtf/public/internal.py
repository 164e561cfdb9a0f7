"""Defines ``tf.__internal__``: names that TensorFlow reserves for Keras and its other libraries, as far as they use them.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python (``tf_export("__internal__...")``)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import numpy as np

from tvtf.api.namespaces import install as _install
from tvtf.core.primitive import export, exports
from tvtf.core.tensor import EagerTensor, SymbolicTensor, is_tensor, static_value
from tvtf.distribute import get_strategy
from tvtf.frontend.control_flow.cond_while import cond
from tvtf.frontend.control_flow.control_dependencies import init_scope
from tvtf.state.autotrackable import AutoTrackable
from tvtf.state.trackable import Trackable

for _path, _class in {
    "EagerTensor": EagerTensor,
    "tracking.AutoTrackable": AutoTrackable,
    "tracking.Trackable": Trackable,
}.items():
    exports[f"__internal__.{_path}"] = _class


@export("__internal__.tracking.no_automatic_dependency_tracking", waits=False)
def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method of a trackable object so that attributes set by the method are not saved in checkpoints.

    >>> import tvtf as tf
    >>> class Owner(tf.__internal__.tracking.AutoTrackable):
    ...     @tf.__internal__.tracking.no_automatic_dependency_tracking
    ...     def hide(self, value):
    ...         self.hidden = value
    >>> owner = Owner()
    >>> owner.hide(tf.Variable(1.))
    >>> list(owner._trackable_children())
    []

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/trackable/base.py
    """

    @wraps(method)
    def call_without_tracking(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the method without tracking the attributes that it sets."""
        was_tracking = getattr(self, "_self_setattr_tracking", True)
        self._self_setattr_tracking = False
        try:
            return method(self, *args, **kwargs)
        finally:
            self._self_setattr_tracking = was_tracking

    return call_without_tracking


@export("__internal__.smart_cond.smart_cond", waits=False)
def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """Same as ``tf.cond``, but calls only one branch if the value of ``pred`` is known while a function is traced.

    Raises:
      TypeError: ``pred`` is not a tensor, bool, 0 or 1; or a branch is not callable.

    >>> import tvtf as tf
    >>> tf.__internal__.smart_cond.smart_cond(True, lambda: 1, lambda: 2)
    1

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/smart_cond.py
    """
    for label, branch in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(branch):
            raise TypeError(f"Argument `{label}` must be callable.")
    static_pred = _static_bool(pred)
    if static_pred is None:
        return cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if static_pred else false_fn()


def _static_bool(pred: Any) -> bool | None:
    """Returns the value of a condition, or None if it is not known while a function is traced.

    The value of a symbolic tensor is known if it depends only on constants and static shapes.

    Raises:
      TypeError: ``pred`` is not a tensor, bool, 0 or 1.
    """
    if isinstance(pred, (bool, np.bool_)) or (isinstance(pred, int) and pred in (0, 1)):
        return bool(pred)
    if not is_tensor(pred):
        raise TypeError(
            "Argument `pred` must be a Tensor, or a Python bool, or 1 or 0. "
            f"Received: pred={pred} of type {type(pred).__name__}"
        )
    value = pred._as_tensor()
    static = value.eager_array() if isinstance(value, EagerTensor) else static_value(value)
    if static is None and isinstance(value, SymbolicTensor):
        static = value._trace.computed_constants.value(value._var)
    return None if static is None else bool(static)


@export("__internal__.distribute.interim.maybe_merge_call", waits=False)
def maybe_merge_call(fn: Callable[..., Any], strategy: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls ``fn(strategy, *args, **kwargs)``, and returns its result.

    TensorFlow calls ``fn`` once for all replicas of a distribution strategy. tvtf has only one replica.

    >>> import tvtf as tf
    >>> call = tf.__internal__.distribute.interim.maybe_merge_call
    >>> call(lambda strategy, x: x + 1, tf.distribute.get_strategy(), 1)
    2

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/distribute/merge_call_interim.py
    """
    return fn(strategy, *args, **kwargs)


@export("__internal__.distribute.strategy_supports_no_merge_call", waits=False)
def strategy_supports_no_merge_call() -> bool:
    """Returns whether the distribution strategy works without ``merge_call``: it does, because it has one replica.

    >>> import tvtf as tf
    >>> tf.__internal__.distribute.strategy_supports_no_merge_call()
    True

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/distribute/merge_call_interim.py
    """
    return get_strategy().num_replicas_in_sync == 1


@export("__internal__.eager_context.eager_mode", waits=False)
def eager_mode() -> AbstractContextManager[None]:
    """Runs ops eagerly in the ``with`` block, also in a traced function.

    >>> import tvtf as tf
    >>> with tf.__internal__.eager_context.eager_mode():
    ...     tf.executing_eagerly()
    True

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/eager/context.py
    """
    return init_scope()  # type: ignore[no-any-return]


@export("__internal__.tf2.enabled", waits=False)
def enabled() -> bool:
    """Returns True: TensorFlow 2's behaviour is always on.

    >>> import tvtf as tf
    >>> tf.__internal__.tf2.enabled()
    True

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/tf2.py
    """
    return True


_install()
