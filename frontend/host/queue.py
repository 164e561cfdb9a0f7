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
        """Creates an empty queue of rows (tuples of tensors, one of each dtype).

        Args:
          dtypes: the dtypes of a row's tensors, or a single dtype.
          shapes: the shapes of the tensors, or None for any shapes.
          names: the names of the tensors, or None. With names, rows are passed as dicts.
          capacity: the greatest number of rows. Negative, or None, for no limit.
          name: the queue's name in graphs and error messages.
        """
        listed_dtypes = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
        self._dtypes = [as_dtype(dtype) for dtype in listed_dtypes]
        if not self._dtypes:
            raise ArgumentError("Length for attr 'component_types' of 0 must be at least minimum 1").for_op("Queue")
        capacity = attribute_int(-1 if capacity is None else capacity, "capacity", -(2**31))
        self._shapes = _as_shapes(shapes, len(self._dtypes))
        self._names = _as_names(names, len(self._dtypes))
        self._name = name
        self._capacity = capacity if capacity >= 0 else None
        self._closed = False
        self._changed = Condition()
        self._rows = self._empty_storage()

    @staticmethod
    def from_list(index: Any, queues: list[QueueBase]) -> QueueBase:
        """Returns the queue at ``index``, which must be known while tracing.

        Raises:
          TypeError: ``queues`` is not a list of queues, or the queues' dtypes or names differ.
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("A list of queues expected")
        if any(queue.dtypes != queues[0].dtypes for queue in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(queue.names != queues[0].names for queue in queues):
            raise TypeError("Queues do not have matching component names.")
        return queues[static_int(convert_to_tensor(index), "index")]

    def _empty_storage(self) -> Any:
        """Returns the empty container of the queue's rows."""
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
        """Adds a row to the queue. If the queue is full, waits until a row is removed.

        Raises:
          CancelledError: the queue is closed, or is closed while this call waits.
        """

        def can_proceed() -> bool:
            """Returns whether there is room for a row, or the wait is over because the queue is closed."""
            return self._closed or self._capacity is None or len(self._rows) < self._capacity

        with self._changed:
            self._changed.wait_for(can_proceed)
            if self._closed:
                raise CancelledError(None, "QueueEnqueueV2", f"{type(self).__name__} '_0_{self._name}' is closed.")
            self._add(row)
            self._changed.notify_all()

    def _take(self, min_count: int, max_count: int) -> list[tuple[np.ndarray, ...]]:
        """Removes ``max_count`` rows from the queue, and returns them. Waits until the queue has as many.

        A closed queue gets no more rows. Fewer rows are then returned, but at least ``min_count``.

        Raises:
          OutOfRangeError: the queue is closed and has fewer than ``min_count`` rows.
        """
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
            self._changed.notify_all()  # others may wait for a free slot
            return rows

    def _ready(self) -> int:
        """Returns the number of rows that may be removed from an open queue."""
        return len(self._rows)

    def _add(self, row: tuple[np.ndarray, ...]) -> None:
        """Stores a row. Subclasses may order the rows."""
        self._rows.append(row)

    def _remove(self) -> tuple[np.ndarray, ...]:
        """Removes the next row, and returns it. Subclasses may choose another row."""
        return self._rows.popleft()

    # -- on tensors

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """Puts one tuple of tensors into the queue.

        Raises:
          CancelledError: the queue was closed.
          ValueError: the shapes or the number of the tensors differ from the queue's.
        """

        def put_row(*tensors: Any) -> None:
            """Adds the row when the program runs. Waits for a free slot."""
            self._put(tuple(tensor.numpy() for tensor in tensors))

        row = self._checked(vals, 0)  # all axes belong to the queue's tensors
        return self._as_operation("QueueEnqueueV2", name, put_row, row)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """Puts slices of the tensors along their first axis into the queue, one tuple of slices after another."""

        def put_rows(*tensors: Any) -> None:
            """Adds the rows when the program runs. Each waits for a free slot."""
            for row in zip(*(tensor.numpy() for tensor in tensors)):
                self._put(tuple(np.asarray(value) for value in row))

        columns = self._checked(vals, 1)  # the first axis is over the rows
        for column in columns:
            if not column.ndim:
                raise ValueError(f"Shape {column.shape} must have rank at least 1")
            column.shape[:1].assert_is_compatible_with(columns[0].shape[:1])
        return self._as_operation("QueueEnqueueManyV2", name, put_rows, columns)

    def dequeue(self, name: str | None = None) -> Any:
        """Removes one tuple from the queue, and returns it: a single tensor if it has only one, a dict if it has names.

        Raises:
          OutOfRangeError: the queue is empty and closed.
        """
        return self._packed(self._now_or_in_program(lambda: list(self._take(1, 1)[0]), [], self._specs()))

    def dequeue_many(self, n: int, name: str | None = None) -> Any:
        """Removes ``n`` tuples from the queue, and returns their tensors stacked along a new first axis."""
        count = _row_count(n)
        return self._dequeue_stacked(count, count)

    def dequeue_up_to(self, n: int, name: str | None = None) -> Any:
        """Removes ``n`` tuples, or the remaining tuples of a closed queue, and returns their tensors stacked."""
        return self._dequeue_stacked(1, _row_count(n))

    def _dequeue_stacked(self, min_count: int, max_count: int) -> Any:
        """Removes between ``min_count`` and ``max_count`` rows, and returns their tensors, stacked by component.

        In a trace, the rows are removed when the program runs.
        """

        def take_and_stack() -> list[np.ndarray]:
            """Removes the rows, and stacks each component."""
            rows = self._take(min_count, max_count) if max_count else []
            stacks = []
            for index in range(len(self._dtypes)):
                component = [row[index] for row in rows]
                stacks.append(self._stacked(component, index))
            return stacks

        row_count = max_count if min_count == max_count else None  # None: known only when the program runs
        specs = [TensorSpec([row_count, *spec.shape], spec.dtype) for spec in self._specs(stacked=True)]
        return self._packed(self._now_or_in_program(take_and_stack, [], specs))

    def _stacked(self, column: list[np.ndarray], index: int) -> np.ndarray:
        """Stacks the arrays of component ``index`` along a new first axis. Without arrays, unknown sizes are 0."""
        if not column:
            return np.zeros((0, *(size or 0 for size in self._shapes[index])), self._dtypes[index].np)
        return np.stack(column)

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of tuples in the queue, int32."""
        return self._now_or_in_program(lambda: [len(self._rows)], [], [TensorSpec([], int32)])[0]

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """Closes the queue: no more tuples can be added, but the remaining tuples can be removed."""

        return self._as_operation("QueueCloseV2", name, self.shut, [])

    def shut(self, cancelled: bool = False) -> None:
        """Closes the queue now, even while a function is traced, and wakes all threads that wait for the queue."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def is_closed(self, name: str | None = None) -> Tensor:
        """Returns whether it was closed."""
        return convert_to_tensor(self._closed)

    # -- checking, converting and running

    def _now_or_in_program(self, function: Any, inputs: Sequence[Any], specs: Sequence[TensorSpec]) -> list[Any]:
        """Calls ``function`` on ``inputs``, and returns its results as tensors of these specs.

        In a trace, a call is emitted: the queue must change each time that the program runs, and not while tracing.
        """
        if state.trace is not None:
            return list(py_function(function, list(inputs), list(specs)) or [])
        results = function(*inputs)
        return [convert_to_tensor(x, spec.dtype) for x, spec in zip(results or [], specs)]

    def _as_operation(self, op_type: str, name: str | None, function: Any, inputs: Sequence[Any]) -> Any:
        """Calls a function without results on ``inputs``.

        In a trace, a call is emitted, and a graph operation of this type and name is returned.
        """
        if state.trace is None:
            function(*inputs)
            return None
        op_name = name or f"{self._name}_{_OP_NAMES[op_type]}"
        return state.trace.doing(op_type, op_name, lambda: self._now_or_in_program(function, inputs, []))

    def _specs(self, stacked: bool = False) -> list[TensorSpec]:
        """Returns the specs of a row's tensors. If rows are to be ``stacked``, raises ValueError for unknown ranks."""
        if stacked and any(shape.rank is None for shape in self._shapes):
            raise ValueError(f"{self._name} needs `shapes` to return several elements as one tensor")
        return [TensorSpec(shape, dtype) for shape, dtype in zip(self._shapes, self._dtypes)]

    def _checked(self, vals: Any, leading_axes: int) -> list[Any]:
        """Converts the user's values to a list of tensors of the queue's dtypes, and checks that they fit the queue.

        Args:
          vals: a tensor, a list of tensors, or a dict if the queue has names.
          leading_axes: the number of axes before the queue's shapes: 1 for several rows, else 0.
        """
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  "
                    f"Dictionary: {sorted(vals, key=str)},Queue: {sorted(self._names, key=str)}"
                )
            vals = [vals[name] for name in self._names]
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
        """Raises TensorFlow's ValueError if a tensor's shape isn't compatible with the queue's shape for it."""
        if not expected.is_compatible_with(shape):
            raise ValueError(f"Shapes {shape} and {expected} are incompatible")

    def _packed(self, tensors: Sequence[Any]) -> Any:
        """Returns a row's tensors for the user: a dict if the queue has names, a single tensor, or a list."""
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else list(tensors)


