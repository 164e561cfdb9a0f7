"""``tf.print``: prints in TensorFlow's format when the program reaches it."""

from __future__ import annotations

import pprint
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.composite import is_ragged, is_sparse
from tvtf.core.graph_operation import Operation, done
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import int32, string
from tvtf.ops.host import host_primitive
from tvtf.ops.rules import bind, stretch
from tvtf.ops.tensor_text import filled, tensor_text

_PLACEHOLDER = "\x00tensor\x00"
_FILE_PREFIX = "file://"


@export("print")
def print_(*inputs: Any, **kwargs: Any) -> Operation | None:
    """Prints tensors and Python values; in a traced function, each time it runs.

    Args:
      *inputs: values and nested structures of them; tensors show their elements.
      output_stream: ``sys.stderr`` (the default), ``sys.stdout``, or ``"file://PATH"`` (appended to).
      summarize: elements shown at both ends of each dim; -1 for all.
      sep: between inputs, a space by default.
      end: after the last, a newline by default.

    Returns:
      None; while tracing, an ``Operation`` that ``tf.control_dependencies`` takes.

    Raises:
      ValueError: a keyword or the stream is not supported, or ``summarize`` is negative and not -1.
      TypeError: ``summarize`` is not an int.

    >>> import sys
    >>> import tvtf as tf
    >>> tf.print("x:", tf.constant([1., 2.5]), {"n": tf.range(10)}, output_stream=sys.stdout)
    x: [1 2.5] {'n': [0 1 2 ... 7 8 9]}

    Source: https://www.tensorflow.org/api_docs/python/tf/print
    """
    stream = _stream_name(kwargs.pop("output_stream", sys.stderr))
    summarize = kwargs.pop("summarize", 3)
    sep = kwargs.pop("sep", " ")
    end = kwargs.pop("end", "\n")
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    summarize = _checked(summarize)
    pieces, symbolic, bare = _with_known_values_as_text(*_template(inputs, sep, end, summarize), summarize)
    bind.print_text(*symbolic, pieces=pieces, summarize=summarize, stream=stream, bare=bare)
    return done("PrintV2", name)


def _checked(summarize: Any) -> int:
    """Returns the argument ``summarize`` of ``tf.print`` as an int.

    Raises an error if it is neither -1, 0 nor positive.
    """
    if not isinstance(summarize, (int, np.integer)):
        raise TypeError(f"Expected int for argument 'summarize' not {summarize!r}.")
    if summarize < -1:
        raise ValueError(f"summarize must be -1 (for all elements), 0 or a positive number, but got {summarize}")
    return int(summarize)


def _with_known_values_as_text(
    template: list[str], tensors: list[Tensor], bare: list[bool], summarize: int
) -> tuple[tuple[str, ...], list[Tensor], tuple[bool, ...]]:
    """Inserts the tensors whose values are known while tracing into the text of a ``tf.print``.

    Args:
      template: the pieces of text around the tensors.
      tensors: the tensors to print.
      bare: for each tensor, whether it is text that is printed without quotes.
      summarize: the number of elements shown at both ends of each dim.

    Returns:
      the pieces of text around the other tensors, these tensors, and for each whether it is printed without quotes.
    """
    pieces = [template[0]]
    symbolic_tensors: list[Tensor] = []
    symbolic_bare: list[bool] = []
    for tensor, is_bare, piece_after in zip(tensors, bare, template[1:]):
        if isinstance(tensor, EagerTensor):
            pieces[-1] += _text(tensor.eager_array(), is_bare, summarize) + piece_after
        else:
            symbolic_tensors.append(tensor)
            symbolic_bare.append(is_bare)
            pieces.append(piece_after)
    return tuple(pieces), symbolic_tensors, tuple(symbolic_bare)


def _text(array: np.ndarray, bare: bool, summarize: int) -> str:
    """Formats a tensor's value: text without quotes if ``bare``, else in TensorFlow's format."""
    return _unquoted(array) if bare else tensor_text(array, summarize)


def _print_now(
    *arrays: np.ndarray, pieces: tuple[str, ...], summarize: int, stream: str, bare: tuple[bool, ...]
) -> np.ndarray:
    """Prints the arrays with the pieces of text around them, and returns a zero, the result of the primitive."""
    _write(stream, filled(pieces, [_text(array, is_bare, summarize) for array, is_bare in zip(arrays, bare)]))
    return np.zeros((), np.int32)


