"""Running exported models: onnxruntime, or onnx's reference evaluator for types that onnxruntime has no kernel for."""

import re

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from tvtf.onnx import kernels

_HAS_THE_TABLES_KERNELS = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= kernels.VERSION
"""Not so of the last onnxruntime for Python 3.10, 1.23."""
_OPTIONS = onnxruntime.SessionOptions()
_OPTIONS.intra_op_num_threads = 1
_OPTIONS.log_severity_level = 3


def run_model(model, arrays):
    """The outputs of a model at its inputs, in order; None where neither of the two can run it."""
    session = session_of(float32_edges(model))
    if session is None and misleads_the_reference(model, arrays):
        return None
    if session is None:
        feeds = {i.name: a for i, a in zip(model.graph.input, arrays)}
        return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, feeds)]
    found = session.run(None, {i.name: _without_bfloat16(a) for i, a in zip(session.get_inputs(), arrays)})
    return [_as_declared(f, o) for f, o in zip(found, model.graph.output)]


def misleads_the_reference(model, arrays):
    """ConvTranspose of onnx 1.23's evaluator gives None for an empty batch, and reshapes groups by the sizes of one."""
    transposed = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
    grouped = any(a.name == "group" and a.i > 1 for node in transposed for a in node.attribute)
    return grouped or (bool(transposed) and not all(a.size for a in arrays))


def session_of(model):
    """None where onnxruntime lacks a kernel, which the exporter's table must know of."""
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), _OPTIONS, providers=["CPUExecutionProvider"])
    except NoKernel as error:
        found = re.search(r"implementation for (\w+)\(", str(error))
        if _HAS_THE_TABLES_KERNELS and (found is None or not kernels.lacking(found[1])):
            raise
        return None


def float32_edges(model):
    """A copy that takes and gives float32 where the model has bfloat16, which onnxruntime's Python side can't pass."""
    edged = type(model)()
    edged.CopyFrom(model)
    graph = edged.graph
    for value in filter(is_bfloat16, graph.input):
        graph.node.insert(0, helper.make_node("Cast", [value.name + "_wide"], [value.name], to=TensorProto.BFLOAT16))
        _rename(value)
    for value in filter(is_bfloat16, graph.output):
        graph.node.append(helper.make_node("Cast", [value.name], [value.name + "_wide"], to=TensorProto.FLOAT))
        _rename(value)
    return edged


def is_bfloat16(value):
    return value.type.tensor_type.elem_type == TensorProto.BFLOAT16


def _rename(value):
    value.name += "_wide"
    value.type.tensor_type.elem_type = TensorProto.FLOAT


def _without_bfloat16(array):
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def _as_declared(array, output):
    array = np.asarray(array)
    return array.astype(ml_dtypes.bfloat16) if is_bfloat16(output) else array
