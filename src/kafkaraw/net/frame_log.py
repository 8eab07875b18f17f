"""What the connection log writes about each frame, and where it stands between a link and its handler.

Frames pass unchanged, even if a log handler raises: the event loop raises the exception after the frame. `wire_log`
imports this module when the log is switched on. Start at `Tap` and `FrameLog`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

from kafkaraw.errors import KafkaError, ProtocolError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.net.link import Link, LinkEnd, LinkHandler, Segments
from kafkaraw.protocol import (
    FileSlice,
    RequestHeader,
    ResponseHeader,
    Segment,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    segments_size,
)
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

log: logging.Logger = logging.getLogger("kafkaraw.wire")

SHOWN_BYTES_MAX: Final = 1024
"""The maximum number of bytes of a frame that are printed; its size always is."""
MASK: Final = b"*masked*"
_RAW_SHOWN_MAX = 64
_UNANSWERED_MAX: Final = 1000
_SASL_HANDSHAKE_KEY: Final = 17
_SASL_AUTHENTICATE_KEY: Final = 36
# Passwords, keys and tokens travel in these: 33, 44 configurations; 38 to 41 delegation tokens; 51 SCRAM credentials.
_SECRET_BODIES: Final = frozenset({33, 38, 39, 40, 41, 44, 51})

Direction = Literal["Read", "Write"]


class _Asked(NamedTuple):
    """A request that was not answered yet."""

    correlation_id: int
    api_key: int
    version: int


def _say(text: str, *values: object) -> None:
    """Write a line. A handler that raises, `KeyboardInterrupt` included, must not keep a frame from its way."""
    try:
        log.debug(text, *values)
    except BaseException as error:  # noqa: BLE001  # raised again by the event loop
        asyncio.get_running_loop().call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error


class Tap:
    """Stands between a link and its handler."""

    def __init__(self, handler: LinkHandler, who: Callable[[], str], end: LinkEnd) -> None:
        self._handler = handler
        self._name = who
        self._client = ""
        self._frames = FrameLog(end)

    def link_made(self, link: Link) -> None:
        """Called when the connection is established."""
        if self._frames.end == "broker":
            self._client = f", client {link.peer}"
        _say("Connected %s, from %s", self._who, link.local)
        self._handler.link_made(_TappedLink(link, self))

    def frame_received(self, frame: memoryview) -> None:
        """One whole frame has come, without its size. It has a buffer of its own: keep slices as long as you like."""
        _say("%s", self._frames.text("Read", self._who, [frame]))
        self._handler.frame_received(frame)

    def link_lost(self, error: KafkaError | None) -> None:
        """The connection is gone."""
        _say("Disconnected %s%s", self._who, f": {error}" if error else "")
        self._handler.link_lost(error)

    def writing_paused(self, paused: bool) -> None:
        """The link's `write_paused` has changed."""
        self._handler.writing_paused(paused)

    @property
    def _who(self) -> str:
        return self._name() + self._client

    def sending(self, segments: Segments) -> None:
        """A frame is about to be sent."""
        _say("%s", self._frames.text("Write", self._who, segments))


class _TappedLink:
    """A link whose frames are logged before they go out."""

    def __init__(self, link: Link, tap: Tap) -> None:
        self._link = link
        self._tap = tap

    @property
    def peer(self) -> str:
        """The other end as "host:port"."""
        return self._link.peer

    @property
    def local(self) -> str:
        """This end as "host:port"."""
        return self._link.local

    @property
    def peer_certificate(self) -> bytes | None:
        """The other end's certificate in DER, which TLS has checked; None when it showed none."""
        return self._link.peer_certificate

    @property
    def write_paused(self) -> bool:
        """Whether so much is unsent that the sender should wait for `LinkHandler.writing_paused(False)`."""
        return self._link.write_paused

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were sent here, but are still in this process."""
        return self._link.unsent_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left this process since the link was made; grows if the peer reads."""
        return self._link.sent_bytes

    @property
    def acknowledged_bytes(self) -> int:
        """Bytes that the peer's system has acknowledged; 0 where the operating system does not report it."""
        return self._link.acknowledged_bytes

    def send(self, segments: Segments) -> None:
        """Send one frame; its 4-byte size is added here."""
        self._tap.sending(segments)
        self._link.send(segments)

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the operating system has taken all that was sent before."""
        self._link.when_sent(callback)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, with nothing added: a part of a frame, or none at all. For fault tests."""
        _say("Write %d bytes that are no frame: %s", len(data), data[:_RAW_SHOWN_MAX].hex(" "))
        self._link.send_raw(data)

    def limit_frames(self, frame_size_max: int) -> None:
        """Accept frames of up to this size, beginning with the next one."""
        self._link.limit_frames(frame_size_max)

    def close(self) -> None:
        """Send what is still unsent, then close. `link_lost(None)` follows."""
        self._link.close()

    def abort(self) -> None:
        """Close at once and drop what is unsent. `link_lost(None)` follows."""
        self._link.abort()

    def pause_reading(self) -> None:
        """Deliver no further frames; the peer is slowed down by TCP."""
        self._link.pause_reading()

    def resume_reading(self) -> None:
        """Deliver frames again."""
        self._link.resume_reading()