_OP_NAMES = {"QueueEnqueueV2": "enqueue", "QueueEnqueueManyV2": "EnqueueMany", "QueueCloseV2": "Close"}


def _row_count(n: Any) -> int:
    """Returns a number of rows to remove as an int. The number must be known while tracing, and not negative."""
    count = static_int(operand(n, int32, 1), "n")
    if count < 0:
        raise ArgumentError(f"DequeueManyOp requested {count} < 0 elements")
    return count


def _single(vals: Any) -> list[Any]:
    """Returns a list of the value for a queue of single tensors. The user may pass the value in a list of one item."""
    return list(vals) if isinstance(vals, (list, tuple)) and len(vals) < 2 else [vals]


def _as_shapes(shapes: Any, count: int) -> list[TensorShape]:
    """Checks the argument ``shapes`` of a queue, and returns a shape for each of the ``count`` components.

    Without the argument, the shapes have unknown rank.
    """
    if shapes is None:
        return [TensorShape(None)] * count
    if not isinstance(shapes, (list, tuple, TensorShape)):
        raise TypeError(f"Shapes must be a TensorShape or a list or tuple of TensorShapes, got {type(shapes)} instead.")
    is_list = isinstance(shapes, (list, tuple))
    # [[2, 3], [4]] is a list of shapes, but [2, 3] is one shape.
    is_list_of_shapes = is_list and shapes and isinstance(shapes[0], (list, tuple, TensorShape))
    result = [as_shape(shape) for shape in (shapes if is_list_of_shapes else [shapes])]
    if len(result) != count:
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received len(shapes)={len(result)}, len(dtypes)={count}"
        )
    return result


