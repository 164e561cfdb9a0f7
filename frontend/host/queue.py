"""``tf.queue``: queues of tensors between threads; traced programs use them by calling Python."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.api.namespaces import install as _install
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape, as_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import Condition
from tvtf.dtypes import DType, as_dtype, int32, int64
from tvtf.errors import CancelledError, OutOfRangeError
from tvtf.frontend.host import py_function
from tvtf.ops.operands import operand
from tvtf.ops.rules import attribute_int, static_int


@export("queue.QueueBase")
class QueueBase:
    """A queue of tuples of tensors; putting into a full one, and taking from an empty one, blocks.

    >>> import tvtf as tf
    >>> isinstance(tf.queue.FIFOQueue(1, tf.int32), tf.queue.QueueBase)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/queue/QueueBase
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, capacity: int, name: str) -> None:
        """Makes an empty queue; each of its rows has a tensor per dtype. A capacity below 0 is no limit."""
        self._dtypes = [as_dtype(d) for d in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]
        if not self._dtypes:
            raise ArgumentError("Length for attr 'component_types' of 0 must be at least minimum 1").for_op("Queue")
        capacity = attribute_int(-1 if capacity is None else capacity, "capacity", -(2**31))
        self._shapes = _as_shapes(shapes, len(self._dtypes))
        self._names = _as_names(names, len(self._dtypes))
        self._name = name
        self._capacity = capacity if capacity >= 0 else None
        self._closed = self._cancelled = False
        self._changed = Condition()
        self._rows = self._empty_storage()

    @staticmethod
    def from_list(index: Any, queues: list[QueueBase]) -> QueueBase:
        """Returns the queue at an index that is known while tracing; all must have the same dtypes and names.

        Raises:
          TypeError: the argument is no list of queues, or their dtypes or names differ.
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("A list of queues expected")
        if any(queue.dtypes != queues[0].dtypes for queue in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(queue.names != queues[0].names for queue in queues):
            raise TypeError("Queues do not have matching component names.")
        return queues[static_int(convert_to_tensor(index), "index")]

    def _empty_storage(self) -> Any:
        return deque()

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        return self._names

    @property
    def name(self) -> str:
        return self._name

    # -- in Python

    def _put(self, row: tuple[np.ndarray, ...]) -> None:
        """Adds a row, waiting for a free place if the queue is full.

        If the queue is or gets closed, all who wait are woken, and an error rejects their rows.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._capacity is None or len(self._rows) < self._capacity)
            if self._closed:
                raise CancelledError(None, "QueueEnqueueV2", f"{type(self).__name__} '_0_{self._name}' is closed.")
            self._add(row)
            self._changed.notify_all()

    def _take(self, min_count: int, max_count: int) -> list[tuple[np.ndarray, ...]]:
        """Removes ``max_count`` rows, waiting for them; from a closed queue fewer, but at least ``min_count``."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ready() >= max_count)
            count = min(max_count, len(self._rows))
            if count < min_count:
                raise OutOfRangeError(
                    None, "QueueDequeueV2",
                    f"{type(self).__name__} '_0_{self._name}' is closed and has insufficient elements (requested {max_count}, "
                    f"current size {len(self._rows)})",
                )  # fmt: skip
            rows = [self._remove() for _ in range(count)]
            self._changed.notify_all()  # others may wait for a free place
            return rows

    def _ready(self) -> int:
        return len(self._rows)

    def _add(self, row: tuple[np.ndarray, ...]) -> None:
        self._rows.append(row)

    def _remove(self) -> tuple[np.ndarray, ...]:
        return self._rows.popleft()

    # -- on tensors

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """Puts one tuple of tensors into the queue.

        Raises:
          CancelledError: the queue was closed.
          ValueError: other shapes than the queue's; TypeError: another number of tensors.
        """
        row = self._checked(vals, 0)
        put: Any = lambda *tensors: self._put(tuple(tensor.numpy() for tensor in tensors))  # noqa: E731
        return self._as_operation("QueueEnqueueV2", name, put, row)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """Puts the rows of tensors into the queue, one by one."""

        def put_rows(*tensors: Any) -> None:
            for row in zip(*(tensor.numpy() for tensor in tensors)):
                self._put(tuple(np.asarray(value) for value in row))

        columns = self._checked(vals, 1)
        for column in columns:
            if not column.ndim:
                raise ValueError(f"Shape {column.shape} must have rank at least 1")
            column.shape[:1].assert_is_compatible_with(columns[0].shape[:1])
        return self._as_operation("QueueEnqueueManyV2", name, put_rows, columns)

    def dequeue(self, name: str | None = None) -> Any:
        """Takes one tuple out: a single tensor if it has only one, a dict if the queue has names.

        Raises:
          OutOfRangeError: the queue is empty and closed.
        """
        return self._packed(self._now_or_in_program(lambda: list(self._take(1, 1)[0]), [], self._specs()))

    def dequeue_many(self, n: int, name: str | None = None) -> Any:
        """Takes ``n`` tuples out, stacked."""
        count = _row_count(n)
        return self._dequeue_stacked(count, count)

    def dequeue_up_to(self, n: int, name: str | None = None) -> Any:
        """Takes ``n`` tuples out, stacked; fewer if the queue is closed and has fewer."""
        return self._dequeue_stacked(1, _row_count(n))

    def _dequeue_stacked(self, min_count: int, max_count: int) -> Any:
        """Dequeues between ``min_count`` and ``max_count`` elements and stacks them."""

        def take() -> list[np.ndarray]:
            rows = self._take(min_count, max_count) if max_count else []
            return [self._stacked([row[index] for row in rows], index) for index in range(len(self._dtypes))]

        count = max_count if min_count == max_count else None
        specs = [TensorSpec([count, *spec.shape], spec.dtype) for spec in self._specs(stacked=True)]
        return self._packed(self._now_or_in_program(take, [], specs))

    def _stacked(self, column: list[np.ndarray], index: int) -> np.ndarray:
        if not column:
            return np.zeros((0, *(d or 0 for d in self._shapes[index])), self._dtypes[index].np)
        return np.stack(column)

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of tuples in the queue, int32."""
        return self._now_or_in_program(lambda: [len(self._rows)], [], [TensorSpec([], int32)])[0]

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """Closes the queue: nothing more can be put in, the rest can be taken out."""

        return self._as_operation("QueueCloseV2", name, self.shut, [])

    def shut(self, cancelled: bool = False) -> None:
        """Closes the queue now, even while a function is traced."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def is_closed(self, name: str | None = None) -> Tensor:
        """Returns whether it was closed."""
        return convert_to_tensor(self._closed)

    # -- checking, converting and running

    def _now_or_in_program(self, work: Any, inputs: Sequence[Any], specs: Sequence[TensorSpec]) -> list[Any]:
        """Does the work now or, in a trace, when the program runs; returns its results as tensors of these specs."""
        if state.trace is not None:
            return list(py_function(work, list(inputs), list(specs)) or [])
        results = work(*inputs)
        return [convert_to_tensor(x, s.dtype) for x, s in zip(results or [], specs)]

    def _as_operation(self, op_type: str, name: str | None, work: Any, inputs: Sequence[Any]) -> Any:
        """Does the work; in a trace, has the program do it, and returns the operation for it."""
        if state.trace is None:
            work(*inputs)
            return None
        op_name = name or f"{self._name}_{_OP_NAMES[op_type]}"
        return state.trace.doing(op_type, op_name, lambda: self._now_or_in_program(work, inputs, []))

    def _specs(self, stacked: bool = False) -> list[TensorSpec]:
        if stacked and any(s.rank is None for s in self._shapes):
            raise ValueError(f"{self._name} needs `shapes` to return several elements as one tensor")
        return [TensorSpec(s, d) for s, d in zip(self._shapes, self._dtypes)]

    def _checked(self, vals: Any, leading_axes: int) -> list[Any]:
        """Converts values to the queue's tensors; checks their number, names, and shapes after ``leading_axes``."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  "
                    f"Dictionary: {sorted(vals, key=str)},Queue: {sorted(self._names, key=str)}"
                )
            vals = [vals[n] for n in self._names]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        values = list(vals) if isinstance(vals, (list, tuple)) and len(self._dtypes) > 1 else _single(vals)
        if not values:
            raise ArgumentError("Length for attr 'Tcomponents' of 0 must be at least minimum 1").for_op(
                "QueueEnqueueV2"
            )
        if len(values) != len(self._dtypes):
            raise ValueError(f"{self._name} takes {len(self._dtypes)} tensors at a time, but got {len(values)}")
        tensors = [convert_to_tensor(value, dtype) for value, dtype in zip(values, self._dtypes)]
        for tensor, shape in zip(tensors, self._shapes):
            self._check_shape(tensor.shape[leading_axes:], shape)
        return tensors

    def _check_shape(self, shape: TensorShape, expected: TensorShape) -> None:
        if not expected.is_compatible_with(shape):
            raise ValueError(f"Shapes {shape} and {expected} are incompatible")

    def _packed(self, tensors: Sequence[Any]) -> Any:
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else list(tensors)


