"""The package ``tensorflow`` as other people's code sees it that runs on tvtf: tvtf's names, and private ones that it imports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any, NamedTuple

import tvtf
from tvtf.composite import registered
from tvtf.containers import ListWrapper, _DictWrapper
from tvtf.ops.array import shape
from tvtf.tensor import Tensor

VERSION = "2.21.0"
"""The version of TensorFlow whose names these are."""


class View(ModuleType):
    """A module that has names of its own, and for the rest those of another."""

    def __init__(self, name: str, behind: ModuleType | None = None) -> None:
        super().__init__(name, None if behind is None else behind.__doc__)
        self.__dict__["__path__"] = []
        self.__dict__["_behind"] = behind

    def __getattr__(self, name: str) -> Any:
        behind = self.__dict__["_behind"]
        if behind is None or (name.startswith("__") and name not in vars(behind)):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: tvtf doesn't have it")
        return getattr(behind, name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *(dir(self._behind) if self._behind else ())})


class _Context:
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
    """The size of the batches that a dataset gives; -1 where they differ, or nobody knows."""
    sizes = {spec.shape[0] if spec.shape.rank else None for spec in tvtf.nest.flatten(dataset.element_spec)}
    known = sizes.pop() if len(sizes) == 1 else None
    return tvtf.constant(-1 if known is None else known, tvtf.int64)


def _module(path: str) -> ModuleType:
    return View(f"tensorflow.{path}")


PRIVATE: dict[str, dict[str, Callable[..., Any]]] = {
    "": {},
    "compiler.tf2xla.python.xla": {"dynamic_update_slice": dynamic_update_slice},
    "experimental.dtensor": {},
    "python.data.experimental.ops.distribute": {"compute_batch_size": _batch_size},
    "python.eager.context": {
        "async_wait": lambda: None,
        "context": _Context,
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
    "sysconfig": {"get_build_info": lambda: {"is_cuda_build": False, "is_rocm_build": False}},
}
"""Modules of TensorFlow that tvtf lacks or has in part, with the names that code on tvtf asks of them."""


def _built() -> View:
    root = View("tensorflow", tvtf)
    vars(root)["__version__"] = VERSION
    for path, own in PRIVATE.items():
        vars(_view(root, path.split(".") if path else [])).update(own)
    return root


def _view(module: ModuleType, path: list[str]) -> ModuleType:
    """The view at a path, made where missing."""
    for part in path:
        if part not in vars(module):
            behind = module.__dict__["_behind"]
            known = vars(behind).get(part) if behind else None
            vars(module)[part] = View(f"{module.__name__}.{part}", known if isinstance(known, ModuleType) else None)
        module = vars(module)[part]
    return module


_root = _built()


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
