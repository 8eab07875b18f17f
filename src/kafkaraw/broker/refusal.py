"""`Refusal`: how the broker's own code says no, with the error code that the client is to see.

Raised by decisions (appending, creating topics), caught by handlers, which put it where their response has it.
It never leaves this package.
"""

from __future__ import annotations

from kafkaraw.protocol.error_codes import ErrorCode


class Refusal(Exception):
    """A request, or a part of one, is answered with an error code.

    Args:
        code: the code.
        message: why, with values; sent to clients where the response has room for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CloseConnection(Exception):
    """The connection is to be closed without an answer; the message goes to the log."""
