"""The package ``tensorflow`` as other people's code sees it that runs on tvtf: tvtf's names, and private ones that it imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import reduce
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import tvtf
from tvtf.core.composite import registered
from tvtf.core.tensor import Tensor
from tvtf.ops.array import shape
from tvtf.state.containers import ListWrapper, _DictWrapper

VERSION = "2.21.0"
"""The version of TensorFlow whose names these are."""


class View(ModuleType):
    """A module that has names of its own, and for the rest those of others, the first that has one.

    ``behind`` are modules, or dotted paths in tvtf: those are looked up when somebody asks for a name.
    """

    def __init__(self, name: str, *behind: ModuleType | str) -> None:
        super().__init__(name)
        self.__dict__["__path__"] = []
        self.__dict__["_behind"] = behind

    def __getattr__(self, name: str) -> Any:
        behind = [public(x) if isinstance(x, str) else x for x in self.__dict__["_behind"]]
        if name.startswith("__"):
            behind = [module for module in behind if name in vars(module)]
        if not behind:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: tvtf doesn't have it")
        *others, last = behind
        for module in others:
            if hasattr(module, name):
                return self._seen(name, getattr(module, name))
        return self._seen(name, getattr(last, name))

    def __reduce__(self) -> Any:
        """Pickled by its name, as programs that pickle functions with their globals do with modules."""
        return import_module, (self.__name__,)

    def forget(self) -> None:
        """Looks names up anew that were found in other modules."""
        for name in self.__dict__.pop("_found", ()):
            self.__dict__.pop(name, None)

    def _seen(self, name: str, value: Any) -> Any:
        """A value, or the view of a module of tvtf's; Keras is itself everywhere."""
        if value is tvtf:
            return _root
        if isinstance(value, (FunctionType, type)):  # looked up in each step of a training loop
            vars(self).setdefault("_found", []).append(name)
            return vars(self).setdefault(name, value)
        if not isinstance(value, ModuleType) or value.__name__.partition(".")[0] != "tvtf" or name == "keras":
            return value
        return vars(self).setdefault(name, View(f"{self.__name__}.{name}", value))

    def __dir__(self) -> list[str]:
        return sorted(
            {*vars(self), *(name for x in self._behind for name in dir(public(x) if isinstance(x, str) else x))}
        )


def public(path: str) -> Any:
    """What lies at a dotted path in tvtf; tvtf itself at the empty one."""
    return reduce(getattr, path.split(".") if path else [], tvtf)


class Context:
    """What Keras asks of TensorFlow's eager context."""

    def clear_kernel_cache(self) -> None:
        """There are no kernels of single ops."""

    def executing_eagerly(self) -> bool:
        return tvtf.executing_eagerly()


class _Determinism:
    """Results are the same in each run; TensorFlow has a switch for that."""

    is_asked_for = False

    def enable(self) -> None:
        self.is_asked_for = True

    def disable(self) -> None:
        self.is_asked_for = False


_determinism = _Determinism()


def _type_specs() -> dict[str, type]:
    """Those that have a name: TensorFlow's own by its names, and users'."""
    own = (tvtf.TensorSpec, tvtf.RaggedTensorSpec, tvtf.SparseTensorSpec)
    return {**registered, **{f"tf.{kind.__name__}": kind for kind in own}}


def _type_spec_named(name: str) -> type:
    if name not in _type_specs():
        raise ValueError(f"No TypeSpec has been registered with name {name!r}")
    return _type_specs()[name]


def _name_of_type_spec(cls: type) -> str:
    for name, kind in _type_specs().items():
        if kind is cls:
            return name
    raise ValueError(f"TypeSpec {cls.__module__}.{cls.__name__} has not been registered.")


def dynamic_update_slice(x: Any, updates: Any, start_indices: Any) -> Any:
    """``x`` with ``updates`` in the place that begins at ``start_indices``, moved to where they fit whole, as XLA has it."""
    x, updates = tvtf.convert_to_tensor(x), tvtf.convert_to_tensor(updates)
    room = shape(x) - shape(updates)
    starts = tvtf.cast(tvtf.stack(start_indices), tvtf.int32)
    first = tvtf.unstack(tvtf.maximum(tvtf.minimum(starts, room), 0), x.shape.rank)
    sizes = tvtf.unstack(shape(updates), x.shape.rank)
    places = tvtf.meshgrid(*(start + tvtf.range(size) for start, size in zip(first, sizes)), indexing="ij")
    return tvtf.tensor_scatter_nd_update(x, tvtf.stack(places, axis=-1), updates) if places else updates


