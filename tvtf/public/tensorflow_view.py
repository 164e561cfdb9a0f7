"""The package ``tensorflow`` as programs that run on tvtf see it: tvtf's names, and private ones that they import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, reduce
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
    """A module that has some names of its own, and looks other names up in the modules ``fallbacks``, in order.

    An element of ``fallbacks`` is a module, or a dotted path in tvtf. A path is resolved when a name is looked up.
    """

    def __init__(self, name: str, *fallbacks: ModuleType | str) -> None:
        super().__init__(name)
        self.__dict__["__path__"] = []
        self.__dict__["_fallbacks"] = fallbacks

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute from the first of the fallback modules that has the attribute.

        If no module has the attribute, the last module raises the AttributeError. Its message may explain why tvtf lacks the
        name.
        """
        if name == "__all__":
            return self._public_names()
        if (choice := self.__dict__.get("_choices", {}).pop(name, None)) and (chosen := choice()) is not None:
            return vars(self).setdefault(name, chosen)
        modules = [public(x) if isinstance(x, str) else x for x in self.__dict__["_fallbacks"]]
        if name.startswith("__"):  # for such names the modules' own ``__getattr__`` is not called
            modules = [module for module in modules if name in vars(module)]
        if not modules:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: tvtf doesn't have it")
        *first_modules, last_module = modules
        for module in first_modules:
            if hasattr(module, name):
                return self._cached_view(name, getattr(module, name))
        return self._cached_view(name, getattr(last_module, name))  # may raise

    def _public_names(self) -> list[str]:
        """Returns the names that ``from ... import *`` imports: by default Python would take only those looked up before."""
        return [name for name in dir(self) if not name.startswith("_") and hasattr(self, name)]

    def __reduce__(self) -> Any:
        """Pickles a view by its name, for libraries that pickle functions with their globals."""
        return import_module, (self.__name__,)

    def drop_cached_names(self) -> None:
        """Removes the cached names of other modules, after the fallback modules were changed."""
        for name in self.__dict__.pop("_cached_names", ()):
            self.__dict__.pop(name, None)

    def _cached_view(self, name: str, value: Any) -> Any:
        """Returns the value of an attribute from another module, and caches functions, classes and views.

        A module of tvtf is wrapped in a view. Modules of Keras and of other packages are returned unchanged.
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
            {*vars(self), *(name for x in self._fallbacks for name in dir(public(x) if isinstance(x, str) else x))}
        )


class PackageView(View):
    """A view of a module of another package, which is imported when the first of its names is looked up."""

    def __init__(self, name: str, module_name: str) -> None:
        super().__init__(name)
        vars(self)["_module_name"] = module_name

    def __getattr__(self, name: str) -> Any:
        module = import_module(vars(self)["_module_name"])
        return self._public_names() if name == "__all__" and not hasattr(module, name) else getattr(module, name)

    def __dir__(self) -> list[str]:
        return dir(import_module(vars(self)["_module_name"]))


def public(path: str) -> Any:
    """Returns the object at a dotted path in tvtf, such as ``"math"``; for the empty path, tvtf itself."""
    return reduce(getattr, path.split(".") if path else [], tvtf)


class Context:
    """The parts of TensorFlow's eager context that Keras uses."""

    def clear_kernel_cache(self) -> None:
        """Does nothing: tvtf caches no kernels of single ops."""

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
    """Returns TypeSpec classes by the names that saved functions use: TensorFlow's, and those that users registered."""
    builtin = (tvtf.TensorSpec, tvtf.RaggedTensorSpec, tvtf.SparseTensorSpec)
    return {**registered, **{f"tf.{spec_class.__name__}": spec_class for spec_class in builtin}}


def _type_spec_named(name: str) -> type:
    """Returns the TypeSpec class that is registered under a name.

    Raises:
      ValueError: no class has this name.
    """
    if name not in _type_specs():
        raise ValueError(f"No TypeSpec has been registered with name {name!r}")
    return _type_specs()[name]


def _name_of_type_spec(cls: type) -> str:
    """Returns the name under which a TypeSpec class is registered.

    Raises:
      ValueError: the class is not registered.
    """
    for name, spec_class in _type_specs().items():
        if spec_class is cls:
            return name
    raise ValueError(f"TypeSpec {cls.__module__}.{cls.__name__} has not been registered.")


