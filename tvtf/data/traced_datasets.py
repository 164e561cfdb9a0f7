"""Datasets that a traced function makes of its tensors: made anew whenever it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NoReturn, TypeVar

import numpy as np

from tvtf.core import nest
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.data.base import UNKNOWN, Dataset
from tvtf.data.captured_tensors import captured_tensors, is_function, with_values
from tvtf.data.dataset_arguments import number_of
from tvtf.data.structure import relaxed
from tvtf.dtypes import int64, string
from tvtf.frontend.control_flow.control_dependencies import init_scope
from tvtf.frontend.host.python_call import traced

Maker = TypeVar("Maker", bound=Callable[..., Any])

EXAMPLES = (1, 2)
"""Sizes that unknown dims have in the datasets which tell the specs of elements: what both agree on is known."""


class MadeDataset(Dataset):
    """What a maker of datasets makes of a trace's tensors.

    ``examples`` are what it makes of other values. ``build`` makes the dataset of the tensors' arrays.
    """

    def __init__(
        self, tensors: Sequence[Tensor], build: Callable[..., Dataset], examples: Sequence[Dataset], element_spec: Any
    ) -> None:
        super().__init__(element_spec, UNKNOWN)
        self.tensors, self.build, self.examples = list(tensors), build, examples
        self._latest = threading.local()

    def held_as(self) -> tuple[Tensor, Any]:
        (number,) = traced(self._number, self.tensors, [TensorSpec([], int64)])
        return number, self._held_type()

    def _number(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        self._latest.dataset = self.build(*arrays)
        return (np.array(number_of(self._latest.dataset)),)

    def cardinality(self, name: str | None = None) -> Tensor:
        (found,) = traced(lambda *arrays: (np.array(self.build(*arrays).size),), self.tensors, [TensorSpec([], int64)])
        return found

    def handles(self) -> NoReturn:
        raise NotImplementedError(
            "this dataset is made of tensors of a tf.function, and has elements only when that runs: loop over it there"
        )


def deferring(maker: Maker) -> Maker:
    """A maker of datasets that may be given tensors of a trace."""

    @wraps(maker)
    def make(*args: Any, **kwargs: Any) -> Any:
        if state.trace is None:
            return maker(*args, **kwargs)
        leaves = nest.flatten([list(args), kwargs], expand_composites=True)
        tensors = [tensor for leaf in leaves for tensor in _tensors(leaf)]
        return _made(maker, [list(args), kwargs], leaves, tensors) if tensors else maker(*args, **kwargs)

    return make  # type: ignore[return-value]


def _made(maker: Callable[..., Any], given: list[Any], leaves: Sequence[Any], tensors: list[Any]) -> MadeDataset:
    def called(values: Sequence[Any]) -> Any:
        args, kwargs = nest.pack_sequence_as(given, values, expand_composites=True)
        return maker(*args, **kwargs)

    def build(*arrays: np.ndarray) -> Any:
        left = iter(arrays)
        return called([_found(leaf, left) for leaf in leaves])

    with init_scope():
        examples = [called([_example(leaf, which) for leaf in leaves]) for which in range(len(EXAMPLES))]
    return MadeDataset(tensors, build, examples, relaxed(*(e.element_spec for e in examples)))


def _tensors(leaf: Any) -> list[Any]:
    """The tensors that an argument is made of; a function, of those it has captured."""
    if isinstance(leaf, MadeDataset):
        return leaf.tensors
    if is_function(leaf):
        return captured_tensors(leaf)
    return [leaf] if isinstance(leaf, SymbolicTensor) else []


def _found(leaf: Any, arrays: Iterator[np.ndarray]) -> Any:
    """What running code finds in the place of an argument."""
    if isinstance(leaf, MadeDataset):
        return leaf.build(*(next(arrays) for _ in leaf.tensors))
    if is_function(leaf):
        return with_values(leaf, {id(t): EagerTensor(np.array(next(arrays))) for t in captured_tensors(leaf)})
    return EagerTensor(np.array(next(arrays))) if isinstance(leaf, SymbolicTensor) else leaf


def _example(leaf: Any, which: int) -> Any:
    """What stands for an argument while the specs are looked for."""
    if isinstance(leaf, MadeDataset):
        return leaf.examples[which]
    if is_function(leaf):
        return with_values(leaf, {id(t): _ones(t, which) for t in captured_tensors(leaf)})
    return _ones(leaf, which) if isinstance(leaf, SymbolicTensor) else leaf


def _ones(tensor: SymbolicTensor, which: int) -> EagerTensor:
    if tensor.shape.rank is None:
        raise NotImplementedError(
            f"a dataset is made of {tensor}, whose rank only a call tells: give the rank in the input_signature"
        )
    dims = [EXAMPLES[which] if d is None else d for d in tensor.shape.as_list()]
    return EagerTensor(np.full(dims, b"", object) if tensor.dtype is string else np.ones(dims, tensor.dtype.np))
