"""TensorFlow's exception types, with its constructor ``(node_def, op, message)`` and canonical codes.

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
    """An op failed; ``message``, ``op``, ``node_def`` and ``error_code`` tell what and how.

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
    """The cause could not be told."""


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
    """What should be made exists."""

    error_code = 6


class PermissionDeniedError(OpError):
    """The system refuses access."""

    error_code = 7


class ResourceExhaustedError(OpError):
    """Memory or disk ran out."""

    error_code = 8


class FailedPreconditionError(OpError):
    """The state does not allow the operation."""

    error_code = 9


class AbortedError(OpError):
    """The operation was given up."""

    error_code = 10


class OutOfRangeError(OpError):
    """An iteration or a read went past the end."""

    error_code = 11


class UnimplementedError(OpError):
    """The operation is not there for these arguments."""

    error_code = 12


class InternalError(OpError):
    """An invariant of tvtf or of TVM broke: a bug."""

    error_code = 13


class UnavailableError(OpError):
    """The device or service can't be had now."""

    error_code = 14


class DataLossError(OpError):
    """Stored data is damaged."""

    error_code = 15


class UnauthenticatedError(OpError):
    """The caller is unknown."""

    error_code = 16


class InaccessibleTensorError(TypeError, ValueError):
    """A traced tensor was used outside the function whose trace made it."""


class OperatorNotAllowedInGraphError(TypeError):
    """A Python construct needs a value that a traced tensor does not have yet."""
