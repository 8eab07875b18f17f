"""What passes a tap as a pcapng file, which Wireshark, tshark and `kafkaraw wire read` open.

The frames of a connection become TCP segments between the addresses of the client and the broker, at the times at which
the tap saw them; the addresses in answers are those that the brokers sent. Of two connections that would have the same
addresses at the same time, one has another port: a client may use a port for each port of the tap. TLS is left out: the
file has what was in it. Secrets are overwritten (`masking`) unless they are asked for. A thread writes the file. If it
is slower than the traffic, bytes are left out and counted; readers see them as lost packets. Needs the package `dpkt`.
Start at `Saving`.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from typing import Any, BinaryIO, Final, TypeAlias

from kafkaraw.errors import UsageError
from kafkaraw.inspect.exchanges import Connection, Exchange, Frame
from kafkaraw.inspect.tap.masking import masked_frames
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.frames import SIZE_PREFIX

QUEUED_BYTES_MAX: Final = 64 << 20
QUEUED_MAX: Final = 50_000
SEGMENT_BYTES: Final = 60_000
CLOSE_TIMEOUT_S: Final = 10.0
SNAP_BYTES: Final = 1 << 18
PORT_MAX: Final = 65_535
_Address: TypeAlias = tuple[bytes, int]
_RAW_IP: Final = 101  # LINKTYPE_RAW
_SEQUENCES: Final = (1 << 32) - 1
_SEQUENCE_STEP: Final = 0x9E37_79B1  # odd, and far from small multiples of 2 ** 32


@dataclass(slots=True, eq=False)
class _Piece:
    """A frame of one direction, or the end of a connection.

    Attributes:
        data: what is known of the frame; empty if it was left out.
        size_bytes: of the frame with its size prefix; 0 for the end of the connection.
        missing_bytes: of earlier frames of the same direction, which were left out.
    """

    connection: Connection
    from_client: bool
    at_s: float
    data: memoryview
    size_bytes: int
    missing_bytes: int = 0


class Saving:
    """Writes a capture.

    Args:
        file: to write to; `close` leaves it open.
        with_secrets: leave secrets in it.

    Attributes:
        left_out_bytes: bytes that the file lacks, since it was slower than the traffic, or frames were too large.
        error: why the file could not be written, in words; empty if it could.

    Raises:
        UsageError: `dpkt` is missing.
    """

    def __init__(self, file: BinaryIO, *, with_secrets: bool = False) -> None:
        self.left_out_bytes: int = 0
        self.error: str = ""
        self._packets = _Packets(file)
        self._with_secrets = with_secrets
        self._pieces: deque[_Piece] = deque()
        self._queued_bytes = 0
        self._missing: dict[tuple[int, bool], int] = {}  # bytes that were left out last, by connection and direction
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="kafkaraw-tap-saving", daemon=True)
        self._thread.start()

    def asked(self, exchange: Exchange) -> None:
        """Save a request."""
        if exchange.request is not None:
            data = exchange.request.data if self._with_secrets else masked_frames(exchange)[0]
            self._add(exchange.connection, exchange.request, data or b"", from_client=True)

    def answered(self, exchange: Exchange) -> None:
        """Save the answer of an exchange, if it has one."""
        if exchange.response is not None:
            data = exchange.response.data if self._with_secrets else masked_frames(exchange)[1]
            self._add(exchange.connection, exchange.response, data or b"", from_client=False)

    def closed(self, connection: Connection, at_s: float) -> None:
        """Note the end of a connection."""
        with self._changed:
            for from_client in (True, False):
                self._missing.pop((connection.number, from_client), None)
            if self.error or len(self._pieces) >= 2 * QUEUED_MAX:
                return
            self._pieces.append(_Piece(connection, True, at_s, memoryview(b""), 0))
            self._changed.notify()

    def close(self) -> None:
        """Write what is queued, for `CLOSE_TIMEOUT_S` at most."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _add(
        self, connection: Connection, frame: Frame, data: bytes | bytearray | memoryview, *, from_client: bool
    ) -> None:
        size = frame.size_bytes + SIZE_PREFIX.size
        key = connection.number, from_client
        with self._changed:
            if self._queued_bytes + len(data) > QUEUED_BYTES_MAX or len(self._pieces) >= QUEUED_MAX:
                self.left_out_bytes += size
                self._missing[key] = self._missing.get(key, 0) + size
                return
            self.left_out_bytes += frame.size_bytes - len(data)
            missing = self._missing.pop(key, 0)
            self._pieces.append(_Piece(connection, from_client, frame.ended_s, memoryview(data), size, missing))
            self._queued_bytes += len(data)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces or self._closing)
                if not self._pieces:
                    return
                piece = self._pieces.popleft()
                self._queued_bytes -= len(piece.data)
            try:
                self._packets.write(piece)
            except (OSError, ValueError) as error:
                self.error = str(error)
                return


