"""Captures made of bytes: TCP segments of conversations, with every header that `inspect/packets.py` reads.

A conversation is a list of turns, (whether the client speaks, bytes). The packets are a plain list, so that a test can
drop, repeat, reorder and cut them before they are written.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dpkt

SYN, ACK, FIN, RST = dpkt.tcp.TH_SYN, dpkt.tcp.TH_ACK, dpkt.tcp.TH_FIN, dpkt.tcp.TH_RST
START = 1_700_000_000.0
NULL, ETHERNET, RAW, COOKED, COOKED_2 = 0, 1, 101, 113, 276

Turn = tuple[bool, bytes]


@dataclass
class Packet:
    """One TCP segment, before it is written."""

    time: float
    from_client: bool
    sequence: int
    acknowledged: int
    flags: int
    payload: bytes = b""
    client: tuple[str, int] = ("10.0.0.1", 50123)
    server: tuple[str, int] = ("10.0.0.2", 9092)

    def ip(self, checksums: bool = True) -> bytes:
        """With the headers of TCP and IP."""
        source, target = (self.client, self.server) if self.from_client else (self.server, self.client)
        tcp = dpkt.tcp.TCP(
            sport=source[1], dport=target[1], seq=self.sequence, ack=self.acknowledged, flags=self.flags, win=65535
        )
        tcp.data = self.payload
        if ":" in source[0]:
            family = socket.AF_INET6
            packet = dpkt.ip6.IP6(nxt=dpkt.ip.IP_PROTO_TCP, hlim=64, plen=len(tcp))
        else:
            family = socket.AF_INET
            packet = dpkt.ip.IP(p=dpkt.ip.IP_PROTO_TCP, len=20 + len(tcp))
        packet.src, packet.dst = socket.inet_pton(family, source[0]), socket.inet_pton(family, target[0])
        if family == socket.AF_INET6:
            packet.extension_hdrs, packet.all_extension_headers = {}, []
        packet.data = tcp
        return bytes(packet)

    def link(self, kind: int) -> bytes:
        """With the header of a link type, too."""
        ip = self.ip()
        ether_type = 0x86DD if ip[0] >> 4 == 6 else 0x0800
        if kind == RAW:
            return ip
        if kind == NULL:
            return struct.pack("@I", 30 if ether_type == 0x86DD else 2) + ip
        if kind == COOKED:
            return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), ether_type) + ip
        if kind == COOKED_2:
            return struct.pack(">HHiHBB8s", ether_type, 0, 1, 1, 0, 6, bytes(8)) + ip
        return bytes(6) + bytes(6) + struct.pack(">H", ether_type) + ip


def packets_of(
    turns: Iterable[Turn],
    *,
    segment_size: int = 1448,
    sequences: tuple[int, int] = (1000, 5_000_000),
    opened: bool = True,
    closed: bool = True,
    start: float = START,
    client: tuple[str, int] = ("10.0.0.1", 50123),
    server: tuple[str, int] = ("10.0.0.2", 9092),
) -> list[Packet]:
    """The packets of a conversation; each segment of data is acknowledged by the other end."""
    sequence = {True: sequences[0], False: sequences[1]}
    packets: list[Packet] = []

    def add(from_client: bool, flags: int, payload: bytes = b"") -> None:
        number = sequence[from_client]
        acknowledged = sequence[not from_client] if flags & ACK else 0
        at = start + len(packets) * 0.001
        packets.append(Packet(at, from_client, number, acknowledged, flags, payload, client, server))
        sequence[from_client] = (number + len(payload) + bool(flags & (SYN | FIN))) % (1 << 32)

    if opened:
        add(True, SYN)
        add(False, SYN | ACK)
        add(True, ACK)
    for from_client, data in turns:
        for at in range(0, len(data), segment_size):
            add(from_client, ACK, data[at : at + segment_size])
            add(not from_client, ACK)
    if closed:
        add(True, FIN | ACK)
        add(False, FIN | ACK)
        add(True, ACK)
    return packets


def pcap(packets: Sequence[Packet], *, link: int = ETHERNET, snap_size: int = 262144, nano: bool = False) -> bytes:
    """A file as tcpdump writes it."""
    magic, ticks = (0xA1B23C4D, 10**9) if nano else (0xA1B2C3D4, 10**6)
    out = [struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snap_size, link)]
    for packet in packets:
        data = packet.link(link)
        seconds, fraction = divmod(round(packet.time * 10**6), 10**6)
        cut = data[:snap_size]
        out += [struct.pack("<IIII", seconds, fraction * ticks // 10**6, len(cut), len(data)), cut]
    return b"".join(out)


def pcapng(packets: Sequence[Packet], *, link: int = ETHERNET) -> bytes:
    """A file as Wireshark writes it, by the library's writer."""
    file = io.BytesIO()
    writer = dpkt.pcapng.Writer(file, snaplen=262144, linktype=link)
    for packet in packets:
        writer.writepkt(packet.link(link), packet.time)
    return file.getvalue()