def dynamic_slice(x: Any, start_indices: Any, size_indices: Any) -> Any:
    """Returns the slice of ``x`` of the given sizes that starts at ``start_indices``, as XLA's op does.

    A start index is clamped, so that the whole slice lies within ``x``.
    """
    x = tvtf.convert_to_tensor(x)
    starts = tvtf.cast(tvtf.stack(start_indices), tvtf.int32)
    sizes = tvtf.cast(tvtf.stack(size_indices), tvtf.int32)
    clamped_starts = tvtf.maximum(tvtf.minimum(starts, shape(x) - sizes), 0)
    return tvtf.slice(x, clamped_starts, sizes)


def dynamic_update_slice(x: Any, updates: Any, start_indices: Any) -> Any:
    """Returns a copy of ``x`` in which ``updates`` replace the part that starts at ``start_indices``, as XLA's op does.

    A start index is clamped, so that the whole of ``updates`` lies within ``x``.
    """
    x = tvtf.convert_to_tensor(x)
    updates = tvtf.convert_to_tensor(updates)
    largest_starts = shape(x) - shape(updates)
    starts = tvtf.cast(tvtf.stack(start_indices), tvtf.int32)
    clamped_starts = tvtf.unstack(tvtf.maximum(tvtf.minimum(starts, largest_starts), 0), x.shape.rank)
    sizes = tvtf.unstack(shape(updates), x.shape.rank)
    ranges = (start + tvtf.range(size) for start, size in zip(clamped_starts, sizes))
    coordinates = tvtf.meshgrid(*ranges, indexing="ij")
    # Scalars have no coordinates, and are replaced as a whole.
    return tvtf.tensor_scatter_nd_update(x, tvtf.stack(coordinates, axis=-1), updates) if coordinates else updates


class CSRSparseMatrix(NamedTuple):
    """A CSR matrix, which ops on sparse matrices exchange; here a SparseTensor of rank 2, or 3 for a batch."""

    tensor: Any


def _to_csr(indices: Any, values: Any, dense_shape: Any, name: str | None = None) -> CSRSparseMatrix:
    """Makes a CSR matrix from the parts of a SparseTensor."""
    return CSRSparseMatrix(tvtf.SparseTensor(indices, values, dense_shape))


def _from_csr(sparse_matrix: CSRSparseMatrix, type: Any, name: str | None = None) -> Any:  # noqa: A002
    """Converts a CSR matrix to a SparseTensor."""
    return sparse_matrix.tensor


def _csr_product(a: CSRSparseMatrix, b: CSRSparseMatrix, type: Any, name: str | None = None) -> CSRSparseMatrix:  # noqa: A002
    """Multiplies two CSR matrices. The product is computed with dense matrices."""
    left = tvtf.sparse.to_dense(tvtf.sparse.reorder(a.tensor))
    right = tvtf.sparse.to_dense(tvtf.sparse.reorder(b.tensor))
    return CSRSparseMatrix(tvtf.sparse.from_dense(tvtf.matmul(left, right)))


def _batch_size(dataset: Any) -> Any:
    """Returns the batch size of a dataset as an int64 scalar, or -1 if the size varies or is unknown.

    The last batch may be smaller.
    """
    specs = tvtf.nest.flatten(dataset.element_spec)
    shapes = [getattr(spec, "shape", tvtf.TensorShape(None)) for spec in specs]
    sizes = {shape[0] if shape.rank else None for shape in shapes}
    static_size = sizes.pop() if len(sizes) == 1 else None
    size = dataset.size_of_batches() if static_size is None else static_size
    return tvtf.constant(-1 if size is None else size, tvtf.int64)


_VERSIONS = {"VERSION": VERSION, "GIT_VERSION": f"v{VERSION}", "__version__": VERSION}

