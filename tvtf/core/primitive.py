"""Primitives: each op of the dialect is one record with its type rule, kernels, gradient and public names.

A family file in ``tvtf/ops`` declares each op in one block::

    @primitive(
        type=unary(FLOATING), numpy=np.sin, lower=..., vjp=lambda cotangent, y, x: cotangent * cos(x),
        batch=elementwise, onnx="Sin", samples=..., public=("sin", "math.sin"),
    )
    def sin(x, name=None):
        '''Sine of x in radians, elementwise ...'''
        return (convert_to_tensor(x),), {}

The decorated function is the op's *front*: its public signature and docstring. It converts the user's arguments to tensors
and canonical attributes. ``sin(x)`` runs the front and binds; rules that have tensors already call ``sin.bind(x)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, update_wrapper, wraps
from inspect import Signature, isfunction, signature
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from tvtf.core.allocation_check import require_room
from tvtf.core.argument_error import MISTAKES, ArgumentError, public_error_for
from tvtf.core.deferred_shape import NoRank
from tvtf.core.shape import TensorType, is_static_shape, show_shape
from tvtf.core.specialization import UnknownRank, Unspecialized, of_any_rank
from tvtf.core.thread_state import state
from tvtf.dtypes import _BY_NUMPY, DType

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])
Rule = Callable[..., Any]
Heavy = Literal["always", "repeated"]


@dataclass(frozen=True)
class Sample:
    """One sample call of a primitive, from which its tests are generated.

    Attributes:
      inputs: arrays, or functions from the dtype under test to an array (see ``rules.draw``).
      attrs: the primitive's attributes.
      dtypes: the element types to run with.
      gradient: whether to check the gradient; False where finite differences fail (ties, steps).
      symbolic: names of the dims of each input that the tests also run as symbolic dims: ``(("n", None), ("n",))``.
    """

    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[DType, ...] = ()
    gradient: bool | tuple[int, ...] = True
    symbolic: tuple[tuple[str | None, ...], ...] | None = None


class WrappedSignature:
    """A descriptor that gives ``inspect`` the signature of the wrapped function.

    ``inspect.getfullargspec`` does not follow ``__wrapped__``, and libraries use it to bind arguments.
    """

    def __get__(self, instance: Any, owner: Any = None) -> Signature:
        if instance is None:
            raise AttributeError("__signature__")
        return signature(instance.__wrapped__)


class Primitive(Generic[P]):
    """An op of the ``tvtf`` dialect; see the module's docstring for its columns."""

    __signature__ = WrappedSignature()

    def __init__(self, front: Callable[P, Any], name: str, columns: dict[str, Any]) -> None:
        self.attributes: Rule | None = None
        """Converts arguments that are attributes of TensorFlow's op (see ``tvtf/ops/operands.py``)."""
        update_wrapper(self, front)
        self.front = front
        self.name = name
        self.is_own = front.__module__.startswith("tvtf.")
        self.tf_name: str = columns.pop("tf_name", None) or _camel(name)
        self.type: Rule = columns.pop("type")
        self.numpy: Rule = columns.pop("numpy")
        self.lower: Rule | None = columns.pop("lower", None)
        self.vjp: Rule | None = columns.pop("vjp", None)
        self.batch: Rule | None = columns.pop("batch", None)
        self.onnx: Any = columns.pop("onnx", None)
        self.guard: Rule | None = columns.pop("guard", None)
        self.value: Rule | None = columns.pop("value", None)
        self.operands: Rule | None = columns.pop("operands", None)
        self.samples: Rule | Sequence[Sample] = columns.pop("samples", ())
        self.public: tuple[str, ...] = tuple(columns.pop("public", ()))
        self.pure: bool = columns.pop("pure", True)
        self.heavy: Heavy | None = columns.pop("heavy", None)
        self.host: bool = columns.pop("host", False)
        self.broadcasts: bool | Literal["batches"] = columns.pop("broadcasts", False)
        self.why_not: dict[str, str] = columns.pop("why_not", {})
        if columns:
            raise TypeError(f"primitive {name}: unknown columns {sorted(columns)}")
        self.infer = lru_cache(maxsize=1024)(self._infer)
        self.composites: list[Rule] = []
        """Handlers for composite tensors (ragged, sparse); tried after the front rejects its arguments."""
        self.overrides: list[Rule] = []
        """Handlers that users registered for their own types; tried before the front."""

    def __reduce__(self) -> str:
        return str(vars(self)["__name__"])  # pickled by reference: the name of a module global

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the op as a public function: converts its arguments by ``front`` and binds the call.

        A user's override of the op comes first; arguments that ``front`` rejects go to the handlers of composite tensors.
        """
        if kwargs and is_named(kwargs):
            return state.trace.named_call(self, args, kwargs, "", self.tf_name)
        if self.overrides and (result := overridden(self.overrides, args, kwargs)) is not NotImplemented:
            return result
        try:
            if self.attributes is not None:
                args, kwargs = self.attributes(args, kwargs)
            inputs, attrs = self.front(*args, **kwargs)
            return self.bind(*inputs, **attrs)
        except Unspecialized as signal:
            return hooks.defer_call(self, args, kwargs, signal)
        except NoRank as error:
            return _defer_or_raise(self, args, kwargs, error)
        except ArgumentError as error:
            raise error.for_op(self.tf_name) from None
        except MISTAKES as error:
            # Composite tensors come last, so that plain tensors, the usual case, have no overhead for them.
            result = overridden(self.composites, args, kwargs)
            if result is NotImplemented and fallbacks:
                result = _from_fallbacks(self, args, kwargs)
            if result is NotImplemented:
                raise public_error_for(error, self.tf_name, (*args, *kwargs.values())) from None
            return result

    def bind(self, *inputs: Any, **attrs: Any) -> Any:
        """Applies the primitive to tensors: runs it eagerly, or adds the call to the active trace, or vectorizes it.

        Gradient tapes record the call.
        """
        if state.batches and any(x.is_batched for x in inputs):
            return hooks.batch(self, inputs, attrs)
        trace = state.trace
        if trace is not None:
            if self.broadcasts:
                inputs = hooks.broadcast_operands(inputs, self.broadcasts == "batches")
            if state.tapes:  # they record the tensors that programs get from this trace
                inputs = trace.own_operands(inputs)
        outputs = self.run(inputs, attrs) if trace is None else trace.emit(self, inputs, attrs)
        for tape in state.tapes:
            tape.record(self, inputs, outputs, attrs)
        return outputs

    def run(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Runs the op eagerly: infers the result types, then calls the NumPy kernel, or a compiled one for a heavy op."""
        arrays = [x.eager_array(self) for x in inputs]
        expected = self.infer(tuple([(array.shape, array.dtype) for array in arrays]), tuple(attrs.items()))
        if self.heavy and hooks.run_compiled is not None:
            return hooks.run_compiled(self, inputs, attrs, expected)
        try:
            results = quietly(self.numpy, arrays, attrs)
        except ArgumentError as error:
            raise error.for_op(self.tf_name) from None
        except MISTAKES as error:
            raise public_error_for(error, self.tf_name, (*inputs, *attrs.values()), None) from None
        if type(results) is bytes:  # of a string tensor: NumPy turns an object array without dims into its element
            return hooks.wrap(np.array(results, object), expected)
        if type(expected) is TensorType:
            return hooks.wrap(results, expected)
        return tuple(map(hooks.wrap, results, expected))

    def _infer(self, key: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """The result type(s) for NumPy shapes and dtypes; ``infer`` caches it, as eager calls repeat the same types."""
        types = [TensorType(shape, _BY_NUMPY[dtype]) for shape, dtype in key]
        results = self.typed(*types, **dict(attrs))
        for each in types_tuple(results):
            require_room(each, self.tf_name)
        return results

    def typed(self, *types: TensorType, **attrs: Any) -> Any:
        """Infers the result type(s) of a call by the op's type rule; errors name the op."""
        try:
            return self.type(*types, **attrs)
        except ArgumentError as error:
            raise error.for_op(self.tf_name) from None
        except IndexError:  # type rules read dims by position, without checking the rank first
            shapes = ", ".join(show_shape(tensor_type.shape) for tensor_type in types)
            raise ArgumentError(f"{{op}}: an input has too few dims: got shapes {shapes}").for_op(
                self.tf_name
            ) from None

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def quietly(kernel: Rule, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Runs a NumPy kernel without NumPy's floating-point warnings.

    Args:
      kernel: the NumPy function.
      arrays: its operands.
      attrs: its attributes.
    """
    quiet_context = state.quiet
    try:
        return quiet_context.run(kernel, *arrays, **attrs)
    except RuntimeError as error:  # a context can't be entered twice: this kernel was called by another, quiet already
        if "is already entered" not in str(error):
            raise
    return kernel(*arrays, **attrs)


class TracedVariables(Protocol):
    """What tracing does with Variables."""

    def check_creation(self, variable: Any) -> None:
        """Checks that the active trace may create a Variable."""

    def initial_value(self, trace: Any, tensor: Any) -> Any:
        """Returns a traced initial value as an eager tensor."""

    def assign(self, variable: Any, value: Any, read_value: bool) -> Any:
        """Does ``Variable.assign`` in the active trace."""

    def reload(self, variable: Any, trace: Any) -> Any:
        """Reads a Variable again after a call of Python."""

    def store(self, variable: Any, value: Any, trace: Any) -> None:
        """Writes a Variable before a call of Python."""


class Hooks:
    """Functions that upper layers assign at import, so that the core can call them without importing those layers."""

    wrap: Rule = staticmethod(lambda *_: NotImplemented)
    """``(array, type) -> EagerTensor``: wraps a NumPy kernel's result for ``Primitive.run``. Set by ``core/tensor.py``."""
    pack: Rule = staticmethod(lambda *_: NotImplemented)
    """``(values, dtype) -> Tensor``: stacks a nested list that holds tensors, for ``convert_to_tensor`` and
    ``TensorArray``. Set by ``ops/concat_split.py``."""
    broadcast_operands: Rule = staticmethod(lambda inputs, matrices=False: inputs)
    """``(inputs, matrices) -> inputs``: in a trace, repeats operands along symbolic dims that may be 1, for
    ``Primitive.bind``; ``matrices`` leaves out the last two axes. Set by ``ops/broadcast_dims.py``."""
    batch: Rule = staticmethod(lambda *_: NotImplemented)
    """``(primitive, inputs, attrs) -> output(s)``: applies a primitive under ``vectorized_map``, for ``Primitive.bind``.
    Set by ``frontend/control_flow/vectorized_map.py``."""
    run_compiled: Rule | None = None
    """``(primitive, inputs, attrs, types) -> output(s)``: runs a heavy primitive eagerly for ``Primitive.run``, compiled where
    that is profitable. Set by ``frontend/function/eager_compile.py``."""
    defer_call: Rule = staticmethod(lambda *_: NotImplemented)
    """``(function, args, kwargs, needed, recorded) -> output(s)``: binds a call that runs once the rank or sizes that it
    ``needed`` are known. Called where ``Unspecialized`` is caught. Set by
    ``frontend/function/deferred_call.py``."""
    set_rank: Rule = staticmethod(lambda *_: None)
    """``(tensor, shape) -> None``: does ``set_shape`` on a tensor of unknown rank. Set by
    ``frontend/function/deferred_call.py``."""
    ensure_shape: Rule = staticmethod(lambda *_: NotImplemented)
    """``(tensor, dims) -> tensor``: binds a check of a tensor's shape, for ``set_shape``. Set by ``ops/array.py``."""
    call_python: Rule = staticmethod(lambda *_: NotImplemented)
    """``(function, inputs, specs) -> outputs``: binds a call of a Python function on eager tensors, for ops whose scalar
    arguments the program computes. Set by ``frontend/host/python_call.py``."""
    compare_dims: Rule = staticmethod(lambda *_: NotImplemented)
    """``(a, b) -> None``: binds a run-time check that two dims are equal. Set by ``ops/extents.py``."""
    variables: TracedVariables
    """What tracing does with Variables, for ``Variable`` and ``Trace``. Set by ``frontend``."""
    import_late: Rule = staticmethod(lambda path=None: None)
    """``path -> None``: imports the module of ``namespaces.LATE`` that declares a public path, when ``public_names`` misses
    it; without a path all of them, when ``table`` misses a primitive. Set by ``api/namespaces.py``."""


hooks = Hooks()


class Table(dict[str, "Primitive[Any]"]):
    """Primitives by name; a missing one imports the late modules (``namespaces.LATE``), which may declare it."""

    def __missing__(self, name: str) -> Primitive[Any]:
        hooks.import_late()
        if name not in self:
            raise KeyError(name)
        return self[name]

    def among(self, names: set[str]) -> set[str]:
        """Returns the names in ``names`` that are primitives."""
        if names - self.keys():
            hooks.import_late()
        return names & self.keys()


table = Table()
"""Every primitive by name, those that users register included."""


def primitive(
    *, name: str | None = None, kind: type[Primitive[Any]] = Primitive, **columns: Any
) -> Callable[[Callable[P, Any]], Primitive[P]]:
    """Declares a primitive; see the module's docstring.

    Args:
      name: its name in the dialect (``tvtf.<name>``); default: the front's name.
      kind: its class.
      type: ``(*TensorType, **attrs) -> TensorType | tuple`` with the checks and their error texts.
      numpy: the eager kernel and the oracle, ``(*ndarray, **attrs) -> ndarray | tuple``.
      lower: TE kernel, ``(*te.Tensor, **attrs) -> te.Tensor | list``, or None with a reason in ``why_not``.
      vjp: ``(cotangent, y, *inputs, **attrs) -> cotangent(s)``; None for inputs without a gradient.
      batch: ``(size, inputs, batched, **attrs) -> output(s)`` over a new leading axis.
      onnx: node name, or ``(exporter, inputs, outputs, types, **attrs) -> None``.
      guard: ``(*inputs, **attrs) -> [(ok: bool tensor, message, *values shown)]``: run-time checks of compiled code.
      operands: ``(attribute, input types, attrs) -> types``: the operand types of a function attribute.
      value: evaluates the op on known integer values (shapes computed in the program).
      samples: ``() -> list[Sample]``.
      public: the public paths, ``("sin", "math.sin")``.
      pure, tf_name, why_not: effect-free; TensorFlow's op name; reasons for gaps.
      heavy: eager execution compiles the kernel for large operands: "always", or only for "repeated" calls where NumPy is fast.
      host: compiled code calls the ``numpy`` kernel (see ``tvtf/ops/host.py``).
      broadcasts: its operands broadcast; "batches": all but their last two axes (see ``tvtf/ops/broadcast_dims.py``).

    Raises:
      ValueError: the name is taken.
      TypeError: a keyword argument is not one of the columns above.
    """

    def declare(front: Callable[P, Any]) -> Primitive[P]:
        """Adds a primitive with the front ``front`` to the table of primitives."""
        dialect_name = name or front.__name__
        if dialect_name in table:
            raise ValueError(f"primitive {dialect_name!r} exists already; give yours another name")
        table[dialect_name] = kind(front, dialect_name, columns)
        return table[dialect_name]

    return declare


exports: dict[str, Any] = {}
"""Public path -> function, for all functions composed from primitives."""


class Exporter(Protocol):
    """What :func:`export` returns: a decorator under which a class stays that class for type checkers."""

    @overload
    def __call__(self, function: C) -> C: ...
    @overload
    def __call__(self, function: Callable[P, Any]) -> Callable[P, Any]: ...


def export(*paths: str, waits: bool = True) -> Exporter:
    """Declares a function under paths of the public API, as a decorator: ``@export("math.reduce_std")``.

    A traced call whose arguments have an unknown rank is deferred until the rank is known. ``waits=False`` forbids that,
    for a function that depends on where it is called: run later, it would see another context.
    """
    wrap = defer_unknown_rank if waits else name_errors

    def register(function: Callable[..., Any]) -> Any:
        """Registers a function under the public paths, and returns it with an op's error messages and names."""
        public = wrap(function) if isfunction(function) else name_method_errors(function)
        for path in paths:
            if path in exports:
                raise ValueError(f"{path} is declared already, by {exports[path].__module__}")
            exports[path] = public
        return public

    return register


def defer_unknown_rank(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function so that a traced call which needs an unknown rank or size is deferred until that is known.

    See ``core/deferred_shape.py``.
    """
    with_named_errors = name_errors(function)

    overrides: list[Rule] = []

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function, or a user's override of it; defers the call if it needs an unknown rank or size."""
        # In a TensorFlow 1 graph, the argument `name` names the result.
        if kwargs and is_named(kwargs):
            return state.trace.named_call(run, args, kwargs, "", function.__name__)  # type: ignore[no-any-return]
        if overrides and (result := overridden(overrides, args, kwargs)) is not NotImplemented:
            return result  # type: ignore[no-any-return]
        try:
            return with_named_errors(*args, **kwargs)
        except Unspecialized as signal:
            return hooks.defer_call(function, args, kwargs, signal)
        except NoRank as error:
            return _defer_or_raise(function, args, kwargs, error)  # type: ignore[no-any-return]

    run.overrides = overrides  # type: ignore[attr-defined]
    return run


def _defer_or_raise(function: Callable[..., Any], args: Any, kwargs: Any, error: NoRank) -> Any:
    """Defers a call that failed because it read the dims of a shape of unknown rank, until the rank is known.

    Raises ``error``, the one that the call raised, where calls can't be deferred.
    """
    if not of_any_rank():
        raise error
    try:
        return hooks.defer_call(function, args, kwargs, UnknownRank(str(error)))
    except UnknownRank:
        raise error from None


def is_named(kwargs: Any) -> bool:
    """Returns whether the argument ``name`` of an op's call names its result, as in TensorFlow 1's graphs.

    Raises:
      TypeError: the name is not a string. Only while tracing: eager TensorFlow ignores names.
    """
    name = kwargs.get("name")
    if name is None or state.trace is None:
        return False
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"expected string or bytes-like object, got {type(name).__name__!r}: name={name!r}")
    return bool(state.trace.has_keys and not state.trace.is_inside_op)


fallbacks: list[Rule] = []
"""Handlers ``(function, args, kwargs)`` for any public function, tried last: after it failed on its arguments."""


def _from_fallbacks(function: Any, args: Any, kwargs: Any) -> Any:
    """Returns the result of the first fallback that accepts the arguments, or NotImplemented."""
    return next((f for rule in fallbacks if (f := rule(function, args, kwargs)) is not NotImplemented), NotImplemented)


def overridden(rules: Iterable[Rule], args: Any, kwargs: Any) -> Any:
    """Returns the result of the first rule that accepts the arguments, or NotImplemented."""
    for rule in rules:
        result = rule(args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def name_errors(function: Callable[P, R], op: str | None = None) -> Callable[P, R]:
    """Wraps a function so that an error caused by its arguments contains the function's name, as TensorFlow's errors do.

    Args:
      function: a public function, or a method of a public class.
      op: the name of a method in errors. For a function it is None, and the name is the function's in CamelCase.
    """
    name = op or _camel(function.__name__)
    convert = getattr(function, "attributes", None)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function. An error caused by the arguments is replaced by TensorFlow's error for the op ``name``."""
        try:
            if convert is not None:
                args, kwargs = convert(args, kwargs)
            result = function(*args, **kwargs)
            return result if state.trace is None else state.trace.own_result(result)
        except (Unspecialized, NoRank):  # tracing needs an unknown rank or size: a caller defers the call
            raise
        except ArgumentError as error:
            raise error.for_op(name) from None
        except MISTAKES as error:  # Python's exceptions that an unsuitable argument causes
            # Fallbacks are handlers of arguments that public functions reject. They don't handle methods.
            has_fallbacks = bool(fallbacks) and op is None
            result = _from_fallbacks(run, args, kwargs) if has_fallbacks else NotImplemented
            if result is not NotImplemented:
                return result  # type: ignore[no-any-return]
            shown_args = args if op is None else args[1:]  # a method's first argument is its owner
            raise public_error_for(error, name, (*shown_args, *kwargs.values())) from None

    return run


def name_method_errors(owner: Any) -> Any:
    """Wraps the public methods that a class defines by :func:`name_errors`. Returns the class, or another value unchanged."""
    for name, method in list(vars(owner).items()) if isinstance(owner, type) else ():
        if isfunction(method) and (not name.startswith("_") or name in ("__init__", "__getitem__", "__next__")):
            op = owner.__name__ if name == "__init__" else f"{owner.__name__}.{name}"
            setattr(owner, name, name_errors(method, op))
    return owner


pending_handlers: dict[str, list[tuple[Callable[[Any], bool], Callable[..., Any]]]] = {}
"""Public path -> the handlers to register when the module that declares the path is imported."""


def add_pending_handlers() -> None:
    """Registers the pending handlers of functions that have been declared since."""
    for path in pending_handlers.keys() & public_names().keys():
        for handler in pending_handlers.pop(path):
            add_handler(path, *handler)


def add_handler(path: str, takes: Callable[[Any], bool], handler: Callable[..., Any]) -> None:
    """Registers ``handler(function, *args, **kwargs)`` for calls of a public function with an argument that ``takes`` accepts.

    A primitive tries it after its front failed; a composed function is replaced by one that tries it first.
    """
    function = public_names().get(path)
    if function is None:
        pending_handlers.setdefault(path, []).append((takes, handler))
        return

    def rule(args: Any, kwargs: Any) -> Any:
        if not any(map(takes, (*args, *kwargs.values()))):
            return NotImplemented
        return handler(function, *args, **kwargs)

    if isinstance(function, Primitive):
        function.composites.append(rule)
        return

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = rule(args, kwargs)
        return function(*args, **kwargs) if result is NotImplemented else result

    for name in [name for name, each in exports.items() if each is function]:
        exports[name] = run


def by_name(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a handler of calls of a public function so that it receives all arguments by name, defaults included."""

    def call_by_name(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        bound = signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        return handler(**bound.arguments)

    return call_by_name


class Names(dict[str, Any]):
    """Public paths and their values; a missing path imports the module that declares it."""

    def __missing__(self, path: str) -> Any:
        hooks.import_late(path)
        return dict(public_names())[path]


def public_names() -> Names:
    """Returns every public path declared so far with its value."""
    return Names({path: p for p in table.values() for path in p.public} | exports)


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    """Returns a primitive's one or many results as a tuple."""
    return outputs if type(outputs) is tuple else (outputs,)


def types_tuple(types: Any) -> tuple[TensorType, ...]:
    return (types,) if type(types) is TensorType else tuple(types)


def all_static(types: Iterable[TensorType]) -> bool:
    return all(is_static_shape(tensor_type.shape) for tensor_type in types)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
