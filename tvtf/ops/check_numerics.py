"""``tf.debugging.check_numerics`` and ``enable_check_numerics``: errors for infinities and NaN where they arise."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, as_tuple, export, primitive
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import FLOATING
from tvtf.errors import InvalidArgumentError
from tvtf.ops.rules import attribute_text, batch_elementwise, bind, draw, scalar

MSG_GRADIENT = (
    "Not a number (NaN) or infinity (Inf) values detected in gradient. Use tf.debugging.enable_check_numerics to find "
    "out where they come from."
)


def _type(x: TensorType, *, message: str) -> TensorType:
    """Returns the type of ``x`` after checking that it is floating."""
    if not x.dtype.is_floating:
        raise ArgumentError(
            f"Value for attr 'T' of {x.dtype.name} is not in the list of allowed values: floating types", TypeError
        )
    return x


def _numpy(x: np.ndarray, *, message: str) -> np.ndarray:
    kinds = " and ".join(name for name, test in (("Inf", np.isinf), ("NaN", np.isnan)) if test(x).any())
    if kinds:
        raise ArgumentError(f"{message} : Tensor had {kinds} values")
    return x


def _guard(x: Tensor, *, message: str) -> list[tuple[Tensor, str]]:
    """Checks at run time for infinities and NaN, with a message for each and for both."""
    infinite, nan = _any(bind.is_inf(x)), _any(bind.is_nan(x))
    cases = ((bind.logical_and(infinite, nan), "Inf and NaN"), (infinite, "Inf"), (nan, "NaN"))
    return [(bind.logical_not(has), f"{message} : Tensor had {kinds} values") for has, kinds in cases]


def _any(x: Tensor) -> Tensor:
    return bind.reduce_any(x, axis=tuple(range(x.ndim)), keepdims=False)


@primitive(
    name="check_numerics",
    type=_type,
    numpy=_numpy,
    lower=lambda x, *, message: scalar(lambda t, value: value)(x),
    vjp=lambda cotangent, y, x, *, message: bind.check_numerics(cotangent, message=MSG_GRADIENT),
    batch=batch_elementwise("check_numerics"),
    guard=_guard,
    onnx=lambda emitter, inputs, outputs, types, *, message: emitter.node("Identity", inputs, outputs),
    samples=lambda: [Sample((draw(0, shape),), {"message": "x"}, FLOATING) for shape in ((2, 3), ())],
)
def numerics_checked(x: Any, *, message: str) -> Any:
    """Returns ``x``. Where the result is used, the program fails if it has an infinity or NaN."""
    return (x,), {"message": message}


@export("debugging.check_numerics")
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """Returns ``tensor`` after a check that it has no infinity or NaN.

    Args:
      tensor: floating tensor.
      message: begins the error's text.

    Raises:
      InvalidArgumentError: the tensor has a NaN or an infinity. A traced function raises the error when it runs, even
        if nothing uses the result.

    >>> import tvtf as tf
    >>> tf.debugging.check_numerics(tf.constant([1., 2.]), "weights").numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/check_numerics
    """
    x = convert_to_tensor(tensor)
    text = attribute_text(message, "message")
    if state.trace is None:
        return bind.check_numerics(x, message=text)
    with state.trace.together():
        checked = bind.check_numerics(x, message=text)
        for holds, failure in _guard(x, message=text):
            bind.guard(holds, message=failure)
    return checked


@export("debugging.assert_all_finite")
def assert_all_finite(x: Any, message: str, name: str | None = None) -> Tensor:
    """Checks that ``x`` has no infinity or NaN, and returns it. Same as ``check_numerics``.

    >>> import tvtf as tf
    >>> tf.debugging.assert_all_finite(tf.constant([1., 2.]), "weights").numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/assert_all_finite
    """
    return check_numerics(x, message)


# -- every op checked


_COPYING_OPS = {
    "AssignVariableOp", "BroadcastTo", "CheckNumerics", "Concat", "ConcatV2", "EnsureShape", "ExpandDims", "Fill",
    "Gather", "GatherNd", "GatherV2", "Identity", "Pack", "Pad", "PadV2", "Relu", "Reshape", "ReverseV2", "Roll", "Select",
    "SelectV2", "Slice", "Split", "Squeeze", "StackRead", "StackWrite", "StopGradient", "StridedSlice", "Tile", "Transpose",
    "Unpack", "Where", "ZerosLike",
}  # fmt: skip
"""Ops that only pass values on and so can't create a NaN: TensorFlow's SAFE_OPS."""


class _NumericsWatch:
    """An observer in the list of tapes that checks the results of every op for NaN and infinities."""

    level = 0

    def watches(self, _: Any) -> bool:
        return False

    def followed(self) -> tuple[()]:
        return ()

    def read(self, variable: Any, value: Tensor) -> None:
        """Ignores reads of Variables: their values were checked when they were computed."""

    def record(self, prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
        """Checks that the floating outputs of an op have no NaN or infinity.

        Eager outputs are checked at once. Outputs of traced ops are checked when the program runs.

        Args:
          prim: the primitive of the op.
          inputs, outputs, attrs: the op's inputs, its output or outputs, and its attributes.
        """
        if prim.tf_name in _COPYING_OPS:  # such an op creates no NaN
            return
        check = _check_now if state.trace is None else _check_when_run
        tapes = state.tapes
        state.tapes = []  # the checks are ops, which neither tapes nor this watch record
        all_outputs = as_tuple(outputs)
        try:
            for i, output in enumerate(all_outputs):
                if output.dtype.is_floating:
                    place = f'output {i} of %s op "{prim.tf_name}" (# of outputs: {len(all_outputs)})'
                    check(place, output, inputs)
        finally:
            state.tapes = tapes


def _check_now(place: str, output: Tensor, inputs: Sequence[Any]) -> None:
    """Checks that the output of an eager op has no infinities and no NaN. TensorFlow's error shows their counts.

    ``place`` is text about the op and the output, with a placeholder for the execution mode.
    """
    array = output.eager_array().astype(np.float64)
    kinds = {"-Inf": array == -np.inf, "+Inf": array == np.inf, "NaN": np.isnan(array)}
    counts = {kind: int(flags.sum()) for kind, flags in kinds.items() if flags.any()}
    if not counts:
        return
    count_lines = ""
    for kind, count in counts.items():
        name = "+NaN" if kind == "NaN" else kind  # TensorFlow's report has a plus sign before NaN
        count_lines += f"\n  # of {name} elements: {count}"
    report = _report(place % "eagerly-executing", output, count_lines, inputs)
    message = f"{report}\n : Tensor had {_listed(list(counts))} values [Op:CheckNumericsV2] name: "
    raise InvalidArgumentError(None, "CheckNumericsV2", message)


def _check_when_run(place: str, output: Tensor, inputs: Sequence[Any]) -> None:
    """Adds a run-time check that the output of a traced op is finite. The error names the op and the user's line.

    ``place`` is text about the op and the output, with a placeholder for the execution mode.
    """
    from tvtf.ir.user_lines import user_span

    span = user_span()
    line = f"    + {span.source_name.name} (L{span.line})\n -> |   {_source_line(span)}\n"
    header = '  Stack trace of op\'s creation ("->": inferred user code):'
    location = f'  Graph name: "{state.trace.root.name}"\n\n{header}\n{line}'
    is_finite = bind.reduce_all(bind.is_finite(output), axis=tuple(range(output.ndim)), keepdims=False)
    report = _report(place % "graph", output, "", inputs)
    bind.guard(is_finite, message=f"{report}{location}\n : Tensor had Inf or NaN values")


def _report(place: str, output: Tensor, counted: str, inputs: Sequence[Any]) -> str:
    """Returns the text of a report, in the format of TensorFlow's."""
    numbered_inputs = "".join(f"\n         {i}: {x!s}" for i, x in enumerate(inputs))
    input_text = f"tensor: {inputs[0]!s}" if len(inputs) == 1 else f"tensors ({len(inputs)}):{numbered_inputs}"
    description = f"  dtype: {output.dtype}\n  shape: {output.shape}{counted}"
    return f"\n\n!!! Detected Infinity or NaN in {place} !!!\n{description}\n\n  Input {input_text}\n"