PRIVATE: dict[str, dict[str, Any]] = {
    "compat.v1": _VERSIONS,
    "compat.v1.version": _VERSIONS,
    "compiler.tf2xla.python.xla": {"dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update_slice},
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
    "version": _VERSIONS,
    "sysconfig": {"get_build_info": lambda: {"is_cuda_build": False, "is_rocm_build": False}},
}
"""Modules of TensorFlow that tvtf lacks wholly or in part, with the names that programs on tvtf use."""


Names = Mapping[str, Mapping[str, Any]]
"""The names in each module, by the module's path."""


def add(names: Names, fallbacks: Mapping[str, Sequence[str]]) -> None:
    """Adds names to the modules of the package ``tensorflow``, as programs that run on tvtf see it.

    Args:
      names: the names and values to add, by the path of the module.
      fallbacks: the paths of tvtf's namespaces that provide all other names of a module, by the path of the module.
    """
    for path, namespaces in fallbacks.items():
        vars(_view_at(path))["_fallbacks"] = tuple(namespaces)
        _view_at(path).drop_cached_names()
    for path, module_names in names.items():
        vars(_view_at(path)).update(module_names)


def replace(modules: Mapping[str, str], when: Callable[[], bool] | None = None) -> None:
    """Makes modules of the package ``tensorflow`` those of another package.

    Args:
      modules: the full names of the other package's modules, by the path of the module that each replaces.
      when: decides whether a module is replaced, when a program first looks it up: until then it may set what this depends on.
    """
    for path, module_name in modules.items():
        parent, _, name = path.rpartition(".")
        view = _view_at(parent)
        package_view = PackageView(f"{view.__name__}.{name}", module_name)
        if when is None:
            vars(view)[name] = package_view
        else:
            otherwise = vars(view).pop(name, None)
            choose = partial(_chosen, when, package_view, otherwise)
            vars(view).setdefault("_choices", {})[name] = choose


def _chosen(when: Callable[[], bool], module: ModuleType, otherwise: ModuleType | None) -> ModuleType | None:
    """Returns the module if the condition holds, or else what the name stood for; None leaves it to the view's fallbacks."""
    return module if when() else otherwise


def _view_at(path: str) -> View:
    """Returns the view of the module ``tensorflow.<path>``; creates missing views of this module and its parents."""
    module = _root
    for name in path.split(".") if path else []:
        if not isinstance(vars(module).get(name), View):
            attributes = [_imported_attribute(x, name) for x in module._fallbacks]
            modules = [attribute for attribute in attributes if isinstance(attribute, ModuleType)]
            vars(module)[name] = View(f"{module.__name__}.{name}", *modules)
        module = vars(module)[name]
    return module


def _imported_attribute(fallback: ModuleType | str, name: str) -> Any:
    """Returns an attribute of an imported module, or None for a path or if the module lacks the attribute."""
    return None if isinstance(fallback, str) else vars(fallback).get(name)


_root = View("tensorflow", tvtf)
vars(_root).update({"__version__": VERSION, "__git_version__": f"v{VERSION}"})
add(PRIVATE, {})


def find(name: str) -> Any:
    """Returns what ``import <name>`` imports in a program that runs on tvtf: a view of ``tensorflow``, or of a submodule.

    Raises:
      ModuleNotFoundError: tvtf has no module of this name.
    """
    module: Any = _root
    for attribute_name in name.split(".")[1:]:  # the first part is "tensorflow"
        try:
            module = getattr(module, attribute_name)
        except AttributeError as error:
            module = _submodule(module, attribute_name)
            if module is None:
                raise ModuleNotFoundError(f"No module named {name!r}: {error}", name=name) from None
    return module


def _submodule(package: Any, name: str) -> ModuleType | None:
    """Imports a submodule that its package doesn't import itself, as Keras's ``saving``. Returns None if there is none.

    Views have no files, and those of tvtf are not modules of TensorFlow.
    """
    package_name = vars(package).get("_module_name", package.__name__) if isinstance(package, ModuleType) else ""
    full_name = f"{package_name}.{name}"
    if not package_name or package_name.partition(".")[0] == _root.__name__:
        return None
    try:
        module = import_module(full_name)
    except ModuleNotFoundError as error:
        if error.name != full_name:  # a module that the submodule imports is missing
            raise
        return None
    return None if module.__name__.partition(".")[0] == tvtf.__name__ else module