_OP_NAMES = {"QueueEnqueueV2": "enqueue", "QueueEnqueueManyV2": "EnqueueMany", "QueueCloseV2": "Close"}


def _row_count(n: Any) -> int:
    count = static_int(operand(n, int32, 1), "n")
    if count < 0:
        raise ArgumentError(f"DequeueManyOp requested {count} < 0 elements")
    return count


def _single(vals: Any) -> list[Any]:
    """Returns the one tensor of a queue of single tensors, which may be passed in a list."""
    return list(vals) if isinstance(vals, (list, tuple)) and len(vals) < 2 else [vals]


def _as_shapes(shapes: Any, count: int) -> list[TensorShape]:
    """Returns a shape for each of the queue's ``count`` components; of unknown rank if none were given."""
    if shapes is None:
        return [TensorShape(None)] * count
    # A list of sizes is one shape.
    is_list_of_shapes = (
        isinstance(shapes, (list, tuple)) and shapes and isinstance(shapes[0], (list, tuple, TensorShape))
    )
    if not is_list_of_shapes and not isinstance(shapes, (list, tuple, TensorShape)):
        raise TypeError(f"Shapes must be a TensorShape or a list or tuple of TensorShapes, got {type(shapes)} instead.")
    result = [as_shape(shape) for shape in (shapes if is_list_of_shapes else [shapes])]
    if len(result) != count:
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received len(shapes)={len(result)}, len(dtypes)={count}"
        )
    return result


