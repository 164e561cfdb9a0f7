"""``tf.compat.v1.summary``: ops that give Summary messages as texts, and what writes them into event files.

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
from tvtf.v1.registry import Made, names, v1
from tvtf.v1.variables import GraphKeys


def _messages() -> Any:
    return proto("compat.proto.summary_pb2")


names["Summary"] = names["summary.Summary"] = Made(lambda: _messages().Summary)
names["SummaryMetadata"] = Made(lambda: _messages().SummaryMetadata)
names["HistogramProto"] = Made(lambda: _messages().HistogramProto)
names["Event"] = names["summary.Event"] = Made(lambda: proto("compat.proto.event_pb2").Event)
names["GraphDef"] = Made(lambda: proto("compat.proto.graph_pb2").GraphDef)


def _op(name: str, tensor: Any, collections: Any, fill: Any, family: Any = None) -> Tensor:
    """The op that gives a summary, which ``fill`` completes from the tensor's value."""
    graph = current_graph()
    tag = graph.unique_name(f"{family}/{name.replace(' ', '_')}" if family else name.replace(" ", "_"))
    tag = f"{family}/{tag}" if family else tag

    def written(value: np.ndarray) -> np.ndarray:
        summary = _messages().Summary()
        fill(summary, tag, np.asarray(value))
        return np.array(summary.SerializeToString(), object)

    with graph.trace.unnamed():
        found = numpy_function(written, [convert_to_tensor(tensor)], TensorSpec([], string))
    scope = graph.name_scope(f"{tag}/")
    with scope:
        graph.trace.name_results(found, "summary", "Summary")
    graph.add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, found)
    return found  # type: ignore[no-any-return]


@v1("summary.scalar", "scalar_summary")
def scalar(name: str, tensor: Any, collections: Any = None, family: Any = None) -> Tensor:
    """The summary of a number."""
    return _op(name, tensor, collections, lambda s, tag, v: s.value.add(tag=tag, simple_value=float(v)), family)


@v1("summary.histogram", "histogram_summary")
def histogram(name: str, values: Any, collections: Any = None, family: Any = None) -> Tensor:
    """The summary of many numbers."""

    def fill(summary: Any, tag: str, values: np.ndarray) -> None:
        _fill_histogram(summary.value.add(tag=tag).histo, np.asarray(values, np.float64).reshape(-1))

    return _op(name, values, collections, fill, family)


@cache
def _limits() -> np.ndarray:
    """TensorFlow's buckets: each a tenth wider than the one before."""
    positive, limit = [], 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(np.finfo(np.float64).max)
    return np.array([*(-x for x in reversed(positive)), 0.0, *positive])


def _fill_histogram(made: Any, values: np.ndarray) -> None:
    limits = _limits()
    counts = np.bincount(
        np.minimum(np.searchsorted(limits, values, side="right"), len(limits) - 1), minlength=len(limits)
    )
    made.min, made.max = (values.min(), values.max()) if values.size else (0.0, 0.0)
    made.num, made.sum, made.sum_squares = values.size, values.sum(), (values**2).sum()
    at = 0
    while at < len(limits):
        end, count = limits[at], counts[at]
        at += 1
        if count <= 0:  # neighbours that are empty are one
            while at < len(limits) and counts[at] <= 0:
                end, count = limits[at], counts[at]
                at += 1
        made.bucket_limit.append(end)
        made.bucket.append(count)


@v1("summary.image", "image_summary")
def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: Any = None) -> Tensor:
    """The summary of pictures."""

    def fill(summary: Any, tag: str, pictures: np.ndarray) -> None:
        shown = pictures[:max_outputs]
        for i, picture in enumerate(_bytes_of(p) for p in shown):
            value = summary.value.add(tag=f"{tag}/image/{i}" if max_outputs > 1 else f"{tag}/image").image
            value.height, value.width, value.colorspace = picture.shape
            value.encoded_image_string = public_names()["io.encode_png"](convert_to_tensor(picture)).numpy()

    return _op(name, tensor, collections, fill, family)


def _bytes_of(picture: np.ndarray) -> np.ndarray:
    """Floats scaled to what a picture shows: around the middle where some are negative."""
    if picture.dtype == np.uint8:
        return picture
    low, high = float(picture.min()), float(picture.max())
    if low < 0:
        scale, offset = 127 / max(abs(low), abs(high), 1e-30), 128.0
    else:
        scale, offset = (255 / high if high else 0.0), 0.0
    return np.clip(picture * scale + offset, 0, 255).astype(np.uint8)


@v1("summary.text")
def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """The summary of texts."""

    def fill(summary: Any, tag: str, texts: np.ndarray) -> None:
        value = summary.value.add(tag=tag)
        value.metadata.plugin_data.plugin_name = "text"
        value.tensor.dtype = 7
        for size in texts.shape:
            value.tensor.tensor_shape.dim.add(size=size)
        value.tensor.string_val.extend(np.ravel(texts).tolist())

    return _op(name, tensor, collections, fill)


@v1("summary.merge", "merge_summary")
def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """One summary of several."""
    graph = current_graph()
    with graph.trace.unnamed():
        found = public_names()["strings.join"](list(inputs))  # a message after another is both
    graph.trace.name_results(found, name or "Merge/MergeSummary", "MergeSummary")
    graph.add_to_collections(collections or [], found)
    return found  # type: ignore[no-any-return]


@v1("summary.merge_all", "merge_all_summaries")
def merge_all(key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Any:
    """One summary of all in the collection; None where there is none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


@v1("summary.initialize")
def initialize(graph: Any = None, session: Any = None) -> None:
    """Writers are ready when they are made."""


@v1("summary.FileWriter", "train.SummaryWriter")
class FileWriter:
    """Writes summaries into an event file of a folder.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/summary/FileWriter
    """

    def __init__(
        self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120, graph_def: Any = None,
        filename_suffix: str | None = None, session: Any = None,
    ) -> None:  # fmt: skip
        self._folder, self._settings = logdir, (max_queue, int(flush_secs * 1000), filename_suffix or "")
        self._open()
        if graph is not None or graph_def is not None:
            self.add_graph(graph if graph is not None else graph_def)

    def _open(self) -> None:
        self._writer: Any = public_names()["summary.create_file_writer"](self._folder, *self._settings)

    def get_logdir(self) -> Any:
        return self._folder

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """A summary, or what an op gave of one."""
        found = summary
        if isinstance(summary, (bytes, np.bytes_)):
            found = _messages().Summary.FromString(bytes(summary))
        self._writer.write_event(int(global_step or 0), summary=found)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """A graph, for TensorBoard to draw."""
        found = graph.as_graph_def() if hasattr(graph, "as_graph_def") else graph
        self._writer.write_event(int(global_step or 0), graph_def=found.SerializeToString())

    def add_event(self, event: Any) -> None:
        """An event as it is."""
        self._writer._add(event)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Accepted."""

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Accepted."""

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Accepted."""

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
    """A writer for each folder."""

    @staticmethod
    def get(logdir: Any) -> FileWriter:
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
