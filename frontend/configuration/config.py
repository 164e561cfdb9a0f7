"""``tf.config``: lists devices, and accepts TensorFlow's runtime options.

Options that have no effect in tvtf are stored and returned, so that programs that set them run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvtf.core.primitive import export
from tvtf.frontend.function.polymorphic_function import functions_run_eagerly, run_functions_eagerly
from tvtf.runtime.target import gpu_arch


class _Settings:
    """The values that the program has set through ``tf.config``, with their defaults."""

    def __init__(self) -> None:
        """Sets all settings of ``tf.config`` to TensorFlow's defaults."""
        self.visible: dict[str, list[PhysicalDevice]] = {}  # by the type of device, such as "GPU"
        self.soft_placement = True
        self.inter_op = self.intra_op = 0
        self.jit: Any = ""
        self.options: dict[str, Any] = {"disable_model_pruning": False, "disable_meta_optimizer": False}
        self.growth: dict[str, bool] = {}  # the setting `memory_growth`, by the name of the GPU
        self.divisions: dict[PhysicalDevice, list[LogicalDeviceConfiguration]] = {}  # each device's logical devices


_settings = _Settings()


@export("config.PhysicalDevice")
class PhysicalDevice(NamedTuple):
    """A processor or accelerator of this machine.

    >>> import tvtf as tf
    >>> tf.config.list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]

    Source: https://www.tensorflow.org/api_docs/python/tf/config/PhysicalDevice
    """

    name: str
    device_type: str


@export("config.LogicalDevice")
class LogicalDevice(NamedTuple):
    """A device as ``tf.device`` names it.

    >>> import tvtf as tf
    >>> tf.config.list_logical_devices("CPU")
    [LogicalDevice(name='/device:CPU:0', device_type='CPU')]

    Source: https://www.tensorflow.org/api_docs/python/tf/config/LogicalDevice
    """

    name: str
    device_type: str


@export("config.LogicalDeviceConfiguration", "config.experimental.VirtualDeviceConfiguration")
class LogicalDeviceConfiguration(NamedTuple):
    """The properties of a logical device, see ``tf.config.set_logical_device_configuration``.

    >>> import tvtf as tf
    >>> tf.config.LogicalDeviceConfiguration(memory_limit=64).memory_limit
    64

    Source: https://www.tensorflow.org/api_docs/python/tf/config/LogicalDeviceConfiguration
    """

    memory_limit: int | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


def _gpus() -> int:
    """Returns the number of GPUs."""
    count = 0
    while True:
        try:
            gpu_arch(count)  # fails if there is no GPU of this index
        except RuntimeError:
            return count
        count += 1


@export("config.list_physical_devices", "config.experimental.list_physical_devices")
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Returns the devices of this machine: all, or those of one type such as "GPU".

    >>> import tvtf as tf
    >>> len(tf.config.list_physical_devices("CPU"))
    1

    Source: https://www.tensorflow.org/api_docs/python/tf/config/list_physical_devices
    """
    devices = []
    if device_type in (None, "CPU"):
        devices.append(PhysicalDevice("/physical_device:CPU:0", "CPU"))
    if device_type in (None, "GPU"):  # looking for GPUs takes time
        devices += [PhysicalDevice(f"/physical_device:GPU:{ordinal}", "GPU") for ordinal in range(_gpus())]
    return devices


@export("config.get_visible_devices", "config.experimental.get_visible_devices")
def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Returns the devices that the program sees: all, or those of one type. By default all devices are visible.

    >>> import tvtf as tf
    >>> [device.device_type for device in tf.config.get_visible_devices("CPU")]
    ['CPU']

    Source: https://www.tensorflow.org/api_docs/python/tf/config/get_visible_devices
    """
    return [
        device
        for device in list_physical_devices(device_type)
        if device in _settings.visible.get(device.device_type, [device])
    ]


@export("config.set_visible_devices", "config.experimental.set_visible_devices")
def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Restricts which devices of a type, or of all types, the program sees.

    Raises:
      ValueError: a device doesn't exist, or is not of that type.

    >>> import tvtf as tf
    >>> tf.config.set_visible_devices([], "GPU")

    Source: https://www.tensorflow.org/api_docs/python/tf/config/set_visible_devices
    """
    is_one_device = isinstance(devices, PhysicalDevice) or not isinstance(devices, (list, tuple))
    chosen = [devices] if is_one_device else list(devices)
    known = list_physical_devices()
    for device in chosen:
        if device not in known:
            raise ValueError(f"Unrecognized device: {device!r}")
        if device_type is not None and device.device_type != device_type:
            raise ValueError(f"Unrecognized device: {device!r}")
    restricted_types = ("CPU", "GPU") if device_type is None else (device_type,)
    for restricted in restricted_types:
        _settings.visible[restricted] = [device for device in chosen if device.device_type == restricted]


@export("config.list_logical_devices", "config.experimental.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Returns the visible devices under the names that ``tf.device`` takes: all, or those of one type.

    >>> import tvtf as tf
    >>> tf.config.list_logical_devices("CPU")[0].name
    '/device:CPU:0'

    Source: https://www.tensorflow.org/api_docs/python/tf/config/list_logical_devices
    """
    devices = []
    for device in get_visible_devices(device_type):
        name = device.name.replace("/physical_device:", "/device:")
        number_of_parts = len(_settings.divisions.get(device, [None]))
        # Only the CPU, which is one device, has several parts.
        names = [name, *(f"/device:CPU:{i}" for i in range(1, number_of_parts))]
        devices += [LogicalDevice(each, device.device_type) for each in names]
    return devices


