"""What a request must have that writes its own bytes, instead of being encoded by its declaration.

For the few that are sent so often that a general encoder's steps count. Whoever sends requests takes both kinds; who
receives them cannot tell. A class of this kind must be held against its declared twin by a test. Nothing here does I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.protocol.apis import Api
    from kafkaraw.protocol.frames import Segment


class HandWritten:
    """A request that writes its own bytes, and reads its answer.

    Attributes:
        api: which request it is.
    """

    __slots__ = ()
    api: Api

    def segments(self, version: int, correlation_id: int, client_id: str | None) -> list[Segment]:
        """The whole frame, as `encode_request_segments` gives it; raises what that raises."""
        raise NotImplementedError

    def read(self, frame: memoryview, version: int) -> object:
        """The answer in that version; raises what `decode_response` raises. Bytes behind it are ignored."""
        raise NotImplementedError
