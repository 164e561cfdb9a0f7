"""Writes scalars, histograms, images, audio and text as TensorBoard's plugins read them."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentValueError
from tvtf.core.primitive import export, name_errors
from tvtf.core.tensor import EagerTensor, Tensor, constant, convert_to_tensor, is_tensor
from tvtf.core.tensorboard_protos import proto
from tvtf.core.thread_state import state
from tvtf.dtypes import int64
from tvtf.frontend.host.python_call import traced
from tvtf.ops.operands import scalar_int
from tvtf.state.module import current_scope, name_scope
from tvtf.summary.writer import SummaryWriter, active, recording, writing

MSG_STEP = (
    "No step set. Please specify one either through the `step` argument or through tf.summary.experimental.set_step()"
)


@export("summary.scalar")
def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Writes a number, as float32, to the default writer, for TensorBoard's page of scalars.

    Returns:
      A bool tensor: False if there is no default writer, or it does not record.

    Raises:
      ValueError: no step is given or set as the default, or ``data`` is not a scalar.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default():
    ...     print(tf.summary.scalar("loss", 0.5, step=1).numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/scalar
    """
    value = convert_to_tensor(data)
    if value.shape.rank not in (0, None):
        raise ValueError(f"Expected scalar shape for tensor, got shape: {value.shape}.")
    plugin = _plugin("scalar")
    return _write_to_default_writer(name, step, value, lambda tag, array: plugin.scalar_pb(tag, array, description))


@export("summary.histogram")
def histogram(
    name: str, data: Any, step: Any = None, buckets: int | None = None, description: str | None = None
) -> Tensor:
    """Writes the distribution of a tensor's values, with 30 ``buckets`` by default.

    Returns, Raises:
      as :func:`scalar`.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default(step=1):
    ...     print(tf.summary.histogram("weights", tf.zeros([10])).numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/histogram
    """
    plugin = _plugin("histogram")
    return _write_to_default_writer(
        name, step, data, lambda tag, array: plugin.histogram_pb(tag, array, buckets, description)
    )


