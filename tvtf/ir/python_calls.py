"""Which calls of Python a traced program makes, and the Variables that these affect."""

from __future__ import annotations

from typing import Any


class PythonCalls:
    """The calls of Python that a traced program makes, and the Variables that they affect.

    A call of the user's Python (``tf.py_function``) is a barrier: values assigned before it are written to the Variables,
    and Variables are read again after it. Other calls of Python, such as a dataset's, are not barriers: they must not assign
    a Variable that the program uses afterwards.
    """

    def __init__(self) -> None:
        self.barriers = 0  # the number of calls of the user's Python so far
        self.flushed: dict[int, Any] = {}  # the Variables that were written at a barrier
        self.any = False  # whether there is a call that is not a barrier
        # Whether such a call is in a loop, where every use of a Variable follows an earlier iteration's call.
        self.in_control_flow = False
        self.used_later: dict[int, Any] = {}  # the Variables that are used after such a call

    @property
    def is_called(self) -> bool:
        return self.any or self.barriers > 0

    def add(self, in_control_flow: bool) -> None:
        """Records a call that is not a barrier. ``in_control_flow``: the call is in a branch or loop."""
        self.any = True
        self.in_control_flow |= in_control_flow

    def record_use(self, variable: Any) -> None:
        """Records a use of a Variable, if the program called Python before without a barrier."""
        if self.any:
            self.used_later[id(variable)] = variable

    def join(self, inner: PythonCalls, in_control_flow: bool) -> None:
        """Adds the calls of Python in a traced function that this program calls.

        Args:
          inner: the calls of Python in the function.
          in_control_flow: whether the function is called in a branch or loop.
        """
        self.flushed |= inner.flushed
        if inner.any:
            self.add(inner.in_control_flow or in_control_flow)
            self.used_later.update(inner.used_later)