@export("config.get_logical_device_configuration", "config.experimental.get_virtual_device_configuration")
def get_logical_device_configuration(device: PhysicalDevice) -> list[LogicalDeviceConfiguration] | None:
    """Returns what ``tf.config.set_logical_device_configuration`` has set for a device, or None.

    Raises:
      ValueError: the device doesn't exist.

    >>> import tvtf as tf
    >>> tf.config.get_logical_device_configuration(tf.config.list_physical_devices("CPU")[0])

    Source: https://www.tensorflow.org/api_docs/python/tf/config/get_logical_device_configuration
    """
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")
    return _settings.divisions.get(device)


@export("config.set_logical_device_configuration", "config.experimental.set_virtual_device_configuration")
def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Sets as how many logical devices a physical device is listed. All of the CPU's run on the same cores.

    An empty list undoes that. A limit of a GPU's memory is stored, and has no effect.

    Raises:
      ValueError: the device doesn't exist, a property of the CPU is set, or a GPU's memory limit is missing.
      NotImplementedError: a GPU is divided into several devices.

    >>> import tvtf as tf
    >>> (cpu,) = tf.config.list_physical_devices("CPU")
    >>> tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    >>> [device.name for device in tf.config.list_logical_devices("CPU")]
    ['/device:CPU:0', '/device:CPU:1']
    >>> tf.config.set_logical_device_configuration(cpu, [])

    Source: https://www.tensorflow.org/api_docs/python/tf/config/set_logical_device_configuration
    """
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")
    for each in logical_devices:
        for name, value in each._asdict().items():
            if device.device_type == "CPU" and value is not None:
                subject = name.replace("memory_limit", "memory limit")
                raise ValueError(f"Setting {subject} on CPU virtual devices is currently not supported")
        if device.device_type == "GPU" and each.memory_limit is None:
            raise ValueError("Setting memory limit is required for GPU virtual devices")
    if device.device_type == "GPU" and len(logical_devices) > 1:
        raise NotImplementedError("tvtf runs a function on a whole GPU: give one logical device")
    _settings.divisions.pop(device, None)
    if logical_devices:
        _settings.divisions[device] = list(logical_devices)


@export("config.experimental.get_device_details")
def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """Returns details of a device as a dict: the compute capability of a GPU, and nothing for a CPU.

    >>> import tvtf as tf
    >>> tf.config.experimental.get_device_details(tf.config.list_physical_devices("CPU")[0])
    {}

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/get_device_details
    """
    if device.device_type != "GPU":
        return {}
    _, _, ordinal = device.name.rpartition(":")
    architecture = gpu_arch(int(ordinal))
    # For example, "sm_90a" has the compute capability (9, 0).
    digits = architecture.removeprefix("sm_").rstrip("af")
    major, minor = int(digits[:-1]), int(digits[-1])
    return {"compute_capability": (major, minor)}


@export("config.get_soft_device_placement")
def get_soft_device_placement() -> bool:
    """Returns whether functions run on the CPU if a GPU is missing, as set by ``set_soft_device_placement``.

    >>> import tvtf as tf
    >>> tf.config.get_soft_device_placement()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/config/get_soft_device_placement
    """
    return _settings.soft_placement


@export("config.set_soft_device_placement")
def set_soft_device_placement(enabled: bool) -> None:
    """Sets whether functions run on the CPU, instead of failing, if the GPU that ``tf.device`` names is missing.

    >>> import tvtf as tf
    >>> tf.config.set_soft_device_placement(True)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/set_soft_device_placement
    """
    _settings.soft_placement = bool(enabled)


@export("config.threading.get_inter_op_parallelism_threads")
def get_inter_op_parallelism_threads() -> int:
    """Returns the number that ``set_inter_op_parallelism_threads`` has stored, 0 by default.

    >>> import tvtf as tf
    >>> tf.config.threading.get_inter_op_parallelism_threads()
    0

    Source: https://www.tensorflow.org/api_docs/python/tf/config/threading/get_inter_op_parallelism_threads
    """
    return _settings.inter_op


@export("config.threading.get_intra_op_parallelism_threads")
def get_intra_op_parallelism_threads() -> int:
    """Returns the number that ``set_intra_op_parallelism_threads`` has stored, 0 by default.

    >>> import tvtf as tf
    >>> tf.config.threading.get_intra_op_parallelism_threads()
    0

    Source: https://www.tensorflow.org/api_docs/python/tf/config/threading/get_intra_op_parallelism_threads
    """
    return _settings.intra_op


@export("config.threading.set_inter_op_parallelism_threads")
def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Stores the number of threads between ops, which has no effect, because kernels run one after the other.

    >>> import tvtf as tf
    >>> tf.config.threading.set_inter_op_parallelism_threads(0)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/threading/set_inter_op_parallelism_threads
    """
    _settings.inter_op = num_threads


