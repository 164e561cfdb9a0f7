"""The random streams of functions: where the stream of each op starts, and how far each iteration over a dataset has come.

TensorFlow's kernels hold the state of a random op. An iterator over a dataset has kernels of its own, so that the random
ops of the dataset's functions start again with each iterator, and iterators that are open at once draw the same numbers.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.core.thread_state import outside_of_functions
from tvtf.core.thread_state import state as thread
from tvtf.core.variable_lock import Lock
from tvtf.state.seeds import MAX_INT32, Positions, seeds
from tvtf.state.variable import ResourceVariable

DEFAULT_SEED = 87654321
"""TensorFlow's global seed if only an op seed is given (DEFAULT_GRAPH_SEED)."""
STREAM = "_random_stream"
"""The attribute of a Variable with a generator state that holds its `Stream`."""


class StreamStates:
    """How far one user of random streams has come: an iteration over a dataset, or the program outside of iterations."""

    def __init__(self, whole: StreamStates | None = None) -> None:
        """Creates the initial states of random streams for one user, such as an iteration over a dataset.

        For a part of an iteration, ``whole`` are the states of the whole iteration.
        """
        self.whole = self if whole is None else whole
        self.returned_by: FunctionStreams | None = None
        """The function of elements whose result is iterated over, if these states are for that."""
        self.of_streams: weakref.WeakKeyDictionary[Stream, np.ndarray] = weakref.WeakKeyDictionary()
        """The generator states of streams that another user has taken over since."""
        self.of_eager_ops: dict[Hashable, np.ndarray] = {}
        """The generator states of ops in functions that run as Python."""
        self._of_calls: dict[Hashable, StreamStates] = {}

    def of_call(self, call: Hashable) -> StreamStates:
        """Returns the states of the traced function that a function of elements, which runs as Python, calls."""
        return self._of_calls.setdefault(call, StreamStates(self.whole))

    def of_results(self, function: FunctionStreams) -> StreamStates:
        """Returns the states of iterations over the datasets that a function of elements returns."""
        states = self.of_function(function.is_inner).of_call(function)
        states.returned_by = function
        return states

    def of_function(self, is_inner: bool) -> StreamStates:
        """Returns the states of a dataset's function, which another function of elements has made if it ``is_inner``.

        TensorFlow copies the datasets of a graph for each use, and their functions with them. A dataset that a function of
        elements captures is not in the graph, so that the whole iteration has its functions once.
        """
        return self if self.returned_by is None or is_inner else self.whole.of_call(CAPTURED)

    def with_calls(self) -> list[StreamStates]:
        """Returns these states and those of calls."""
        return [self, *itertools.chain.from_iterable(states.with_calls() for states in self._of_calls.values())]


CAPTURED = "captured"
"""The key of the states of functions of datasets that functions of elements capture."""
PROGRAM = StreamStates()
"""The states of functions that are called outside of iterations over datasets."""


class Stream:
    """The random stream of one op in a traced function: a Variable with the generator state."""

    def __init__(self, start: np.ndarray | None, is_inner: bool = False) -> None:
        """Creates a stream, and the Variable that holds its generator state.

        The Variable is created outside of the trace, because the state must survive the traced call.

        Args:
          start: the generator state at which the stream starts; None for a new random state at each start.
          is_inner: whether the stream's function was created inside of a function of a dataset's elements.
        """
        self.start, self.is_inner = start, is_inner
        self.holder = PROGRAM
        with outside_of_functions():
            # Not `Variable`: that class calls the user's creator scopes, but this is not a Variable of the user's.
            self.variable = ResourceVariable(self._state_at_start(), trainable=False, name="random_state")
        vars(self.variable)[STREAM] = self
        seeds.functions.add(self)

    def restart_in_run(self) -> None:
        """Has the runs of the active trace start the stream again here. A random start can't be told from another state."""
        if self.start is not None:
            self.variable.assign(self.start, read_value=False)

    def restart(self) -> None:
        """Starts the stream again for calls outside of iterations over datasets."""
        users = PROGRAM.with_calls()
        if self.holder in users:
            self.variable.assign(self._state_at_start())
        for user in users:
            user.of_streams.pop(self, None)

    def hand_to(self, states: StreamStates) -> None:
        """Gives the Variable the state that it has for another user. The caller holds the Variable's lock."""
        self.holder.of_streams[self] = self.variable.numpy().copy()
        left = states.of_streams.pop(self, None)
        self.variable.assign(self._state_at_start() if left is None else left)
        self.holder = states

    def _state_at_start(self) -> np.ndarray:
        return random_state() if self.start is None else self.start