class FrameLog:
    """Writes one connection's frames down; keeps what an answer does not say itself: API and version.

    Args:
        end: which end of the connection this is.
    """

    def __init__(self, end: LinkEnd) -> None:
        self.end = end
        self._asked: deque[_Asked] = deque(maxlen=_UNANSWERED_MAX)
        self._raw_tokens = False  # after SaslHandshake v0, until a whole Kafka request comes again

    def text(self, direction: Direction, who: str, segments: Sequence[Segment]) -> str:
        """The entry for one frame: what it is, its bytes in hex, and once more as text."""
        size = segments_size(segments)
        is_request = (direction == "Write") == (self.end == "client")
        what, shown = self._request(segments) if is_request else self._response(segments)
        note = ""
        if isinstance(shown, _Masked):
            size, note = len(shown.frame), shown.note
            segments = [shown.frame]
        data = (size.to_bytes(4, "big") + _beginning(segments))[:SHOWN_BYTES_MAX]
        left_out = size + 4 - len(data)
        lines = [f"{direction}[{size + 4}] {who} {what}{note}", f"    {data.hex(' ').upper()}", f"    {_escaped(data)}"]
        if left_out:
            lines.append(f"    (the first {len(data)} bytes; {left_out} more are not shown)")
        return "\n".join(lines)

    def _request(self, segments: Sequence[Segment]) -> tuple[str, _Masked | None]:
        frame = _whole(segments)
        if self._raw_tokens and not _is_request(frame):
            return _RAW_TOKEN
        self._raw_tokens = False
        try:
            header, at = decode_request_header(frame)
        except ProtocolError:
            return "(no Kafka request)", None
        self._asked.append(_Asked(header.correlation_id, header.api_key, header.api_version))
        self._raw_tokens = header.api_key == _SASL_HANDSHAKE_KEY and header.api_version == 0
        what = _name(header.api_key, header.api_version, header.correlation_id)
        if header.api_key == _SASL_AUTHENTICATE_KEY:
            return what, _masked_request(frame, at)
        return what, _without_body(frame, at) if header.api_key in _SECRET_BODIES else None

    def _response(self, segments: Sequence[Segment]) -> tuple[str, _Masked | None]:
        frame = _beginning(segments)
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        while self._asked:
            asked = self._asked.popleft()
            if asked.correlation_id == correlation_id:
                what = _name(*asked[1:], correlation_id)
                if asked.api_key == _SASL_AUTHENTICATE_KEY:
                    return what, _masked_response(_whole(segments), asked.version)
                return what, _without_body(frame, 4) if asked.api_key in _SECRET_BODIES else None
        return _RAW_TOKEN if self._raw_tokens else (f"correlation {correlation_id}, without a request", None)


class _Masked(NamedTuple):
    """What is shown instead of a frame with secrets."""

    frame: bytes
    note: str


_RAW_TOKEN: Final = ("SASL token", _Masked(MASK, " (masked)"))


def _without_body(frame: bytes, at: int) -> _Masked:
    return _Masked(bytes(frame[:at]), " (the body is not shown: it may hold secrets)")


def _masked_request(frame: bytes, at: int) -> _Masked:
    try:
        header, message = decode_request(frame)
    except ProtocolError:
        return _without_body(frame, at)
    assert isinstance(message, SaslAuthenticateRequest)
    message.auth_bytes = MASK
    return _Masked(encode_request(header, message), " (token masked)")


def _masked_response(frame: bytes, version: int) -> _Masked:
    try:
        header, message = decode_response(frame, _SASL_AUTHENTICATE_KEY, version)
    except ProtocolError:
        return _without_body(frame, 4)
    assert isinstance(message, SaslAuthenticateResponse)
    message.auth_bytes = MASK
    return _Masked(encode_response(ResponseHeader(header.correlation_id), message, version), " (token masked)")


def _is_request(frame: bytes) -> bool:
    """Whether this can be nothing but a Kafka request: every byte of it fits."""
    try:
        header, message = decode_request(frame)
        again = RequestHeader(header.api_key, header.api_version, header.correlation_id, header.client_id)
        return encode_request(again, message) == frame
    except ProtocolError:
        return False


def _name(api_key: int, version: int, correlation_id: int) -> str:
    api = API_BY_KEY.get(api_key)
    name = api.name if api is not None else f"API {api_key}"
    return f"{name} v{version} correlation {correlation_id}"


def _beginning(segments: Sequence[Segment]) -> bytes:
    """The first bytes of a frame, at least as many as are shown."""
    data = bytearray()
    for segment in segments:
        if len(data) >= SHOWN_BYTES_MAX:
            break
        data += _bytes_of(segment, SHOWN_BYTES_MAX)
    return bytes(data)


def _whole(segments: Sequence[Segment]) -> bytes:
    return b"".join(_bytes_of(segment, None) for segment in segments)


def _bytes_of(segment: Segment, limit: int | None) -> bytes:
    if isinstance(segment, FileSlice):
        return os.pread(segment.fd, segment.size if limit is None else min(segment.size, limit), segment.offset)
    return bytes(memoryview(segment)[:limit])


def _escaped(data: bytes) -> str:
    r"""Bytes as text, the others as `\x00`."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02X}" for byte in data)