@dataclass(slots=True, eq=False)
class _Stream:
    """The addresses of a connection, and the next sequence number of each direction."""

    client: _Address
    broker: _Address
    sequences: dict[bool, int]


class _Packets:
    """Makes TCP segments of pieces."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            import dpkt
        except ImportError:
            raise UsageError("to save a capture needs dpkt: run `pip install 'kafkaraw[wire]'`") from None
        self._dpkt: Any = dpkt
        self._writer: Any = dpkt.pcapng.Writer(file, snaplen=SNAP_BYTES, linktype=_RAW_IP)
        self._file = file
        self._streams: dict[int, _Stream] = {}
        self._addresses: set[tuple[_Address, _Address]] = set()

    def write(self, piece: _Piece) -> None:
        """Write a piece; the first one of a connection, with its handshake."""
        tcp = self._dpkt.tcp
        stream = self._streams.get(piece.connection.number)
        if piece.size_bytes == 0:
            if self._streams.pop(piece.connection.number, None) is not None and stream is not None:
                self._addresses.discard((stream.client, stream.broker))
                for from_client in (True, False):
                    self._segment(stream, from_client, piece.at_s, tcp.TH_FIN | tcp.TH_ACK)
                self._segment(stream, True, piece.at_s, tcp.TH_ACK)
            self._file.flush()
            return
        if stream is None:
            stream = self._streams[piece.connection.number] = self._opened(piece.connection)
            for from_client, flags in ((True, tcp.TH_SYN), (False, tcp.TH_SYN | tcp.TH_ACK), (True, tcp.TH_ACK)):
                self._segment(stream, from_client, piece.at_s, flags)
        stream.sequences[piece.from_client] += piece.missing_bytes
        known = SIZE_PREFIX.pack(piece.size_bytes - SIZE_PREFIX.size) + bytes(piece.data) if piece.data else b""
        for at in range(0, len(known), SEGMENT_BYTES):
            part = known[at : at + SEGMENT_BYTES]
            self._segment(stream, piece.from_client, piece.at_s, tcp.TH_ACK | tcp.TH_PUSH, part)
        stream.sequences[piece.from_client] += piece.size_bytes - len(known)

    def _opened(self, connection: Connection) -> _Stream:
        client, broker = _address(connection.client), _address(connection.broker_address or connection.broker)
        if len(client[0]) != len(broker[0]):
            client, broker = ((_as_ipv6(host), port) for host, port in (client, broker))
        for _ in range(PORT_MAX):
            if (client, broker) not in self._addresses:
                break
            client = (client[0], client[1] % PORT_MAX + 1)
        self._addresses.add((client, broker))
        # Each connection begins with numbers of its own: readers take a port that is used again, with the same numbers,
        # for packets that were sent twice.
        start = connection.number * _SEQUENCE_STEP & _SEQUENCES
        return _Stream(client, broker, {True: start, False: start ^ (1 << 31)})

    def _segment(self, stream: _Stream, from_client: bool, at_s: float, flags: int, payload: bytes = b"") -> None:
        dpkt, sequences = self._dpkt, stream.sequences
        source, target = (stream.client, stream.broker) if from_client else (stream.broker, stream.client)
        acknowledged = sequences[not from_client] & _SEQUENCES if flags & dpkt.tcp.TH_ACK else 0
        tcp = dpkt.tcp.TCP(
            sport=source[1],
            dport=target[1],
            seq=sequences[from_client] & _SEQUENCES,
            ack=acknowledged,
            flags=flags,
            win=65_535,
        )
        tcp.data = payload
        if len(source[0]) == 4:
            packet = dpkt.ip.IP(p=dpkt.ip.IP_PROTO_TCP, len=20 + len(tcp), src=source[0], dst=target[0], ttl=64)
        else:
            packet = dpkt.ip6.IP6(nxt=dpkt.ip.IP_PROTO_TCP, hlim=64, plen=len(tcp), src=source[0], dst=target[0])
            packet.extension_hdrs, packet.all_extension_headers = {}, []
        packet.data = tcp
        self._writer.writepkt(bytes(packet), at_s)
        sequences[from_client] += len(payload) + bool(flags & (dpkt.tcp.TH_SYN | dpkt.tcp.TH_FIN))


def _address(text: str) -> _Address:
    """Return host and port in the form of packets; a name, as the address 0.0.0.0."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host), int(port)
    except OSError:
        return bytes(4), int(port)


def _as_ipv6(host: bytes) -> bytes:
    return host if len(host) == 16 else bytes(10) + b"\xff\xff" + host
