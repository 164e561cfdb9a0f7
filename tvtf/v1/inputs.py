"""Input pipelines built from queues: ``string_input_producer``, readers, ``batch``, ``shuffle_batch``.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/batch
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tvtf.core.primitive import public_names
from tvtf.core.tensor import convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import string
from tvtf.errors import OutOfRangeError
from tvtf.fileio import atomic_file
from tvtf.fileio.tfrecord import TFRecordOptions, records_of
from tvtf.frontend.host.python_call import numpy_function
from tvtf.frontend.host.queue import FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue
from tvtf.v1.graph import current_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import v1
from tvtf.v1.supervision import QueueRunner, add_queue_runner
from tvtf.v1.variables import Variable


def _epoch_function(max_epochs: int | None, shuffle: bool, seed: int | None) -> Callable[..., Any]:
    """Returns a function that is called with the arrays of a data set, and returns them for the next epoch.

    Args:
      max_epochs: the number of calls after which the function raises OutOfRangeError, or None.
      shuffle: whether the rows of the arrays are shuffled in each call.
      seed: the seed of the order.
    """
    epoch_numbers = itertools.count()
    generator = np.random.default_rng(seed)

    def next_epoch(*arrays: np.ndarray) -> Any:
        """Returns the arrays for the next epoch, their rows shuffled if requested, or raises OutOfRangeError."""
        if max_epochs is not None and next(epoch_numbers) >= max_epochs:
            raise OutOfRangeError(None, None, f"Reached limit of {max_epochs}")
        order = generator.permutation(len(arrays[0])) if shuffle else slice(None)
        ordered = [array[order] for array in arrays]
        return ordered if len(ordered) > 1 else ordered[0]

    return next_epoch


def _row_queue(
    tensors: list[Any], max_epochs: int | None, shuffle: bool, seed: int | None, capacity: int, name: str
) -> FIFOQueue:
    """Creates a queue of the tensors' rows, and a ``QueueRunner`` that fills the queue.

    An epoch has every row once, in random order with ``shuffle``. The runner stops after ``max_epochs``. None means
    that it never stops.
    """
    with current_graph().trace.without_op_names():
        specs = [TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
        is_single = len(specs) == 1
        next_epoch = _epoch_function(max_epochs, shuffle, seed)
        rows = numpy_function(next_epoch, tensors, specs[0] if is_single else specs)
        row_dtypes = [tensor.dtype for tensor in tensors]
        row_shapes = [tensor.shape[1:] for tensor in tensors]
        queue = FIFOQueue(capacity, row_dtypes, row_shapes, name=name)
        if max_epochs is not None:
            # TensorFlow counts epochs in this local variable; here next_epoch counts them
            zero = convert_to_tensor(0, "int64")
            Variable(zero, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], name="epochs")
        enqueue = queue.enqueue_many([rows] if is_single else rows)
    add_queue_runner(QueueRunner(queue, [enqueue]))
    return queue


@v1("train.input_producer")
def input_producer(
    input_tensor: Any, element_shape: Any = None, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32, shared_name: Any = None, summary_name: Any = None, name: str = "input_producer", cancel_op: Any = None,
) -> FIFOQueue:  # fmt: skip
    """Returns a queue of the rows of a tensor, which are repeated ``num_epochs`` times, or endlessly."""
    return _row_queue([convert_to_tensor(input_tensor)], num_epochs, shuffle, seed, capacity, name)


@v1("train.string_input_producer")
def string_input_producer(
    string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None, capacity: int = 32,
    shared_name: Any = None, name: str = "input_producer", cancel_op: Any = None,
) -> FIFOQueue:  # fmt: skip
    """Returns a queue of strings, such as file names, which are repeated.

    Args:
      string_tensor: a vector of strings.
      num_epochs: how often the strings are repeated; None for endlessly.
      shuffle: whether the order is random in each repetition.
      seed: the seed of the order.
      capacity: the largest number of strings in the queue.
      shared_name, cancel_op: not used.
      name: the name of the queue.

    Raises:
      ValueError: the list is empty.
    """
    if isinstance(string_tensor, (list, tuple)) and not string_tensor:
        raise ValueError("string_input_producer requires a non-null input tensor")
    strings = convert_to_tensor(string_tensor, string)
    return _row_queue([strings], num_epochs, shuffle, seed, capacity, name)


@v1("train.range_input_producer")
def range_input_producer(
    limit: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None, capacity: int = 32, shared_name: Any = None,
    name: str = "input_producer",
) -> FIFOQueue:  # fmt: skip
    """Returns a queue of the integers below ``limit``, repeated ``num_epochs`` times, or endlessly."""
    return _row_queue([public_names()["range"](limit)], num_epochs, shuffle, seed, capacity, name)


@v1("train.slice_input_producer")
def slice_input_producer(
    tensor_list: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None, capacity: int = 32,
    shared_name: Any = None, name: str = "input_producer",
) -> list[Any]:  # fmt: skip
    """Returns tensors for one row of each input tensor. Each run of the graph yields the next row from a queue.

    Args:
      tensor_list: tensors with the same number of rows.
      num_epochs: how often the rows are repeated; None for endlessly.
      shuffle: whether the order is random in each repetition.
      seed: the seed of the order.
      capacity: the largest number of rows in the queue.
      shared_name: not used.
      name: the name of the queue.
    """
    tensors = [convert_to_tensor(tensor) for tensor in tensor_list]
    if not tensors:
        raise ValueError("Expected at least one tensor in slice_input_producer().")
    rows = _row_queue(tensors, num_epochs, shuffle, seed, capacity, name).dequeue()
    return rows if isinstance(rows, list) else [rows]


@v1("train.limit_epochs")
def limit_epochs(tensor: Any, num_epochs: int | None = None, name: Any = None) -> Any:
    """Returns the tensor with a limit: it can be run ``num_epochs`` times. Further runs raise ``OutOfRangeError``."""
    if num_epochs is None:  # no limit
        return tensor
    run_numbers, tensor = itertools.count(), convert_to_tensor(tensor)

    def checked(value: np.ndarray) -> np.ndarray:
        if next(run_numbers) >= num_epochs:
            raise OutOfRangeError(None, None, f"Reached limit of {num_epochs}")
        return value

    return numpy_function(checked, [tensor], TensorSpec(tensor.shape, tensor.dtype))


# -- batches


def _batched(
    tensors: Any,
    make_queue: Callable[..., Any],
    batch_size: Any,
    enqueue_rows: bool,
    threads: int,
    element_shapes: Any,
    allow_smaller: bool,
) -> Any:
    """Creates an input queue filled by threads, and returns the op that dequeues a batch.

    Args:
      tensors: a list or dict of tensors to enqueue in each run.
      make_queue: creates the queue from the dtypes and shapes of an element.
      enqueue_rows: whether each row of the tensors is an element.
      allow_smaller: whether the last batch may be smaller.
    """
    keys = sorted(tensors) if isinstance(tensors, dict) else None
    flat = [convert_to_tensor(each) for each in ([tensors[key] for key in keys] if keys else _as_list(tensors))]
    if element_shapes is None:
        element_shapes = [leaf.shape[1:] if enqueue_rows else leaf.shape for leaf in flat]
    queue = make_queue([leaf.dtype for leaf in flat], element_shapes)
    enqueue = queue.enqueue_many if enqueue_rows else queue.enqueue
    add_queue_runner(QueueRunner(queue, [enqueue(flat) for _ in range(threads)]))
    batches = queue.dequeue_up_to(batch_size) if allow_smaller else queue.dequeue_many(batch_size)
    batches = batches if isinstance(batches, list) else [batches]
    if keys:
        return dict(zip(keys, batches))
    return batches if len(batches) > 1 else batches[0]


def _as_list(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


@v1("train.batch")
def batch(
    tensors: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False, shapes: Any = None,
    dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, shared_name: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns tensors of batches: stacks the input tensors' values of ``batch_size`` runs.

    Threads run the input tensors and enqueue the values. Batches keep the order of the queue.

    Args:
      tensors: the input tensors, nested in lists or dicts.
      batch_size: the number of elements of a batch.
      num_threads: the number of threads that enqueue values.
      capacity: the largest number of elements in the queue.
      enqueue_many: whether the input tensors are batches of elements themselves.
      shapes: the shapes of an element; None for those of the tensors.
      dynamic_pad: whether elements of different shapes are padded.
      allow_smaller_final_batch: whether the last batch may be smaller; otherwise it is dropped.
      shared_name: not used.
      name: the name of the queue.
    """
    queue_class = PaddingFIFOQueue if dynamic_pad else FIFOQueue

    def make_queue(dtypes: Any, element_shapes: Any) -> Any:
        return queue_class(capacity, dtypes, element_shapes, name=name or "batch")

    return _batched(tensors, make_queue, batch_size, enqueue_many, num_threads, shapes, allow_smaller_final_batch)


