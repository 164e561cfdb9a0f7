"""Prints the contents of a saved model as TensorFlow's ``saved_model_cli show`` does.

It reads only the description. The names of graph nodes and ops are those that TensorFlow's graph would have.
Source: ``tensorflow/python/tools/saved_model_cli.py``
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tvtf.core.primitive import table
from tvtf.core.tensor_spec import TensorSpec
from tvtf.saved import layout, program
from tvtf.saved.program import OP_NAME, Program

INIT_OP: Final = "__saved_model_init_op"
PREDICT: Final = "tensorflow/serving/predict"
SAVING_OPS: Final = (
    *("Const", "Identity", "MergeV2Checkpoints", "NoOp", "Pack", "Placeholder", "RestoreV2", "SaveV2", "Select"),
    *("ShardedFilename", "StatefulPartitionedCall", "StaticRegexFullMatch", "StringJoin"),
)
VARIABLE_OPS: Final = ("AssignVariableOp", "DisableCopyOnRead", "ReadVariableOp", "VarHandleOp")
_ENUM_NAMES: Final = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a signature."""

    dtype: str
    shape: str
    name: str

    @classmethod
    def of(cls, spec: TensorSpec, name: str) -> TensorInfo:
        """Describes a tensor by its spec, with TensorFlow's texts for dtype and shape; an unknown dim is -1."""
        dims = spec.shape.rank is not None and ", ".join(str(-1 if dim is None else dim) for dim in spec.shape)
        dtype_name = spec.dtype.name
        enum_name = f"DT_{_ENUM_NAMES.get(dtype_name, dtype_name.upper())}"
        return cls(enum_name, "unknown_rank" if dims is False else f"({dims})", name)


@dataclass(frozen=True)
class SignatureInfo:
    """The inputs and outputs of a signature by name."""

    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]
    method: str

    def lines(self, indent: int = 0) -> Iterator[str]:
        """Yields the lines that ``saved_model_cli show`` prints for a signature: its inputs, outputs and method."""
        indentation = "  " * indent
        yield f"{indentation}The given SavedModel SignatureDef contains the following input(s):"
        yield from _infos("inputs", self.inputs, indentation)
        yield f"{indentation}The given SavedModel SignatureDef contains the following output(s):"
        yield from _infos("outputs", self.outputs, indentation)
        yield f"{indentation}Method name is: {self.method}"


def _infos(kind: str, infos: Mapping[str, TensorInfo], space: str) -> Iterator[str]:
    """Yields the lines that describe the inputs or outputs of a signature; ``space`` is the indentation."""
    for key, info in sorted(infos.items()):
        yield f"{space}  {kind}['{key}'] tensor_info:"
        yield from (f"{space}      {attribute}: {getattr(info, attribute)}" for attribute in ("dtype", "shape", "name"))


INITIALIZER: Final = SignatureInfo({}, {INIT_OP: TensorInfo("DT_INVALID", "unknown_rank", "NoOp")}, "")