def stream_of(variable: Any) -> Stream | None:
    """Returns the random stream whose state a Variable holds, or None for other Variables."""
    return vars(variable).get(STREAM)


def streams_of(variables: Iterable[Any]) -> list[Stream]:
    """Returns the random streams whose states are among some Variables."""
    return [stream for variable in variables if (stream := stream_of(variable)) is not None]


def random_state() -> np.ndarray:
    return np.frombuffer(os.urandom(24), np.uint64).copy()


def first_state(op_seed: int | None) -> np.ndarray:
    """Returns the initial Philox state of an op's random stream: the counter's low and high half, and the key.

    The key is the global seed (TensorFlow's default if none is set). The counter's high half is the op's seed. Without
    any seed, the state is random.
    """
    seed = global_seed()
    if seed is None and op_seed is None:
        return random_state()
    key = DEFAULT_SEED if seed is None else seed % MAX_INT32
    counter = (op_seed or 0) % MAX_INT32
    if key == counter == 0:  # TensorFlow's kernels take the seeds (0, 0) for no seed, so TensorFlow replaces them
        counter = MAX_INT32
    return np.array([0, counter, key], np.uint64)


# -- the functions whose ops draw random numbers

StreamKey = tuple[str, int | None, int, int]
"""An op's name, its seed, its position among ops without a seed, and how often the function called it before in this call."""


class FunctionStreams:
    """The random streams of a function's ops.

    TensorFlow traces a function of a dataset's elements only once, and the functions of datasets that it makes. tvtf calls
    it, and traces theirs, again for each element. Therefore later calls find the streams of earlier ones, and the same op
    seeds: positions in the function. A later global seed doesn't change them.
    """

    def __init__(self, seed: int | None, is_inner: bool = False) -> None:
        """Creates the random streams of a function.

        Args:
          seed: the global seed when the function was created.
          is_inner: whether the function was created inside of a function of a dataset's elements.
        """
        self.global_seed, self.is_inner = seed, is_inner
        self.streams: dict[StreamKey, Stream] = {}
        self.of_inner_functions: dict[int, FunctionStreams] = {}
        """The streams of the functions of datasets that the function makes, in their order."""
        self.traced_spec: tuple[Any, Any] = (None, None)
        """For a function that returns a dataset: what a trace depended on, and the dataset's element spec in it."""

    def op_seed_at(self, position: int) -> int:
        """Returns the seed of an op without one that isn't traced, by its position among such ops of the function."""
        return position


class RemadeOps(FunctionStreams):
    """Datasets of a graph that are made again in each run: they keep the op seeds that they have in the graph."""

    def __init__(self, graph: RunningFunction) -> None:
        super().__init__(graph.function.global_seed)
        self._next_of_graph = graph.op_seeds_of(thread.trace)
        self._op_seeds: list[int] = []

    def op_seed_at(self, position: int) -> int:
        missing = position + 1 - len(self._op_seeds)
        self._op_seeds += itertools.islice(self._next_of_graph, max(missing, 0))
        return self._op_seeds[position]


class _GraphOps(FunctionStreams):
    """The random streams of a TensorFlow 1 graph, whose ops have the global seed that is set when they are made."""

    @property
    def global_seed(self) -> int | None:
        return seeds.seed

    @global_seed.setter
    def global_seed(self, seed: int | None) -> None: ...


