"""Functions of a loaded model, which can be called only with arguments for which a program was saved."""

from __future__ import annotations

import inspect
import pprint
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.frontend.function.call_key import fast_key
from tvtf.frontend.function.concrete_function import ConcreteFunction
from tvtf.frontend.function.polymorphic_function import Function
from tvtf.saved.program import Program


class RestoredFunction(Function):
    """A polymorphic function whose traces are loaded programs."""

    def __init__(
        self, name: str, signature: inspect.Signature, specs: Any, programs: Sequence[Program], left_out: Sequence[str]
    ) -> None:
        """Creates a function that runs saved programs. It has the signature of the saved function, but no Python code.

        Args:
          signature: the Python signature of the saved function.
          specs: the input signature, or None.
          programs: a program for each trace.
          left_out: the reasons why other traces could not be saved.
        """

        def python_function(*args: Any, **kwargs: Any) -> Any:
            return self(*args, **kwargs)

        python_function.__signature__ = signature  # type: ignore[attr-defined]
        super().__init__(python_function, specs, autograph=False, name=name)
        self.programs = list(programs)
        self.left_out = list(left_out)
        self._traces: dict[int, ConcreteFunction] = {}

    def _call_slow_path(self, args: Any, kwargs: Any) -> Any:
        """Calls the saved program that matches the arguments, and caches the match for arguments of the same types.

        ``tf.config.run_functions_eagerly`` has no effect, as there is no Python code to run.
        """
        concrete, tensors = self._matching(args, kwargs)
        key = None if kwargs else fast_key(args)
        if key is not None and len(tensors) == len(args):
            self._fast[key] = concrete  # all arguments are tensors, so later calls can pass them on as they are
        return concrete.call_flat(tensors)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the concrete function for these arguments; ``TensorSpec`` objects may stand for tensors.

        Without arguments, the ``input_signature`` is used.

        Raises:
          TypeError: the arguments don't match the ``input_signature``.
          ValueError: no saved program takes such arguments.
        """
        if not args and not kwargs and self.input_signature is not None:
            args = tuple(self.input_signature)
        concrete, _ = self._matching(args, kwargs)
        return concrete

    @property
    def concrete_functions(self) -> list[ConcreteFunction]:
        return [self._trace_of(program) for program in self.programs]

    def _matching(self, args: Any, kwargs: Any) -> tuple[ConcreteFunction, list[Any]]:
        """Finds the first saved program that accepts the arguments.

        Returns the program's concrete function, and the tensors among the arguments. A program that accepts the
        arguments without a conversion to tensors is preferred.

        Raises:
          TypeError, ValueError: see `get_concrete_function`.
        """
        structure = self.signature._structure(args, kwargs)
        bound_args, bound_kwargs = structure
        for convert in (False, True):
            for program in self.programs:
                tensors = program.fit(bound_args, bound_kwargs, convert)
                if tensors is not None:
                    return self._trace_of(program), tensors
        if self.input_signature is not None:
            self.signature.bind(args, kwargs)  # raises TypeError, naming what can't be cast
        names = iter(self.signature._leaf_names(structure))
        printed_args, printed_kwargs = nest.map_structure(lambda value: _printed(next(names), value), structure)
        raise ValueError(self._no_match(printed_args, printed_kwargs))

    def _trace_of(self, program: Program) -> ConcreteFunction:
        """Returns the concrete function that runs a saved program; the first call for a program traces it."""
        with self._lock:
            concrete = self._traces.get(id(program))
            if concrete is None:
                concrete = self._traces[id(program)] = program.trace()
                concrete._signature = self.signature.python
            return concrete

    def _no_match(self, args: Any, kwargs: Any) -> str:
        """Returns TensorFlow's error text for arguments that match no saved program."""
        if not self.programs:
            return " ".join(["Found zero restored functions for caller function.", *self.left_out])
        options = [_option(index, program) for index, program in enumerate(self.programs, 1)]
        return (
            f"Could not find matching concrete function to call loaded from the SavedModel. Got:\n  {_positional(args)}\n"
            f"  Keyword arguments: {kwargs}\n\n Expected these arguments to match one of the following "
            f"{len(self.programs)} option(s):\n\n" + "\n\n".join(options)
        )


def _printed(name: str, value: Any) -> Any:
    """Returns an argument for printing in an error text: the name, shape and dtype of a tensor, or another value."""
    if not isinstance(value, (Tensor, np.ndarray)):
        return value
    tensor = convert_to_tensor(value)
    return _Unquoted(f"<tf.Tensor '{name}:0' shape={tensor.shape} dtype={tensor.dtype.name}>")


class _Unquoted(str):
    """A text whose ``repr`` has no quotes."""

    def __repr__(self) -> str:
        return str(self)


def _positional(values: Sequence[Any]) -> str:
    """Returns the lines of an error text that list positional arguments."""
    listed = "\n    * ".join(pprint.pformat(value) for value in values)
    return f"Positional arguments ({len(values)} total):\n    * {listed}"


def _option(index: int, program: Program) -> str:
    """Returns the lines of an error text that list the arguments which a saved program accepts."""
    args, kwargs = program.described()
    return f"Option {index}:\n  {_positional(args)}\n  Keyword arguments: {kwargs}"
