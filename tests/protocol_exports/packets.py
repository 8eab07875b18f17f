"""Conversations as packets in a file, so that other tools read them: TCP over IPv4, without a network or root.

Start at `Conversation`, which takes the bytes that each side sends, and `write_capture`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dpkt

SEGMENT_SIZE = 60_000
CLIENT, SERVER = ("10.0.0.1", 50_000), ("10.0.0.2", 9092)


@dataclass
class Conversation:
    """One TCP connection.

    Attributes:
        client, server: addresses of both ends.
        segment_size: payload of a packet in bytes.
        sent: what was sent, in order: whether by the client, and the bytes of one write.
    """

    client: tuple[str, int] = CLIENT
    server: tuple[str, int] = SERVER
    segment_size: int = SEGMENT_SIZE
    sent: list[tuple[bool, bytes]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def ask(self, data: bytes) -> None:
        self.sent.append((True, data))

    def answer(self, data: bytes) -> None:
        self.sent.append((False, data))

    def packets(self) -> Iterator[bytes]:
        """The packets of the connection, its handshake included."""
        sequence = {True: 1000, False: 2000}
        for by_client, flags in ((True, dpkt.tcp.TH_SYN), (False, dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK)):
            yield self._packet(by_client, sequence, b"", flags)
            sequence[by_client] += 1
        yield self._packet(True, sequence, b"", dpkt.tcp.TH_ACK)
        for by_client, data in self.sent:
            for at in range(0, len(data), self.segment_size):
                piece = data[at : at + self.segment_size]
                yield self._packet(by_client, sequence, piece, dpkt.tcp.TH_ACK | dpkt.tcp.TH_PUSH)
                sequence[by_client] += len(piece)

    def _packet(self, by_client: bool, sequence: dict[bool, int], data: bytes, flags: int) -> bytes:
        source, target = (self.client, self.server) if by_client else (self.server, self.client)
        acknowledged = sequence[not by_client] if flags & dpkt.tcp.TH_ACK else 0
        tcp = dpkt.tcp.TCP(sport=source[1], dport=target[1], seq=sequence[by_client], ack=acknowledged, data=data)
        tcp.flags = flags
        ip = dpkt.ip.IP(
            src=socket.inet_aton(source[0]), dst=socket.inet_aton(target[0]), p=dpkt.ip.IP_PROTO_TCP, data=tcp
        )
        ip.len = len(ip)
        return bytes(dpkt.ethernet.Ethernet(src=b"\2" * 6, dst=b"\4" * 6, data=ip))


def write_capture(file: Path, conversations: Iterable[Conversation]) -> None:
    """Write conversations, one after the other, a millisecond between two packets."""
    with file.open("wb") as stream:
        writer = dpkt.pcap.Writer(stream, nano=False, snaplen=262_144)
        now = 1_700_000_000.0
        for conversation in conversations:
            for packet in conversation.packets():
                writer.writepkt(packet, now)
                now += 0.001
