"""The interface of a request that writes its own bytes, instead of being encoded by its declaration.

It is for the few requests that are sent so often that the cost of the general encoder matters. The engine sends both
kinds; they are equal on the wire. A test must compare a class of this kind with its declaration. Nothing here does I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.protocol.declare import R_co, Request

if TYPE_CHECKING:
    from kafkaraw.protocol.apis import Api
    from kafkaraw.protocol.frames import Segment


class HandWritten(Request[R_co]):
    """A request that writes its own bytes, and reads its response.

    Attributes:
        api: the API of the request.
    """

    __slots__ = ()
    api: Api

    def segments(self, version: int, correlation_id: int, client_id: str | None) -> list[Segment]:
        """Return the whole frame, as `encode_request_segments` does; raises the same errors."""
        raise NotImplementedError

    def read(self, frame: memoryview, version: int) -> R_co:
        """Read the response in that version; raises the errors of `decode_response`. Bytes after it are ignored."""
        raise NotImplementedError
