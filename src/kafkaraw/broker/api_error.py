"""`ApiError`: how the broker's own code says no, with the error code that the client is to see.

Raised by decisions (appending, creating topics), caught by handlers, which put it where their response has it.
It never leaves this package.
"""

from __future__ import annotations

from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode


class RecordError(NamedTuple):
    """What is wrong with one record of a batch (KIP-467), counted from 0 within the batch."""

    batch_index: int
    message: str


class ApiError(Exception):
    """A request, or a part of one, is answered with an error code.

    Args:
        code: the code.
        message: why, with values; sent to clients where the response has room for it.
        record_errors: which records of a batch are the reason.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.record_errors = record_errors


class CloseConnectionError(Exception):
    """The connection is to be closed without an answer; the message goes to the log."""