def _source_line(span: Any) -> str:
    return linecache.getline(span.source_name.name, span.line).strip()


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


_watch = _NumericsWatch()


@export("debugging.enable_check_numerics")
def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Makes each later op of this thread that returns infinity or NaN raise an error with its name and the user's line.

    Functions traced from now on are checked, too. Ops that only copy values (slices, ``tf.where`` ...) are not checked.

    >>> import tvtf as tf
    >>> tf.debugging.enable_check_numerics()
    >>> try:
    ...     tf.math.log(tf.constant(-1.))
    ... except tf.errors.InvalidArgumentError as error:
    ...     print(error.message.split("!!!")[1].strip())
    Detected Infinity or NaN in output 0 of eagerly-executing op "Log" (# of outputs: 1)
    >>> tf.debugging.disable_check_numerics()

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/enable_check_numerics
    """
    disable_check_numerics()
    state.observers = [*state.observers, _watch]
    state.tapes = [*state.tapes, _watch]


@export("debugging.disable_check_numerics")
def disable_check_numerics() -> None:
    """Stops the checks that ``enable_check_numerics`` started.

    >>> import tvtf as tf
    >>> tf.debugging.disable_check_numerics()

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/disable_check_numerics
    """
    state.observers = [each for each in state.observers if each is not _watch]
    state.tapes = [each for each in state.tapes if each is not _watch]
