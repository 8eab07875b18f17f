"""The interface of a request that writes its own bytes, instead of being encoded by its declaration.

It is for the few requests that are sent so often that the steps of the general encoder count. The engine takes both
kinds; a receiver cannot tell them apart. A test must compare a class of this kind with its declaration. Nothing here
does I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.protocol.declare import R_co, Request

if TYPE_CHECKING:
    from kafkaraw.protocol.apis import Api
    from kafkaraw.protocol.frames import Segment


class HandWritten(Request[R_co]):
    """A request that writes its own bytes, and reads its answer.

    Attributes:
        api: which request it is.
    """

    __slots__ = ()
    api: Api

    def segments(self, version: int, correlation_id: int, client_id: str | None) -> list[Segment]:
        """The whole frame, as `encode_request_segments` gives it; raises what that raises."""
        raise NotImplementedError

    def read(self, frame: memoryview, version: int) -> R_co:
        """The answer in that version; raises what `decode_response` raises. Bytes behind it are ignored."""
        raise NotImplementedError
