"""Errors for TensorFlow's names that tvtf does not have, with the reason for those that it never will."""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

_QUANTIZED = "tvtf has no quantized dtypes; tf.quantization.quantize_and_dequantize_v2 rounds values in the same way"

REASONS = {
    **{
        f"distribute.{name}": "tvtf runs in one process on one device; train in several by averaging gradients between them"
        for name in (
            *("MultiWorkerMirroredStrategy", "ParameterServerStrategy", "TPUStrategy", "Server", "StrategyExtended"),
            *("cluster_resolver", "coordinator", "experimental"),
            *("DistributedDataset", "DistributedIterator", "DistributedValues"),
        )
    },
    **{
        f"test.{name}": "time functions with timeit, or their kernels with fn.profile(...)"
        for name in ("Benchmark", "benchmark_config")
    },
    **{
        f"test.{name}": "only TensorFlow's own tests use it"
        for name in (
            *("assert_equal_graph_def", "disable_with_predicate", "experimental", "is_cpu_target_available"),
            "with_eager_op_as_function",
        )
    },
    "test.create_local_cluster": "tvtf runs in one process",
    "tpu": "tvtf compiles for CPUs and CUDA GPUs",
    "xla": "tvtf's compiler is TVM; it compiles every tf.function, with or without jit_compile=True",
    "mlir": "a traced function's IR is TVM Relax: print fn.get_concrete_function(...).module()",
    "lite": "use `tvtf compile`, which writes a function as a small native library",
    "raw_ops": "use the function of tf, tf.math, tf.nn ... that wraps the op; tvtf's own ops are in tvtf.ops",
    "estimator": "TensorFlow 2.16 removed it; write a training loop",
    "feature_column": "TensorFlow deprecates it; use tf.one_hot, tf.gather and lookup tables",
    "dtensor": "tvtf runs in one process",
    "load_library": "TensorFlow's kernels don't run here; register a primitive (docs/extending.md)",
    "load_op_library": "TensorFlow's kernels don't run here; register a primitive (docs/extending.md)",
    "import_graph_def": "TensorFlow's graphs don't run here; export from TensorFlow to ONNX and use onnxruntime",
    "graph_util": "TensorFlow's graphs don't run here",
    "sysconfig": "tvtf has no C++ headers to compile against; register a primitive (docs/extending.md)",
    "image.decode_jxl": "neither the standard library nor Pillow reads JPEG XL",
    "io.decode_jxl": "neither the standard library nor Pillow reads JPEG XL",
    "io.decode_proto": "parse messages with google.protobuf in tf.py_function; tf.io.parse_example reads tf.train.Example",
    "io.encode_proto": "write messages with google.protobuf in tf.py_function",
    "io.write_graph": "a traced function's IR is TVM Relax: write fn.get_concrete_function(...).module() to a file",
    "data.experimental.service": "tvtf runs in one process",
    "data.experimental.ServiceOptions": "tvtf runs in one process",
    "experimental.StructuredTensor": "declare a tf.experimental.ExtensionType with a field for each of its fields",
    "data.experimental.snapshot": "tvtf can't check whether a folder holds a pipeline's elements; use Dataset.cache(filename)",
    "data.experimental.distributed_save": "tvtf runs in one process; use Dataset.save",
    "data.experimental.from_variant": "tvtf has no tensors of datasets",
    "data.experimental.to_variant": "tvtf has no tensors of datasets",
    "data.experimental.get_model_proto": "tvtf does not tune pipelines while they run",
    "data.experimental.make_saveable_from_iterator": "save an iterator with tf.train.Checkpoint(iterator=iterator)",
    "experimental.tensorrt": "tvtf compiles for the GPU itself",
    "experimental.register_filesystem_plugin": "files are read by Python",
    **dict.fromkeys(("qint8", "qint16", "qint32", "quint8", "quint16"), _QUANTIZED),
    **dict.fromkeys(("dtypes.qint8", "dtypes.qint16", "dtypes.qint32", "dtypes.quint8", "dtypes.quint16"), _QUANTIZED),
    **dict.fromkeys(("quantization.quantize", "quantization.dequantize", "quantization.quantized_concat"), _QUANTIZED),
    **{
        f"{space}{name}": "tvtf has no tensors of this type"
        for space in ("", "dtypes.")
        for name in ("resource", "variant")
    },
    **{
        f"{space}experimental.{name}": "tvtf has no tensors of this type"
        for space in ("", "dtypes.")
        for name in ("float4_e2m1fn", "int2", "int4", "uint2", "uint4")
    },
    **dict.fromkeys(
        ("conv", "conv2d_backprop_filter_v2", "conv2d_backprop_input_v2"), "use tf.nn.conv2d and its gradient"
    ),
    "autograph.experimental.Feature": "AutoGraph's conversions can't be selected; all of them are applied to every function",
    **{
        f"config.{name}": "tvtf runs in one process"
        for name in (
            *("experimental_connect_to_cluster", "experimental_connect_to_host"),
            "experimental.ClusterDeviceFilters",
        )
    },
    **{
        f"config.experimental.{name}": "tvtf's compiler is TVM"
        for name in ("disable_mlir_bridge", "enable_mlir_bridge")
    },
    **{
        f"config.experimental.{name}": "fn.memory(...) returns the bytes that a compiled function needs"
        for name in ("get_memory_info", "get_memory_usage", "reset_memory_stats")
    },
    **{
        f"config.experimental.{name}": "a function's arguments are always copied to its device"
        for name in ("get_device_policy", "set_device_policy")
    },
    **{f"train.{name}": "tvtf runs in one process" for name in ("ClusterDef", "ClusterSpec", "JobDef", "ServerDef")},
    "debugging.experimental": "TVTF_DUMP=DIR writes a function's IR after each step; tf.print shows values",
    **{
        f"version.{name}": "tvtf has neither a GraphDef format nor C++ code of its own; tf.__version__ is its version"
        for name in (
            *("COMPILER_VERSION", "GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER"),
            "GRAPH_DEF_VERSION_MIN_PRODUCER",
        )
    },
    **{
        f"types.experimental.{name}": "a function is a tf.types.experimental.GenericFunction, its traces are ConcreteFunctions"
        for name in (*("AtomicFunction", "FunctionType", "SupportsTracingProtocol", "TraceType"),)
    },
    "types.experimental.distributed": "tvtf runs on one device",
    "image.generate_bounding_box_proposals": "TensorFlow's kernel is for GPUs alone; tf.image.non_max_suppression picks boxes",
    **{
        f"nn.RNNCell{name}Wrapper": "it wraps Keras cells; write the cell as a tf.Module and call it in the loop"
        for name in ("Device", "Dropout", "Residual")
    },
    **dict.fromkeys(
        ("profiler.experimental.client", "profiler.experimental.server"),
        "tvtf runs in one process: tf.profiler.experimental.start and stop",
    ),
    "quantization.experimental": _QUANTIZED,
    "saved_model.experimental.TrackableResource": "keep state in a tf.Module, Variables or tf.lookup tables",
    **{
        f"train.experimental.{name}": "a checkpoint is one file of data"
        for name in ("MaxShardSizePolicy", "ShardByTaskPolicy", "ShardableTensor", "ShardingCallback")
    },
    "experimental.function_executor_type": "compiled functions run in the thread that calls them",
    **dict.fromkeys(
        ("check_pinned", "guarantee_const", "nondifferentiable_batch_function"),
        "it controls how TensorFlow runs single ops; tvtf compiles whole functions",
    ),
}
"""Dotted path -> why tvtf will not have this name and the names below it."""


