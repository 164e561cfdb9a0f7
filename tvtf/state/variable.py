"""Variables: mutable tensors that own their memory, which is updated in place where no tensor aliases it."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.core import aligned_array
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import hooks, public_names, table
from tvtf.core.shape import TensorShape, TensorType, as_shape, brackets
from tvtf.core.tensor import AnyTensor, EagerTensor, Reference, SymbolicTensor, Tensor, _numpy_text, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import DType
from tvtf.errors import UnimplementedError
from tvtf.state.trackable import Trackable
from tvtf.state.variable_options import MadeByCreators, VariableAggregationV2, VariableSynchronization, checked_options

_OWN_REFERENCES = 2
"""``sys.getrefcount`` of an array that only its Variable refers to: the attribute, and the argument of the call itself."""


class ReadVariable:
    """The op that a tape records when a Variable is read; its gradient is the identity."""

    tf_name = "ReadVariableOp"

    @staticmethod
    def vjp(cotangent: Any, *_: Any) -> Any:
        return cotangent


class AliasCounter:
    """A counter that changes whenever any caller gets access to a Variable's memory.

    While the counter is unchanged, no new alias of any Variable's memory exists. Callers then need not check each
    Variable.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers = itertools.count(1)

    def add(self) -> None:
        """Records that a caller got access to a Variable's memory.

        ``itertools.count`` gives each thread a different number, without a lock.
        """
        self.count = next(self._numbers)


alias_counter = AliasCounter()


