"""``tf.keras``: the package ``keras`` 3, unmodified, on tvtf.

Install it with ``pip install 'tvtf[keras]'``. Names are those of TensorFlow's ``tf.keras``, which are objects of Keras's own.

Source: https://keras.io/api/
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tvtf.keras import loader

_name = loader.load()
_api = import_module(f"{_name}._tf_keras.keras")
__version__ = _api.__version__


class _Submodules(Loader):
    """Has ``import tvtf.keras.layers`` find Keras's module of that name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        public = name.removeprefix(f"{__name__}.")
        if public == name or public.partition(".")[0] not in vars(_api):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = import_module(_api.__name__ + spec.name.removeprefix(__name__))
        self._own = found, found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """It is there already; it stays who it is, for `importlib.reload`."""
        found, spec = self._own
        found.__spec__ = spec


sys.meta_path.insert(0, _Submodules())  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    return getattr(_api, name)


def __dir__() -> list[str]:
    return dir(_api)