def _as_names(names: Any, count: int) -> list[str] | None:
    """Returns a name for each of the queue's ``count`` components; None if there are none."""
    if names is None or (isinstance(names, (list, tuple)) and not names):
        return None
    result = [names] if isinstance(names, str) else list(names)
    if len(result) != count:
        raise ValueError(
            f"List of queue names must have the same length as the list of dtypes: {len(result)} vs. {count}"
        )
    return result


@export("queue.FIFOQueue")
class FIFOQueue(QueueBase):
    """A first-in first-out queue.

    >>> import tvtf as tf
    >>> queue = tf.queue.FIFOQueue(3, tf.float32)
    >>> queue.enqueue_many([[1., 2., 3.]])
    >>> queue.dequeue().numpy(), int(queue.size())
    (np.float32(1.0), 2)

    Source: https://www.tensorflow.org/api_docs/python/tf/queue/FIFOQueue
    """

    def __init__(
        self, capacity: int, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:  # fmt: skip
        super().__init__(dtypes, shapes, names, capacity, name)


@export("queue.PaddingFIFOQueue")
class PaddingFIFOQueue(FIFOQueue):
    """A first-in first-out queue that pads stacked tensors with zeros in the dims that its shapes leave unknown.

    >>> import tvtf as tf
    >>> queue = tf.queue.PaddingFIFOQueue(3, tf.int32, [[None]])
    >>> queue.enqueue([[1]]), queue.enqueue([[2, 3]])
    (None, None)
    >>> queue.dequeue_many(2).numpy()
    array([[1, 0],
           [2, 3]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/queue/PaddingFIFOQueue
    """

    def __init__(
        self, capacity: int, dtypes: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:  # fmt: skip
        if shapes is None:
            raise ValueError("When providing partial shapes, a list of shapes must be provided.")
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)

    def _stacked(self, column: list[np.ndarray], index: int) -> np.ndarray:
        sizes = np.max([a.shape for a in column], axis=0, initial=0).astype(int)
        return super()._stacked([np.pad(a, [(0, s - d) for d, s in zip(a.shape, sizes)]) for a in column], index)


@export("queue.RandomShuffleQueue")
class RandomShuffleQueue(QueueBase):
    """A queue that returns a random element, while more than ``min_after_dequeue`` remain.

    >>> import tvtf as tf
    >>> queue = tf.queue.RandomShuffleQueue(8, 0, tf.int32)
    >>> queue.enqueue_many([[1, 2, 3]])
    >>> sorted(int(queue.dequeue()) for _ in range(3))
    [1, 2, 3]

    Source: https://www.tensorflow.org/api_docs/python/tf/queue/RandomShuffleQueue
    """

    def __init__(
        self, capacity: int, min_after_dequeue: int, dtypes: Any, shapes: Any = None, names: Any = None,
        seed: int | None = None, shared_name: str | None = None, name: str = "random_shuffle_queue",
    ) -> None:  # fmt: skip
        min_remaining = attribute_int(min_after_dequeue, "min_after_dequeue", -(2**31))
        self._min_remaining, self._random = min_remaining, random.Random(seed)
        super().__init__(dtypes, shapes, names, capacity, name)
        if self._capacity is not None and min_remaining >= self._capacity:
            raise ArgumentError(f"min_after_dequeue {min_remaining} must be < capacity {self._capacity}").for_op(
                "RandomShuffleQueueV2"
            )

    def _ready(self) -> int:
        return len(self._rows) - self._min_remaining

    def _remove(self) -> tuple[np.ndarray, ...]:
        self._rows.rotate(-self._random.randrange(len(self._rows)))
        return self._rows.popleft()


@export("queue.PriorityQueue")
class PriorityQueue(QueueBase):
    """A queue that returns the element of least priority, an int64 that comes before its other tensors.

    >>> import tvtf as tf
    >>> queue = tf.queue.PriorityQueue(8, tf.string, [])
    >>> queue.enqueue((5, "late")), queue.enqueue((1, "soon"))
    (None, None)
    >>> [t.numpy() for t in queue.dequeue()]
    [np.int64(1), b'soon']

    Source: https://www.tensorflow.org/api_docs/python/tf/queue/PriorityQueue
    """

    def __init__(
        self, capacity: int, types: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:  # fmt: skip
        types = types if isinstance(types, (list, tuple)) else [types]
        component_shapes = _as_shapes(shapes, len(types))
        self._insertions = 0
        super().__init__([int64, *types], [TensorShape([]), *component_shapes], names, capacity, name)

    def _empty_storage(self) -> Any:
        return []

    def _add(self, row: tuple[np.ndarray, ...]) -> None:
        self._insertions += 1
        heapq.heappush(self._rows, (int(row[0]), self._insertions, row))

    def _remove(self) -> tuple[np.ndarray, ...]:
        return heapq.heappop(self._rows)[-1]


_install()