def _print_first(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Tensor:
    """Maps ``tf.print`` over ``size`` elements: prints the first element only, as TensorFlow does."""
    first_elements = (x[0] if is_batched else x for x, is_batched in zip(inputs, batched))
    return stretch(size, bind.print_text(*first_elements, **attrs), False)


@host_primitive(
    tf_name="PrintV2",
    type=lambda *_, pieces, summarize, stream, bare: TensorType((), int32),
    numpy=_print_now,
    batch=_print_first,
    pure=False,
)
def print_text(*tensors: Tensor, pieces: tuple[str, ...], summarize: int, stream: str, bare: tuple[bool, ...]) -> Any:
    """Writes pieces of text with the tensors between them; strings that are ``bare`` get no quotes. Returns a zero."""
    return tensors, {"pieces": pieces, "summarize": summarize, "stream": stream, "bare": bare}


def _unquoted(text: np.ndarray) -> str:
    """Decodes a scalar array of bytes."""
    return text.item().decode(errors="replace")  # type: ignore[no-any-return]


# -- streams


def _stream_name(stream: Any) -> str:
    """Returns the name of an output stream: "stdout", "stderr" or a file name with the prefix ``file://``.

    The stream is looked up by this name when something is printed, because ``sys.stdout`` may have been replaced by
    then.
    """
    if stream is sys.stdout or stream is sys.stderr:
        return "stdout" if stream is sys.stdout else "stderr"
    if isinstance(stream, str) and stream.startswith(_FILE_PREFIX):
        return stream
    raise ValueError(
        f"Unsupported output stream, logging level, or file. {stream!r}. Supported streams are sys.stdout and sys.stderr. "
        f"File needs to be in the form of 'file://<filepath>'."
    )


def _write(stream: str, text: str) -> None:
    """Prints text to a stream, or appends it to a file. ``stream`` is a name that ``_stream_name`` returned."""
    if stream.startswith(_FILE_PREFIX):
        _append(Path(stream.removeprefix(_FILE_PREFIX)), text)
    else:
        print(text, end="", file=getattr(sys, stream), flush=True)


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


# -- format


def _template(
    inputs: tuple[Any, ...], sep: str, end: str, summarize: int
) -> tuple[list[str], list[Tensor], list[bool]]:
    """Formats the arguments of ``tf.print`` as text, with the tensors left out.

    Args:
      inputs: the values to print.
      sep: the text between them.
      end: the text after them.
      summarize: the number of elements shown at both ends of each dim.

    Returns:
      the pieces of text around the tensors, the tensors, and for each tensor whether it is text to print without quotes.
    """
    tensors_and_bare: list[tuple[Tensor, bool]] = []
    text = sep.join(_described(value, tensors_and_bare, summarize) for value in inputs) + end
    # TensorFlow prints a text alone without quotes.
    is_single_text = len(inputs) == 1 and is_text(inputs[0])
    tensors = [tensor for tensor, _ in tensors_and_bare]
    are_bare = [is_bare or is_single_text for _, is_bare in tensors_and_bare]
    return text.split(_PLACEHOLDER), tensors, are_bare


def _described(value: Any, tensors: list[tuple[Tensor, bool]], summarize: int) -> str:
    """Formats a value as text, with a placeholder for each tensor in it.

    The tensors are appended to ``tensors``, as pairs of a tensor and whether it is printed without quotes.
    """
    if isinstance(value, str):
        return value
    placeholders = [_placeholder_for(leaf, tensors, summarize) for leaf in nest.flatten(value)]
    described = nest.pack_sequence_as(value, placeholders) if nest.is_nested(value) else placeholders[0]
    return pprint.pformat(described)


def is_text(value: Any) -> bool:
    """Returns whether a value is a scalar string tensor, which is printed without quotes."""
    return isinstance(value, Tensor) and value.dtype is string and value.ndim == 0


class _Placeholder:
    """An object that stands for a tensor in a structure that is being formatted: its ``repr`` is the placeholder."""

    def __init__(self, text: str = _PLACEHOLDER) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _placeholder_for(leaf: Any, tensors: list[tuple[Tensor, bool]], summarize: int) -> Any:
    """Returns a placeholder for a leaf that is a tensor. Other leaves are returned unchanged.

    The tensors to print are appended to ``tensors``, as pairs of a tensor and whether it is printed without quotes. A
    ragged tensor is one string tensor, its text. A sparse tensor is three: its indices, values and dense shape.
    """
    if is_ragged(leaf):
        from tvtf.composites.ragged.formatting import format_ragged

        text = format_ragged(leaf, summarize)
        tensors.append((text, True))
        return _Placeholder()
    if is_sparse(leaf):
        components = (leaf.indices, leaf.values, leaf.dense_shape)
        tensors += [(component, False) for component in components]
        return _Placeholder(f"'SparseTensor(indices={_PLACEHOLDER}, values={_PLACEHOLDER}, shape={_PLACEHOLDER})'")
    if not is_tensor(leaf):
        return leaf
    tensors.append((convert_to_tensor(leaf), False))
    return _Placeholder()