@export("summary.text")
def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Writes a string tensor of any shape, which TensorBoard renders as Markdown.

    Returns, Raises:
      as :func:`scalar`.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default(step=1):
    ...     print(tf.summary.text("note", "**bold**").numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/text
    """
    plugin = _plugin("text")
    return _write_to_default_writer(
        name, step, data, lambda tag, array: plugin.text_pb(tag, array.astype(object), description)
    )


@export("summary.image")
def image(name: str, data: Any, step: Any = None, max_outputs: int = 3, description: str | None = None) -> Tensor:
    """Writes images of shape (count, height, width, 1 to 4 channels): floats from 0 to 1, or integers from 0 to 255.

    Args:
      max_outputs: the maximum number of images that are written.

    Returns, Raises:
      as :func:`scalar`; ValueError also for another rank.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default(step=1):
    ...     print(tf.summary.image("black", tf.zeros([1, 4, 4, 3])).numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/image
    """
    pixels = convert_to_tensor(data)
    if pixels.shape.rank not in (4, None):
        raise ValueError(f"Expected images of rank 4, (count, height, width, channels), got shape: {pixels.shape}.")
    metadata = proto("plugins.image.metadata").create_summary_metadata(display_name=None, description=description)

    def build(tag: str, values: np.ndarray) -> Any:
        size = [str(values.shape[axis]).encode() for axis in (2, 1)]
        return _summary_of_bytes(tag, metadata, [*size, *map(_encoded_png, _as_uint8(values[:max_outputs]))])

    return _write_to_default_writer(name, step, pixels, build)


@export("summary.audio")
def audio(
    name: str,
    data: Any,
    sample_rate: int,
    step: Any = None,
    max_outputs: int = 3,
    encoding: str | None = None,
    description: str | None = None,
) -> Tensor:
    """Writes sound: floats from -1 to 1 of shape (count, frames, channels), as 16-bit wav.

    Args:
      sample_rate: frames per second.
      encoding: None or ``"wav"``.

    Returns, Raises:
      as :func:`scalar`; ValueError also for another encoding or rank.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default(step=1):
    ...     print(tf.summary.audio("silence", tf.zeros([1, 80, 1]), 8000).numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/audio
    """
    if encoding not in (None, "wav"):
        raise ValueError(f"Unknown encoding: {encoding!r}")
    frames = convert_to_tensor(data)
    if frames.shape.rank not in (3, None):
        raise ValueError(f"Expected audio of rank 3, (count, frames, channels), got shape: {frames.shape}.")
    plugin = proto("plugins.audio.metadata")
    wav = proto("plugins.audio.plugin_data_pb2").AudioPluginData.WAV
    metadata = plugin.create_summary_metadata(display_name=None, description=description, encoding=wav)

    def build(tag: str, values: np.ndarray) -> Any:
        """Makes a summary of up to ``max_outputs`` clips, encoded as WAV.

        TensorBoard expects a label for each; these are empty.
        """
        rate = scalar_int(sample_rate, "sample_rate")
        if rate <= 0:
            raise ArgumentValueError(f"sample_rate must be in (0, 2^32), got: {rate % 2**64}")
        clips = [_encoded_wav(clip, rate) for clip in values[:max_outputs]]
        labels = np.full(len(clips), b"", object)
        return _summary_of_bytes(tag, metadata, np.stack([np.array(clips, object), labels], axis=1))

    return _write_to_default_writer(name, step, frames, name_errors(build, "EncodeWav"))


@export("summary.write")
def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: str | None = None) -> Tensor:
    """Writes a tensor of any dtype and shape under ``tag``, with the metadata by which a plugin finds it.

    Args:
      tensor: the tensor, or a function that returns it, which is called only if something is written.

    Returns, Raises:
      as :func:`scalar`.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default(step=1):
    ...     print(tf.summary.write("raw", tf.constant([1, 2])).numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/write
    """
    writer = writing()
    if writer is None:
        return constant(False)
    value = tensor() if callable(tensor) else tensor
    return _write_event(writer, step, value, lambda array: _summary(tag, metadata, array))


@export("summary.graph")
def graph(graph_data: Any) -> Tensor:
    """Writes a GraphDef, or the graph of a traced function, for TensorBoard's graph page.

    Returns:
      A bool tensor: False if there is no default writer.

    >>> import tempfile
    >>> import tvtf as tf
    >>> traced = tf.function(tf.sin).get_concrete_function(tf.TensorSpec([], tf.float32))
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default():
    ...     print(tf.summary.graph(traced).numpy())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/graph
    """
    from tvtf.ir.graph_def import graph_def

    writer = writing()
    if writer is None:
        return constant(False)
    definition = graph_data if hasattr(graph_data, "SerializeToString") else graph_def([graph_data])
    writer.write_event(0, graph_def=definition.SerializeToString())
    return constant(True)


@export("summary.experimental.write_raw_pb")
def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> Tensor:
    """Writes a serialized Summary proto.

    Returns, Raises:
      as :func:`scalar`.

    >>> import tvtf as tf
    >>> bool(tf.summary.experimental.write_raw_pb(b"", step=1))  # there is no default writer
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/experimental/write_raw_pb
    """
    number = None if step is None else _step_tensor(step)
    writer = writing()
    if writer is None:
        return constant(False)
    parse = proto("compat.proto.summary_pb2").Summary.FromString
    return _write_event(writer, number, tensor, lambda array: parse(array.item()))


@export("summary.experimental.summary_scope")
@contextmanager
def summary_scope(name: str, default_name: str = "summary", values: Any = None) -> Iterator[tuple[str, str]]:
    """Enters the name scope of a summary's ops, and returns its tag and the scope's name.

    >>> import tvtf as tf
    >>> with tf.name_scope("train"), tf.summary.experimental.summary_scope("loss") as (tag, scope):
    ...     print(tag, scope)
    train/loss train/loss/

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/experimental/summary_scope
    """
    tag = current_scope() + (name or default_name)
    with name_scope(name or default_name) as scope:
        yield tag, scope


# -- writing


def _plugin(name: str) -> Any:
    return proto(f"plugins.{name}.summary_v2") if writing() else None


def _write_to_default_writer(name: str, step: Any, data: Any, build: Callable[[str, np.ndarray], Any]) -> Tensor:
    """Writes ``build(tag, values)`` to the default writer. Returns False if there is none."""
    writer = writing()
    tag = current_scope() + name
    return constant(False) if writer is None else _write_event(writer, step, data, lambda array: build(tag, array))


def _step_tensor(step: Any) -> Tensor:
    """Converts the training step to an integer scalar tensor; None stands for the default step.

    Raises:
      ValueError: no step is given or set as the default, or the step is not a scalar.
    """
    step = active.step if step is None else step
    if step is None:
        raise ValueError(MSG_STEP)
    has_integer_dtype = is_tensor(step) and convert_to_tensor(step).dtype.is_integer
    number = convert_to_tensor(step, None if has_integer_dtype else int64)
    if number.ndim:
        raise ValueError(f"Argument `step` must be a scalar. Received step with shape {number.shape}.")
    return number


def _write_event(writer: SummaryWriter, step: Any, data: Any, build: Callable[[np.ndarray], Any]) -> Tensor:
    """Writes the summary ``build(data)`` as an event now or, while tracing, in each run of the traced program.

    Returns a bool tensor: whether the event is recorded. Values that are known while tracing are constants of the
    event, so that only the others are passed to Python in each run.
    """
    tensors = [convert_to_tensor(x) for x in (data, _step_tensor(step), recording())]
    constants = [tensor.eager_array() if isinstance(tensor, EagerTensor) else None for tensor in tensors]

    def run(*arrays: np.ndarray) -> tuple[()]:
        """Writes the summary event when the program runs; ``arrays`` are the values that were unknown while tracing."""
        run_values = iter(arrays)
        value, number, records = [
            next(run_values) if constant_value is None else constant_value for constant_value in constants
        ]
        if records:
            writer.write_event(int(number), summary=build(value))
        return ()

    if state.trace is None:
        run()
    else:
        unknown = [tensor for tensor, constant_value in zip(tensors, constants) if constant_value is None]
        traced(run, unknown, [])
    _, _, condition = tensors
    return condition


def _summary(tag: str, metadata: Any, values: Any) -> Any:
    summary = proto("compat.proto.summary_pb2").Summary()
    tensor = proto("util.tensor_util").make_tensor_proto(values)
    summary.value.add(tag=tag, metadata=metadata, tensor=tensor)
    return summary


def _summary_of_bytes(tag: str, metadata: Any, parts: Any) -> Any:
    return _summary(tag, metadata, np.array(parts, object))


def _as_uint8(values: np.ndarray) -> np.ndarray:
    """Converts images to uint8, as ``tf.image.convert_image_dtype(..., saturate=True)`` does."""
    scaled = values * 255.5 if values.dtype.kind not in "iub" else values
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _encoded_png(pixels: np.ndarray) -> bytes:
    """Encodes an image of shape (height, width, channels) as PNG; one channel is gray."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def _encoded_wav(frames: np.ndarray, rate: int) -> bytes:
    """Encodes sound, an array of shape (frames, channels) from -1 to 1, as a WAV file of 16 bits per sample."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(frames.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(rate)
        # Clipped, because samples beyond the limits would wrap around.
        sound.writeframes((np.clip(frames, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()
