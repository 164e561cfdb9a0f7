"""``tf.DeviceSpec``: the parts of a device's name."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import export

_PARTS = ("job", "replica", "task", "device_type", "device_index")


@export("DeviceSpec")
class DeviceSpec:
    """The parts of a device's name, each of which may be None.

    >>> import tvtf as tf
    >>> spec = tf.DeviceSpec(job="localhost", device_type="CPU", device_index=0)
    >>> spec.to_string()
    '/job:localhost/device:CPU:0'
    >>> tf.DeviceSpec.from_string("/gpu:1").device_index
    1

    Source: https://www.tensorflow.org/api_docs/python/tf/DeviceSpec
    """

    def __init__(
        self, job: str | None = None, replica: int | None = None, task: int | None = None,
        device_type: str | None = None, device_index: int | None = None,
    ) -> None:  # fmt: skip
        """Creates a spec from the parts of a device's name."""
        # Arguments are converted as in TensorFlow: a task may be the text "1", and a type "gpu".
        self.job = None if job is None else str(job)
        self.replica = None if replica is None else int(replica)
        self.task = None if task is None else int(task)
        is_lower_case = device_type in ("cpu", "gpu")
        self.device_type = device_type.upper() if is_lower_case and device_type else device_type
        self.device_index = None if device_index is None else int(device_index)

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parses a device's name, such as ``"/job:localhost/task:0/device:CPU:0"``; None and "" have no parts.

        Raises:
          TypeError: the name is not a string.
          ValueError: the name has an unknown part.
        """
        if not isinstance(spec or "", str):
            raise TypeError(f"A device's name must be a string, but got {spec!r}")
        parts: dict[str, Any] = {}
        for part in filter(None, (spec or "").split("/")):
            name, *values = part.split(":")
            if name in ("job", "replica", "task") and len(values) == 1:
                parts[name] = values[0]
            elif name == "device" and len(values) == 2:
                parts["device_type"] = values[0]
                parts["device_index"] = _index(values[1])
            elif name.upper() in ("CPU", "GPU", "TPU") and len(values) < 2:  # the short form "/cpu:0"
                parts["device_type"] = name.upper()
                parts["device_index"] = _index(*values)
            else:
                raise ValueError(f"Unknown attribute '{name}' is encountered while parsing the device spec: '{spec}'.")
        return cls(**parts)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Parses a device's name, as :meth:`from_string` does. This object doesn't change."""
        return self.from_string(spec)

    def to_string(self) -> str:
        """Formats the device's name, such as ``"/job:localhost/device:CPU:0"``, without the parts that are None."""
        lead = "".join(f"/{part}:{getattr(self, part)}" for part in _PARTS[:3] if getattr(self, part) is not None)
        if self.device_type is None:
            return lead
        return f"{lead}/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}"

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Returns this spec updated with the parts of ``dev`` that are not None."""
        own = self._parts()
        others = dev._parts()
        return DeviceSpec(**{part: others[part] if others[part] is not None else own[part] for part in _PARTS})

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """Returns a copy of the spec with some parts replaced, such as ``replace(task=1)``."""
        return DeviceSpec(**(self._parts() | kwargs))

    def _parts(self) -> dict[str, Any]:
        return {part: getattr(self, part) for part in _PARTS}

    def __repr__(self) -> str:
        return f"<DeviceSpec({', '.join(f'{part}={value}' for part, value in self._parts().items())})>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(tuple(self._parts().values()))


def _index(text: str = "*") -> int | None:
    """Parses a device's index. Returns None for "*", which stands for any device."""
    return None if text == "*" else int(text)