SPACES = frozenset(
    {
        *(
            "distribute.cluster_resolver",
            "distribute.coordinator",
            "distribute.experimental",
            "dtensor",
            "feature_column",
        ),
        *("lite", "mlir", "raw_ops", "tpu", "tpu.experimental", "tpu.experimental.embedding", "xla"),
    }
)
"""Namespaces without any, or with few, supported names. They exist so that ``hasattr`` works on them."""


class UnsupportedNameError(NotImplementedError, AttributeError):
    """A name that TensorFlow has and tvtf doesn't; also an AttributeError, so that ``hasattr`` returns False."""


def error(module: str, path: str) -> AttributeError:
    """Returns the AttributeError to raise for ``tf.<path>``, a name that tvtf does not have.

    The message gives the reason if there is one. For a name of TensorFlow, the error is an `UnsupportedNameError`.

    Args:
      module: the name of the module that lacks the attribute.
      path: the public name with its namespaces.

    >>> error("tvtf", "test.create_local_cluster")
    UnsupportedNameError('tvtf has no tf.test.create_local_cluster: tvtf runs in one process')
    >>> error("tvtf", "no_such_thing")
    AttributeError("module 'tvtf' has no attribute 'no_such_thing'")
    """
    reason = _reason(path)
    if reason:
        return UnsupportedNameError(f"tvtf has no tf.{path}: {reason}")
    if path in tensorflow_names():
        return UnsupportedNameError(f"tvtf has no tf.{path} yet; docs/symbols.md lists what it has")
    return AttributeError(f"module {module!r} has no attribute {path.rpartition('.')[2]!r}")


