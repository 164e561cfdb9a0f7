"""The package ``tensorflow`` as programs that run on tvtf see it: tvtf's names, and private ones that they import."""

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
"""The version of TensorFlow whose names tvtf provides."""


class View(ModuleType):
    """A module with its own names, which looks others up in the modules ``behind``, in order.

    ``behind`` are modules, or dotted paths in tvtf, which are resolved when a name is looked up.
    """

    def __init__(self, name: str, *behind: ModuleType | str) -> None:
        super().__init__(name)
        self.__dict__["__path__"] = []
        self.__dict__["_behind"] = behind

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the first module behind this view that has it.

        If none has it, the last one raises the AttributeError, whose message may say why tvtf doesn't have the name.
        """
        modules = [public(x) if isinstance(x, str) else x for x in self.__dict__["_behind"]]
        if name.startswith("__"):
            modules = [module for module in modules if name in vars(module)]
        if not modules:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: tvtf doesn't have it")
        *others, last = modules
        for module in others:
            if hasattr(module, name):
                return self._cached_view(name, getattr(module, name))
        return self._cached_view(name, getattr(last, name))

    def __reduce__(self) -> Any:
        """Pickles a view by its name, as programs expect that pickle functions with their globals."""
        return import_module, (self.__name__,)

    def forget(self) -> None:
        """Drops names that were cached from other modules."""
        for name in self.__dict__.pop("_cached_names", ()):
            self.__dict__.pop(name, None)

    def _cached_view(self, name: str, value: Any) -> Any:
        """Returns an attribute's value, as a view if it is a module of tvtf; functions, classes and views are cached.

        Keras's modules and those of other packages are returned unchanged.
        """
        if value is tvtf:
            return _root
        if isinstance(value, (FunctionType, type)):  # cached, because training loops look them up in each step
            vars(self).setdefault("_cached_names", []).append(name)
            return vars(self).setdefault(name, value)
        if not isinstance(value, ModuleType) or value.__name__.partition(".")[0] != "tvtf" or name == "keras":
            return value
        return vars(self).setdefault(name, View(f"{self.__name__}.{name}", value))

    def __dir__(self) -> list[str]:
        return sorted(
            {*vars(self), *(name for x in self._behind for name in dir(public(x) if isinstance(x, str) else x))}
        )


def public(path: str) -> Any:
    """Returns the object at a dotted path in tvtf; tvtf itself for the empty path."""
    return reduce(getattr, path.split(".") if path else [], tvtf)


class Context:
    """The parts of TensorFlow's eager context that Keras uses."""

    def clear_kernel_cache(self) -> None:
        """Does nothing: there are no kernels of single ops."""

    def executing_eagerly(self) -> bool:
        return tvtf.executing_eagerly()


class _Determinism:
    """TensorFlow's switch for deterministic results; tvtf's are always deterministic."""

    is_enabled = False

    def enable(self) -> None:
        self.is_enabled = True

    def disable(self) -> None:
        self.is_enabled = False


_determinism = _Determinism()


def _type_specs() -> dict[str, type]:
    """Returns the type specs by name: TensorFlow's and those that users registered."""
    builtin = (tvtf.TensorSpec, tvtf.RaggedTensorSpec, tvtf.SparseTensorSpec)
    return {**registered, **{f"tf.{kind.__name__}": kind for kind in builtin}}


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
    """Replaces the part of ``x`` that starts at ``start_indices`` by ``updates``; returns the new tensor.

    As in XLA, a start is clamped so that ``updates`` fit.
    """
    x, updates = tvtf.convert_to_tensor(x), tvtf.convert_to_tensor(updates)
    limits = shape(x) - shape(updates)
    starts = tvtf.cast(tvtf.stack(start_indices), tvtf.int32)
    clamped_starts = tvtf.unstack(tvtf.maximum(tvtf.minimum(starts, limits), 0), x.shape.rank)
    sizes = tvtf.unstack(shape(updates), x.shape.rank)
    ranges = (start + tvtf.range(size) for start, size in zip(clamped_starts, sizes))
    coordinates = tvtf.meshgrid(*ranges, indexing="ij")  # empty for scalars
    return tvtf.tensor_scatter_nd_update(x, tvtf.stack(coordinates, axis=-1), updates) if coordinates else updates