class Variable(Trackable, AnyTensor, metaclass=MadeByCreators):
    """A shared, mutable tensor.

    Args:
      initial_value: a value that :func:`convert_to_tensor` accepts, or a function without arguments that returns one.
      trainable: whether tapes watch the Variable automatically.
      name: its name, to which ``:0`` is added as in TensorFlow.
      dtype: the dtype to which the initial value is converted.
      shape: the static shape; with ``TensorShape(None)`` values of any shape can be assigned.

    >>> import tvtf as tf
    >>> v = tf.Variable([1., 2.], name="v")
    >>> v.assign_add([1., 1.])
    <tf.Variable 'UnreadVariable' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>
    >>> v
    <tf.Variable 'v:0' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>

    Raises:
      ValueError: there is no initial value, it does not fit ``shape``, or a ``tf.function`` creates the Variable in a later
        call than its first.

    Source: https://www.tensorflow.org/api_docs/python/tf/Variable
    """

    is_batched = False
    is_argument = False
    """Whether it is the placeholder of a Variable that is passed as an argument to a traced function."""
    calls_creators = True
    __array_priority__ = 100
    _memory: np.ndarray
    _seen = False
    """Whether the memory may have been aliased since it was last known to be unshared."""
    _handle: Any
    _is_view_of_handle: bool

    def __init_subclass__(cls, **options: Any) -> None:
        """Lets the operators of a subclass that overrides ``value`` compute with what it returns, as in TensorFlow."""
        super().__init_subclass__(**options)
        if "value" in vars(cls):
            # Slices of Variables take `value` themselves: they can be assigned to.
            others = {"__eq__", "__ne__", "__getitem__", *vars(cls)}
            operators = Tensor.OVERLOADABLE_OPERATORS - others  # type: ignore[attr-defined]
            for name in operators:
                setattr(cls, name, _operator_on_value(name))

    def __new__(cls, *args: Any, **kwargs: Any) -> Variable:
        return object.__new__((state.variable_class or ResourceVariable) if cls is Variable else cls)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: str | None = None,
        constraint: Callable[..., Any] | None = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregationV2.NONE,
        shape: Any = None,
        experimental_enable_variable_lifting: bool = True,
    ) -> None:
        """Creates a Variable with a copy of the initial value; see the class for the arguments.

        The arguments ``validate_shape``, ``caching_device``, ``variable_def``, ``import_scope`` and
        ``experimental_enable_variable_lifting`` have no effect.
        """
        if initial_value is None:
            raise ValueError(
                "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a "
                "`variable_def`. You provided neither."
            )
        self.synchronization, self.aggregation = checked_options(name, synchronization, aggregation, constraint)
        hooks.variables.check_creation(self)
        array = _initial_array(initial_value, dtype)
        self._static_shape = None if shape is None else as_shape(shape)
        if self._static_shape is not None and not self._static_shape.is_compatible_with(array.shape):
            raise ValueError(
                f"In this `tf.Variable` creation, the initial value's shape ({TensorShape(array.shape)}) is not compatible "
                f"with the explicitly supplied `shape` argument ({shape})."
            )
        self._adopt(array)
        self._dtype: DType = dtypes.from_array(array)
        self._trainable = True if trainable is None else bool(trainable)
        self._shared_name = "/".join([*state.name_scopes, name or "Variable"])
        self.constraint = constraint
        self.lock = Lock()

    # -- identity and type

    @property
    def _identity(self) -> int:
        """The id of the Variable. A trace's placeholder for a Variable has the id of that Variable."""
        return id(self)

    @property
    def name(self) -> str:
        return f"{self._shared_name}:0"

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._memory.shape) if self._static_shape is None else self._static_shape

    @property
    def _type(self) -> TensorType:
        return TensorType(self._memory.shape, self._dtype)

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def device(self) -> str:
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    @property
    def ndim(self) -> int:
        return self._memory.ndim

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Sets unknown dims of the Variable's static shape to the dims of ``shape``.

        Raises:
          ValueError: a known dim of the static shape differs from the dim of ``shape``.
        """
        self._static_shape = self.shape.merge_with(shape)

    def ref(self) -> Reference:
        return Reference(self)

    experimental_ref = ref

    # -- attributes of TensorFlow's resource Variables that libraries read

    _should_act_as_resource_variable = True

    @property
    def handle(self) -> Variable:
        """The resource handle; here the Variable itself."""
        return self

    @property
    def _unique_id(self) -> str:
        return f"{self._shared_name}_{self._identity}"

    # -- attributes that only Variables of TensorFlow 1's graphs have

    initializer = None

    @property
    def initial_value(self) -> Any:
        raise RuntimeError("This property is not supported when eager execution is enabled.")

    def eval(self, session: Any = None) -> Any:
        raise RuntimeError("This operation is not supported when eager execution is enabled.")

    def to_proto(self, export_scope: str | None = None) -> Any:
        raise RuntimeError("This operation is not supported when eager execution is enabled.")

    # -- reading

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Returns True: Variables are created with a value."""
        return convert_to_tensor(True)

    def initialized_value(self) -> Tensor:
        return self._as_tensor()

    def value(self) -> Tensor:
        """Returns the current value as a tensor, which later assignments don't change."""
        return self._as_tensor()

    def read_value(self) -> Tensor:
        return self._as_tensor()

    def _as_tensor(self) -> Tensor:
        """Reads the value as a tensor, and records the read on the active gradient tapes."""
        trace = state.trace
        tensor = EagerTensor(self._array) if trace is None else trace.read_variable(self)
        for tape in state.tapes:
            tape.read(self, tensor)
        return tensor

    def numpy(self) -> Any:
        """Returns a copy of the value as a NumPy array."""
        return self._require_eager("numpy")[()] if not self._array.ndim else self._array.copy()

    def _require_eager(self, method: str) -> np.ndarray:
        """Returns the value's array. Raises NotImplementedError, which names ``method``, while a function is traced."""
        if state.trace is not None:
            raise NotImplementedError(f"{method}() is only available when eager execution is enabled.")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._require_eager("numpy"), dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._require_eager("__dlpack__").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.__dlpack_device__()

    # -- writing

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Replaces the Variable's value.

        Args:
          value: the new value.
          use_locking, name: accepted without effect.
          read_value: whether to return the Variable, so that assignments can be chained; otherwise returns None or, in a
            trace, the ``Operation`` that assigns.

        Raises:
          ValueError: the shape or dtype of ``value`` doesn't fit; the Variable keeps its value.
        """
        tensor = self._checked_value(value)
        if state.trace is not None:
            return hooks.variables.assign(self, tensor, read_value)
        self._store(tensor.eager_array())
        return UnreadVariable(self) if read_value else None

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds ``delta`` to the value; see :meth:`assign`."""
        return self._update("add", delta, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts ``delta`` from the value; see :meth:`assign`."""
        return self._update("subtract", delta, read_value)

    def _update(self, op: str, delta: Any, read_value: bool) -> Any:
        """Adds ``delta`` to the Variable's value, or subtracts it, and assigns the result.

        ``op`` is the name of the primitive, "add" or "subtract". Gradient tapes don't record the primitive's call.
        """
        with self.lock:  # no other thread assigns between the read and the assignment
            delta = self._increment(delta, op)
            outer_tapes = state.tapes
            state.tapes = []
            try:
                value = table[op].bind(self._as_tensor(), delta)
                if state.trace is not None:
                    state.trace.updates(value)
            finally:
                state.tapes = outer_tapes
            return self.assign(value, read_value=read_value)

    def _increment(self, value: Any, op: str) -> Tensor:
        """Converts the increment of ``assign_add`` or ``assign_sub`` to a tensor, and checks the tensor's shape.

        The shape must be that of the Variable. NumPy and Relax would broadcast the increment, but TensorFlow's op
        doesn't.
        """
        tensor = convert_to_tensor(value, dtype=self._dtype)
        if state.trace is not None:
            return self._checked_value(tensor)
        if tensor.shape != self._memory.shape:
            raise ArgumentError(
                f"Cannot update variable with shape {brackets(self._memory.shape)} using a Tensor with shape "
                f"{brackets(tensor.shape)}, shapes must be equal."
            ).for_op("AssignAddVariableOp" if op == "add" else "AssignSubVariableOp")
        return tensor

    def _checked_value(self, value: Any) -> Tensor:
        """Converts the new value for an assignment to a tensor of the Variable's dtype.

        Raises:
          ValueError: the value's dtype or shape doesn't fit the Variable.
        """
        tensor = convert_to_tensor(value, dtype=self._dtype)
        if not self.shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable shape {self.shape}, and the "
                f"assigned value shape {tensor.shape} are incompatible."
            )
        return tensor if state.trace is None else self._checked_when_run(tensor)

    def _checked_when_run(self, tensor: Tensor) -> Tensor:
        """Returns a tensor of a trace with the sizes that the Variable declares, which are checked when it is assigned."""
        shape = self.shape
        if shape.rank is None or tensor.shape == shape:
            return tensor
        return public_names()["ensure_shape"](tensor, shape)  # type: ignore[no-any-return]

    def _store(self, array: np.ndarray) -> None:
        """Copies a new value into the Variable's memory.

        New memory is allocated if the shape differs, or if a tensor shares the old memory: a tensor's value must
        not change.
        """
        self.require_assignable()
        with self.lock:
            if array.shape == self._memory.shape and not self._is_shared():
                np.copyto(self._memory, array)
            else:
                self._adopt(aligned_array.aligned_copy(array))

    def store_in_new_memory(self, array: np.ndarray) -> None:
        """Copies a value into new memory, which becomes the Variable's.

        The old memory is left unchanged, because compiled code that is running may still read it.
        """
        with self.lock:
            self._adopt(aligned_array.aligned_copy(array))

    def require_assignable(self) -> None:
        """Checks that Python code, which a compiled function calls, may assign the Variable.

        Raises:
          UnimplementedError: the compiled function uses the Variable after the call. It would use the old value.
        """
        if state.depth and any(self is used for variables in state.unassignable for used in variables):
            raise UnimplementedError(
                None,
                "AssignVariableOp",
                f"{self.name} can't be assigned by a Python function that a tf.function calls (tf.py_function, "
                "tf.numpy_function, a dataset's), because the tf.function uses it after that call, and would not see the new "
                "value. Return the value from the Python function, and assign it in the tf.function.",
            )

    @property
    def _array(self) -> np.ndarray:
        """The array that holds the value. The caller may keep a reference to the array (an alias).

        Compiled code holds the lock while it writes into memory without aliases. This property first marks the memory
        as possibly aliased, then checks the lock. A writer that starts later finds the mark, and uses new memory. A
        writer that started before holds the lock: then the property waits, and returns the memory with the new value.
        """
        memory = self._show()
        if not self.lock.is_locked():
            return memory
        with self.lock:
            return self._show()

    def _show(self) -> np.ndarray:
        """Returns the Variable's memory, and marks the memory as possibly aliased, because the caller may keep it."""
        memory = self._memory
        self._seen = True
        alias_counter.add()
        return memory

    def own_memory(self) -> None:
        """Copies the value to new memory if a tensor shares the Variable's memory.

        Callers do so before compiled code writes into the memory. They may skip the call if ``_seen`` is False, because
        then no tensor was made of the memory.
        """
        self._seen = False
        if self._is_shared():
            self._adopt(aligned_array.aligned_copy(self._memory))

    def _is_shared(self) -> bool:
        """Returns whether anything but the Variable and its handle (a TVM tensor) refers to the Variable's array.

        A handle that was created from the array holds a reference to the array. If the array is a view of the handle,
        the handle holds none.
        """
        handle_references = self._handle is not None and not self._is_view_of_handle
        # The Variable's own references are its attribute and the argument of this call.
        return sys.getrefcount(self._memory) > _OWN_REFERENCES + handle_references

    def take(self, handle: Any) -> bool:
        """Makes ``handle``, a TVM tensor that compiled code returned, the Variable's value, without a copy.

        Returns whether the Variable's memory changed. It doesn't if compiled code wrote the value into the Variable's
        own memory (buffer donation).
        """
        if self._handle is not None and handle.data_ptr() == self._handle.data_ptr():
            return False
        from tvtf.core.dlpack_view import to_array

        self._adopt(to_array(handle), handle)
        return True

    def _adopt(self, array: np.ndarray, handle: Any = None) -> None:
        """Makes an array the Variable's memory, without a copy.

        ``handle`` is the TVM tensor of which the array is a view, if there is one.
        """
        self._memory = array
        self._seen = False
        self._handle = None if array.dtype == object else handle  # the handles of strings are valid for one call only
        self._is_view_of_handle = self._handle is not None

    def load(self, value: Any, session: Any = None) -> None:
        """Replaces the Variable's value; ``session`` has no effect."""
        self.assign(value, read_value=False)

    # -- tracking (see tvtf.track)

    def _serialize_to_tensors(self) -> dict[str, np.ndarray]:
        return {"VARIABLE_VALUE": self._array}

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray]) -> None:
        self.assign(tensors["VARIABLE_VALUE"])

    # -- Python

    def __bool__(self) -> bool:
        return bool(self._as_tensor())

    def __int__(self) -> int:
        return int(self._as_tensor())  # type: ignore[call-overload]

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __float__(self) -> float:
        return float(self._as_tensor())  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._as_tensor())  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._as_tensor())  # type: ignore[call-overload]

    def __hash__(self) -> int:
        raise TypeError(f"Variable is unhashable. Instead, use variable.ref() as the key. (Variable: {self!r})")

    def __copy__(self) -> Variable:
        return self

    def __deepcopy__(self, memo: Any) -> Variable:
        """Returns a new Variable with a copy of the value, and with the same options."""
        options = {"synchronization": self.synchronization, "aggregation": self.aggregation}
        copied = _again(self.numpy(), self._copied_options | options)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        return _again, (self.numpy(), self._copied_options)

    @property
    def _copied_options(self) -> dict[str, Any]:
        """The options that copies and pickles keep; as in TensorFlow the static shape is not one of them."""
        return {"trainable": self.trainable, "name": self._shared_name, "constraint": self.constraint}

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}{self._value_text()}>"

    def _value_text(self) -> str:
        return "" if state.trace is not None else f", numpy={_numpy_text(self._array, True)}"