@export("config.threading.set_intra_op_parallelism_threads")
def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Stores the number of threads within an op, which has no effect.

    The environment variable ``TVTF_NUM_THREADS``, set before the program starts, limits the cores that kernels use.

    >>> import tvtf as tf
    >>> tf.config.threading.set_intra_op_parallelism_threads(0)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/threading/set_intra_op_parallelism_threads
    """
    _settings.intra_op = num_threads


@export("config.optimizer.get_jit")
def get_jit() -> Any:
    """Returns the option that ``set_jit`` has stored, an empty string by default.

    >>> import tvtf as tf
    >>> tf.config.optimizer.get_jit()
    ''

    Source: https://www.tensorflow.org/api_docs/python/tf/config/optimizer/get_jit
    """
    return _settings.jit


@export("config.optimizer.set_jit")
def set_jit(enabled: Any) -> None:
    """Stores the option ``jit``, which has no effect, because every function is compiled.

    >>> import tvtf as tf
    >>> tf.config.optimizer.set_jit("")

    Source: https://www.tensorflow.org/api_docs/python/tf/config/optimizer/set_jit
    """
    # TensorFlow's names for the two booleans.
    _settings.jit = {True: "autoclustering", False: ""}.get(enabled, enabled)


@export("config.optimizer.get_experimental_options")
def get_experimental_options() -> dict[str, Any]:
    """Returns a copy of the optimizer options that ``set_experimental_options`` has stored, with their defaults.

    >>> import tvtf as tf
    >>> tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/config/optimizer/get_experimental_options
    """
    return dict(_settings.options)


@export("config.optimizer.set_experimental_options")
def set_experimental_options(options: dict[str, Any]) -> None:
    """Stores optimizer options, which have no effect, because the compiler's passes are always on.

    >>> import tvtf as tf
    >>> tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})

    Source: https://www.tensorflow.org/api_docs/python/tf/config/optimizer/set_experimental_options
    """
    _settings.options |= options


@export("config.experimental.set_memory_growth")
def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Stores whether a GPU's memory use may grow. This has no effect, because memory is always allocated as needed.

    Raises:
      ValueError: the device is not a GPU.

    >>> import tvtf as tf
    >>> for gpu in tf.config.list_physical_devices("GPU"):
    ...     tf.config.experimental.set_memory_growth(gpu, True)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/set_memory_growth
    """
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")
    if device.device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU and non-Pluggable devices")
    _settings.growth[device.name] = bool(enable)


@export("config.experimental.get_memory_growth")
def get_memory_growth(device: PhysicalDevice) -> bool:
    """Returns the value that ``set_memory_growth`` has stored for a GPU.

    Raises:
      ValueError: ``device`` is not one of ``list_physical_devices``.

    >>> import tvtf as tf
    >>> [tf.config.experimental.get_memory_growth(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    []

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/get_memory_growth
    """
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")
    return _settings.growth[device.name]


@export("config.experimental_run_functions_eagerly")
def experimental_run_functions_eagerly(run_eagerly: bool) -> None:
    """Sets whether functions run eagerly. This is an older name of ``tf.config.run_functions_eagerly``.

    >>> import tvtf as tf
    >>> tf.config.experimental_run_functions_eagerly(False)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental_run_functions_eagerly
    """
    run_functions_eagerly(run_eagerly)


@export("config.experimental_functions_run_eagerly")
def experimental_functions_run_eagerly() -> bool:
    """Returns whether functions run eagerly. This is an older name of ``tf.config.functions_run_eagerly``.

    >>> import tvtf as tf
    >>> tf.config.experimental_functions_run_eagerly()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental_functions_run_eagerly
    """
    return functions_run_eagerly()


@export("test.is_gpu_available")
def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Sequence[int] | None = None) -> bool:
    """Returns whether there is a GPU, and one of at least ``min_cuda_compute_capability`` if that is given.

    >>> import tvtf as tf
    >>> tf.test.is_gpu_available() == bool(tf.config.list_physical_devices("GPU"))
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/test/is_gpu_available
    """
    min_capability = tuple(min_cuda_compute_capability or (0, 0))
    gpus = list_physical_devices("GPU")
    return any(get_device_details(gpu)["compute_capability"] >= min_capability for gpu in gpus)


@export("test.gpu_device_name")
def gpu_device_name() -> str:
    """Returns the name of the first GPU, or an empty string if there is none.

    >>> import tvtf as tf
    >>> tf.test.gpu_device_name() in ("", "/device:GPU:0")
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/test/gpu_device_name
    """
    return next((gpu.name for gpu in list_logical_devices("GPU")), "")
