"""TCP segments of a capture file: pcap and pcapng, also compressed by gzip, from a file or a pipe.

The library `dpkt` reads the packets: Ethernet with VLAN tags, Linux cooked (SLL, SLL2), loopback, raw IP; IPv4 and
IPv6. Any bytes give segments, and counts of the packets that are not TCP or cannot be read; memory is bounded by
`BLOCK_SIZE_MAX`. This module must not order segments; `streams` does. Start at `CaptureFile`.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from kafkaraw.errors import UsageError

BLOCK_SIZE_MAX: Final = 16 << 20
"""Maximum bytes of one packet or block; dumpcap and tcpdump write at most 256 KB."""

PCAP_MAGICS: Final = (
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x34\xcd\xb2\xa1",
    b"\xa1\xb2\xcd\x34",
)
PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
GZIP_MAGIC: Final = b"\x1f\x8b"
MAGIC_SIZE: Final = 4
BLOCK_HEAD_SIZE: Final = 8
SECTION_HEAD_SIZE: Final = 12

NULL, ETHERNET, LOOP, COOKED, COOKED_2 = 0, 1, 108, 113, 276
RAW: Final = frozenset({12, 14, 101, 228, 229})
"""Link types whose packets begin with an IP header; 12 and 14 are those of BSD."""

INTERFACE, SIMPLE_PACKET, SECRETS = 1, 3, 10
TLS_KEY_LOG: Final = 0x544C534B
NESTING_MAX: Final = 8
SYN, FIN, RST, ACK = 2, 1, 4, 16
NANOSECONDS: Final = 1_000_000_000
TIME_MAX_NS: Final = 253_370_764_800 * NANOSECONDS
"""The year 9999; a damaged file may have any time."""

IpPacket: TypeAlias = Any
"""`dpkt.ip.IP` or `dpkt.ip6.IP6`; the library has no type information."""


class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Segment(NamedTuple):
    """One TCP segment.

    Attributes:
        time_ns: time of the capture, since 1970.
        source, target: the ends.
        sequence: sequence number of the first byte of the payload, or of SYN.
        acknowledged: the sequence number that the sender expects next; -1 if the segment acknowledges nothing.
        payload: the bytes that were captured.
        cut: how many bytes of the payload behind these were not captured (snaplen).
        flags: SYN, FIN, RST and ACK of the TCP header.
    """

    time_ns: int
    source: Endpoint
    target: Endpoint
    sequence: int
    acknowledged: int
    payload: bytes
    cut: int
    flags: int


@dataclass(slots=True)
class PacketCounts:
    """What a capture file has.

    Attributes:
        packets: all packets.
        segments: packets with a TCP segment.
        fragments: IP fragments; their bytes count as missing.
        unreadable: packets whose headers cannot be read: cut, damaged, or of an unknown link type.
        cut_bytes: bytes of TCP payload that were not captured (snaplen).
        link_types: unknown link types.
        broken: why the file could not be read to its end; empty if it was.
    """

    packets: int = 0
    segments: int = 0
    fragments: int = 0
    unreadable: int = 0
    cut_bytes: int = 0
    link_types: set[int] = field(default_factory=set)
    broken: str = ""


def is_capture(data: bytes) -> bool:
    """Return whether these are the first bytes of a capture file."""
    return data.startswith((*PCAP_MAGICS, PCAPNG_MAGIC))


class _Bounded:
    """A file that is read in pieces of limited size, as `dpkt` asks for as many bytes as a header says."""

    name = "capture"

    def __init__(self, file: BinaryIO, start: bytes) -> None:
        self._file = file
        self._start = start
        self.position = 0
        self.short = False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file.

        Raises:
            _Broken: `size` is above the limit.
        """
        if size > BLOCK_SIZE_MAX:
            raise _Broken(f"at byte {self.position}: a packet of {size} bytes, the limit is {BLOCK_SIZE_MAX}")
        data = self._start[:size]
        self._start = self._start[len(data) :]
        if len(data) < size:
            try:
                data += self._file.read(size - len(data))
            except (OSError, EOFError) as error:  # of gzip, or of a disk
                raise _Broken(f"at byte {self.position}: {error}") from None
        self.position += len(data)
        self.short = len(data) < size
        return data


class _Broken(Exception):
    """The rest of the file cannot be read."""


class _Interface(NamedTuple):
    link_type: int
    ticks_per_second: int
    offset_seconds: int