def _operator_on_value(name: str) -> Callable[..., Any]:
    """Returns the method ``name`` of tensors as one of Variables, for what their method ``value`` returns."""
    method = getattr(Tensor, name)

    @functools.wraps(method)
    def compute(self: Any, *args: Any) -> Any:
        return method(self.value(), *args)

    return compute


class ResourceVariable(Variable):
    """The class of Variables that ``tf.Variable(...)`` creates, under TensorFlow's name."""


class UnreadVariable(Variable):
    """The result of an eager ``assign``: the same Variable, printed under TensorFlow's name for it."""

    __slots__ = ("_original",)

    def __init__(self, original: Variable) -> None:
        self._original = original
        self.__dict__ = original.__dict__

    @property
    def name(self) -> str:
        return "UnreadVariable"

    @property
    def op(self) -> None:
        """None: an eager assignment has no op. Libraries return it in place of one."""

    def _as_tensor(self) -> Tensor:
        return self._original._as_tensor()

    def assign(self, *args: Any, **kwargs: Any) -> Any:
        return self._original.assign(*args, **kwargs)

    def ref(self) -> Reference:
        return self._original.ref()


def _again(value: np.ndarray, options: dict[str, Any]) -> Variable:
    """Recreates a copied or unpickled Variable. Pickles refer to it by name."""
    return Variable(value, **options)


def _initial_array(initial_value: Any, dtype: Any) -> np.ndarray:
    """Computes a Variable's initial value, and returns a copy in new memory.

    ``initial_value`` is a value, or a function that returns one. The function is called eagerly, also while a function
    is traced.
    """
    trace = state.trace
    state.trace = None
    try:
        value = initial_value() if callable(initial_value) else initial_value
        tensor = convert_to_tensor(value, dtype=dtype)
        # A tensor of the trace: only the call that is being traced has its value.
        if isinstance(tensor, SymbolicTensor) and trace is not None:
            tensor = hooks.variables.initial_value(trace, tensor)
    finally:
        state.trace = trace
    return aligned_array.aligned_copy(tensor.eager_array())


def of_library(x: Any) -> Any:
    """Returns the Variable inside a variable of another library, such as Keras. Returns other values unchanged."""
    if isinstance(x, (Tensor, Variable)) or not getattr(x, "_should_act_as_resource_variable", False):
        return x
    return x.handle