class RunningFunction:
    """A function while it is traced, or while it runs as Python: counts its ops, by which it finds their streams."""

    def __init__(self, function: FunctionStreams, trace: Any = None, states: StreamStates | None = None) -> None:
        """Begins a trace of a function, or a call that runs the function as Python.

        Args:
          function: the random streams of the function.
          trace: the enclosing trace of a call, or None.
          states: the generator states that a call continues; None for a trace.
        """
        self.function, self.trace, self.states = function, trace, states
        self._op_seeds: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()
        self._eager_op_seeds = itertools.count()
        self._occurrences: Counter[Hashable] = Counter()
        self._inner_functions = itertools.count()
        self._drawn: list[Stream] = []

    def next_op_seed(self) -> int:
        """Returns the seed of the next op that has no seed of its own: the op's position among such ops of its graph.

        As in TensorFlow, a branch or the body of a loop is a separate graph.
        """
        if thread.trace is None:
            return self.function.op_seed_at(next(self._eager_op_seeds))
        return next(self.op_seeds_of(thread.trace))

    def op_seeds_of(self, graph: Any) -> Iterator[int]:
        """Returns the iterator over the op seeds of a graph, which is a trace, or a part of it for a branch or a loop."""
        while graph.is_part_of_parent and graph.parent is not None:
            graph = graph.parent
        return self._op_seeds.setdefault(graph, itertools.count())

    def key(self, op: str, op_seed: int | None) -> StreamKey:
        """Returns the key of the next op, which is the same in each call."""
        position = self.next_op_seed() if op_seed is None else 0
        occurrence = self._occurrences[op, op_seed, position]
        self._occurrences[op, op_seed, position] += 1
        return op, op_seed, position, occurrence

    def stream(self, op_seed: int | None) -> Stream:
        """Returns the stream of the next op of a traced function."""
        key = self.key("", op_seed)
        return self._stream(key, self.start(key))

    def inlined_stream(self, inlined: Stream) -> Stream:
        """Returns the stream of an op of another function, which is inlined: it starts where the op's own stream starts."""
        occurrence = self._occurrences["inlined"]
        self._occurrences["inlined"] += 1
        return self._stream(("inlined", None, 0, occurrence), inlined.start)

    def _stream(self, key: StreamKey, start: np.ndarray | None) -> Stream:
        """Returns the stream of an op, which is created with the state ``start`` if it is new."""
        with _lock:
            known = self.function.streams.get(key)
            if known is None:
                known = self.function.streams[key] = Stream(start, self.function.is_inner)
            self._drawn.append(known)
            return known

    def drawn_since_now(self) -> Callable[[], list[Stream]]:
        """Returns a function that returns the streams that were drawn from after this call."""
        count = len(self._drawn)
        return lambda: self._drawn[count:]

    def start(self, key: StreamKey) -> np.ndarray | None:
        """Returns the generator state at which an op starts; None if it is random: neither seed is set."""
        _, op_seed, position, _ = key
        if op_seed is None and self.function.global_seed is None:
            return None
        return first_state(position if op_seed is None else op_seed)

    def inner_function(self) -> FunctionStreams:
        """Returns the streams of the next function of a dataset that is made in this function."""
        inner = FunctionStreams(self.function.global_seed, function_of_elements() is not None)
        return self.function.of_inner_functions.setdefault(next(self._inner_functions), inner)

    def states_of_call(self, called: Any) -> StreamStates:
        """Returns the states of a traced function that is called here: each of the places that call it has its own."""
        occurrence = self._occurrences[called]
        self._occurrences[called] += 1
        return (self.states or PROGRAM).of_call((self.function, called, occurrence))

    def uncount_call(self, called: Any) -> None:
        """Has the next call of a traced function continue the states of the last one, which did nothing."""
        self._occurrences[called] -= 1


