"""One connection from the bytes of both directions: whole frames with their size prefixes, in any pieces."""

from __future__ import annotations

from kafkaraw.inspect.exchanges import PENDING_MAX, Connection, Conversation, Exchange, Frame
from kafkaraw.protocol.frames import SIZE_PREFIX


class ConnectionReader:
    """Gives the frames of a connection to a `Conversation`.

    Args:
        connection: the connection.

    Attributes:
        conversation: its queue has the exchanges that wait for an answer.
    """

    def __init__(self, connection: Connection) -> None:
        self.conversation = Conversation(connection)
        self._ends = {"client": bytearray(), "broker": bytearray()}
        self._began_s: dict[str, float] = {}

    def from_client(self, data: bytes, at_s: float) -> list[Exchange]:
        """Take bytes from the client; return the exchanges that end with them: those that have no answer."""
        ended = []
        for frame in self._frames("client", data, at_s):
            exchange = self.conversation.request(frame)
            dropped = self.conversation.drop_oldest(f"{PENDING_MAX} later requests have no answer, either")
            ended += [one for one in (dropped, None if exchange.is_answered else exchange) if one is not None]
        return ended

    def from_broker(self, data: bytes, at_s: float) -> list[Exchange]:
        """Take bytes from the broker; return the exchanges that end with them."""
        return [one for frame in self._frames("broker", data, at_s) for one in self.conversation.response(frame)]

    def _frames(self, end: str, data: bytes, at_s: float) -> list[Frame]:
        left, frames = self._ends[end], []
        began_s = self._began_s.pop(end, at_s)
        left += data
        while len(left) >= SIZE_PREFIX.size and len(left) - SIZE_PREFIX.size >= SIZE_PREFIX.unpack_from(left)[0]:
            (size,) = SIZE_PREFIX.unpack_from(left)
            frame_end = SIZE_PREFIX.size + size
            frames.append(Frame(bytes(left[SIZE_PREFIX.size : frame_end]), size, began_s, at_s))
            del left[:frame_end]
            began_s = at_s
        if left:
            self._began_s[end] = began_s
        return frames