@v1("train.shuffle_batch")
def shuffle_batch(
    tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, num_threads: int = 1, seed: int | None = None,
    enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False, shared_name: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Returns tensors of batches of random elements: stacks the input tensors' values of ``batch_size`` runs.

    Threads run the input tensors and enqueue the values.

    Args:
      tensors: the input tensors, nested in lists or dicts.
      batch_size: the number of elements of a batch.
      capacity: the largest number of elements in the queue.
      min_after_dequeue: the number of elements that must remain in the queue when one is drawn.
      num_threads: the number of threads that enqueue values.
      seed: the seed of the draws.
      enqueue_many: whether the input tensors are batches of elements themselves.
      shapes: the shapes of an element; None for those of the tensors.
      allow_smaller_final_batch: whether the last batch may be smaller; otherwise it is dropped.
      shared_name: not used.
    """
    if capacity <= min_after_dequeue:
        raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}.")

    def make_queue(dtypes: Any, element_shapes: Any) -> RandomShuffleQueue:
        queue_name = name or "shuffle_batch"
        return RandomShuffleQueue(capacity, min_after_dequeue, dtypes, element_shapes, seed=seed, name=queue_name)

    return _batched(tensors, make_queue, batch_size, enqueue_many, num_threads, shapes, allow_smaller_final_batch)


# -- readers


class ReaderBase:
    """Reads files one after the other; their names come from a queue."""

    def __init__(self) -> None:
        self._left: Iterator[tuple[bytes, Any]] = iter(())
        self._count = 0

    def _pairs(self, name: bytes) -> Iterator[tuple[bytes, Any]]:
        raise NotImplementedError

    def _next(self, queue: Any) -> tuple[bytes, Any]:
        """Returns the next key and value; after the end of a file, dequeues the name of the next one."""
        while True:
            for pair in self._left:
                self._count += 1
                return pair
            self._left = self._pairs(queue._take(1, 1)[0][0].item())

    def read(self, queue: Any, name: str | None = None) -> tuple[Any, Any]:
        """Returns the next key and value; each run returns the next pair."""
        spec = TensorSpec([], string)
        key, value = numpy_function(lambda: [np.array(x, object) for x in self._next(queue)], [], [spec, spec])
        return key, value

    def num_records_produced(self, name: str | None = None) -> Any:
        """Returns the number of pairs that were read."""
        return numpy_function(lambda: np.int64(self._count), [], TensorSpec([], "int64"))


@v1("TextLineReader")
class TextLineReader(ReaderBase):
    """Reads lines of text files; the key is ``file:line``."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__()
        self._skip = skip_header_lines or 0

    def _pairs(self, name: bytes) -> Iterator[tuple[bytes, Any]]:
        with atomic_file.named_failures(os.fsdecode(name), "read"), open(name, "rb") as file:
            for number, line in enumerate(file, 1):
                if number > self._skip:
                    yield b"%s:%d" % (name, number), line.rstrip(b"\r\n")


@v1("WholeFileReader")
class WholeFileReader(ReaderBase):
    """Reads whole files; the key is the file's name."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def _pairs(self, name: bytes) -> Iterator[tuple[bytes, Any]]:
        yield name, atomic_file.read(os.fsdecode(name))


@v1("IdentityReader")
class IdentityReader(ReaderBase):
    """Returns the queue's strings as both key and value."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def _pairs(self, name: bytes) -> Iterator[tuple[bytes, Any]]:
        yield name, name


@v1("TFRecordReader")
class TFRecordReader(ReaderBase):
    """Reads records of TFRecord files."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        super().__init__()
        self._compression = TFRecordOptions.get_compression_type_string(options)

    def _pairs(self, name: bytes) -> Iterator[tuple[bytes, Any]]:
        for number, record in enumerate(records_of(os.fsdecode(name), self._compression)):
            yield b"%s:%d" % (name, number), record


@v1("FixedLengthRecordReader")
class FixedLengthRecordReader(ReaderBase):
    """Reads records of ``record_bytes`` bytes, which start every ``hop_bytes`` bytes between header and footer."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        *_: Any,
        **__: Any,
    ) -> None:
        """Stores the sizes of records, headers and footers in bytes, and the distance between the starts of records.

        Without ``hop_bytes``, records follow each other.
        """
        super().__init__()
        self._sizes = record_bytes, header_bytes or 0, footer_bytes or 0, hop_bytes or record_bytes

    def _pairs(self, name: bytes) -> Iterator[tuple[bytes, Any]]:
        size, header, footer, hop = self._sizes
        data = atomic_file.read(os.fsdecode(name))
        for number, start in enumerate(range(header, len(data) - footer - size + 1, hop)):
            yield b"%s:%d" % (name, number), data[start : start + size]


v1("ReaderBase")(ReaderBase)
