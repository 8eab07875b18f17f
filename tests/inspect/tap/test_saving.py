"""A saved capture has every byte that passed, in the streams of its connections, without secrets."""

from __future__ import annotations

import io
import struct
import threading

import dpkt
import pytest

from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.inspect.exchanges import Connection, Exchange
from kafkaraw.inspect.tap.proxy import Tap
from kafkaraw.inspect.tap.saving import SEGMENT_BYTES, Saving
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.inspect.connections import ConnectionReader
from tests.inspect.tap.peers import WAIT_S, asked, broker, client, metadata_of, metadata_request, on_loop
from tests.waiting import wait_until

SECRET = b"correct horse battery staple"


def streams_of(capture: bytes) -> dict[tuple[str, int, str, int], bytes]:
    """The bytes of each direction, by source and target; checks sequence numbers and checksums."""
    found: dict[tuple[str, int, str, int], bytearray] = {}
    next_number: dict[tuple[str, int, str, int], int] = {}
    for _, data in dpkt.pcapng.Reader(io.BytesIO(capture)):
        ip = dpkt.ip6.IP6(data) if data[0] >> 4 == 6 else dpkt.ip.IP(data)
        tcp = ip.data
        way = (dpkt.utils.inet_to_str(ip.src), tcp.sport, dpkt.utils.inet_to_str(ip.dst), tcp.dport)
        if tcp.flags & dpkt.tcp.TH_SYN:
            assert way not in next_number
            next_number[way] = tcp.seq + 1
            continue
        assert tcp.seq == next_number[way]
        next_number[way] = tcp.seq + len(tcp.data) + bool(tcp.flags & dpkt.tcp.TH_FIN)
        found.setdefault(way, bytearray()).extend(tcp.data)
    return {way: bytes(data) for way, data in found.items()}


def saved(*exchanges: Exchange, with_secrets: bool = False) -> bytes:
    file = io.BytesIO()
    saving = Saving(file, with_secrets=with_secrets)
    for exchange in exchanges:
        saving.asked(exchange)
        saving.answered(exchange)
    for connection in {exchange.connection.number: exchange.connection for exchange in exchanges}.values():
        saving.closed(connection, 9.0)
    saving.close()
    assert saving.left_out_bytes == 0
    return file.getvalue()


def exchange(request: bytes, connection: Connection | None = None) -> Exchange:
    reader = ConnectionReader(connection or Connection(1, "10.0.0.1:50112", "broker.example:9092", 3, "10.0.0.2:9092"))
    reader.from_client(request, 1.0)
    (found,) = reader.from_broker(struct.pack(">i", 4) + request[8:12], 2.0)
    return found


@on_loop
async def test_bytes_of_both_directions_are_saved():
    answer = metadata_of((1, "one.example", 9092))
    file = io.BytesIO()
    saving = Saving(file)
    requests = [metadata_request(number) for number in range(20)]
    async with broker(answer) as address, Tap(address) as tap:
        tap.save_to(saving)
        async with client(tap.bootstrap_servers) as peer:
            for request in requests:
                await peer.ask(request)
    saving.close()
    there, back = sorted(streams_of(file.getvalue()).items(), key=lambda item: item[0][3] != int(address[10:]))
    assert there[1] == b"".join(requests)
    answers = [answer(request[4:]) for request in requests]
    assert back[1] == b"".join(struct.pack(">i", len(one)) + one for one in answers)
    assert there[0][:2] == back[0][2:]


def test_frames_larger_than_a_packet_are_segments():
    part = PartitionProduceData(index=0, records=bytes(range(256)) * 1000)
    topics = [TopicProduceData(name="t", partition_data=[part])]
    request = asked(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics), 9)
    assert len(request) > 4 * SEGMENT_BYTES
    streams = streams_of(saved(exchange(request)))
    assert streams["10.0.0.1", 50112, "10.0.0.2", 9092] == request


def test_secrets_are_not_in_the_file_unless_they_are_asked_for():
    found = exchange(asked(SaslAuthenticateRequest(auth_bytes=SECRET), 2))
    assert SECRET not in saved(found)
    assert b"*" * len(SECRET) in saved(found)
    assert SECRET in saved(found, with_secrets=True)