class CaptureFile:
    """The TCP segments of a capture file, in the order of the file.

    Args:
        file: opened for bytes; it is read once, from its current position.

    Attributes:
        counts: what the part that has been read contains.
        tls_key_log: secrets of TLS sessions that a pcapng file carries, in the format of `SSLKEYLOGFILE`.

    Raises:
        UsageError: the file is no capture, or `dpkt` is not installed.
    """

    def __init__(self, file: BinaryIO) -> None:
        try:
            import dpkt.pcap  # noqa: F401
        except ImportError:
            raise UsageError("reading captures needs the package dpkt: pip install 'kafkaraw[wire]'") from None
        start = file.read(MAGIC_SIZE)
        if start.startswith(GZIP_MAGIC):
            # A pipe cannot seek: give the bytes back in front of the rest.
            file = gzip.GzipFile(fileobj=io.BufferedReader(_Joined(start, file)))  # type: ignore[assignment]
            try:
                start = file.read(MAGIC_SIZE)
            except (OSError, EOFError) as error:
                raise UsageError(f"the file begins as one of gzip, but cannot be read: {error}") from None
        if not is_capture(start):
            shown = start.hex(" ") or "nothing"
            raise UsageError(
                f"this is no pcap or pcapng file: it begins with {shown}; `kafkaraw wire decode` reads bytes and dumps"
            )
        self.counts: PacketCounts = PacketCounts()
        self.tls_key_log: bytes = b""
        self._file = _Bounded(file, start)
        self._is_pcapng = start == PCAPNG_MAGIC

    def segments(self) -> Iterator[Segment]:
        """Yield the TCP segments. A file that ends early or is damaged ends them; `counts.broken` says why."""
        for time_ns, link_type, packet in self._packets():
            self.counts.packets += 1
            segment = self._segment(min(max(time_ns, 0), TIME_MAX_NS), link_type, packet)
            if segment is not None:
                self.counts.segments += 1
                self.counts.cut_bytes += segment.cut
                yield segment

    def _packets(self) -> Iterator[tuple[int, int, bytes]]:
        import dpkt

        try:
            yield from self._pcapng_packets() if self._is_pcapng else self._pcap_packets()
        except (_Broken, dpkt.Error, struct.error, ValueError) as error:
            place = "" if isinstance(error, _Broken) else f"at byte {self._file.position}: "
            words = str(error) or "a header is cut short"
            self.counts.broken = f"{place}{words}"

    def _pcap_packets(self) -> Iterator[tuple[int, int, bytes]]:
        import dpkt.pcap

        reader = dpkt.pcap.Reader(self._file)
        link_type = reader.datalink() & 0xFFFF  # above are the length of a checksum, and flags
        for seconds, packet in reader:
            if self._file.short:
                self.counts.broken = f"at byte {self._file.position}: the file ends within a packet"
            yield int(seconds * NANOSECONDS), link_type, packet

    def _pcapng_packets(self) -> Iterator[tuple[int, int, bytes]]:
        order = "<"
        interfaces: list[_Interface] = []
        while head := self._file.read(BLOCK_HEAD_SIZE):
            if head.startswith(PCAPNG_MAGIC):
                interfaces = []
                head += self._file.read(SECTION_HEAD_SIZE - BLOCK_HEAD_SIZE)
                order = "<" if head.endswith(b"\x4d\x3c\x2b\x1a") else ">"
            kind, size = struct.unpack_from(order + "II", head)
            if size < SECTION_HEAD_SIZE or size % 4:
                raise _Broken(f"at byte {self._file.position}: a block of pcapng has {size} bytes")
            block = head + self._file.read(size - len(head))
            if self._file.short:
                raise _Broken(f"at byte {self._file.position}: the file ends within a block")
            if kind == INTERFACE:
                interfaces.append(_interface(block, order))
            elif kind == SECRETS:
                self._keep_secrets(block, order)
            else:
                yield from _block_packets(kind, block, order, interfaces)

    def _keep_secrets(self, block: bytes, order: str) -> None:
        kind, size = struct.unpack_from(order + "II", block, BLOCK_HEAD_SIZE)
        if kind == TLS_KEY_LOG and len(self.tls_key_log) + size <= BLOCK_SIZE_MAX:
            self.tls_key_log += block[16 : 16 + size] + b"\n"

    def _segment(self, time_ns: int, link_type: int, packet: bytes) -> Segment | None:
        import dpkt

        try:
            ip = _ip_packet(link_type, packet)
        except (dpkt.Error, struct.error, ValueError, IndexError, AttributeError, TypeError):
            ip = None
            self.counts.unreadable += 1
        if isinstance(ip, int):
            self.counts.link_types.add(ip)
            self.counts.unreadable += 1
            return None
        if ip is None:
            return None
        if _is_fragment(ip):
            self.counts.fragments += 1
            return None
        if not isinstance(ip.data, dpkt.tcp.TCP):
            self.counts.unreadable += getattr(ip, "p", 0) == dpkt.ip.IP_PROTO_TCP
            return None
        return _tcp_segment(time_ns, ip)


