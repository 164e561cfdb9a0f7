"""Makes datasets from the symbolic tensors of a traced function: each run of the function builds the dataset."""

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
from tvtf.data.sources import making_examples
from tvtf.data.structure import relaxed
from tvtf.dtypes import int64, string
from tvtf.frontend.control_flow.control_dependencies import init_scope
from tvtf.frontend.host.python_call import traced
from tvtf.state.random_streams import made_again, remade_ops

Maker = TypeVar("Maker", bound=Callable[..., Any])

EXAMPLES = (1, 2)
"""Sizes of unknown dims, and elements, of the tensors from which two example datasets are made; a dim of the element spec is
static if both examples agree on it."""


class DeferredDataset(Dataset):
    """A dataset that depends on symbolic tensors of a trace.

    ``build`` makes the actual dataset from the arrays of a run. ``examples`` are datasets built from example values.
    """

    def __init__(
        self, tensors: Sequence[Tensor], build: Callable[..., Dataset], examples: Sequence[Dataset], element_spec: Any
    ) -> None:
        """Stores how to build the dataset in a run of the trace; its size is then known, too.

        Args:
          tensors: the symbolic tensors on which the dataset depends.
          build: makes the dataset from the arrays of these tensors.
          examples: datasets built from example values.
          element_spec: the spec of the elements, which holds for any values of the tensors.
        """
        super().__init__(element_spec, UNKNOWN)
        self.tensors = list(tensors)
        self.build = build
        self.examples = examples
        self._latest = threading.local()

    def as_argument(self) -> tuple[Tensor, Any]:
        (number,) = traced(self._number, self.tensors, [TensorSpec([], int64)])
        return number, self._number_type()

    def _number(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Builds the dataset in a run and returns its number; each thread keeps its latest one alive."""
        self._latest.dataset = self.build(*arrays)
        return (np.array(number_of(self._latest.dataset)),)

    def cardinality(self, name: str | None = None) -> Tensor:
        (size,) = traced(lambda *arrays: (np.array(self.build(*arrays).size),), self.tensors, [TensorSpec([], int64)])
        return size

    def assigns_variables(self) -> bool:
        return any(dataset.assigns_variables() for dataset in self.examples)

    def example_elements(self) -> Iterator[Any]:
        return self.examples[0].example_elements()

    def handles(self) -> NoReturn:
        raise NotImplementedError(
            "this dataset depends on tensors of a tf.function, and has elements only when that runs: loop over it there"
        )


def deferring(maker: Maker) -> Maker:
    """Wraps a dataset function: while tracing, it returns a DeferredDataset if an argument is a symbolic tensor.

    The same happens for functions that capture a symbolic tensor, and for datasets that are deferred themselves.
    """

    @wraps(maker)
    def make(*args: Any, **kwargs: Any) -> Any:
        """Makes the dataset; if an argument is a symbolic tensor, the dataset is built in each run of the trace."""
        if state.trace is None:
            return maker(*args, **kwargs)
        arguments = [list(args), kwargs]
        leaves = nest.flatten(arguments, expand_composites=True)
        tensors = [tensor for leaf in leaves for tensor in _symbolic_tensors_in(leaf)]
        if not tensors:
            return maker(*args, **kwargs)
        return _deferred(maker, arguments, leaves, tensors)

    return make  # type: ignore[return-value]


def _deferred(
    maker: Callable[..., Any], arguments: list[Any], leaves: Sequence[Any], tensors: list[Any]
) -> DeferredDataset:
    """Returns a DeferredDataset for the call ``maker(*args, **kwargs)``; each run of the traced program makes the call.

    Args:
      maker: the function that makes the dataset from eager tensors.
      arguments: the nested structure of ``args`` and ``kwargs``.
      leaves: the flattened arguments.
      tensors: the symbolic tensors on which they depend; each run passes their values.
    """

    ops = remade_ops()

    def call(eager_leaves: Sequence[Any]) -> Any:
        """Makes the dataset from flattened arguments without symbolic tensors."""
        args, kwargs = nest.pack_sequence_as(arguments, eager_leaves, expand_composites=True)
        with made_again(ops):
            return maker(*args, **kwargs)

    def build(*arrays: np.ndarray) -> Any:
        """Makes the dataset of a run, given the values of ``tensors`` in the run."""
        run_values = iter(arrays)
        return call([_with_run_values(leaf, run_values) for leaf in leaves])

    # Tracing needs to know the type of the elements: it is what datasets have in common that are made from ones and from
    # twos, with unknown dims of these sizes.
    with init_scope(), making_examples():
        examples = [call([_with_example_values(leaf, example) for leaf in leaves]) for example in range(len(EXAMPLES))]
    return DeferredDataset(tensors, build, examples, relaxed(*(dataset.element_spec for dataset in examples)))


def _symbolic_tensors_in(leaf: Any) -> list[Any]:
    """Returns the symbolic tensors that an argument depends on, including those that a function captures."""
    if isinstance(leaf, DeferredDataset):
        return leaf.tensors
    if is_function(leaf):
        return captured_tensors(leaf)
    return [leaf] if isinstance(leaf, SymbolicTensor) else []


def _with_run_values(leaf: Any, arrays: Iterator[np.ndarray]) -> Any:
    """Replaces the symbolic tensors on which an argument depends by the next of a run's arrays."""
    if isinstance(leaf, DeferredDataset):
        return leaf.build(*(next(arrays) for _ in leaf.tensors))
    if is_function(leaf):
        return with_values(leaf, {id(tensor): EagerTensor(np.array(next(arrays))) for tensor in captured_tensors(leaf)})
    return EagerTensor(np.array(next(arrays))) if isinstance(leaf, SymbolicTensor) else leaf


def _with_example_values(leaf: Any, example: int) -> Any:
    """Replaces an argument's symbolic tensors by those of an example."""
    if isinstance(leaf, DeferredDataset):
        return leaf.examples[example]
    if is_function(leaf):
        return with_values(leaf, {id(tensor): _example_of(tensor, example) for tensor in captured_tensors(leaf)})
    return _example_of(leaf, example) if isinstance(leaf, SymbolicTensor) else leaf


def _example_of(tensor: SymbolicTensor, example: int) -> EagerTensor:
    """Returns a value of a traced tensor for an example: its unknown dims and its elements are the example's number.

    The elements may be sizes, so they differ between examples, as the dims do. Strings are empty.

    Args:
      tensor: the traced tensor.
      example: the index of the example's number in ``EXAMPLES``.
    """
    if tensor.shape.rank is None:
        raise NotImplementedError(
            f"a dataset depends on {tensor}, whose rank is unknown during tracing: set the rank in the input_signature"
        )
    number = EXAMPLES[example]
    dims = [number if dim is None else dim for dim in tensor.shape.as_list()]
    if tensor.dtype is string:
        return EagerTensor(np.full(dims, b"", object))
    return EagerTensor(np.full(dims, number, tensor.dtype.np))
