"""Defines ``tf.summary.trace_on`` and ``trace_export``, which write the graphs of functions traced in between."""

from __future__ import annotations

from typing import Any

from tvtf.core.log import logger
from tvtf.core.primitive import export
from tvtf.core.tensorboard_protos import proto
from tvtf.core.thread_state import state
from tvtf.summary.profiler import start, stop, stop_in
from tvtf.summary.values import MSG_STEP, write
from tvtf.summary.writer import active, writing

MSG_NO_TRACE = "Must enable trace before export through tf.summary.trace_on."


class _Collected:
    """The functions traced since ``trace_on``; None if it is off."""

    functions: list[Any] | None = None
    profiles = False


@export("summary.trace_on")
def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: str | None = None) -> None:
    """Starts collecting the graphs of functions that are traced, for :func:`trace_export`.

    Args:
      graph: whether to collect graphs.
      profiler: whether to start a profile, too, which :func:`trace_export` writes to its or this ``profiler_outdir``.

    >>> import tvtf as tf
    >>> tf.summary.trace_on(graph=True)
    >>> tf.summary.trace_off()

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/trace_on
    """
    if state.trace is not None:
        logger.warning("Cannot enable trace inside a tf.function.")
        return
    if _Collected.functions is not None:
        logger.warning("Trace already enabled")
        return
    if profiler:
        start(profiler_outdir or "")
    _Collected.functions, _Collected.profiles = [], profiler
    if graph:
        _observers().append(_Collected.functions.append)


@export("summary.trace_off")
def trace_off() -> None:
    """Stops collecting graphs and drops those collected.

    >>> import tvtf as tf
    >>> tf.summary.trace_off()

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/trace_off
    """
    if _Collected.functions is not None and _Collected.functions.append in _observers():
        _observers().remove(_Collected.functions.append)
    if _Collected.profiles:
        stop(save=False)
    _Collected.functions, _Collected.profiles = None, False


def _observers() -> list[Any]:
    """Returns the list of observers, functions that are called with each newly traced function.

    The list is imported here, not at the top, because its module imports the compiler.
    """
    from tvtf.frontend.function.concrete_function import observers

    return observers


@export("summary.trace_export")
def trace_export(name: str, step: Any = None, profiler_outdir: str | None = None) -> None:
    """Writes the collected graphs under ``name`` to the default writer, and stops collecting.

    Args:
      step: the step; the default step if None.
      profiler_outdir: the folder of the profile, if :func:`trace_on` started one without a folder.

    Raises:
      ValueError: no step is given or set as the default.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.summary.trace_on()
    >>> y = tf.function(lambda x: x + 1)(tf.constant(1))
    >>> with tempfile.TemporaryDirectory() as folder, tf.summary.create_file_writer(folder).as_default():
    ...     tf.summary.trace_export("add", step=0)

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/trace_export
    """
    if state.trace is not None:
        logger.warning("Cannot export trace inside a tf.function.")
        return
    if _Collected.functions is None:
        raise ValueError(MSG_NO_TRACE)
    step = active.step if step is None else step
    if step is None:
        raise ValueError(MSG_STEP)
    if writing() and _Collected.functions:
        write(name, _run_metadata(_Collected.functions), step, _metadata())
    if _Collected.profiles:
        stop_in(profiler_outdir)
        _Collected.profiles = False
    trace_off()


def _run_metadata(functions: list[Any]) -> bytes:
    """Returns a serialized RunMetadata message with the graphs of traced functions, which TensorBoard displays."""
    from tvtf.ir.graph_def import graph_def

    metadata = proto("compat.proto.config_pb2").RunMetadata()
    for function in functions:
        metadata.function_graphs.add().pre_optimization_graph.CopyFrom(graph_def([function]))
    return bytes(metadata.SerializeToString())


def _metadata() -> Any:
    """Returns the metadata by which TensorBoard's graph page finds the graphs."""
    metadata = proto("compat.proto.summary_pb2").SummaryMetadata()
    metadata.plugin_data.plugin_name = "graph_run_metadata_graph"
    metadata.plugin_data.content = b"1"
    return metadata
