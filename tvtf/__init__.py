"""tvtf: TensorFlow 2's API, compiled by Apache TVM.

``import tvtf as tf`` gives TensorFlow's names; the README and ``docs/`` list which. TVM is imported when a function is first
traced.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

from tvtf.core import thread_count as _threads

_threads.configure()  # before TVM loads: it reads the number of threads once

from tvtf import dtypes, errors, ops
from tvtf import v1 as _v1  # noqa: E402
from tvtf.api import compat as _compat  # noqa: E402,F401 - declares tf.compat, tf.get_logger
from tvtf.api import former_modules as _former_modules  # noqa: E402
from tvtf.api import late_dispatch as _late_dispatch  # noqa: E402
from tvtf.api import namespaces as _namespaces  # noqa: E402
from tvtf.core import device_spec as _device_spec  # noqa: E402,F401 - declares tf.DeviceSpec
from tvtf.core import nest  # noqa: E402
from tvtf.core.shape import TensorShape  # noqa: E402
from tvtf.core.tensor import Tensor, constant, register_tensor_conversion_function
from tvtf.core.tensor_spec import TensorSpec  # noqa: E402
from tvtf.core.thread_state import executing_eagerly  # noqa: E402
from tvtf.dtypes import (  # noqa: E402
    DType,
    as_dtype,
    bfloat16,
    bool,  # noqa: A004 - TensorFlow's public name
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from tvtf.frontend import autograph as _autograph  # noqa: E402,F401 - how functions are traced
from tvtf.frontend.configuration import config as _config  # noqa: E402,F401 - declares tf.config
from tvtf.frontend.configuration import device as _device  # noqa: E402,F401 - declares tf.device
from tvtf.frontend.configuration import settings as _settings  # noqa: E402,F401 - declares tf.debugging's and tf.config's switches
from tvtf.frontend.control_flow import cases as _cases  # noqa: E402,F401 - declares tf.case, tf.switch_case
from tvtf.frontend.control_flow import cond_while as _control  # noqa: E402,F401 - declares tf.cond, tf.while_loop ...
from tvtf.frontend.control_flow import control_dependencies as _order  # noqa: E402,F401 - declares tf.control_dependencies, tf.group ...
from tvtf.frontend.control_flow import map_scan_fold as _functional  # noqa: E402,F401 - declares tf.map_fn, tf.scan ...
from tvtf.frontend.control_flow import tensor_array as _tensor_array  # noqa: E402,F401 - declares tf.TensorArray
from tvtf.frontend.function import eager_compile as _heavy  # noqa: E402,F401 - how heavy ops run eagerly
from tvtf.frontend.function.polymorphic_function import function  # noqa: E402
from tvtf.frontend.gradient import custom_gradient as _custom
from tvtf.frontend.gradient import forward_mode as _forward  # noqa: E402,F401 - declares tf.autodiff
from tvtf.frontend.gradient import graph_gradients as _gradients  # noqa: E402,F401 - declares tf.gradients ...
from tvtf.frontend.gradient import recompute_grad as _recompute  # noqa: E402,F401 - declares tf.recompute_grad
from tvtf.frontend.gradient.tape import GradientTape, UnconnectedGradients  # noqa: E402
from tvtf.frontend.host import critical_section as _critical  # noqa: E402,F401 - declares tf.CriticalSection, tf.timestamp
from tvtf.frontend.host import printing as _printing  # noqa: E402,F401 - declares tf.print
from tvtf.frontend.host import python_call as _host  # noqa: E402,F401 - declares tf.py_function, tf.numpy_function
from tvtf.ops import computed_axes as _computed_axes  # noqa: E402,F401 - axes that the program computes
from tvtf.ops.array import shape  # noqa: E402 - for type checkers, to whom tf.shape were the module of that name
from tvtf.ops.conversion import convert_to_tensor  # noqa: E402
from tvtf.rng import generator as _generator  # noqa: E402,F401 - declares tf.random.Generator
from tvtf.rng import stateful as _stateful_random  # noqa: E402,F401 - declares tf.random.uniform ...
from tvtf.state.module import Module, name_scope  # noqa: E402
from tvtf.state.variable import Variable  # noqa: E402
from tvtf.version import __version__  # noqa: E402

newaxis = None


def __getattr__(name: str) -> _Any:
    return _namespaces.late(_sys.modules[__name__], name)


def __dir__() -> list[str]:
    """Returns all public names, including those of modules that are imported on first use."""
    return sorted(
        {
            *globals(),
            *_namespaces.PACKAGES,
            *_namespaces.OF_KERAS,
            *(path.partition(".")[0] for path in _namespaces.LATE_MODULES),
        }
    )


_late_dispatch.add_handlers()
_namespaces.install()
vars(_import_module("tvtf.compat.v1")).update(__getattr__=_v1.find, __dir__=_v1.listed)
vars(_sys.modules["tvtf.compat"])["v2"] = _sys.modules["tvtf.compat.v2"] = _sys.modules[__name__]
for _module in (dtypes, errors, nest, _sys.modules["tvtf.version"]):
    _namespaces.make_lazy(_module, _module.__name__.rpartition(".")[2])
_former_modules.install()

__all__ = [
    *("DType", "GradientTape", "Module", "Tensor", "TensorShape", "TensorSpec", "UnconnectedGradients", "Variable"),
    *("as_dtype", "bfloat16", "bool", "complex128", "complex64", "constant", "convert_to_tensor", "double", "dtypes"),
    *("errors", "executing_eagerly", "float16", "float32", "float64", "function", "half", "int16", "int32", "int64"),
    *("int8", "name_scope", "nest", "newaxis", "ops", "qint16", "qint32", "qint8", "quint16", "quint8"),
    *("register_tensor_conversion_function", "resource", "shape", "string", "variant"),
    *("uint16", "uint32", "uint64", "uint8", "__version__"),
]
