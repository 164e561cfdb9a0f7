"""Switches of TensorFlow's runtime that are accepted: they are stored, or request what always holds in tvtf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvtf.core.primitive import export
from tvtf.runtime.target import products

_settings: dict[str, Any] = {"traceback_filtering": True, "log_device_placement": False}


@export("debugging.enable_traceback_filtering")
def enable_traceback_filtering() -> None:
    """Sets the value of ``is_traceback_filtering_enabled`` to True.

    Tracebacks don't change: they always show the user's lines, and few lines of tvtf.

    >>> import tvtf as tf
    >>> tf.debugging.enable_traceback_filtering()
    >>> tf.debugging.is_traceback_filtering_enabled()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/enable_traceback_filtering
    """
    _settings["traceback_filtering"] = True


@export("debugging.disable_traceback_filtering")
def disable_traceback_filtering() -> None:
    """Sets the value of ``is_traceback_filtering_enabled`` to False. Tracebacks don't change.

    >>> import tvtf as tf
    >>> tf.debugging.disable_traceback_filtering()
    >>> tf.debugging.is_traceback_filtering_enabled()
    False
    >>> tf.debugging.enable_traceback_filtering()

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/disable_traceback_filtering
    """
    _settings["traceback_filtering"] = False


@export("debugging.is_traceback_filtering_enabled")
def is_traceback_filtering_enabled() -> bool:
    """Returns whether traceback filtering is enabled, as it is by default. The setting doesn't change tracebacks.

    >>> import tvtf as tf
    >>> tf.debugging.is_traceback_filtering_enabled()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/is_traceback_filtering_enabled
    """
    return bool(_settings["traceback_filtering"])


@export("debugging.set_log_device_placement")
def set_log_device_placement(enabled: bool) -> None:
    """Stores the value, which has no effect: functions run on the device of ``tf.device``, eager ops on the CPU.

    >>> import tvtf as tf
    >>> tf.debugging.set_log_device_placement(False)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/set_log_device_placement
    """
    _settings["log_device_placement"] = bool(enabled)


@export("debugging.get_log_device_placement")
def get_log_device_placement() -> bool:
    """Returns the value that ``set_log_device_placement`` has stored, False by default.

    >>> import tvtf as tf
    >>> tf.debugging.get_log_device_placement()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/get_log_device_placement
    """
    return bool(_settings["log_device_placement"])


@export("config.experimental.enable_op_determinism")
def enable_op_determinism() -> None:
    """Does nothing: programs are always deterministic on the same machine.

    >>> import tvtf as tf
    >>> tf.config.experimental.enable_op_determinism()

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism
    """


@export("config.experimental.enable_tensor_float_32_execution")
def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Sets whether functions compiled for a GPU from now on multiply float32 numbers in tf32 (10 bits of mantissa).

    >>> import tvtf as tf
    >>> tf.config.experimental.enable_tensor_float_32_execution(True)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_tensor_float_32_execution
    """
    products.in_tf32 = enabled


@export("config.experimental.tensor_float_32_execution_enabled")
def tensor_float_32_execution_enabled() -> bool:
    """Returns whether functions compiled for a GPU multiply float32 numbers in tf32. The default is True.

    >>> import tvtf as tf
    >>> tf.config.experimental.tensor_float_32_execution_enabled()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/tensor_float_32_execution_enabled
    """
    return products.in_tf32


@export("config.experimental.get_synchronous_execution")
def get_synchronous_execution() -> bool:
    """Returns whether eager ops have finished when they return; always True.

    >>> import tvtf as tf
    >>> tf.config.experimental.get_synchronous_execution()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/get_synchronous_execution
    """
    return True


@export("config.experimental.set_synchronous_execution")
def set_synchronous_execution(enable: bool | None) -> None:
    """Does nothing, because eager ops have always finished when they return.

    >>> import tvtf as tf
    >>> tf.config.experimental.set_synchronous_execution(True)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/set_synchronous_execution
    """


@export("experimental.async_scope")
@contextmanager
def async_scope() -> Iterator[None]:
    """Opens a context that does nothing. In TensorFlow, ops in it may run later; here they run, and fail, at once.

    >>> import tvtf as tf
    >>> with tf.experimental.async_scope():
    ...     print(int(tf.add(1, 2)))
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/async_scope
    """
    yield


@export("experimental.async_clear_error")
def async_clear_error() -> None:
    """Does nothing: no error is ever pending.

    >>> import tvtf as tf
    >>> tf.experimental.async_clear_error()

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/async_clear_error
    """


@export("experimental.enable_strict_mode")
def enable_strict_mode() -> None:
    """Does nothing. It exists for programs that call it.

    >>> import tvtf as tf
    >>> tf.experimental.enable_strict_mode()

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/enable_strict_mode
    """


@export("enable_v2_behavior")
def enable_v2_behavior() -> None:
    """Does nothing: TensorFlow 2's behaviour is always on. Programs call it as ``tf.compat.v2.enable_v2_behavior``.

    >>> import tvtf as tf
    >>> tf.compat.v2.enable_v2_behavior()

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/enable_v2_behavior
    """
