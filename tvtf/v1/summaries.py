"""``tf.compat.v1.summary``: ops that return serialized Summary messages, and a writer of event files.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/summary and
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/histogram/histogram.cc
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tvtf.core.primitive import public_names
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.tensorboard_protos import proto
from tvtf.dtypes import string
from tvtf.frontend.host.python_call import numpy_function
from tvtf.v1.graph import current_graph, get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import LazyValue, names, v1


def _messages() -> Any:
    return proto("compat.proto.summary_pb2")


names["Summary"] = names["summary.Summary"] = LazyValue(lambda: _messages().Summary)
names["SummaryMetadata"] = LazyValue(lambda: _messages().SummaryMetadata)
names["HistogramProto"] = LazyValue(lambda: _messages().HistogramProto)
names["Event"] = names["summary.Event"] = LazyValue(lambda: proto("compat.proto.event_pb2").Event)
names["GraphDef"] = LazyValue(lambda: proto("compat.proto.graph_pb2").GraphDef)


def _summary_op(name: str, tensor: Any, collections: Any, fill: Any, family: Any = None) -> Tensor:
    """Creates an op that returns a serialized ``Summary`` message for a tensor, and adds the op to the collections.

    ``fill(summary, tag, array)`` writes the tensor's value to the message. The tag is unique in the graph.
    """
    graph = current_graph()
    tag = name.replace(" ", "_")
    if family:  # as in TensorFlow, the family is in front of the tag twice
        tag = f"{family}/{graph.unique_name(f'{family}/{tag}')}"
    else:
        tag = graph.unique_name(tag)

    def serialized(value: np.ndarray) -> np.ndarray:
        summary = _messages().Summary()
        fill(summary, tag, np.asarray(value))
        return np.array(summary.SerializeToString(), object)

    with graph.trace.without_op_names():
        result = numpy_function(serialized, [convert_to_tensor(tensor)], TensorSpec([], string))
    with graph.name_scope(f"{tag}/"):
        graph.trace.name_results(result, "summary", "Summary")
    graph.add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, result)
    return result  # type: ignore[no-any-return]


@v1("summary.scalar", "scalar_summary")
def scalar(name: str, tensor: Any, collections: Any = None, family: Any = None) -> Tensor:
    """Creates an op that returns the summary of a number."""
    return _summary_op(name, tensor, collections, lambda s, tag, v: s.value.add(tag=tag, simple_value=float(v)), family)


@v1("summary.histogram", "histogram_summary")
def histogram(name: str, values: Any, collections: Any = None, family: Any = None) -> Tensor:
    """Creates an op that returns a summary with the histogram of a tensor's elements."""

    def fill(summary: Any, tag: str, values: np.ndarray) -> None:
        _fill_histogram(summary.value.add(tag=tag).histo, np.asarray(values, np.float64).reshape(-1))

    return _summary_op(name, values, collections, fill, family)


@cache
def _limits() -> np.ndarray:
    """Returns the bucket limits of TensorFlow's histograms: each positive limit is 1.1 times the previous one.

    The negative limits mirror the positive limits.
    """
    positive, limit = [], 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(np.finfo(np.float64).max)
    return np.array([*(-x for x in reversed(positive)), 0.0, *positive])


def _fill_histogram(message: Any, values: np.ndarray) -> None:
    """Fills the protocol buffer message of a histogram.

    It gets the count of values in each bucket, and the values' minimum, maximum, number, sum and sum of squares.
    """
    limits = _limits()
    buckets = np.minimum(np.searchsorted(limits, values, side="right"), len(limits) - 1)
    counts = np.bincount(buckets, minlength=len(limits))
    message.min, message.max = (values.min(), values.max()) if values.size else (0.0, 0.0)
    message.num = values.size
    message.sum = values.sum()
    message.sum_squares = (values**2).sum()
    last = len(limits) - 1
    for index, (limit, count) in enumerate(zip(limits, counts)):
        # Consecutive empty buckets become one with the last one's limit, as TensorFlow writes them.
        is_followed_by_empty = index < last and counts[index + 1] == 0
        if count > 0 or not is_followed_by_empty:
            message.bucket_limit.append(limit)
            message.bucket.append(count)