def _reason(path: str) -> str | None:
    """Returns why tvtf does not have ``tf.<path>``, or None if no reason is known.

    The reason may be that of a namespace around the name. The innermost one is used.
    """
    parts = path.split(".")
    reasons = (REASONS.get(".".join(parts[:length])) for length in range(len(parts), 0, -1))
    return next(filter(None, reasons), None)


class UnsupportedClass(ABCMeta):
    """The metaclass of unsupported classes: usable in annotations, ``isinstance`` and as bases, but not instantiable."""

    path: str

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise error("tvtf", cls.path)

    def __getattr__(cls, name: str) -> Any:
        """Returns a placeholder for a class within the class, or for a member of an enum.

        Raises:
          AttributeError: the name doesn't begin with a capital, as those of methods.
        """
        if not name[:1].isupper():
            raise error("tvtf", cls.path)
        return _placeholder(f"{cls.path}.{name}")


_CLASSES_IN_CAPITALS = frozenset({"FTRL", "SGD"})


@cache
def class_of_unsupported(path: str) -> UnsupportedClass | None:
    """Returns a placeholder for a class of TensorFlow that tvtf doesn't support, for use in ``isinstance`` checks.

    Returns None if the name ``tf.<path>`` isn't written like a class's, or if no reason is known why tvtf lacks it.

    >>> isinstance(1, class_of_unsupported("distribute.TPUStrategy"))
    False
    >>> class_of_unsupported("raw_ops.AddV2"), class_of_unsupported("test.is_cpu_target_available")
    (None, None)
    """
    name = path.rpartition(".")[2]
    # Names in capitals are constants, apart from optimizers'. Raw ops are functions, though named as classes are.
    is_constant = name.isupper() and name not in _CLASSES_IN_CAPITALS
    if not name[:1].isupper() or is_constant or path.startswith("raw_ops."):
        return None
    return _placeholder(path) if _reason(path) else None


@cache
def _placeholder(path: str) -> UnsupportedClass:
    return UnsupportedClass(path.rpartition(".")[2], (), {"path": path, "__module__": "tvtf"})


@cache
def tensorflow_names() -> frozenset[str]:
    """Returns the dotted names of TensorFlow 2.21's public functions, classes and namespaces."""
    names = (Path(__file__).parent / "tensorflow_names.txt").read_text().split()
    namespaces = {name[:i] for name in names for i, letter in enumerate(name) if letter == "."}
    return frozenset({*names, *namespaces})
