"""TensorFlow's exception types, with their constructor ``(node_def, op, message)`` and error codes.

Source: https://www.tensorflow.org/api_docs/python/tf/errors
"""

from __future__ import annotations

from typing import Any

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = range(8)
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS = range(
    8, 16
)
UNAUTHENTICATED = 16


class OpError(Exception):
    """The base class of errors of ops, with attributes ``message``, ``op``, ``node_def`` and ``error_code``.

    >>> str(InvalidArgumentError(None, None, "indices[0] = 7 is not in [0, 3)"))
    'indices[0] = 7 is not in [0, 3)'
    """

    error_code = 2

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, *args)
        self.node_def = node_def
        self.op = op
        self.message = message
        if args and type(self) is OpError:
            self.error_code = args[0]

    def __str__(self) -> str:
        return self.message


class CancelledError(OpError):
    """The operation was cancelled."""

    error_code = 1


class UnknownError(OpError):
    """The cause is unknown."""


class InvalidArgumentError(OpError):
    """An op received an argument it can't work with."""

    error_code = 3


class DeadlineExceededError(OpError):
    """A time limit ran out."""

    error_code = 4


class NotFoundError(OpError):
    """A file, key or entity does not exist."""

    error_code = 5


class AlreadyExistsError(OpError):
    """An entity to be created exists already."""

    error_code = 6


class PermissionDeniedError(OpError):
    """The operating system denied access."""

    error_code = 7


class ResourceExhaustedError(OpError):
    """Memory or disk ran out."""

    error_code = 8


class FailedPreconditionError(OpError):
    """The operation is not allowed in the current state."""

    error_code = 9


class AbortedError(OpError):
    """The operation was aborted."""

    error_code = 10


class OutOfRangeError(OpError):
    """An iteration or a read went past the end."""

    error_code = 11


class UnimplementedError(OpError):
    """The operation is not implemented for these arguments."""

    error_code = 12


class InternalError(OpError):
    """An invariant of tvtf or of TVM broke: a bug."""

    error_code = 13


class UnavailableError(OpError):
    """The device or service is currently unavailable."""

    error_code = 14


class DataLossError(OpError):
    """Stored data is damaged."""

    error_code = 15


class UnauthenticatedError(OpError):
    """The caller is unknown."""

    error_code = 16


class InaccessibleTensorError(TypeError, ValueError):
    """A traced tensor was used outside the function that was traced."""


class OperatorNotAllowedInGraphError(TypeError):
    """A Python construct needs the value of a traced tensor, which has none yet."""