@v1("summary.image", "image_summary")
def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: Any = None) -> Tensor:
    """Creates an op that returns a summary with the first ``max_outputs`` images of a batch, encoded as PNG.

    Args:
      name: the tag of the images.
      tensor: images of shape (batch, height, width, channels).
      max_outputs: the largest number of images.
      collections: the graph's collections that get the op; None for the usual ones.
      family: a prefix of the tag, or None.
    """

    def fill(summary: Any, tag: str, pictures: np.ndarray) -> None:
        """Adds the images to the summary. Their tags are numbered unless ``max_outputs`` is 1."""
        encode_png = public_names()["io.encode_png"]
        for i, picture in enumerate(pictures[:max_outputs]):
            picture_in_bytes = _to_bytes(picture)
            image_tag = f"{tag}/image/{i}" if max_outputs > 1 else f"{tag}/image"
            message = summary.value.add(tag=image_tag).image
            # The message's code of a color space is the number of channels.
            message.height, message.width, message.colorspace = picture_in_bytes.shape
            message.encoded_image_string = encode_png(convert_to_tensor(picture_in_bytes)).numpy()

    return _summary_op(name, tensor, collections, fill, family)


def _to_bytes(picture: np.ndarray) -> np.ndarray:
    """Scales an image of floats to bytes.

    If all values are positive or zero, 0 stays 0, and the largest value becomes the largest byte. Otherwise 0 becomes
    128, and the largest absolute value becomes the limit of the range.
    """
    if picture.dtype == np.uint8:
        return picture
    low = float(picture.min())
    high = float(picture.max())
    if low < 0:
        scale = 127 / max(abs(low), abs(high), 1e-30)
        offset = 128.0
    else:
        scale = 255 / high if high else 0.0
        offset = 0.0
    return np.clip(picture * scale + offset, 0, 255).astype(np.uint8)


@v1("summary.text")
def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Creates an op that returns a summary with a tensor of strings, for TensorBoard's text plugin."""

    def fill(summary: Any, tag: str, texts: np.ndarray) -> None:
        """Writes the strings to the summary as a tensor, in the form that TensorBoard's text plugin reads."""
        value = summary.value.add(tag=tag)
        value.metadata.plugin_data.plugin_name = "text"
        value.tensor.dtype = 7  # DT_STRING
        for size in texts.shape:
            value.tensor.tensor_shape.dim.add(size=size)
        value.tensor.string_val.extend(np.ravel(texts).tolist())

    return _summary_op(name, tensor, collections, fill)


@v1("summary.merge", "merge_summary")
def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Creates an op that merges serialized summaries to one summary with the values of all."""
    graph = current_graph()
    with graph.trace.without_op_names():
        # Concatenated serialized messages parse as one message, with the repeated fields of all.
        merged = public_names()["strings.join"](list(inputs))
    graph.trace.name_results(merged, name or "Merge/MergeSummary", "MergeSummary")
    graph.add_to_collections(collections or [], merged)
    return merged  # type: ignore[no-any-return]


@v1("summary.merge_all", "merge_all_summaries")
def merge_all(key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Any:
    """Merges all summaries in the collection; None if there are none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


@v1("summary.initialize")
def initialize(graph: Any = None, session: Any = None) -> None:
    """Does nothing: a writer is ready once it is created."""


@v1("summary.FileWriter", "train.SummaryWriter")
class FileWriter:
    """Writes summaries into an event file in a folder.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/summary/FileWriter
    """

    def __init__(
        self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120, graph_def: Any = None,
        filename_suffix: str | None = None, session: Any = None,
    ) -> None:  # fmt: skip
        """Opens an event file in ``logdir``, and writes the graph if one is given."""
        # The writer flushes after a number of milliseconds.
        self._folder = logdir
        self._settings = (max_queue, int(flush_secs * 1000), filename_suffix or "")
        self._open()
        if graph is not None or graph_def is not None:
            self.add_graph(graph if graph is not None else graph_def)

    def _open(self) -> None:
        self._writer: Any = public_names()["summary.create_file_writer"](self._folder, *self._settings)

    def get_logdir(self) -> Any:
        return self._folder

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Writes a summary: a message, or the bytes that a summary op returned."""
        found = summary
        if isinstance(summary, (bytes, np.bytes_)):
            found = _messages().Summary.FromString(bytes(summary))
        self._writer.write_event(int(global_step or 0), summary=found)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Writes a graph for TensorBoard to show."""
        found = graph.as_graph_def() if hasattr(graph, "as_graph_def") else graph
        self._writer.write_event(int(global_step or 0), graph_def=found.SerializeToString())

    def add_event(self, event: Any) -> None:
        """Writes an event message unchanged."""
        self._writer._add(event)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Accepted and ignored."""

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Accepted and ignored."""

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Accepted and ignored."""

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def reopen(self) -> None:
        self._open()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


_writers: dict[str, FileWriter] = {}


@v1("summary.FileWriterCache")
class FileWriterCache:
    """One writer per folder."""

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """Returns the writer of a folder, which is created on the first call."""
        return (
            _writers.setdefault(str(logdir), FileWriter(logdir))
            if str(logdir) not in _writers
            else _writers[str(logdir)]
        )

    @staticmethod
    def clear() -> None:
        for writer in _writers.values():
            writer.close()
        _writers.clear()