class ModelPrinter:
    """The description of a saved model, prepared for printing.

    Raises:
      OSError, SavedModuleError: see `tf.saved_model.load`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Reads the description of the saved model in a folder."""
        data = layout.read(folder)
        self.nodes: list[dict[str, Any]] = data["objects"]
        self.programs = [program.read(function) for function in data["functions"]]
        self.function_data: list[Any] = data["functions"]
        self.edges = dict(self.nodes[0]["children"])
        self.signatures = self._signatures()

    def _signature_functions(self) -> dict[str, int]:
        """Returns the indices of the functions of the model's signatures, by signature name."""
        edges = self.nodes[self.edges["signatures"]]["children"]
        return {name: self.nodes[node_id]["function"] for name, node_id in edges}

    def _signatures(self) -> dict[str, SignatureInfo]:
        """Returns the model's signatures, with the tensor names that TensorFlow's graph would have.

        TensorFlow calls signatures in alphabetical order. From the second call on, the names of the calls contain a
        number.
        """
        calls: Counter[str] = Counter()
        signatures = {INIT_OP: INITIALIZER}
        for name, function_index in sorted(self._signature_functions().items()):
            signature_program = self.programs[function_index]
            op_type = "StatefulPartitionedCall" if self._is_stateful(function_index) else "PartitionedCall"
            call = f"{op_type}_{calls[op_type]}" if calls[op_type] else op_type
            calls[op_type] += 1
            signatures[name] = SignatureInfo(
                _inputs(name, signature_program), _outputs(call, signature_program), PREDICT
            )
        return signatures

    def _is_stateful(self, function_index: int) -> bool:
        """Returns whether a function captures anything, such as a Variable, or calls an op with side effects."""
        return bool(self.programs[function_index].captures) or not all(
            table[op].pure for op in self._ops_of(function_index)
        )

    def _ops_of(self, function_index: int) -> set[str]:
        """Returns the names of the primitives in a function's program, which is searched as text."""
        return table.among(set(OP_NAME.findall(str(self.function_data[function_index]["program"]).replace("'", '"'))))

    # -- what is printed

    def tag_sets(self) -> Iterator[str]:
        yield "The given SavedModel contains the following tag-sets:"
        yield repr(", ".join(sorted(layout.TAGS)))

    def keys(self) -> Iterator[str]:
        yield "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:"
        yield from (f'SignatureDef key: "{key}"' for key in sorted(self.signatures))

    def signature(self, key: str) -> SignatureInfo:
        """Returns the inputs and outputs of the signature called ``key``.

        Raises:
          ValueError: the model has no signature of this name.
        """
        if key not in self.signatures:
            raise ValueError(f'Could not find signature "{key}". Please choose from: {", ".join(self.signatures)}')
        return self.signatures[key]

    def ops(self) -> str:
        """Returns the line that lists the types of the ops in TensorFlow's graph.

        TensorFlow prints a set, in arbitrary order; here the order is alphabetical.
        """
        ops = set(SAVING_OPS)
        if any(node["kind"] == "variable" for node in self.nodes):
            ops.update(VARIABLE_OPS)
        for function_index in self._signature_functions().values():
            ops.update(table[op].tf_name for op in self._ops_of(function_index))
        if "PrintV2" in ops:  # TensorFlow formats the printed text in an op of its own
            ops.add("StringFormat")
        for signature in self.signatures.values():
            for output in signature.outputs.values():
                op, _, _ = output.name.partition(":")[0].partition("_")  # "PartitionedCall_1:0" -> "PartitionedCall"
                ops.add(op)
        names = str(sorted(ops))[1:-1]  # without the list's brackets
        return f"The MetaGraph with tag set {list(layout.TAGS)} contains the following ops: {{{names}}}"

    def everything(self) -> Iterator[str]:
        """Yields all lines that ``saved_model_cli show --all`` prints."""
        yield ""
        yield f"MetaGraphDef with tag-set: '{', '.join(layout.TAGS)}' contains the following SignatureDefs:"
        for key in sorted(self.signatures):
            yield ""
            yield f"signature_def['{key}']:"
            yield from self.signatures[key].lines(1)
        yield self.ops()
        yield ""
        yield "Concrete Functions:"
        function_lines: list[str] = []
        for name in sorted(self.edges):
            function_lines += self._function(name)
        yield "\n".join(function_lines)  # one text: TensorFlow prints an empty line if there are no functions

    def _function(self, name: str) -> Iterator[str]:
        """Yields the lines that describe the child ``name`` of the root: the arguments of each trace of a function.

        For a child that is not a function, yields nothing.
        """
        node = self.nodes[self.edges[name]]
        if node["kind"] == "function":
            function_indices = node["functions"]
        elif node["kind"] == "concrete":
            function_indices = [node["function"]]
        else:
            return
        # An empty line separates functions.
        if name != min(self._function_names()):
            yield ""
        yield f"  Function Name: '{name}'"
        for index, function_index in enumerate(function_indices, 1):
            args, kwargs = self.programs[function_index].described()
            if args:
                yield f"    Option #{index}"
                yield "      Callable with:"
                yield from _arguments(args, "Argument")
            yield from _arguments(kwargs, "Named Argument")

    def _function_names(self) -> list[str]:
        """Returns the names of the root's children that are functions."""
        return [name for name, node_id in self.edges.items() if self.nodes[node_id]["kind"] in ("function", "concrete")]


def _inputs(signature: str, program: Program) -> dict[str, TensorInfo]:
    """Describes the inputs of a signature, with the names that TensorFlow's graph would have."""
    arguments = program.arguments
    return {name: TensorInfo.of(spec, f"{signature}_{name}:0") for name, spec in zip(arguments.names, arguments.specs)}


def _outputs(call: str, program: Program) -> dict[str, TensorInfo]:
    """Describes the outputs of a signature; ``call`` is the name of the call's op in TensorFlow's graph."""
    outputs = program.structured_outputs
    return {name: TensorInfo.of(outputs[name], f"{call}:{index}") for index, name in enumerate(sorted(outputs))}


def _arguments(values: Iterable[Any], kind: str) -> Iterator[str]:
    """Yields the lines that describe a trace's arguments; ``kind`` is "Argument" or "Named Argument"."""
    for index, value in enumerate(values, 1):
        yield f"        {kind} #{index}"
        yield from (f"          {line}" for line in _argument(value))


def _argument(value: Any) -> list[str]:
    """Returns the lines that TensorFlow prints for an argument: a name, a tensor's spec or a Python value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, TensorSpec):
        return [f"{value.name}: {value!r}"]
    text = str(value)
    if isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(_quoted, value))}]"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{key!r}: {_quoted(item)}' for key, item in value.items())}}}"
    return [f"DType: {type(value).__name__}", f"Value: {text}"]


def _quoted(value: Any) -> str:
    """Returns a string in single quotes, and another value as its text."""
    return f"'{value}'" if isinstance(value, str) else str(value)