class CSRSparseMatrix(NamedTuple):
    """A matrix that ops on sparse ones give each other: here a SparseTensor of two axes, or of three, a batch."""

    tensor: Any


def _to_csr(indices: Any, values: Any, dense_shape: Any, name: str | None = None) -> CSRSparseMatrix:
    return CSRSparseMatrix(tvtf.SparseTensor(indices, values, dense_shape))


def _from_csr(sparse_matrix: CSRSparseMatrix, type: Any, name: str | None = None) -> Any:  # noqa: A002
    return sparse_matrix.tensor


def _csr_product(a: CSRSparseMatrix, b: CSRSparseMatrix, type: Any, name: str | None = None) -> CSRSparseMatrix:  # noqa: A002
    left, right = (tvtf.sparse.to_dense(tvtf.sparse.reorder(x.tensor)) for x in (a, b))
    return CSRSparseMatrix(tvtf.sparse.from_dense(tvtf.matmul(left, right)))


def _batch_size(dataset: Any) -> Any:
    """The size of the batches that a dataset gives, but for the last; -1 where they differ, or it is unknown."""
    specs = tvtf.nest.flatten(dataset.element_spec)
    shapes = [getattr(spec, "shape", tvtf.TensorShape(None)) for spec in specs]
    sizes = {shape[0] if shape.rank else None for shape in shapes}
    static = sizes.pop() if len(sizes) == 1 else None
    known = dataset.size_of_batches() if static is None else static
    return tvtf.constant(-1 if known is None else known, tvtf.int64)


PRIVATE: dict[str, dict[str, Any]] = {
    "compiler.tf2xla.python.xla": {"dynamic_update_slice": dynamic_update_slice},
    "experimental.dtensor": {},
    "python.data.experimental.ops.distribute": {"compute_batch_size": _batch_size},
    "python.eager.context": {
        "async_wait": lambda: None,
        "context": Context,
        "eager_mode": nullcontext,
        "executing_eagerly": tvtf.executing_eagerly,
    },
    "python.framework.config": {
        "disable_op_determinism": _determinism.disable,
        "enable_op_determinism": _determinism.enable,
        "is_op_determinism_enabled": lambda: _determinism.is_asked_for,
    },
    "python.framework.tensor_util": {"is_tf_type": tvtf.is_tensor},
    "python.framework.type_spec_registry": {"get_name": _name_of_type_spec, "lookup": _type_spec_named},
    "python.ops.linalg.sparse.sparse_csr_matrix_ops": {
        "csr_sparse_matrix_to_sparse_tensor": _from_csr,
        "sparse_matrix_sparse_mat_mul": _csr_product,
        "sparse_tensor_to_csr_sparse_matrix": _to_csr,
    },
    "python.ops.math_ops": {"is_nan": tvtf.math.is_nan},
    "python.trackable.data_structures": {"ListWrapper": ListWrapper, "_DictWrapper": _DictWrapper},
    "python.types.core": {"Tensor": Tensor},
    "version": {"VERSION": VERSION, "GIT_VERSION": f"v{VERSION}", "__version__": VERSION},
    "sysconfig": {"get_build_info": lambda: {"is_cuda_build": False, "is_rocm_build": False}},
}
"""Modules of TensorFlow that tvtf lacks or has in part, with the names that code on tvtf asks of them."""


Names = Mapping[str, Mapping[str, Any]]
"""By the path of a module, the names in it."""


def add(names: Names, behind: Mapping[str, Sequence[str]]) -> None:
    """Gives modules of the view names of their own, and, by dotted path, modules of tvtf that answer for the rest."""
    for path, places in behind.items():
        vars(_at(path))["_behind"] = tuple(places)
        _at(path).forget()
    for path, own in names.items():
        vars(_at(path)).update(own)


def _at(path: str) -> View:
    """The view at a path, made where missing."""
    module = _root
    for part in path.split(".") if path else []:
        if not isinstance(vars(module).get(part), View):
            known = [found for x in module._behind if isinstance(found := _known(x, part), ModuleType)]
            vars(module)[part] = View(f"{module.__name__}.{part}", *known)
        module = vars(module)[part]
    return module


def _known(behind: ModuleType | str, name: str) -> Any:
    """What a module has under a name already, without importing anything."""
    return None if isinstance(behind, str) else vars(behind).get(name)


_root = View("tensorflow", tvtf)
vars(_root)["__version__"] = VERSION
add(PRIVATE, {})


def find(name: str) -> Any:
    """The module ``tensorflow`` or one in it.

    Raises:
      ModuleNotFoundError: tvtf has none of this name.
    """
    found: Any = _root
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise ModuleNotFoundError(f"No module named {name!r}: {error}", name=name) from None
    return found
