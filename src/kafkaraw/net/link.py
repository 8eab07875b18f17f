"""The two roles at the ends of a connection: `Link` (what you hold) and `LinkHandler` (what you are).

A link carries whole frames, each a Kafka message without its size prefix; bytes, sockets and TLS stay below it.
Both `net.transport` (asyncio) and `testing.virtual` (in memory) provide links, and neither client nor broker can
callback which one it holds. Nothing in this module does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from kafkaraw.errors import KafkaError
from kafkaraw.protocol import Segment

Segments: TypeAlias = Sequence[Segment]
LinkEnd: TypeAlias = Literal["client", "broker"]
"""One frame in pieces, as `encode_*_segments` returns it."""

WRITE_HIGH_BYTES = 1 << 20
"""Above this many unsent bytes a link reports that writing is paused."""
WRITE_LOW_BYTES = 1 << 18
"""At or below this many unsent bytes it reports that writing may go on."""


class Link(Protocol):
    """One open connection. All methods are called on the event loop's thread and none of them blocks."""

    @property
    def peer(self) -> str:
        """The other end as "host:port"."""
        ...

    @property
    def local(self) -> str:
        """This end as "host:port"."""
        ...

    @property
    def peer_certificate(self) -> bytes | None:
        """The other end's certificate in DER, which TLS has checked; None when it showed none."""
        ...

    @property
    def write_paused(self) -> bool:
        """Whether so much is unsent that the sender should wait for `LinkHandler.writing_paused(False)`."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were sent here, but are still in this process."""
        ...

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left this process since the link was made; grows if the peer reads."""
        ...

    @property
    def acknowledged_bytes(self) -> int:
        """Bytes that the peer's system has acknowledged; 0 where the operating system does not report it.

        It grows also while `sent_bytes` cannot: a long part of a file leaves bit by bit, and counts when all of it has.
        """
        ...

    def send(self, segments: Segments) -> None:
        """Send one frame; its 4-byte size is added here.

        Nothing is lost by sending while `write_paused`, but memory grows. Memoryviews must stay unchanged until the
        frame is answered or the link is lost. A FileSlice's descriptor may be closed as soon as this returns; its
        file position is not kept. After `close` or the loss of the link the frame is dropped silently:
        `link_lost` reports the loss.
        """
        ...

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the operating system has taken all that was sent before.

        It is called at once if that is so already, perhaps inside this method, and never if the link is lost first.
        While such a call is outstanding, `write_paused` may be true for fewer unsent bytes than `WRITE_HIGH_BYTES`.
        Under TLS, asyncio does not show what waits behind the encryption: unsent bytes move there whenever the socket
        takes some, and then count as taken.
        """
        ...

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, with nothing added: a part of a frame, or none at all. For fault tests."""
        ...

    def close(self) -> None:
        """Send what is still unsent, then close. `link_lost(None)` follows."""
        ...

    def abort(self) -> None:
        """Close at once and drop what is unsent. `link_lost(None)` follows."""
        ...

    def limit_frames(self, frame_size_max: int) -> None:
        """Accept frames of up to this size, beginning with the next one."""
        ...

    def pause_reading(self) -> None:
        """Deliver no further frames; the peer is slowed down by TCP."""
        ...

    def resume_reading(self) -> None:
        """Deliver frames again."""
        ...


class LinkHandler(Protocol):
    """Receives the frames and events of a link. Called on the event loop's thread.

    The order is: `link_made` once, then frames and pauses, then `link_lost` once. Of these only `writing_paused` may be
    called from inside a method of the link.
    """

    def link_made(self, link: Link) -> None:
        """Called when the connection is established."""
        ...

    def frame_received(self, frame: memoryview) -> None:
        """One whole frame has come, without its size. It has a buffer of its own: keep slices as long as you like.

        A KafkaError raised here aborts the link and comes back through `link_lost`.
        """
        ...

    def link_lost(self, error: KafkaError | None) -> None:
        """The connection is gone.

        Args:
            error: None when this end closed it, or the peer did between two frames; a NetworkError when it broke;
                a ProtocolError when the peer's bytes were no Kafka frame.
        """
        ...

    def writing_paused(self, paused: bool) -> None:
        """The link's `write_paused` has changed."""
        ...
