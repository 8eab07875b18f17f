"""Packets in every form give the bytes of both directions in order; what is missing is a hole of the right size."""

from __future__ import annotations

import gzip
import io
import random
import struct
from collections.abc import Callable, Sequence

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.inspect.packets import BLOCK_SIZE_MAX, CaptureFile
from kafkaraw.inspect.streams import WAITING_BYTES_MAX, Bytes, Closed, End, Event, Hole, Streams
from tests.inspect.packet_writing import (
    ACK,
    COOKED,
    COOKED_2,
    ETHERNET,
    NULL,
    RAW,
    RST,
    SYN,
    Packet,
    Turn,
    packets_of,
    pcap,
    pcapng,
)

TURNS: list[Turn] = [(True, b"hello " * 500), (False, bytes(range(256)) * 20), (True, b"bye")]
SAID = {side: b"".join(data for speaker, data in TURNS if speaker is side) for side in (True, False)}
V6 = {"client": ("fd00::1", 50123), "server": ("fd00::2", 9092)}


def follow(data: bytes) -> tuple[CaptureFile, list[Event]]:
    file = CaptureFile(io.BytesIO(data))
    return file, list(Streams().follow(file.segments()))


def content(events: Sequence[Event], client: bool) -> bytes:
    """The bytes of a direction, with `?` for each missing one."""
    pieces = (event.what for event in events if event.from_client is client)
    return b"".join(
        what.data if isinstance(what, Bytes) else b"?" * what.size for what in pieces if not isinstance(what, Closed)
    )


def reasons(events: Sequence[Event]) -> list[End]:
    return [event.what.reason for event in events if isinstance(event.what, Closed)]


def assert_all_is_there(data: bytes) -> None:
    file, events = follow(data)
    assert {side: content(events, side) for side in SAID} == SAID
    assert reasons(events) == [End.CLOSED]
    assert file.counts.segments == file.counts.packets
    assert not file.counts.broken


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("link", [NULL, ETHERNET, RAW, COOKED, COOKED_2])
@pytest.mark.parametrize("ends", [{}, V6], ids=["IPv4", "IPv6"])
def test_every_link_type_and_file_format_gives_the_same_bytes(
    write: Callable[..., bytes], link: int, ends: dict[str, tuple[str, int]]
):
    assert_all_is_there(write(packets_of(TURNS, **ends), link=link))


def test_a_capture_may_be_compressed_and_have_nanoseconds():
    assert_all_is_there(gzip.compress(pcap(packets_of(TURNS), nano=True)))


def test_sequence_numbers_wrap_around():
    assert_all_is_there(pcap(packets_of(TURNS, sequences=((1 << 32) - 1000, (1 << 32) - 3))))


@pytest.mark.parametrize("seed", range(4))
def test_reordered_repeated_and_overlapping_segments_change_nothing(seed: int):
    rng = random.Random(seed)
    said = TURNS[0][1]
    packets = packets_of(TURNS[:1], segment_size=100)
    data = [packet for packet in packets if packet.payload]
    for _ in range(10):
        at = rng.randrange(len(data) - 3)
        data[at], data[at + 2] = data[at + 2], data[at]
        joined = Packet(0, True, data[at].sequence, 0, 0, data[at].payload)  # sent again, with other limits
        joined.payload = said[data[at].sequence - 1001 :][: rng.randrange(1, 300)]
        data.insert(rng.randrange(len(data)), joined)
    _, events = follow(pcap([*packets[:3], *data, *packets[-3:]]))
    assert content(events, True) == said


def test_bytes_that_the_other_end_has_acknowledged_are_missing():
    packets = packets_of(TURNS, segment_size=1000)
    lost = packets.pop(5)
    assert lost.payload == SAID[True][1000:2000]
    _, events = follow(pcap(packets))
    assert content(events, True) == SAID[True][:1000] + b"?" * 1000 + SAID[True][2000:]
    first_answer = next(at for at, event in enumerate(events) if not event.from_client)
    assert [type(event.what) for event in events[:first_answer]] == [Bytes, Hole, Bytes]


def test_bytes_missing_at_the_end_are_counted_by_their_acknowledgement():
    packets = packets_of(TURNS[:1], segment_size=1000, closed=False)
    del packets[-2]
    _, events = follow(pcap(packets))
    assert content(events, True) == SAID[True][:2000] + b"?" * 1000
    assert reasons(events) == [End.CAPTURE]


def test_bytes_beyond_the_snapshot_length_are_missing():
    file, events = follow(pcap(packets_of(TURNS), snap_size=14 + 20 + 20 + 1000))
    said = SAID[True]
    assert content(events, True) == said[:1000] + b"?" * 448 + said[1448:2448] + b"?" * 448 + said[2896:]
    assert file.counts.cut_bytes == 2 * 448 + 3 * 448


def test_a_capture_may_begin_in_the_middle():
    packets = packets_of(TURNS, segment_size=1000)
    _, events = follow(pcap(packets[5:]))
    assert content(events, True) == SAID[True][1000:]
    assert not events[0].connection.has_start


