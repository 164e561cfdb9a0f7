"""``tf.device``: selects the device of compiled functions."""

from __future__ import annotations

from types import TracebackType

from tvtf.core.device_spec import DeviceSpec
from tvtf.core.primitive import export
from tvtf.core.thread_state import state
from tvtf.frontend.configuration.config import get_soft_device_placement
from tvtf.runtime.target import CPU, device_kind, target_of


@export("device")
class device:  # noqa: N801  (named as TensorFlow's)
    """Runs compiled functions that are called inside on a device; eager ops always run on the CPU.

    Arguments and results lie in the CPU's memory: a call on a GPU copies its arguments there and its results back.
    Float32 products of matrices and convolutions run in tf32 there, as TensorFlow's do.

    Args:
      device_name: ``"/CPU:0"``, ``"GPU:0"`` and the like, or a ``tf.DeviceSpec``; None for the enclosing choice.

    Raises:
      ValueError: the name is malformed.
      RuntimeError: the GPU, its driver, the CUDA runtime or (to compile) nvcc is missing; the text says which.
        Only after ``tf.config.set_soft_device_placement(False)``: by default functions run on the CPU then.

    >>> import tvtf as tf
    >>> with tf.device("/CPU:0"):
    ...     print(tf.function(lambda x: x + 1)(tf.constant(1)).numpy())
    2

    Source: https://www.tensorflow.org/api_docs/python/tf/device
    """

    def __init__(self, device_name: str | DeviceSpec | None) -> None:
        if callable(device_name):
            raise RuntimeError("tf.device does not support functions.")
        if not isinstance(device_name, (str, DeviceSpec, type(None))):
            raise ValueError(f"Expecting a string device name. Got {type(device_name)}({device_name})")
        self.name = device_name.to_string() if isinstance(device_name, DeviceSpec) else device_name

    def __enter__(self) -> None:
        """Selects the device for functions called in the context.

        The device selected outside is restored at the end.
        """
        self._outside = state.device
        if self.name is not None:
            kind, number = device_kind(self.name)
            state.device = f"{kind}:{number}" if kind != CPU and self._is_usable() else None

    def _is_usable(self) -> bool:
        """Returns whether functions can be compiled for the GPU and run there.

        If they can't, the RuntimeError that says why is raised. With soft device placement, False is returned instead,
        and functions run on the CPU.
        """
        try:
            target_of(self.name)
        except RuntimeError:
            if not get_soft_device_placement():
                raise
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state.device = self._outside