class CSRSparseMatrix(NamedTuple):
    """A CSR matrix, which ops on sparse matrices exchange; here a SparseTensor of rank 2, or 3 for a batch."""

    tensor: Any


def _to_csr(indices: Any, values: Any, dense_shape: Any, name: str | None = None) -> CSRSparseMatrix:
    return CSRSparseMatrix(tvtf.SparseTensor(indices, values, dense_shape))


def _from_csr(sparse_matrix: CSRSparseMatrix, type: Any, name: str | None = None) -> Any:  # noqa: A002
    return sparse_matrix.tensor


def _csr_product(a: CSRSparseMatrix, b: CSRSparseMatrix, type: Any, name: str | None = None) -> CSRSparseMatrix:  # noqa: A002
    left, right = (tvtf.sparse.to_dense(tvtf.sparse.reorder(x.tensor)) for x in (a, b))
    return CSRSparseMatrix(tvtf.sparse.from_dense(tvtf.matmul(left, right)))


def _batch_size(dataset: Any) -> Any:
    """Returns the size of a dataset's batches as an int64 scalar, that of the last one aside; -1 if it varies or is unknown."""
    specs = tvtf.nest.flatten(dataset.element_spec)
    shapes = [getattr(spec, "shape", tvtf.TensorShape(None)) for spec in specs]
    sizes = {shape[0] if shape.rank else None for shape in shapes}
    static = sizes.pop() if len(sizes) == 1 else None
    size = dataset.size_of_batches() if static is None else static
    return tvtf.constant(-1 if size is None else size, tvtf.int64)


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
        "is_op_determinism_enabled": lambda: _determinism.is_enabled,
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
"""Modules of TensorFlow that tvtf lacks wholly or in part, with the names that programs on tvtf use."""


Names = Mapping[str, Mapping[str, Any]]
"""The names in each module, by the module's path."""


def add(names: Names, behind: Mapping[str, Sequence[str]]) -> None:
    """Adds names to modules of the view, and sets the modules of tvtf that provide the other names."""
    for path, places in behind.items():
        vars(_view_at(path))["_behind"] = tuple(places)
        _view_at(path).forget()
    for path, module_names in names.items():
        vars(_view_at(path)).update(module_names)


def _view_at(path: str) -> View:
    """Returns the view of the module ``tensorflow.<path>``; creates it, and those above it, if they are missing."""
    module = _root
    for part in path.split(".") if path else []:
        if not isinstance(vars(module).get(part), View):
            attributes = [_imported_attribute(x, part) for x in module._behind]
            modules = [attribute for attribute in attributes if isinstance(attribute, ModuleType)]
            vars(module)[part] = View(f"{module.__name__}.{part}", *modules)
        module = vars(module)[part]
    return module


def _imported_attribute(behind: ModuleType | str, name: str) -> Any:
    """Returns an attribute of a module that is imported already, or None."""
    return None if isinstance(behind, str) else vars(behind).get(name)


_root = View("tensorflow", tvtf)
vars(_root)["__version__"] = VERSION
add(PRIVATE, {})


def find(name: str) -> Any:
    """Returns the view of the module ``tensorflow``, or a view or module for one of its submodules.

    Raises:
      ModuleNotFoundError: tvtf has no module of this name.
    """
    module: Any = _root
    for part in name.split(".")[1:]:
        try:
            module = getattr(module, part)
        except AttributeError as error:
            raise ModuleNotFoundError(f"No module named {name!r}: {error}", name=name) from None
    return module