class _Joined(io.RawIOBase):
    """Some bytes, then the rest of a file."""

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        self._start = start
        self._file = file

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        """Read into a buffer; return how many bytes."""
        data = self._start or self._file.read(len(buffer))
        self._start = b""
        buffer[: len(data)] = data
        return len(data)


def _interface(block: bytes, order: str) -> _Interface:
    import dpkt.pcapng as pcapng

    parsed = (pcapng.InterfaceDescriptionBlockLE if order == "<" else pcapng.InterfaceDescriptionBlock)(block)
    ticks, offset = 1_000_000, 0
    for option in parsed.opts:
        if option.code == pcapng.PCAPNG_OPT_IF_TSRESOL and len(option.data) == 1:
            power = option.data[0] & 0x7F
            ticks = 2**power if option.data[0] & 0x80 else 10**power
        elif option.code == pcapng.PCAPNG_OPT_IF_TSOFFSET and len(option.data) == 8:
            (offset,) = struct.unpack(order + "q", option.data)
    return _Interface(parsed.linktype, ticks, offset)


def _block_packets(
    kind: int, block: bytes, order: str, interfaces: list[_Interface]
) -> Iterator[tuple[int, int, bytes]]:
    import dpkt.pcapng as pcapng

    if kind == SIMPLE_PACKET and interfaces:
        (size,) = struct.unpack_from(order + "I", block, BLOCK_HEAD_SIZE)
        yield 0, interfaces[0].link_type, block[12:-4][:size]
    if kind not in (pcapng.PCAPNG_BT_EPB, pcapng.PCAPNG_BT_PB):
        return
    classes = {
        (pcapng.PCAPNG_BT_EPB, "<"): pcapng.EnhancedPacketBlockLE,
        (pcapng.PCAPNG_BT_EPB, ">"): pcapng.EnhancedPacketBlock,
        (pcapng.PCAPNG_BT_PB, "<"): pcapng.PacketBlockLE,
        (pcapng.PCAPNG_BT_PB, ">"): pcapng.PacketBlock,
    }
    parsed = classes[kind, order](block)
    if parsed.iface_id >= len(interfaces):
        raise _Broken(f"a packet of interface {parsed.iface_id}, of which the file has no description")
    interface = interfaces[parsed.iface_id]
    ticks = parsed.ts_high << 32 | parsed.ts_low
    time_ns = ticks * NANOSECONDS // interface.ticks_per_second + interface.offset_seconds * NANOSECONDS
    yield time_ns, interface.link_type, parsed.pkt_data


def _ip_packet(link_type: int, packet: bytes) -> IpPacket | int | None:
    """Return the IP packet within; None if there is none, and the link type if it is unknown."""
    import dpkt

    found: IpPacket
    if link_type in RAW:
        found = dpkt.ip6.IP6(packet) if packet[:1] and packet[0] >> 4 == 6 else dpkt.ip.IP(packet)
    elif link_type == ETHERNET:
        found = dpkt.ethernet.Ethernet(packet)
    elif link_type == COOKED:
        found = dpkt.sll.SLL(packet)
    elif link_type == COOKED_2:
        found = dpkt.sll2.SLL2(packet)
    elif link_type in (NULL, LOOP):
        found = dpkt.loopback.Loopback(packet)
    else:
        return link_type
    for _ in range(NESTING_MAX):
        if isinstance(found, (dpkt.ip.IP, dpkt.ip6.IP6)):
            return found
        found = getattr(found, "data", None)
    return None


def _is_fragment(ip: IpPacket) -> bool:
    import dpkt

    if isinstance(ip, dpkt.ip.IP):
        return bool(ip.mf or ip.offset)
    return any(isinstance(extension, dpkt.ip6.IP6FragmentHeader) for extension in ip.all_extension_headers)


def _tcp_segment(time_ns: int, ip: IpPacket) -> Segment:
    import dpkt
    from dpkt.utils import inet_to_str

    tcp = ip.data
    if isinstance(ip, dpkt.ip.IP):
        size = ip.len - 4 * ip.hl if ip.len else 0
    else:
        size = ip.plen - sum(extension.length for extension in ip.all_extension_headers) if ip.plen else 0
    payload = bytes(tcp.data)
    # Without a length in the IP header, the network card cuts the payload into packets: the capture has all of it.
    cut = max(0, size - 4 * tcp.off - len(payload)) if size else 0
    return Segment(
        time_ns,
        Endpoint(inet_to_str(ip.src), tcp.sport),
        Endpoint(inet_to_str(ip.dst), tcp.dport),
        tcp.seq,
        tcp.ack if tcp.flags & ACK else -1,
        payload,
        cut,
        tcp.flags,
    )
