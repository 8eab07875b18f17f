"""`ApiError`: an error code and a message for the client, raised by the broker's own code.

Appending, creating topics and other decisions raise it; handlers catch it, and put code and message into the fields of
their response. It never leaves this package.
Source: org.apache.kafka.common.requests.ApiError.
"""

from __future__ import annotations

from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode


class RecordError(NamedTuple):
    """The error of one record of a batch (KIP-467); records are counted from 0 within the batch."""

    batch_index: int
    message: str


class ApiError(Exception):
    """A request, or one entry of it, is answered with an error code.

    Args:
        code: the code.
        message: why, with values; sent to clients if the response has a field for it.
        record_errors: the records of a batch that cause the error.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.record_errors = record_errors


class CloseConnectionError(Exception):
    """The broker closes the connection without a response; the message goes to the log."""