def _as_names(names: Any, count: int) -> list[str] | None:
    """Checks the argument ``names`` of a queue, and returns a name for each of the ``count`` components, or None."""
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
        """Creates an empty queue. ``shapes`` are required, because their unknown sizes are the dims to pad."""
        if shapes is None:
            raise ValueError("When providing partial shapes, a list of shapes must be provided.")
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)

    def _stacked(self, column: list[np.ndarray], index: int) -> np.ndarray:
        """Pads the arrays with zeros to the largest size of each axis, and stacks them along a new first axis."""
        sizes = np.max([array.shape for array in column], axis=0, initial=0).astype(int)
        padded = [np.pad(array, [(0, size - dim) for dim, size in zip(array.shape, sizes)]) for array in column]
        return super()._stacked(padded, index)


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
        """Creates an empty queue that keeps ``min_after_dequeue`` rows while open. ``seed`` is for its random order.

        Raises:
          ArgumentError: ``min_after_dequeue`` is not less than the capacity, so that no row could be removed.
        """
        min_remaining = attribute_int(min_after_dequeue, "min_after_dequeue", -(2**31))
        self._min_remaining = min_remaining
        self._random = random.Random(seed)
        super().__init__(dtypes, shapes, names, capacity, name)
        if self._capacity is not None and min_remaining >= self._capacity:
            raise ArgumentError(f"min_after_dequeue {min_remaining} must be < capacity {self._capacity}").for_op(
                "RandomShuffleQueueV2"
            )

    def _ready(self) -> int:
        """Returns the number of rows that may be removed: an open queue keeps ``min_after_dequeue`` rows."""
        return len(self._rows) - self._min_remaining

    def _remove(self) -> tuple[np.ndarray, ...]:
        """Removes a random row, and returns it."""
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
        """Creates an empty queue. An int64 scalar, the priority, comes before the tensors of ``types`` in each row."""
        types = types if isinstance(types, (list, tuple)) else [types]
        component_shapes = _as_shapes(shapes, len(types))
        self._insertions = 0
        super().__init__([int64, *types], [TensorShape([]), *component_shapes], names, capacity, name)

    def _empty_storage(self) -> Any:
        return []

    def _add(self, row: tuple[np.ndarray, ...]) -> None:
        """Stores a row by its priority, the first component. Rows of equal priority keep the order of insertion."""
        self._insertions += 1
        heapq.heappush(self._rows, (int(row[0]), self._insertions, row))

    def _remove(self) -> tuple[np.ndarray, ...]:
        """Removes the row of the smallest priority, and returns it. It is the last item of its entry in the heap."""
        return heapq.heappop(self._rows)[-1]


_install()