def test_a_syn_with_another_number_begins_another_connection_on_the_same_ports():
    first = packets_of([(True, b"one")], closed=False)
    second = packets_of([(True, b"two")], sequences=(70_000, 90_000), start=first[-1].time + 1)
    _, events = follow(pcap([*first, first[0], *second]))  # a repeated SYN begins nothing
    assert [event.what.data for event in events if isinstance(event.what, Bytes)] == [b"one", b"two"]
    assert reasons(events) == [End.REUSED, End.CLOSED]
    assert [event.connection.number for event in events] == [1, 1, 2, 2]


def test_a_reset_ends_a_connection_and_late_segments_begin_none():
    packets = packets_of(TURNS[:1], closed=False)
    last = packets[-2]
    reset = Packet(last.time + 1, False, packets[-1].sequence, 0, RST)
    _, events = follow(pcap([*packets, reset, last]))
    assert reasons(events) == [End.RESET]
    assert events[-1].what == Closed(events[-1].what.time_ns, End.RESET)


def test_memory_behind_a_hole_is_bounded():
    streams = Streams()
    start = packets_of([(True, bytes(2 * WAITING_BYTES_MAX))], segment_size=32_000, closed=False)
    del start[3]  # the first segment of data, never acknowledged:
    data = [packet for packet in start if packet.from_client]
    seen, most = 0, 0
    for segment in CaptureFile(io.BytesIO(pcap(data))).segments():
        for event in streams.take(segment):
            seen += len(event.what.data) if isinstance(event.what, Bytes) else 0
        (found,) = streams._open.values()
        most = max(most, found.to_server.waiting_bytes)
    assert most <= WAITING_BYTES_MAX + 32_000
    assert seen == 2 * WAITING_BYTES_MAX - 32_000


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_a_file_that_ends_early_is_read_as_far_as_it_goes(write: Callable[..., bytes]):
    data = write(packets_of(TURNS))
    file, events = follow(data[:2000])
    assert SAID[True].startswith(content(events, True).rstrip(b"?"))
    assert "the file ends within a" in file.counts.broken


def test_a_packet_of_impossible_size_ends_the_file_without_taking_memory():
    data = pcap(packets_of(TURNS)) + struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 0xFFFFFFF0)
    file, _ = follow(data)
    assert f"a packet of {0xFFFFFFF0} bytes, the limit is {BLOCK_SIZE_MAX}" in file.counts.broken


def test_packets_of_other_protocols_and_fragments_are_counted():
    (packet, *_) = [packet for packet in packets_of(TURNS) if packet.payload]
    whole = bytearray(packet.ip())
    fragment, datagram, damaged = bytearray(whole), bytearray(whole), whole[:30]
    fragment[6] |= 0x20
    datagram[9] = 17
    file = CaptureFile(io.BytesIO(pcap([], link=RAW)))
    found = [file._segment(0, RAW, bytes(data)) for data in (fragment, datagram, damaged, b"", b"\x45")]
    assert found == [None] * 5
    assert (file.counts.fragments, file.counts.unreadable) == (1, 3)
    assert file._segment(0, 147, b"") is None
    assert file.counts.link_types == {147}


@pytest.mark.parametrize(("data", "says"), [(b"", "begins with nothing"), (b"\x00\x00\x00\x16", "00 00 00 16")])
def test_a_file_that_is_no_capture_is_refused(data: bytes, says: str):
    with pytest.raises(UsageError, match=says):
        CaptureFile(io.BytesIO(data))


def test_interfaces_of_a_pcapng_file_have_their_own_link_types_and_clocks():
    import dpkt

    packets = packets_of(TURNS)
    nanoseconds = dpkt.pcapng.PcapngOptionLE(code=9, data=b"\x09")
    end = dpkt.pcapng.PcapngOptionLE(code=0, data=b"")
    out = bytes(dpkt.pcapng.SectionHeaderBlockLE())
    out += bytes(dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=ETHERNET))
    out += bytes(dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=RAW, opts=[nanoseconds, end]))
    for number, packet in enumerate(packets):
        ticks = round(packet.time * 10**6) * (1000 if number % 2 else 1)
        block = dpkt.pcapng.EnhancedPacketBlockLE(
            iface_id=number % 2,
            ts_high=ticks >> 32,
            ts_low=ticks & 0xFFFFFFFF,
            pkt_data=packet.link(RAW if number % 2 else ETHERNET),
        )
        out += bytes(block)
    file = CaptureFile(io.BytesIO(out))
    assert [segment.time_ns // 1000 for segment in file.segments()] == [round(one.time * 10**6) for one in packets]
    assert_all_is_there(out)


def test_an_acknowledgement_alone_begins_no_connection():
    _, events = follow(pcap([Packet(0, True, 1, 1, ACK)]))
    assert events == []
    _, events = follow(pcap([Packet(0, True, 1, 0, SYN)]))
    assert reasons(events) == [End.CAPTURE]
