"""Extension types: users' classes composed of tensors, and dispatch of public functions on them."""

from tvtf.api import namespaces
from tvtf.composites.extension import dispatch, elementwise, fields, types

for _path in ("identity", "stop_gradient"):
    types.apply_to_components(_path)
namespaces.install()

__all__ = ["dispatch", "elementwise", "fields", "types"]
