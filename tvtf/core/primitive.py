"""The primitive: one record that says everything about one op.

A family file in ``tvtf/ops`` declares each op in one block::

    @primitive(
        type=unary(FLOATING), numpy=np.sin, lower=..., vjp=lambda ct, y, x: ct * cos(x),
        batch=elementwise, onnx="Sin", samples=..., public=("sin", "math.sin"),
    )
    def sin(x, name=None):
        '''Sine of x in radians, elementwise ...'''
        return (convert_to_tensor(x),), {}

The decorated function is the op's *front*: its public signature and docstring. It turns what the user gave into tensors and
canonical attributes. ``sin(x)`` runs the front and binds; rules that have tensors already call ``sin.bind(x)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, update_wrapper, wraps
from inspect import Signature, isfunction, signature
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from tvtf.core.allocation_check import require_room
from tvtf.core.argument_error import MISTAKES, ArgumentError, instead
from tvtf.core.deferred_shape import NoRank, UnknownRank, UnknownSizes, of_any_rank
from tvtf.core.shape import TensorType, is_static_shape, show_shape
from tvtf.core.thread_state import state
from tvtf.dtypes import DType

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])
Rule = Callable[..., Any]
Heavy = Literal["always", "repeated"]


@dataclass(frozen=True)
class Sample:
    """One sample call of a primitive, from which its tests are generated.

    ``inputs`` are arrays, or functions of the dtype under test that give one (see ``rules.draw``); ``dtypes`` are all the
    element types to run with; ``gradient`` is False where finite differences make no sense (ties, steps); ``symbolic``
    names the dims of each input that also run as unknown ones: ``(("n", None), ("n",))``.
    """

    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[DType, ...] = ()
    gradient: bool | tuple[int, ...] = True
    symbolic: tuple[tuple[str | None, ...], ...] | None = None


class WrappedSignature:
    """The signature of an object that wraps a function, for ``inspect``: that function's.

    ``inspect.getfullargspec`` does not follow ``__wrapped__``, and libraries bind their arguments by it.
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
        """Converts the arguments that are attributes of TensorFlow's op (see ``tvtf/ops/operands.py``)."""
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
        """What it does on tensors made of tensors; asked where the front refuses its arguments."""
        self.overrides: list[Rule] = []
        """What users have it do on types of their own; asked first."""

    def __reduce__(self) -> str:
        return str(vars(self)["__name__"])  # pickled as the global that it is

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        if kwargs and is_named(kwargs):
            return state.trace.named_call(self, args, kwargs, "", self.tf_name)
        if self.overrides and (found := overridden(self.overrides, args, kwargs)) is not NotImplemented:
            return found
        try:
            if self.attributes is not None:
                args, kwargs = self.attributes(args, kwargs)
            inputs, attrs = self.front(*args, **kwargs)
            return self.bind(*inputs, **attrs)
        except (UnknownRank, UnknownSizes) as needed:
            return hooks.wait(self, args, kwargs, needed)
        except NoRank as refusal:
            return _when_told(self, args, kwargs, refusal)
        except ArgumentError as refusal:
            raise refusal.told_by(self.tf_name) from None
        except MISTAKES as error:
            found = overridden(self.composites, args, kwargs)
            if found is NotImplemented and fallbacks:
                found = _by_others(self, args, kwargs)
            if found is NotImplemented:
                raise instead(error, self.tf_name, (*args, *kwargs.values())) from None
            return found

    def bind(self, *inputs: Any, **attrs: Any) -> Any:
        """Applies the primitive to tensors: now, into the active trace, or over a batch; and tells the tapes."""
        if state.batches and any(x.is_batched for x in inputs):
            return hooks.batch(self, inputs, attrs)
        trace = state.trace
        if trace is not None and self.broadcasts:
            inputs = hooks.met(inputs, self.broadcasts == "batches")
        outputs = self.run(inputs, attrs) if trace is None else trace.emit(self, inputs, attrs)
        for tape in state.tapes:
            tape.record(self, inputs, outputs, attrs)
        return outputs

    def run(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Eager execution: types checked, then the NumPy kernel (or the compiled one where that is worth it)."""
        arrays = [x.eager_array(self) for x in inputs]
        expected = self.infer(tuple([(a.shape, a.dtype) for a in arrays]), tuple(attrs.items()))
        if self.heavy and hooks.run_compiled is not None:
            return hooks.run_compiled(self, inputs, attrs, expected)
        try:
            results = quietly(self.numpy, arrays, attrs)
        except ArgumentError as refusal:
            raise refusal.told_by(self.tf_name) from None
        except MISTAKES as error:
            raise instead(error, self.tf_name, (*inputs, *attrs.values()), None) from None
        if type(results) is bytes:  # what NumPy gives for an object array without dims
            return hooks.wrap(np.array(results, object), expected)
        if type(expected) is TensorType:
            return hooks.wrap(results, expected)
        return tuple(map(hooks.wrap, results, expected))

    def _infer(self, key: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        types = [TensorType(shape, hooks.dtype_of(dtype)) for shape, dtype in key]
        results = self.typed(*types, **dict(attrs))
        for each in types_tuple(results):
            require_room(each, self.tf_name)
        return results

    def typed(self, *types: TensorType, **attrs: Any) -> Any:
        """The result type(s) by the type rule, its refusals told in this op's name."""
        try:
            return self.type(*types, **attrs)
        except ArgumentError as refusal:
            raise refusal.told_by(self.tf_name) from None
        except IndexError:
            shapes = ", ".join(show_shape(t.shape) for t in types)
            raise ArgumentError(f"{{op}}: an input has too few dims: got shapes {shapes}").told_by(
                self.tf_name
            ) from None

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def quietly(kernel: Rule, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Runs a NumPy kernel without NumPy's floating-point warnings; a kernel within a kernel runs as it is."""
    quiet = state.quiet
    try:
        return quiet.run(kernel, *arrays, **attrs)
    except RuntimeError as error:
        if "is already entered" not in str(error):
            raise
    return kernel(*arrays, **attrs)


class Hooks:
    """Slots that other rooms fill at import, so that the core does not import them."""

    batch: Rule = staticmethod(lambda *_: NotImplemented)
    run_compiled: Rule | None = None
    wrap: Rule = staticmethod(lambda *_: NotImplemented)
    eager: Rule = staticmethod(lambda *_: NotImplemented)
    met: Rule = staticmethod(lambda inputs, matrices=False: inputs)
    dtype_of: Rule = staticmethod(lambda *_: NotImplemented)
    pack: Rule = staticmethod(lambda *_: NotImplemented)
    cast: Rule = staticmethod(lambda *_: NotImplemented)
    variable_created: Rule = staticmethod(lambda *_: None)
    value_in_this_call: Rule = staticmethod(lambda *_: NotImplemented)
    traced_assign: Rule = staticmethod(lambda *_: NotImplemented)
    reload: Rule = staticmethod(lambda *_: NotImplemented)
    store: Rule = staticmethod(lambda *_: None)
    autograph: Rule = staticmethod(lambda function: function)
    tell_rank: Rule = staticmethod(lambda *_: None)
    wait: Rule = staticmethod(lambda *_: NotImplemented)
    by_python: Rule = staticmethod(lambda *_: NotImplemented)
    function_of_model: Rule = staticmethod(lambda value, given: None)
    import_rooms: Rule = staticmethod(lambda: None)
    import_room: Rule = staticmethod(lambda path: None)
    declared: Rule = staticmethod(lambda values: None)
    """Told what became public."""
    find_v1: Rule
    """What a name of ``tf.compat.v1`` is."""


hooks = Hooks()


class Table(dict[str, "Primitive[Any]"]):
    """Primitives by name; one that is not there is looked for in the rooms that nobody has named yet."""

    def __missing__(self, name: str) -> Primitive[Any]:
        hooks.import_rooms()
        if name not in self:
            raise KeyError(name)
        return self[name]

    def among(self, names: set[str]) -> set[str]:
        """Those of ``names`` that are primitives."""
        if names - self.keys():
            hooks.import_rooms()
        return names & self.keys()


table = Table()
"""Every primitive by name; what users register lands here too."""


def primitive(
    *, name: str | None = None, kind: type[Primitive[Any]] = Primitive, **columns: Any
) -> Callable[[Callable[P, Any]], Primitive[P]]:
    """Declares a primitive; see the module's docstring.

    Args:
      name: its name in the dialect (``tvtf.<name>``); the front's own name where not given.
      kind: its class.
      type: ``(*TensorType, **attrs) -> TensorType | tuple`` with the checks and their error texts.
      numpy: the eager kernel and the oracle, ``(*ndarray, **attrs) -> ndarray | tuple``.
      lower: TE kernel, ``(*te.Tensor, **attrs) -> te.Tensor | list``, or None with a reason in ``why_not``.
      vjp: ``(ct, y, *inputs, **attrs) -> cotangent(s)``; None entries for inputs without gradient.
      batch: ``(size, inputs, batched, **attrs) -> output(s)`` over a new leading axis.
      onnx: node name, or ``(exporter, inputs, outputs, types, **attrs) -> None``.
      guard: ``(*inputs, **attrs) -> [(ok: bool tensor, message, *shown in it)]``: what compiled code must check before the kernel.
      operands: ``(attribute, input types, attrs) -> types``: what a function attribute is applied to.
      value: evaluates the op on known integer values (shapes computed in the program).
      samples: ``() -> list[Sample]``.
      public: the public paths, ``("sin", "math.sin")``.
      pure, tf_name, why_not: effect-free; TensorFlow's op name; reasons for gaps.
      heavy: eager runs the compiled kernel on large operands, "always", or when "repeated" where NumPy does well enough.
      host: compiled code calls the ``numpy`` kernel (see ``tvtf/ops/host.py``).
      broadcasts: its operands broadcast, elementwise, or the "batches" before two last axes (see ``tvtf/ops/broadcast_dims.py``).

    Raises:
      ValueError: when the name is taken.
      TypeError: for a column that does not exist.
    """

    def declare(front: Callable[P, Any]) -> Primitive[P]:
        own = name or front.__name__
        if own in table:
            raise ValueError(f"primitive {own!r} exists already; give yours another name")
        table[own] = kind(front, own, columns)
        return table[own]

    return declare


exports: dict[str, Any] = {}
"""Public path -> function, for everything that is composed from primitives."""


class Exporter(Protocol):
    """What :func:`export` returns: a decorator under which a class stays that class for type checkers."""

    @overload
    def __call__(self, function: C) -> C: ...
    @overload
    def __call__(self, function: Callable[P, Any]) -> Callable[P, Any]: ...


def export(*paths: str, waits: bool = True) -> Exporter:
    """Gives a composed function its public paths, e.g. ``@export("math.reduce_std")``.

    One that reads the program around it, not its arguments alone, must not be called later: it does not ``wait``.
    """
    wrap = defer_unknown_rank if waits else refusing

    def record(function: Callable[..., Any]) -> Any:
        public = wrap(function) if isfunction(function) else refusing_methods(function)
        for path in paths:
            if path in exports:
                raise ValueError(f"{path} is declared already, by {exports[path].__module__}")
            exports[path] = public
        return public

    return record


def defer_unknown_rank(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which waits as a whole for the rank of a tensor where it needs that (see ``tvtf/core/deferred_shape.py``)."""
    refusing_function = refusing(function)

    overrides: list[Rule] = []

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and is_named(kwargs):
            return state.trace.named_call(run, args, kwargs, "", function.__name__)  # type: ignore[no-any-return]
        if overrides and (found := overridden(overrides, args, kwargs)) is not NotImplemented:
            return found  # type: ignore[no-any-return]
        try:
            return refusing_function(*args, **kwargs)
        except (UnknownRank, UnknownSizes) as needed:
            return hooks.wait(function, args, kwargs, needed)
        except NoRank as refusal:
            return _when_told(function, args, kwargs, refusal)  # type: ignore[no-any-return]

    run.overrides = overrides  # type: ignore[attr-defined]
    return run


def _when_told(function: Callable[..., Any], args: Any, kwargs: Any, refusal: NoRank) -> Any:
    """What a public function gives that asked a shape of unknown rank for its dims: it waits for them if it can."""
    if not of_any_rank():
        raise refusal
    try:
        return hooks.wait(function, args, kwargs, UnknownRank(str(refusal)))
    except UnknownRank:
        raise refusal from None


def is_named(kwargs: Any) -> bool:
    """Whether the result takes a name: in TensorFlow 1's graphs.

    Raises:
      TypeError: a name that is no text, while tracing: eagerly TensorFlow doesn't look at it.
    """
    name = kwargs.get("name")
    if name is None or state.trace is None:
        return False
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"expected string or bytes-like object, got {type(name).__name__!r}: name={name!r}")
    return bool(state.trace.has_keys and not state.trace.is_naming)


fallbacks: list[Rule] = []
"""What others have any function do on arguments that it can't work with; asked with the function and its arguments."""


def _by_others(function: Any, args: Any, kwargs: Any) -> Any:
    """What the first of the fallbacks that takes the arguments gives; NotImplemented where none does."""
    return next((f for rule in fallbacks if (f := rule(function, args, kwargs)) is not NotImplemented), NotImplemented)


def overridden(rules: Iterable[Rule], args: Any, kwargs: Any) -> Any:
    """What the first rule that takes the arguments gives; NotImplemented where none does."""
    for rule in rules:
        found = rule(args, kwargs)
        if found is not NotImplemented:
            return found
    return NotImplemented


def refusing(function: Callable[P, R], op: str | None = None) -> Callable[P, R]:
    """``function``, whose refusals, and what arguments it can't work with break in it, are told in its name."""
    name = op or _camel(function.__name__)
    convert = getattr(function, "attributes", None)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if convert is not None:
                args, kwargs = convert(args, kwargs)
            return function(*args, **kwargs)
        except (UnknownRank, UnknownSizes, NoRank):
            raise
        except ArgumentError as refusal:
            raise refusal.told_by(name) from None
        except MISTAKES as error:
            found = _by_others(run, args, kwargs) if fallbacks and op is None else NotImplemented
            if found is not NotImplemented:
                return found  # type: ignore[no-any-return]
            told = args if op is None else args[1:]  # a method's first is its owner
            raise instead(error, name, (*told, *kwargs.values())) from None

    return run


def refusing_methods(owner: Any) -> Any:
    """A class whose own public methods are :func:`refusing`."""
    for name, method in list(vars(owner).items()) if isinstance(owner, type) else ():
        if isfunction(method) and (not name.startswith("_") or name in ("__init__", "__getitem__", "__next__")):
            setattr(owner, name, refusing(method, owner.__name__ if name == "__init__" else f"{owner.__name__}.{name}"))
    return owner


untaught: dict[str, list[tuple[Callable[[Any], bool], Callable[..., Any]]]] = {}
"""Public path -> what it is to be taught when the room that declares it is imported."""


def teach_late() -> None:
    """Teaches the functions declared meanwhile what was kept for them."""
    for path in untaught.keys() & public_names().keys():
        for lesson in untaught.pop(path):
            teach(path, *lesson)


def teach(path: str, takes: Callable[[Any], bool], handler: Callable[..., Any]) -> None:
    """Has a public function call ``handler(function, *args, **kwargs)`` where it ``takes`` one of the arguments."""
    function = public_names().get(path)
    if function is None:
        untaught.setdefault(path, []).append((takes, handler))
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
        found = rule(args, kwargs)
        return function(*args, **kwargs) if found is NotImplemented else found

    for name in [name for name, each in exports.items() if each is function]:
        exports[name] = run


class Names(dict[str, Any]):
    """Public paths with what they name; one that is not there is looked for in its room."""

    def __missing__(self, path: str) -> Any:
        hooks.import_room(path)
        return dict(public_names())[path]


def public_names() -> Names:
    """Every public path declared so far with what it names."""
    return Names({path: p for p in table.values() for path in p.public} | exports)


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    """A primitive's results as a tuple, one or many."""
    return outputs if type(outputs) is tuple else (outputs,)


def types_tuple(types: Any) -> tuple[TensorType, ...]:
    return (types,) if type(types) is TensorType else tuple(types)


def all_static(types: Iterable[TensorType]) -> bool:
    return all(is_static_shape(t.shape) for t in types)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