class _Thread(threading.local):
    """Who draws random numbers in a thread: the program (None), an iteration, or a function of its that runs as Python."""

    drawing: StreamStates | RunningFunction | None = None


_thread = _Thread()
_lock = Lock()
_traced: weakref.WeakKeyDictionary[Any, RunningFunction] = weakref.WeakKeyDictionary()


def running_function() -> RunningFunction | None:
    """Returns the innermost function that is traced, or that runs as Python for an element of a dataset."""
    trace, drawing = thread.trace, _thread.drawing
    if isinstance(drawing, RunningFunction) and drawing.trace is trace:
        return drawing
    return None if trace is None else _of_trace(trace.root)


def is_traced() -> bool:
    """Returns whether what is made now belongs to a trace, and not to a function that is called on an example in it."""
    drawing = _thread.drawing
    return thread.trace is not None and not (isinstance(drawing, RunningFunction) and drawing.trace is thread.trace)


def _of_trace(root: Any) -> RunningFunction:
    """Returns the running function of a trace, which lives as long as the trace."""
    known = _traced.get(root)
    if known is None:
        drawing = _thread.drawing
        seed = drawing.function.global_seed if isinstance(drawing, RunningFunction) else seeds.seed
        known = _traced[root] = RunningFunction(_GraphOps(None) if root.has_keys else FunctionStreams(seed))
    return known


def traced_with(function: FunctionStreams) -> None:
    """Has the ops of the active trace continue the streams of a dataset's function."""
    _traced[thread.trace.root] = RunningFunction(function)


def streams_of_instances(root: Any) -> FunctionStreams:
    """Returns the streams of the ops that each instance of a trace adds to it, which all of its instances share."""
    function = _of_trace(root).function
    return FunctionStreams(function.global_seed, function.is_inner)


def global_seed() -> int | None:
    """Returns the global seed, or the one that was set when the running function was made."""
    function = running_function()
    return seeds.seed if function is None else function.function.global_seed


def next_op_seed() -> int:
    """Returns a seed for an op or dataset without one: from the global seed, or its position in the running function."""
    function = running_function()
    return seeds.next_op_seed() if function is None else function.next_op_seed()


def new_function() -> FunctionStreams:
    """Returns the streams of a dataset's function that is made now; if an earlier call of a function made it, those."""
    function = running_function()
    return FunctionStreams(seeds.seed) if function is None else function.inner_function()


def drawn_in_loop() -> Callable[[], list[Stream]]:
    """Returns a function that returns the streams that the traced program draws from after this call."""
    return running_function().drawn_since_now()  # type: ignore[union-attr]  # a trace is active


def remade_ops() -> RemadeOps:
    """Returns the op seeds of datasets that are declared now, in a trace, and made in its runs."""
    return RemadeOps(running_function())  # type: ignore[arg-type]  # a trace is active


# -- who draws from them


class drawn_by:  # noqa: N801 - a context manager
    """A context whose ops and functions continue the states of an iteration; None stands for the program."""

    __slots__ = ("_user", "_outer")

    def __init__(self, user: StreamStates | RunningFunction | None) -> None:
        self._user = user

    def __enter__(self) -> None:
        self._outer, _thread.drawing = _thread.drawing, self._user

    def __exit__(self, *_: Any) -> None:
        _thread.drawing = self._outer


def made_again(ops: RemadeOps) -> drawn_by:
    """Returns a context in which datasets are made as their graph declares them."""
    return drawn_by(RunningFunction(ops))


Drawer = tuple[StreamStates | RunningFunction | None, Positions | None]
"""Who draws random numbers in a thread, and the positions of what it tries out."""


def drawing() -> Drawer:
    """Returns who draws random numbers in this thread, for another thread that works for it."""
    return _thread.drawing, seeds.thread.tried


