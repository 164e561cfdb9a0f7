"""Export of traced functions as ONNX models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, ValueInfoProto, helper, version_converter

from tvtf.core import nest
from tvtf.core.shape import TensorType
from tvtf.fileio.atomic_file import replace
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function, function
from tvtf.onnx import control, stacks  # noqa: F401 - they enter what emits control flow
from tvtf.onnx.emitter import Emitter, Model
from tvtf.onnx.model_functions import function_of_model
from tvtf.onnx.program import Program, constant_of
from tvtf.onnx.standard import IR_VERSION, OPSET
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.state.variable import Variable
from tvtf.version import __version__


def export(
    fn: Any,
    *example_args: Any,
    path: str | os.PathLike[str] | None = None,
    input_signature: Any = None,
    opset: int | None = None,
) -> ModelProto:
    """Returns a checked ONNX model of a function's trace, and writes it to ``path`` if that is set.

    Args:
      fn: a ``tf.function``, a concrete function, a Python function to trace, or a layer or model of Keras.
      *example_args: the arguments to trace it with: tensors, arrays, ``TensorSpec`` objects and Python values.
      path: a file, which is written atomically.
      input_signature: ``TensorSpec`` objects to trace it with instead of examples. A model of Keras needs neither.
      opset: the version of ONNX's operators; by default the newest that tvtf writes.

    Returns:
      An ``onnx.ModelProto``. Its inputs are the tensor arguments by name, with named unknown dims; its outputs are
      ``output``, ``output_0, output_1...`` or the keys of a dict. Tensors and Variables that the function only reads
      are stored in the model. A Variable that it updates is an input with the Variable's name, and its new value the output
      ``<name>_new``: feed each output into its input to continue training. ONNX has no assertions: the model does not
      contain the function's checks of values (``tf.debugging``, indices, row splits).

    Raises:
      ValueError: the model can't be expressed in ``opset``; the inputs of a Keras model are not known yet; or arguments
        leave ranks or sizes unknown that ops need.
      UnimplementedError: an op has no ONNX counterpart; the text has its name, the reason and the user's line.

    >>> import tvtf as tf
    >>> model = export(lambda x: tf.sin(x), tf.TensorSpec(["batch", 3], tf.float32))
    >>> [node.op_type for node in model.graph.node], model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    (['Sin', 'Identity'], 'batch')

    Source: https://onnx.ai/onnx/repo-docs/IR.html
    """
    concrete = traced(fn, example_args, input_signature)
    model = _in_opset(_model(concrete), opset)
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        replace(os.fspath(path), model.SerializeToString())
    return model


def traced(fn: Any, args: Sequence[Any], input_signature: Any) -> ConcreteFunction:
    """Traces a function for example arguments, or an input signature, and returns the concrete function to export.

    A concrete function is returned as it is; a Keras model is traced for inference.

    Raises:
      TypeError: ``fn`` can't be traced, or there are arguments for a concrete function.
    """
    if isinstance(fn, ConcreteFunction):
        if args or input_signature is not None:
            raise TypeError(f"{fn.name} is traced already: export it without example arguments or input_signature")
        return fn
    if not callable(fn):
        raise TypeError(f"export takes a tf.function, a concrete function or a Python function, but got {fn!r}")
    arguments = args if input_signature is None else tuple(input_signature)
    fn, arguments = function_of_model(fn, arguments)
    tf_function = fn if isinstance(fn, Function) else function(fn)
    return tf_function.get_concrete_function(*arguments)


def _model(concrete: ConcreteFunction) -> ModelProto:
    """Converts a concrete function to an ONNX model in the newest opset that tvtf writes."""
    concrete.require_known_ranks()
    graph = _ModelBuilder(concrete).graph()
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tvtf", producer_version=__version__
    )


def _in_opset(model: ModelProto, opset: int | None) -> ModelProto:
    """Converts an ONNX model to another version of the operator set, with ONNX's own converter.

    Raises:
      ValueError: the converter does not support an operator of the model.
    """
    if opset is None or opset == OPSET:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"this model can't be expressed in opset={opset}; tvtf writes opset {OPSET}. ONNX says: {reason}"
        ) from None


class _ModelBuilder:
    """Builds the graph of an ONNX model from a concrete function."""

    def __init__(self, concrete: ConcreteFunction) -> None:
        """Starts with an empty graph for a concrete function; see `graph`."""
        self.concrete = concrete
        self.emitter = Emitter(Model())
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.updated_variables = {id(variable) for variable, _ in concrete.results.updates}
        self.captured_names: dict[int, str] = {}

    def graph(self) -> onnx.GraphProto:
        """Emits the concrete function as the model's graph, and returns the graph.

        The graph's outputs are the function's results, then the new values of Variables that the function updates.
        """
        results = self.concrete.results
        # Results reserve their names first: a parameter of the same name gets a number.
        result_names = [self.emitter.model.unique(n) for n in output_names(results.structure)]
        params = self.params()
        module = drop_dead(self.concrete.graph.module())
        program = Program(self.emitter, module, module["main"], params)
        computed = program.run()
        self.emitter.scope = ""
        # A result may be computed, or be a parameter, or a value that was known while tracing.
        name_of_result = {"computed": lambda i: computed[i], "param": lambda i: params[i], "value": self.value}
        for name, (kind, reference) in zip(result_names, results.leaves):
            self.output(name, name_of_result[kind](reference), self.type_of(kind, reference))
        for variable, index in results.updates:
            name = self.emitter.model.unique(f"{self.captured_names[id(variable)]}_new")
            self.output(name, computed[index], results.computed[index]._type)
        return self.emitter.graph(self.concrete.name, self.inputs, self.outputs, outermost=True)

    def params(self) -> list[str]:
        """Adds the function's arguments as inputs of the model, and the captured values. Returns the names of all."""
        graph = self.concrete.graph
        arguments = [self.input(spec, param._type) for spec, param in zip(self.names(), graph.params)]
        return arguments + [self.captured(outer, inner._type) for outer, inner in graph.captures]

    def names(self) -> list[str]:
        """Returns the names of the function's tensor arguments: those of the ``TensorSpec`` objects or arguments."""
        arguments = self.concrete.arguments
        return [spec.name or name for spec, name in zip(arguments.specs, arguments.names)]

    def input(self, name: str, tensor_type: TensorType) -> str:
        """Adds an input of the model under a name like ``name``, and returns the input's unique name."""
        unique = self.emitter.model.value(name, tensor_type.dtype)
        self.inputs.append(self.emitter.info(unique, tensor_type))
        return unique

    def captured(self, outer: Any, tensor_type: TensorType) -> str:
        """Adds a captured Variable or tensor to the model, and returns the name there.

        A Variable that the function updates becomes an input of the model. Other captured values become initializers
        (constants in the model).

        Args:
          outer: the Variable or tensor.
          tensor_type: its type in the function.
        """
        name = outer.name.partition(":")[0] if isinstance(outer, Variable) else "constant"  # without the ":0"
        if id(outer) in self.updated_variables:
            name_in_model = self.input(name, tensor_type)
        else:
            name_in_model = self.emitter.model.stored(name, constant_of(outer))
        self.captured_names[id(outer)] = name_in_model
        return name_in_model

    def value(self, tensor: Any) -> str:
        """Returns the name of a constant that holds the value of a tensor that was known while tracing."""
        return self.emitter.const(constant_of(tensor))

    def type_of(self, kind: str, reference: Any) -> TensorType:
        """Returns the type of a result: of a known value, or of the computed value or parameter with an index."""
        if kind == "value":
            return reference._type
        graph = self.concrete.graph
        return graph.outputs[reference]._type if kind == "computed" else graph.all_params[reference]._type

    def output(self, name: str, source: str, tensor_type: TensorType) -> None:
        """Adds an output of the model, ``name``, which is a copy of the value ``source``."""
        self.emitter.model.dtypes[name] = tensor_type.dtype
        self.emitter.node("Identity", [source], [name])
        self.outputs.append(self.emitter.info(name, tensor_type))


def output_names(structure: Any) -> list[str]:
    """Returns names for the tensors in a function's result.

    The tensors of a flat dict are named by its keys, in sorted order. A single tensor is called ``output``. The tensors
    of another structure are called ``output_0``, ``output_1`` ...

    >>> output_names(1), output_names((1, 2)), output_names({"loss": 1, "accuracy": 2})
    (['output'], ['output_0', 'output_1'], ['accuracy', 'loss'])
    """
    if not nest.is_nested(structure):
        return ["output"]
    if isinstance(structure, Mapping) and not any(nest.is_nested(value) for value in structure.values()):
        return [str(key) for key in nest.sorted_keys(structure)]
    return [f"output_{i}" for i in range(len(nest.flatten(structure)))]