@pytest.mark.parametrize(
    ("addresses", "ways"),
    [
        (("[::1]:5", "[::1]:9092"), ("::1", "::1")),
        (("127.0.0.1:5", "[::1]:9092"), ("::ffff:127.0.0.1", "::1")),
        (("127.0.0.1:5", "broker.example:9092"), ("127.0.0.1", "0.0.0.0")),
    ],
)
def test_addresses_of_either_family(addresses, ways):
    connection = Connection(1, *addresses)
    streams = streams_of(saved(exchange(metadata_request(), connection)))
    assert {(source, target) for source, _, target, _ in streams} == {ways, ways[::-1]}


def test_connections_with_the_same_addresses_at_once_are_streams_of_their_own():
    """A client may use a port of its own for each port of the tap, and both reach the same broker."""
    addresses = ("10.0.0.1:50112", "10.0.0.2:9092")
    requests = [metadata_request(number) for number in range(3)]
    found = [exchange(request, Connection(number, *addresses)) for number, request in enumerate(requests, 1)]
    streams = streams_of(saved(*found))
    assert len(streams) == 2 * len(requests)
    assert sorted(data for way, data in streams.items() if way[3] == 9092) == requests
    reused = [exchange(request, Connection(number, *addresses)) for number, request in enumerate(requests, 1)]
    file = io.BytesIO()
    saving = Saving(file)
    for one in reused:  # one after another, the port is the client's
        saving.asked(one)
        saving.closed(one.connection, 3.0)
    saving.close()
    segments = [dpkt.ip.IP(data).data for _, data in dpkt.pcapng.Reader(io.BytesIO(file.getvalue()))]
    assert {segment.sport for segment in segments} == {50112, 9092}
    started = [segment.seq for segment in segments if segment.flags & dpkt.tcp.TH_SYN]
    assert len(set(started)) == 2 * len(requests)  # else readers take the second connection for packets sent twice


def test_what_the_file_is_too_slow_for_is_left_out_and_counted(monkeypatch):
    monkeypatch.setattr("kafkaraw.inspect.tap.saving.QUEUED_BYTES_MAX", 10)
    file = io.BytesIO()
    saving = Saving(file)
    found = exchange(metadata_request())
    saving.asked(found)
    saving.answered(found)
    saving.close()
    assert saving.left_out_bytes == len(metadata_request())
    assert metadata_request() not in file.getvalue()


class Stuck(io.BytesIO):
    """A file on a disk that hangs for a while behind the header of the capture."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, data: bytes) -> int:
        if self.tell() > 100:
            self.goes_on.wait(WAIT_S)
        return super().write(data)


def test_disk_that_hangs_costs_bounded_memory_and_what_is_left_out_is_a_gap(monkeypatch):
    monkeypatch.setattr("kafkaraw.inspect.tap.saving.QUEUED_MAX", 10)
    file = Stuck()
    saving = Saving(file)
    connection = Connection(1, "10.0.0.1:50001", "10.0.0.2:9092")
    frames = [metadata_request(number) for number in range(1000)]
    for frame in frames:
        saving.asked(exchange(frame, connection))
    assert len(saving._pieces) <= 10
    file.goes_on.set()
    assert wait_until(lambda: not saving._pieces, WAIT_S)
    saving.asked(exchange(frames[0], connection))
    saving.close()
    reader = CaptureReader(io.BytesIO(file.getvalue()))
    found = [item for item in reader.read() if isinstance(item, Exchange) and item.request is not None]
    assert len(found) < 15
    assert found[-1].correlation_id == 0
    assert reader.report.missing_bytes == saving.left_out_bytes > 900 * len(frames[0])


class Full(io.BytesIO):
    """A file on a disk that is full after the header of the capture."""

    def write(self, data: bytes) -> int:
        if self.tell() > 100:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_file_that_cannot_be_written_is_said():
    saving = Saving(Full())
    saving.asked(exchange(metadata_request()))
    saving.close()
    assert "No space left on device" in saving.error