@contextmanager
def working_for(drawer: Drawer) -> Iterator[None]:
    """Makes this thread draw random numbers for ``drawer`` in a ``with`` block; see `drawing`.

    A thread of a pool works for another thread, and must continue that thread's random streams.
    """
    user, seeds.thread.tried = drawer
    try:
        with drawn_by(user):
            yield
    finally:
        seeds.thread.tried = None


def calling(function: FunctionStreams) -> drawn_by:
    """Returns a context in which a dataset's function runs as Python."""
    return drawn_by(RunningFunction(function, thread.trace, _states().of_function(function.is_inner)))


def _states() -> StreamStates:
    """Returns the states of the running iteration over a dataset, or new ones."""
    user = _thread.drawing
    return (user.states if isinstance(user, RunningFunction) else user) or StreamStates()


@contextmanager
def trying() -> Iterator[None]:
    """Leaves the program's random streams as they are: functions are tried out, which TensorFlow doesn't do.

    Other threads may draw numbers meanwhile. Therefore the program's positions are copied, not restored.
    """
    with seeds.lock:
        outer, seeds.thread.tried = seeds.thread.tried, seeds.positions.copy()
    try:
        with drawn_by(StreamStates()):
            yield
    finally:
        seeds.thread.tried = outer


def hold(streams: Sequence[Stream], called: Any, graph: Hashable = None) -> None:
    """Sets the streams of a traced function to the states of its caller, before the function is called.

    The program, a running function and an iteration over a dataset each have their own states. The lock of the streams
    must be held.

    Args:
      streams: the random streams of the function.
      called: the function.
      graph: which of TensorFlow's graphs of the function the call runs; each has its own states. None for the usual one.
    """
    user = _thread.drawing
    if user is None:
        states = PROGRAM
    elif isinstance(user, RunningFunction):
        states = user.states_of_call(called)
    else:
        states = user.of_function(streams[0].is_inner)
    if graph is not None:
        states = states.of_call(graph)
    for stream in streams:
        if stream.holder is not states:
            stream.hand_to(states)


def states_of_part(part: Hashable) -> StreamStates | None:
    """Returns the states of a part of the running iteration over a dataset, or None if no iteration is running."""
    user = _thread.drawing
    return user.of_call(part) if isinstance(user, StreamStates) else None


def is_run_of_graph() -> bool:
    """Returns whether what is made now is what a graph of TensorFlow's makes when it runs, with values of the run."""
    user = _thread.drawing
    return isinstance(user, RunningFunction) and user.trace is thread.trace


def function_of_elements() -> FunctionStreams | None:
    """Returns the function of a dataset's elements that runs as Python now, for an element; None if there is none."""
    user = _thread.drawing
    if not is_run_of_graph() or isinstance(user.function, RemadeOps):  # type: ignore[union-attr]
        return None
    return user.function  # type: ignore[union-attr]


def states_of_results(function: FunctionStreams) -> StreamStates:
    """Returns the states of an iteration that begins now over a dataset that a function of elements has returned."""
    return _states().of_results(function)


def returned_by() -> FunctionStreams | None:
    """Returns the function of elements that has returned the dataset of the running iteration; None if there is none."""
    user = _thread.drawing
    return user.returned_by if isinstance(user, StreamStates) else None


def call_again(called: Any) -> None:
    """Has the next call of a traced function be the one that `hold` counted last, which had to stop before it did anything."""
    user = _thread.drawing
    if isinstance(user, RunningFunction):
        user.uncount_call(called)


def advance_eager_op(function: RunningFunction, op: str, op_seed: int | None, blocks: int, skipped: Any) -> np.ndarray:
    """Returns the generator state of an op of a function that runs as Python; the op continues ``blocks`` blocks later.

    ``skipped`` is the function of a state and a number of blocks that returns the later state.
    """
    key = function.key(op, op_seed)
    states = (function.states or PROGRAM).of_eager_ops
    with _lock:  # other threads call the function, too
        before = states.get((function.function, key))
        if before is None:
            start = function.start(key)
            before = random_state() if start is None else start
        states[function.function, key] = skipped(before, blocks)
    return before
