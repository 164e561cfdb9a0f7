"""``tvtf.function``: traces a Python function once per kind of arguments and runs it as compiled code."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

from tvtf.core.argument_error import ArgumentError
from tvtf.core.composite import CompositeTensor
from tvtf.core.function_types import PolymorphicFunction
from tvtf.core.primitive import WrappedSignature, export
from tvtf.core.specialization import UnknownSize, Unspecialized
from tvtf.core.thread_state import state
from tvtf.core.tvm_import import without_interrupts
from tvtf.core.variable_lock import Lock
from tvtf.frontend.autograph import convert
from tvtf.frontend.function.call_key import KeywordBinder, as_tensors, fast_key, nested_key
from tvtf.frontend.function.granularity import Granularity
from tvtf.frontend.function.retrace_log import RetraceLog, RetraceReport, calls_of
from tvtf.frontend.function.runtime_errors import runtime_error
from tvtf.frontend.function.signature import Arguments, Signature

if TYPE_CHECKING:
    from tvtf.frontend.function.concrete_function import ConcreteFunction
    from tvtf.frontend.function.executor import Compiled
    from tvtf.frontend.tuning.kernel_cost import KernelCost
    from tvtf.frontend.tuning.memory_use import Memory
    from tvtf.frontend.tuning.profile import Profile
    from tvtf.frontend.tuning.tune import Tuning
    from tvtf.ir.drawing import Drawing
    from tvtf.ir.listing import Listing

MAX_TRACES = 256
"""Concrete functions that one Function caches; the oldest trace is dropped first."""

BOUND = "_tvtf_function_"
"""Prefix of the attributes in which objects cache the functions bound to them."""

_run_eagerly = [False]


@export("config.run_functions_eagerly")
def run_functions_eagerly(run_eagerly: bool) -> None:
    """Sets whether every ``tf.function`` runs its Python instead of compiled code.

    >>> import tvtf as tf
    >>> tf.config.run_functions_eagerly(True)
    >>> tf.function(lambda x: bool(x > 0))(tf.constant(1.))
    True
    >>> tf.config.run_functions_eagerly(False)

    Source: https://www.tensorflow.org/api_docs/python/tf/config/run_functions_eagerly
    """
    _run_eagerly[0] = bool(run_eagerly)


@export("config.functions_run_eagerly")
def functions_run_eagerly() -> bool:
    """Whether every ``tf.function`` runs its Python instead of compiled code.

    >>> import tvtf as tf
    >>> tf.config.functions_run_eagerly()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/config/functions_run_eagerly
    """
    return _run_eagerly[0]


class Function(PolymorphicFunction):
    """A polymorphic compiled function, with one trace per kind of arguments; made by :func:`function`."""

    __signature__ = WrappedSignature()

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Any = None,
        autograph: bool = True,
        reduce_retracing: bool = False,
        name: str | None = None,
    ) -> None:
        """Wraps a Python function. It is traced later, when the first call shows the types of its arguments."""
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self.signature: Signature = Signature(python_function, input_signature)
        self.input_signature = self.signature.specs
        self.autograph = autograph
        self.reduce_retracing = reduce_retracing
        self.name: str = name or str(getattr(python_function, "__name__", "function"))
        self.log = RetraceLog(self.name, self.signature)
        self.calls = calls_of(python_function)
        self._concrete: dict[Any, ConcreteFunction] = {}
        self._fast: dict[Any, ConcreteFunction] = {}
        self._nested: dict[Any, ConcreteFunction] = {}
        self._keyword_binder = KeywordBinder(self.signature.python)
        self._bound: dict[int, dict[str, Any]] = {}
        self._variables_made = False
        self.granularity: Granularity = Granularity(self.log)
        self._lock = Lock()

    # -- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, with a trace that was made for arguments of the same kinds.

        A call outside of traces looks the trace up by a cheap key first. If none is cached, the slow path binds the
        arguments to the signature and traces if needed.
        """
        if state.trace is None and not _run_eagerly[0]:
            concrete = None if kwargs else self._fast.get(fast_key(args))
            if concrete is not None and not state.tapes:
                self.calls.since += 1  # calls since the last trace
                return concrete.call(args)
            values: list[Any] = list(args)
            if concrete is None and self._nested:
                values = []
                concrete = self._nested.get(self._nested_key(args, kwargs, values))
            if concrete is not None and not concrete.loses_gradients_of(state.tapes):
                self.calls.since += 1
                return concrete.call_flat(as_tensors(values))
        return self._call_slow_path(args, kwargs)

    def _nested_key(self, args: tuple[Any, ...], kwargs: dict[str, Any], values: list[Any]) -> Any:
        """Returns the key of a call in the cache ``_nested``, or None if the call can't have a key.

        The tensors and arrays among the arguments, and in nests of them, are appended to ``values``.
        """
        if not kwargs:
            return nested_key(args, values)
        bound = self._keyword_binder.bind(args, kwargs)
        if bound is None:
            return None
        key = nested_key(bound, values)
        # Tagged with a class, so that it differs from the key of a call without keywords.
        return None if key is None else (KeywordBinder, key)

    def _call_slow_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Binds the arguments to the signature, traces if needed, caches a key for the fast path, and calls the trace."""
        if _run_eagerly[0]:
            return self.python_function(*args, **kwargs)
        traces = self.log.count
        arguments, concrete = self._bound_to(args, kwargs)
        self._count_call(self.log.count > traces)
        self._remember(args, kwargs, arguments, concrete)
        return concrete.call_flat(arguments.values, arguments.variables)

    def _count_call(self, traced: bool) -> None:
        """Counts a call, and warns if too many of the latest calls traced the function again."""
        if not traced:
            self.calls.since += 1
            return
        retracing_counts = self.calls.traced()
        if retracing_counts:
            self.log.warn(retracing_counts, self.python_function)

    def _remember(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments, concrete: ConcreteFunction
    ) -> None:
        """Caches a trace under a cheap key of the call, for the fast path of later calls.

        The key goes to ``_fast`` if all arguments are eager tensors, else to ``_nested``.

        Args:
          args: the positional arguments of the call.
          kwargs: the keyword arguments of the call.
          arguments: the same arguments, bound to the signature.
          concrete: the trace that the call used.
        """
        if state.trace is not None or concrete.scope is not None or arguments.variables:
            return  # such a trace depends on more than the arguments' kinds
        if not kwargs and not self._keyword_binder.has_fixed_defaults(len(args)):
            return
        count = len(arguments.tensors)
        key = None if kwargs else fast_key(args)
        # Not on the shortest path if it calls Python: Python could see Variables that the call has not written yet.
        if key is not None and count == len(args) and not concrete.calls_python:
            if len(self._fast) < MAX_TRACES:
                self._fast[key] = concrete
            return
        values: list[Any] = []
        key = self._nested_key(args, kwargs, values)
        if self.input_signature is not None and any(
            old_value is not new_value for old_value, new_value in zip(values, arguments.values)
        ):
            return  # the signature converts some values, which the fast path would not
        by_values = key is not None and count == len(values) and not self.granularity.by_dataset
        if by_values and len(self._nested) < MAX_TRACES:
            self._nested[key] = concrete

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Returns the function bound to ``instance`` as a method.

        Each object gets the same bound function every time, so that the traces are reused.
        """
        if instance is None:  # read from the class
            return self
        if isinstance(instance, CompositeTensor):  # a composite is an argument like any tensor
            return MethodType(self, instance)
        cache = self._bound_cache(instance)
        bound = cache.get(self._bound_name)
        # A copy of an object (`copy.copy`) has the cached function of the original.
        if bound is None or bound.python_function.__self__ is not instance:
            bound = cache[self._bound_name] = self._bind(instance)
        return bound

    def _bound_cache(self, instance: Any) -> dict[str, Any]:
        """Returns the cache of functions bound to ``instance``.

        The cache is the ``__dict__`` of the object. The functions are then freed together with the object.
        """
        # A class's __dict__ is read-only, and objects with __slots__ have none.
        if isinstance(instance, type) or not hasattr(instance, "__dict__"):
            return self._bound.setdefault(id(instance), {})
        return instance.__dict__

    @property
    def _bound_name(self) -> str:
        """The attribute in which an object caches this function bound to the object."""
        return f"{BOUND}{self.name}_{id(self)}"

    def _bind(self, instance: Any) -> Function:
        """Returns a new function, without traces, for the Python function bound to ``instance``."""
        function = getattr(self.python_function, "__func__", self.python_function)
        return self.of_python(function.__get__(instance))

    def of_python(self, python_function: Callable[..., Any]) -> Function:
        """Returns a new function, without traces, for another Python function and with the same options."""
        return Function(python_function, self.input_signature, self.autograph, self.reduce_retracing, self.name)

    def _decorate(self, decorator: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replaces the Python function by the result of ``decorator`` for it.

        Libraries call this method, although its name is private, because TensorFlow's function has it.

        Raises:
          ValueError: the function has been traced.
        """
        if self._concrete:
            raise ValueError("Functions cannot be decorated after they have been traced.")
        Function.__init__(
            self,
            decorator(self.python_function),
            self.input_signature,
            self.autograph,
            self.reduce_retracing,
            self.name,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        """Copies the function without its traces; a method's copy is bound to the copied object."""
        owner = getattr(self.python_function, "__self__", None)
        return self.of_python(self.python_function) if owner is None else self._bind(copy.deepcopy(owner, memo))

    # -- tracing

    def _bound_to(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Arguments, ConcreteFunction]:
        """Binds the arguments of a call to the signature, and finds a cached trace for them or traces the function.

        A trace has a stand-in for each Variable argument. Where an argument is a Variable that the trace also captures,
        as from a closure, an assignment to the stand-in isn't seen by the other: another trace takes the Variable itself.

        Returns:
          the bound arguments, and the trace.
        """
        arguments = self.granularity.applied_to(self.signature.bind(args, kwargs))
        with self._lock:
            while True:
                concrete = self._find(arguments)
                if concrete is None:
                    arguments, concrete = self._trace(self._generalized(arguments))
                captured = concrete.captured_among(arguments.variables)
                if not captured:
                    return arguments, concrete
                arguments = arguments.with_captured(captured)

    def _find(self, arguments: Arguments) -> ConcreteFunction | None:
        """Returns a cached trace that accepts the arguments, or None if there is none.

        A trace for exactly these arguments is preferred to a more general trace. A trace is skipped if it treats a
        tensor watched by a tape as a constant, because the gradient of that tensor would be lost.
        """
        tapes = [*state.tapes]
        if state.trace is not None:
            tapes += state.trace.tapes_around
        for traces in (*self._capturing(), self._concrete):
            exact_match = traces.get(arguments.key)
            candidates = reversed(traces.values()) if exact_match is None else (exact_match,)
            for concrete in candidates:
                is_accepting = concrete is exact_match or concrete.arguments.accepts(arguments)
                if is_accepting and not (tapes and concrete.loses_gradients_of(tapes)):
                    return concrete
        return None

    def _capturing(self) -> list[dict[Any, ConcreteFunction]]:
        """Returns the caches of traces that capture tensors of the enclosing traces.

        Only calls inside the enclosing trace can use these traces, so the enclosing trace holds the cache.
        """
        enclosing = () if state.trace is None else state.trace.enclosing()
        return [trace.functions[self] for trace in enclosing if self in trace.functions]

    def _generalized(self, arguments: Arguments) -> Arguments:
        """Returns arguments with symbolic dims for the dims that differ from an earlier trace (``reduce_retracing``).

        For example, shape ``(3, 4)`` after a trace for ``(2, 4)`` becomes ``(None, 4)``.
        """
        if not self.reduce_retracing or self.granularity.by_shape is not None:
            return arguments
        for concrete in reversed(self._concrete.values()):
            wider = arguments.generalized_with(concrete.arguments)
            if wider is not None:
                return wider
        return arguments

    def _trace(self, arguments: Arguments) -> tuple[Arguments, ConcreteFunction]:
        """Traces the function for the specs of the arguments, and again for the call's ranks or sizes if tracing needs them.

        An error in a trace for sizes is reported as an error of running the program if the sizes are certainly needed.
        Otherwise the sizes were not the cause, and the error of the trace without sizes is reported.

        Returns:
          the arguments, with the ranks or sizes that the trace needed, and the trace.
        """
        with without_interrupts():
            from tvtf.frontend.function.concrete_function import ConcreteFunction

        sizes_now: UnknownSize | None = None
        while True:
            try:
                concrete = ConcreteFunction.trace(self, arguments)
            except Unspecialized as needed:
                arguments, sizes = self.granularity.refined(arguments, needed)
                sizes_now = sizes or sizes_now
            except (TypeError, ValueError) as error:
                reason = sizes_now or self.granularity.by_shape
                if reason is None:
                    raise
                if reason.is_required:
                    raise runtime_error(self.name, error) from None
                if sizes_now is None or isinstance(sizes_now.error, ArgumentError):
                    raise
                raise sizes_now.error from None
            else:
                if sizes_now is not None:
                    self.granularity.separate_shapes(sizes_now)
                self._add(arguments, concrete)
                return arguments, concrete

    def _add(self, arguments: Arguments, concrete: ConcreteFunction) -> None:
        """Logs why a trace was made, and caches the trace.

        A trace that captures tensors of an enclosing trace is cached in the enclosing trace.

        Args:
          arguments: the arguments that the trace was made for.
          concrete: the trace.
        """
        if self.granularity.by_dataset:
            self._nested.clear()  # these keys don't tell one dataset from another
        self.log.record(arguments, [earlier.arguments for earlier in self._concrete.values()])
        if concrete.scope is not None:  # the enclosing trace
            concrete.scope.functions.setdefault(self, {})[arguments.key] = concrete
            return
        self._concrete[arguments.key] = concrete
        if len(self._concrete) > MAX_TRACES:
            self._forget()

    def _forget(self) -> None:
        """Drops the oldest trace from all caches."""
        oldest = self._concrete.pop(next(iter(self._concrete)))
        self._fast = {k: c for k, c in self._fast.items() if c is not oldest}
        self._nested = {k: c for k, c in self._nested.items() if c is not oldest}

    def converted(self) -> Callable[..., Any]:
        """Returns the Python function to trace, converted by AutoGraph unless ``autograph`` is off."""
        return convert(self.python_function) if self.autograph else self.python_function

    # -- inspection

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the traced function for these arguments; tensors may be given as ``TensorSpec``.

        Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/PolymorphicFunction
        """
        if not args and not kwargs and self.input_signature is not None:
            args = tuple(self.input_signature)
        _, concrete = self._bound_to(args, kwargs)
        return concrete

    @property
    def concrete_functions(self) -> list[ConcreteFunction]:
        """All traces; with an input signature there is at least one."""
        if not self._concrete and self.input_signature is not None:
            self.get_concrete_function()
        return list(self._concrete.values())

    def _list_all_concrete_functions(self) -> list[ConcreteFunction]:
        """:attr:`concrete_functions` under TensorFlow's private name."""
        return self.concrete_functions

    def _list_all_concrete_functions_for_serialization(self) -> list[ConcreteFunction]:
        """All traces, in the order in which they were traced; TensorFlow's private name."""
        return list(self._concrete.values())

    def _trackable_children(self, save_type: str = "checkpoint", **_: Any) -> dict[str, ConcreteFunction]:
        """The traces under the names that a saved model gives them; TensorFlow's private name."""
        traces = self._list_all_concrete_functions_for_serialization() if save_type != "checkpoint" else []
        return {f"trace_{number}": concrete for number, concrete in enumerate(traces)}

    def experimental_get_tracing_count(self) -> int:
        """Returns how often the Python function has been traced."""
        return self.log.count

    def explain_retraces(self) -> RetraceReport:
        """Returns a report with a line for each trace after the first: the argument that changed, its old and new value.

        In a terminal and a notebook, the report is a table that also has advice on how to avoid the trace.

        >>> import tvtf as tf
        >>> square = tf.function(lambda x: x * x)
        >>> _ = square(tf.constant([1., 2.])), square(tf.constant([1., 2., 3.]))
        >>> print(square.explain_retraces())
        trace 2: argument `x`: shape (2,) -> (3,)
        """
        return self.log.explain()

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        return "\n\n".join(concrete.pretty_printed_signature(verbose) for concrete in self._concrete.values())

    def experimental_get_compiler_ir(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises NotImplementedError: the IR that TensorFlow returns here is XLA's."""
        raise NotImplementedError("tvtf's compiler is TVM, not XLA: print fn.relax(...)")

    def relax(self, *args: Any, **kwargs: Any) -> str:
        """The traced function's Relax IR as TVMScript, which ``tvtf.ir.script.parse`` reads back; :meth:`ir` is for people."""
        from tvtf.ir.script import script

        return script(self.get_concrete_function(*args, **kwargs).module())

    def ir(self, *args: Any, after: str | None = None, **kwargs: Any) -> Listing:
        """Returns the IR of the function for these arguments, for printing, with a line for each binding (docs/ir.md).

        Each line ends with the line of the user's program. Tensors may be passed as ``TensorSpec``; nothing is run. The
        text is coloured on a terminal. Notebooks show the type of a value below the pointer.

        Args:
          after: the compiler phase (see ``tvtf/passes/pipeline.py``) whose result is returned; None for the traced IR.

        >>> import tvtf as tf
        >>> dense = tf.function(lambda x, w: tf.nn.relu(x @ w))
        >>> listing = dense.ir(tf.TensorSpec([8, 4]), tf.TensorSpec([4, 2]))
        >>> [line.code for line in listing.lines][1:]
        ['  matmul: f32[8,2] = matmul(x, w)', '  relu = relu(matmul)', '  return relu']

        Raises:
          ValueError: no compiler phase has that name.
        """
        from tvtf.frontend.function.inspection import lowered_ir, traced_ir

        if after is None:
            return traced_ir(self.get_concrete_function(*args, **kwargs), self.python_function)
        return lowered_ir(self._instance_for(args, kwargs)[0], self.python_function, after)

    def draw(self, *args: Any, profile: Profile | bool = False, after: str = "in-place", **kwargs: Any) -> Drawing:
        """Draws the kernels of a call with these arguments as a graph in SVG: notebooks show it, ``.save(path)`` writes it.

        Each kernel is a box that names its ops. Graphviz's ``dot`` lays the graph out where it is installed.

        Args:
          profile: a result of :meth:`profile`, whose times the boxes show: a darker box takes longer. True to time now.
          after: the compiler phase whose result is drawn. After ``"simplify"`` it is the graph of ops.

        >>> import tvtf as tf
        >>> dense = tf.function(lambda x, w: tf.nn.relu(x @ w))
        >>> dense.draw(tf.TensorSpec([8, 4]), tf.TensorSpec([4, 2]))
        <Drawing of <lambda>: 4 boxes; .save(path) writes it as SVG>

        Raises:
          ValueError: no compiler phase has that name, or calls have no results any more after it.
        """
        from tvtf.frontend.function.inspection import draw, kernel_seconds

        seconds = kernel_seconds(self.profile(*args, **kwargs) if profile is True else profile)
        return draw(self._instance_for(args, kwargs)[0], self.python_function, seconds, after)

    def cost(self, *args: Any, **kwargs: Any) -> list[KernelCost]:
        """Returns the work of each kernel in one call with these arguments: arithmetic, bytes, and the user's lines.

        Tensors may be given as ``TensorSpec``; nothing is run. ``flops`` and ``bytes`` are None where the sizes are not known.

        >>> import tvtf as tf
        >>> product = tf.function(lambda x, y: tf.matmul(x, y))
        >>> (kernel,) = product.cost(tf.TensorSpec([8, 4]), tf.TensorSpec([4, 2]))
        >>> kernel.name, kernel.flops, kernel.bytes
        ('matmul', 128, 224)
        """
        from tvtf.frontend.tuning.kernel_cost import costs

        return costs(self._code_for(args, kwargs)[0].module())

    def memory(self, *args: Any, **kwargs: Any) -> Memory:
        """Returns the bytes that a call with these arguments needs, as the compiler plans them; nothing is run.

        >>> import tvtf as tf
        >>> product = tf.function(lambda x: tf.matmul(tf.matmul(x, x), x))
        >>> product.memory(tf.TensorSpec([16, 16]))
        Memory(arguments=1024, results=1024, arena=1024, live=1024, unplanned=0)
        """
        from tvtf.frontend.tuning.memory_use import memory

        return memory(self._code_for(args, kwargs)[0].module())

    def profile(self, *args: Any, repeat: int = 10, **kwargs: Any) -> Profile:
        """Times every kernel in ``repeat`` calls with these arguments and reports the fastest; printed as a table.

        Variables keep their values. Timing takes about a microsecond per kernel, which the report leaves out.

        >>> import tvtf as tf
        >>> product = tf.function(lambda x, y: tf.matmul(x, y))
        >>> profile = product.profile(tf.ones([8, 4]), tf.ones([4, 2]))
        >>> {kernel.name: kernel.calls for kernel in profile.kernels if kernel.cost}
        {'matmul': 1}

        Raises:
          ValueError: ``repeat`` is not positive.
        """
        if repeat < 1:
            raise ValueError(f"profile runs the function `repeat` times, which must be 1 or more, but got {repeat}")
        from tvtf.frontend.tuning.profile import profile

        code, arguments = self._code_for(args, kwargs)
        return profile(code, arguments.values, arguments.variables, repeat)

    def tune(self, *args: Any, seconds: float = 60.0, trials: int | None = None, **kwargs: Any) -> Tuning:
        """Searches for faster schedules of the kernels that take most of a call's time; printed as a table.

        Each kernel is compiled with other choices than its rules' (tiles, packing, tasks, methods) and timed alone,
        on the inputs that it gets in a call, in turns with the default. A schedule that is faster beyond the noise of
        measuring and computes the same values is recorded: this function uses it from its next call on, others when
        they are next compiled, in this process and in others (docs/tuning.md). Variables keep their values. Ctrl-C
        ends the search and keeps its results.

        Args:
          seconds: how long to look, compiling included; kernels get the part of it that they take of the call.
          trials: how many schedules to compile at most.

        >>> import tvtf as tf
        >>> product = tf.function(lambda x, y: tf.matmul(x, y))
        >>> tuning = product.tune(tf.ones([64, 64]), tf.ones([64, 64]), trials=1)
        >>> [kernel.name for kernel in tuning.kernels]
        ['matmul']

        Raises:
          ValueError: ``seconds`` or ``trials`` is not positive.
          NotImplementedError: the device in use is a GPU.
        """
        if not seconds > 0 or (trials is not None and trials < 1):
            raise ValueError(f"tune needs seconds > 0 and trials >= 1, but got seconds={seconds}, trials={trials}")
        from tvtf.frontend.tuning.tune import Budget, tune

        code, arguments = self._code_for(args, kwargs)
        return tune(code, arguments.values, arguments.variables, Budget(seconds, trials))

    def _code_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Compiled, Arguments]:
        """Returns the compiled code for a call, and the bound arguments of the call."""
        instance, arguments = self._instance_for(args, kwargs)
        return instance.code(), arguments

    def _instance_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[ConcreteFunction, Arguments]:
        """Returns the trace to compile for a call, of known ranks if tensors are given, and the bound arguments."""
        if not args and not kwargs and self.input_signature is not None:
            args = tuple(self.input_signature)
        arguments, concrete = self._bound_to(args, kwargs)
        # An argument given as a TensorSpec has no tensor, whose rank and sizes would select an instance.
        return concrete if None in arguments.tensors else concrete.instance(arguments.values), arguments


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Compiles a Python function that works on tensors; also a decorator.

    Args:
      func: the Python function.
      input_signature: a sequence of ``TensorSpec``; one trace then serves all calls. Where a spec leaves the rank unknown,
      each rank has its own code, made from that trace; a function that needs the rank in Python (``x.ndim``) is traced
      once per rank.
      autograph: whether to convert Python control flow on tensors.
      jit_compile: accepted; everything is compiled.
      reduce_retracing: make dims that vary symbolic, instead of tracing again for each size.

    >>> import tvtf as tf
    >>> @tf.function
    ... def f(x):
    ...     return x * x + 1.
    >>> f(tf.constant(3.))
    <tf.Tensor: shape=(), dtype=float32, numpy=10.0>

    Source: https://www.tensorflow.org/api_docs/python/tf/function
    """
    relaxed = reduce_retracing or bool(experimental_relax_shapes)

    def make(python_function: Callable[..., Any]) -> Function:
        return Function(python_function, input_signature, autograph, relaxed)

    return make if func is None else make(func)
