"""Cases drawn from the primitive table, the oracle for them, and readable comparison."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tolerances

import tvtf as tf
from tvtf.api.namespaces import all_names
from tvtf.core.primitive import as_tuple, quietly, table, types_tuple
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor
from tvtf.dtypes import COMPILED, TRACED, DType, from_array

all_names()
OWN = [p for p in table.values() if p.samples]


@dataclass(eq=False)
class Case:
    """One sample of a primitive in one dtype."""

    prim: object
    index: int
    sample: object
    dtype: DType | None

    @property
    def name(self):
        return f"{self.prim.name}/sample {self.index}/{self.dtype.name if self.dtype else 'fixed'}"

    @property
    def attrs(self):
        return self.sample.attrs

    @cached_property
    def arrays(self):
        return [np.asarray(x(self.dtype) if callable(x) else x) for x in self.sample.inputs]

    @cached_property
    def types(self):
        """The result types by the type rule."""
        return types_tuple(self.prim.typed(*map(type_of, self.arrays), **self.attrs))

    @cached_property
    def expected(self):
        """The numpy column, in the dtypes of the type rule."""
        results = as_tuple(quietly(self.prim.numpy, self.arrays, self.attrs))
        return [np.asarray(r).astype(t.dtype.np) for r, t in zip(results, self.types)]

    @property
    def is_compiled(self):
        """Whether traced programs have all types in it."""
        return self.has_only(TRACED)

    @property
    def is_exported(self):
        """Whether ONNX has all types in it: its operators take no complex ones."""
        return self.has_only(COMPILED)

    @property
    def dtypes(self):
        """Those of all inputs and results."""
        return [t.dtype for t in (*map(type_of, self.arrays), *self.types)]

    def has_only(self, dtypes):
        return all(dtype in dtypes for dtype in self.dtypes)


def type_of(array):
    return TensorType(array.shape, from_array(array))


def tensor(array):
    return EagerTensor(np.array(array, order="C"))


def all_cases(prim):
    """Every sample in every dtype."""
    samples = prim.samples() if callable(prim.samples) else prim.samples
    return [Case(prim, i, s, d) for i, s in enumerate(samples) for d in s.dtypes or (None,)]


def some_cases(prim):
    """Every sample at least once, and every dtype at least once."""
    by_sample = {}
    for case in all_cases(prim):
        by_sample.setdefault(case.index, []).append(case)
    dtypes = {c.dtype for cases in by_sample.values() for c in cases}
    chosen = [cases[(i * 3) % len(cases)] for i, cases in by_sample.items()]
    missing = sorted((d for d in dtypes - {c.dtype for c in chosen} if d), key=lambda d: d.as_datatype_enum)
    for turn, dtype in enumerate(missing):
        having = [c for cases in by_sample.values() for c in cases if c.dtype is dtype]
        chosen.append(having[turn % len(having)])
    return chosen


def differences(case, found, what, by_dtype=tolerances.BY_DTYPE):
    """What is wrong with results, one line each, empty where nothing is."""
    if len(found) != len(case.expected):
        return [f"{case.name}: {what} gives {len(found)} results, the numpy column {len(case.expected)}"]
    lines = [_difference(case, f, e, t, by_dtype) for f, e, t in zip(map(np.asarray, found), case.expected, case.types)]
    return [f"{case.name}: {what} {line}" for line in lines if line]


def _difference(case, found, expected, tensor_type, by_dtype):
    if found.dtype != tensor_type.dtype.np or found.shape != expected.shape:
        return f"has {found.dtype}{found.shape}, expected {tensor_type.dtype.name}{expected.shape}"
    return mismatch(found, expected, tolerances.of(case.prim.name, tensor_type.dtype.name, by_dtype))


def mismatch(found, expected, tolerance):
    """None, or the largest difference and where it is."""
    if not found.size:
        return None
    wrong = _float_distance(found, expected) > tolerance if tolerance else found != expected
    if not np.any(wrong):
        return None
    return _shown(found, expected, np.atleast_1d(wrong), tolerance)


def _float_distance(found, expected):
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        distance = np.abs(a - b) / (1 + np.abs(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _shown(found, expected, wrong, tolerance):
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    a, b = np.atleast_1d(found)[at], np.atleast_1d(expected)[at]
    largest = ""
    if tolerance:
        largest = f", max diff {float(np.max(_float_distance(found, expected))):.3g} > {tolerance:.3g}"
    return f"differs at {at}: {a!r}, expected {b!r} ({int(wrong.sum())} of {wrong.size} elements{largest})"


def arrays_of(results):
    return [np.asarray(t.eager_array()) for t in as_tuple(results)]


def spec_of(array, names=None):
    """A TensorSpec of an array, with some dims unknown by name."""
    names = names or (None,) * array.ndim
    return tf.TensorSpec([n or d for n, d in zip(names, array.shape)], from_array(array))


def specs_of(case, symbolic):
    names = case.sample.symbolic if symbolic else (None,) * len(case.arrays)
    return [spec_of(a, n) for a, n in zip(case.arrays, names)]


def function_of(cases):
    """A tf.function of all inputs of all cases in a row, that gives all their results."""

    def run(*inputs):
        rest, results = list(inputs), []
        for case in cases:
            own = [rest.pop(0) for _ in case.arrays]
            results.append(as_tuple(case.prim.bind(*own, **case.attrs)))
        return results

    return tf.function(run, autograph=False)


def compiled(cases, symbolic=False):
    """The results of each case by compiled code, all in one module."""
    specs = [spec for case in cases for spec in specs_of(case, symbolic)]
    concrete = function_of(cases).get_concrete_function(*specs)
    return [arrays_of(r) for r in concrete.call_flat([tensor(a) for case in cases for a in case.arrays])]


def compiled_differences(cases, symbolic=False):
    """Where compiled code differs; a module that fails is taken apart, to name the cases that do."""
    what = "compiled with unknown dims" if symbolic else "compiled"
    try:
        found = compiled(cases, symbolic)
    except Exception as error:  # whatever breaks in one case must be told with its name
        if len(cases) == 1:
            return [f"{cases[0].name}: {what} fails: {type(error).__name__}: {error}"]
        return [line for case in cases for line in compiled_differences([case], symbolic)]
    return [line for case, results in zip(cases, found) for line in differences(case, results, what)]
