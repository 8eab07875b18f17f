"""One connection: order, waiting, back-pressure, and how it ends, with a link that only records."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.connection import WAITING_BYTES_MAX, BrokerConnection
from kafkaraw.errors import InternalError
from kafkaraw.net import Segments
from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.handlers.test_metadata import create
from tests.broker.support import LISTENER, batch, content_bytes, make_state
from tests.broker.virtual_nodes import VirtualNodes, on_nodes


class RecordingLink:
    """A link that keeps what is sent."""

    peer = "127.0.0.1:50000"
    local = "127.0.0.1:9092"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.log: list[str] = []
        self.write_paused = False
        self.unsent_bytes = self.sent_bytes = self.acknowledged_bytes = 0
        self.pause_after: int | None = None

    def send(self, segments: Segments) -> None:
        self.sent.append(b"".join(content_bytes(segment) for segment in segments))
        if self.pause_after is not None and len(self.sent) >= self.pause_after:
            self.write_paused = True

    def close(self) -> None:
        self.log.append("close")

    def abort(self) -> None:
        self.log.append("abort")

    def pause_reading(self) -> None:
        self.log.append("pause")

    def resume_reading(self) -> None:
        self.log.append("resume")

    def correlation_ids(self) -> list[int]:
        return [int.from_bytes(frame[:4]) for frame in self.sent]


class Peer:
    """A connection with a state, one topic `t`, and a link."""

    def __init__(self, **properties: Any) -> None:
        self.state = make_state(**properties)
        create(self.state, "t")
        self.link = RecordingLink()
        self.lost: list[BrokerConnection] = []
        self.connection = BrokerConnection(self.state, LISTENER, self.lost.append)
        self.connection.link_made(self.link)
        self._next_id = 0

    def send(self, message: Any, version: int | None = None) -> None:
        api = api_of(message)
        header = RequestHeader(api.key, api.supported.max if version is None else version, self._next_id, "test")
        self._next_id += 1
        self.send_bytes(encode_request(header, message))

    def send_bytes(self, frame: bytes) -> None:
        self.connection.frame_received(memoryview(bytearray(frame)))

    def produce(self, *values: bytes, acks: int = -1, topic: str = "t") -> None:
        data = [PartitionProduceData(index=0, records=batch(*values))]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        self.send(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics), 12)

    def fetch(self, offset: int = 0, max_wait_ms: int = 500) -> None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[partition])]
        self.send(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics), 12)


METADATA = MetadataRequest(topics=[])


def simulate(scenario: Callable[[Simulation], Any]) -> None:
    async def main(simulation: Simulation) -> None:
        await scenario(simulation)

    run_virtual(main, seed=1)


def test_answers_come_in_the_order_of_requests():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        for _ in range(5):
            peer.send(METADATA)
        assert peer.link.correlation_ids() == [0, 1, 2, 3, 4]

    simulate(scenario)


def test_a_fault_of_the_broker_itself_is_logged_with_its_traceback(caplog):
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        error = InternalError("a fault in kafkaraw itself ended the connection")
        error.__cause__ = OSError("no module")
        peer.connection.link_lost(error)

    simulate(scenario)
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "a fault in kafkaraw itself" in record.getMessage()
    assert isinstance(record.exc_info[1].__cause__, OSError)


def test_a_waiting_fetch_holds_back_what_comes_after_it():
    async def scenario(simulation: Simulation) -> None:
        peer, other = Peer(), Peer()
        other.connection._state = peer.state
        peer.fetch()
        peer.send(METADATA)
        assert peer.link.correlation_ids() == []
        other.produce(b"v")
        assert peer.link.correlation_ids() == [0]
        await asyncio.sleep(0)
        assert peer.link.correlation_ids() == [0, 1]

    simulate(scenario)


def test_a_topic_that_is_asked_for_while_it_is_deleted_is_made_whole_on_all_nodes():
    """The deletion ends a wait; what waited behind it creates the topic anew, and must not do so halfway through."""

    async def scenario(nodes: VirtualNodes) -> None:
        nodes.create("t")
        leader = nodes.cluster.leader_of("t")
        connection = BrokerConnection(nodes.cluster.nodes[leader].state, LISTENER, lambda connection: None)
        connection.link_made(RecordingLink())
        peer = Peer()
        peer.connection = connection
        peer.fetch(max_wait_ms=5000)
        peer.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True))
        controller = nodes.cluster.controller
        controller.delete_topic(controller.catalog.topic("t"))
        await asyncio.sleep(1)
        assert controller.catalog.topic("t") is not None
        assert nodes.ends() == {0: 0, 1: 0, 2: 0}

    on_nodes(scenario, default_replication_factor=3)


def test_a_lost_client_leaves_no_waiting_fetch_behind():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.fetch()
        partition = peer.state.partitions_of(peer.state.catalog.topics()[0])[0]
        assert partition._watchers
        peer.connection.link_lost(None)
        assert not partition._watchers
        assert peer.lost == [peer.connection]

    simulate(scenario)


def test_produce_without_acks_is_silent_and_does_not_disturb_the_order():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.produce(b"a", acks=0)
        peer.send(METADATA)
        assert peer.link.correlation_ids() == [1]

    simulate(scenario)


def end_of(peer: Peer) -> int:
    (partition,) = peer.state.partitions_of(peer.state.catalog.topics()[0])
    return partition.log.log_end_offset


def test_what_a_client_sent_before_it_closed_is_appended_in_later_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        for number in range(5):
            peer.produce(b"%d" % number, acks=0)
        peer.fetch(offset=5, max_wait_ms=60_000)
        peer.produce(b"5", acks=0)
        assert end_of(peer) == 1
        peer.connection.link_lost(None)
        assert peer.lost == []
        await asyncio.sleep(1)
        assert end_of(peer) == 6, "nobody waits for the fetch, so it holds nothing up"
        assert peer.lost == [peer.connection]

    simulate(scenario)


def test_a_connection_that_ends_with_its_node_appends_nothing_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        for number in range(5):
            peer.produce(b"%d" % number, acks=0)
        peer.connection.link_lost(None)
        peer.connection.abort()
        assert peer.lost == [peer.connection]
        await asyncio.sleep(1)
        assert end_of(peer) == 1

    simulate(scenario)


def test_a_produce_that_takes_turns_is_completed_when_its_client_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        create(peer.state, "u", partitions=3)
        data = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(3)]
        asked = TopicProduceData(name="u", partition_data=data)
        peer.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[asked]), 12)
        partitions = peer.state.partitions_of(peer.state.catalog.topic("u"))
        assert [partition.log.log_end_offset for partition in partitions] == [1, 0, 0]
        peer.connection.link_lost(None)
        await asyncio.sleep(1)
        assert [partition.log.log_end_offset for partition in partitions] == [1, 1, 1]
        assert peer.lost == [peer.connection]

    simulate(scenario)


def test_an_error_without_acks_closes_the_connection_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture):
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.produce(b"a", acks=0, topic="absent")
        assert peer.link.log == ["close"]
        peer.send(METADATA)
        assert peer.link.sent == []

    simulate(scenario)
    assert "acks=0 failed with UNKNOWN_TOPIC_OR_PARTITION" in caplog.text


def test_an_unknown_api_versions_version_is_answered_in_version_0():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.send_bytes(bytes.fromhex("0012 0063 0000 002a 0004") + b"test" + b"\x00 anything at all")
        header, answer = decode_response(peer.link.sent[0], 18, 0)
        assert header.correlation_id == 0x2A
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
        peer.send(ApiVersionsRequest(), 0)
        assert len(peer.link.sent) == 2

    simulate(scenario)


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ("03e8 0000 0000 0001 ffff", "API key 1000"),
        ("0000 0002 0000 0001 ffff", "Produce version 2 is not in 3-13"),
        ("0003 0063 0000 0001 ffff 00", "Metadata version 99"),
        ("0003 0004 0000 0001 ffff 7fffffff", "Metadata version 4 cannot be decoded: topics"),
        ("0003", "request header"),
        ("", "request header"),
    ],
)
def test_what_makes_no_sense_closes_the_connection_with_one_line(
    frame: str, line: str, caplog: pytest.LogCaptureFixture
):
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.send_bytes(bytes.fromhex(frame))
        assert peer.link.sent == []
        assert peer.link.log == ["close"]

    with caplog.at_level(logging.WARNING, "kafkaraw.broker"):
        simulate(scenario)
    assert len(caplog.records) == 1
    assert line in caplog.text
    assert "127.0.0.1:50000" in caplog.text


def test_bytes_after_a_request_are_ignored_as_librdkafka_needs_it():
    """Its Metadata request for all topics, as version 2.16 sends it."""

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.send_bytes(bytes.fromhex("0003 000d 00000003 0007 72646b61666b61 00 00 00000001 0000"))
        _, answer = decode_response(peer.link.sent[0], 3, 13)
        assert [topic.name for topic in answer.topics] == ["t"]

    simulate(scenario)


def test_a_defect_in_a_handler_closes_one_connection_and_is_logged_in_full(caplog: pytest.LogCaptureFixture):
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        del peer.state.controller
        peer.send(METADATA)
        assert peer.link.log == ["close"]

    simulate(scenario)
    assert "AttributeError" in caplog.text


def test_a_slow_reader_is_not_read_from_until_it_has_caught_up():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.link.pause_after = 2
        for _ in range(5):
            peer.send(METADATA)
        assert peer.link.correlation_ids() == [0, 1]
        assert peer.link.log == ["pause"]
        peer.link.write_paused, peer.link.pause_after = False, 4
        peer.connection.writing_paused(False)
        assert peer.link.correlation_ids() == [0, 1, 2, 3]
        peer.link.write_paused, peer.link.pause_after = False, None
        peer.connection.writing_paused(False)
        assert peer.link.correlation_ids() == [0, 1, 2, 3, 4]
        assert peer.link.log == ["pause", "resume"]

    simulate(scenario)


def test_requests_behind_a_waiting_fetch_take_bounded_memory():
    async def scenario(simulation: Simulation) -> None:
        peer = Peer()
        peer.fetch()
        peer.produce(b"x" * (WAITING_BYTES_MAX // 2))
        assert peer.link.log == []
        peer.produce(b"x" * (WAITING_BYTES_MAX // 2))
        assert peer.link.log == ["pause"]
        simulation.loop.call_later(1, lambda: None)
        import asyncio

        await asyncio.sleep(1)
        assert peer.link.correlation_ids() == [0, 1, 2]
        assert peer.link.log == ["pause", "resume"]

    simulate(scenario)


@pytest.mark.parametrize("size", range(8))
def test_a_frame_shorter_than_a_request_header_closes_the_connection_before_it_waits(
    size: int, caplog: pytest.LogCaptureFixture
):
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.fetch()
        peer.send_bytes(bytes(size))
        assert peer.link.log == ["close"]
        assert not peer.connection._frames

    with caplog.at_level(logging.WARNING, "kafkaraw.broker"):
        simulate(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        f"closing the connection from 127.0.0.1:50000: header: at byte {size}: "
        f"a request header has at least 8 bytes, got {size}"
    ]


def test_short_requests_behind_a_waiting_fetch_take_bounded_memory():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.fetch()
        shortest = encode_request(RequestHeader(3, 0, 1, None), METADATA)
        tracemalloc.start()
        try:
            while not peer.link.log:
                peer.send_bytes(shortest)
                assert len(peer.connection._frames) <= 2_048
            assert tracemalloc.get_traced_memory()[0] < WAITING_BYTES_MAX
        finally:
            tracemalloc.stop()
        assert peer.link.log == ["pause"]
        peer.connection.link_lost(None)

    simulate(scenario)


def test_other_connections_have_their_turn_between_requests_that_came_at_once():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        now, send = [1_000.0], peer.link.send

        def take_four_milliseconds(segments: Segments) -> None:
            now[0] += 0.004
            send(segments)

        peer.connection._now, peer.link.send = lambda: now[0], take_four_milliseconds
        served: list[int] = []
        for _ in range(10):
            peer.send(METADATA)
            asyncio.get_running_loop().call_soon(lambda: served.append(len(peer.link.sent)))
        assert len(peer.link.sent) == 3  # the first 10 ms
        await asyncio.sleep(1)
        assert peer.link.correlation_ids() == list(range(10))
        assert served[0] == 3
        peer.connection.link_lost(None)

    simulate(scenario)


def test_a_request_that_comes_alone_is_answered_at_once_though_the_one_before_took_long():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        times = iter([1_000.0, 1_000.009, 1_001.0, 1_001.009, 1_002.0, 1_002.5])
        peer.connection._now = times.__next__
        for count in (1, 2, 3):
            peer.send(METADATA)
            assert len(peer.link.sent) == count
        peer.connection._now = asyncio.get_running_loop().time
        peer.connection.link_lost(None)

    simulate(scenario)


def test_the_memory_of_a_lost_connection_does_not_wait_for_the_collector():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        link = weakref.ref(peer.link)
        peer.link.handler = peer.connection  # as real links have
        gc.disable()
        try:
            peer.connection.link_lost(None)
            del peer.lost[:], peer.link, peer.connection
            await asyncio.sleep(0)  # the loop still had what it was doing
            assert link() is None
        finally:
            gc.enable()

    simulate(scenario)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    import asyncio

    async def scenario(_: Simulation) -> None:
        peer = Peer(connections_max_idle_ms=10_000)
        await asyncio.sleep(8)
        peer.send(METADATA)
        await asyncio.sleep(9)
        assert peer.link.log == []
        await asyncio.sleep(2)
        assert peer.link.log == ["close"]
        peer.connection.link_lost(None)

    simulate(scenario)


async def is_aborted_only_without_progress(counter: str, steps: int) -> None:
    """A byte each 8 s, by one of the link's counters, keeps the connection; none for 15 s ends it."""
    peer = Peer(connections_max_unsent_ms=10_000)
    peer.link.unsent_bytes = 5_000
    for count in range(1, steps + 1):
        setattr(peer.link, counter, count)
        await asyncio.sleep(8)
    assert peer.link.log == []
    await asyncio.sleep(15)
    assert "abort" in peer.link.log
    peer.connection.link_lost(None)


def test_a_client_that_takes_no_byte_of_its_answers_is_aborted_and_a_slow_one_is_not(
    caplog: pytest.LogCaptureFixture,
):
    async def scenario(_: Simulation) -> None:
        await is_aborted_only_without_progress("sent_bytes", steps=39)

    with caplog.at_level(logging.WARNING, "kafkaraw.broker"):
        simulate(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "aborting the connection from 127.0.0.1:50000: it read none of 5000 unsent bytes for 10 s "
        "(connections.max.unsent.ms)"
    ]


def test_a_client_that_acknowledges_bytes_of_a_long_part_is_not_aborted():
    async def scenario(_: Simulation) -> None:
        await is_aborted_only_without_progress("acknowledged_bytes", steps=9)

    simulate(scenario)


def test_an_idle_client_that_takes_no_byte_of_its_answers_is_aborted_at_the_idle_limit():
    async def scenario(_: Simulation) -> None:
        peer = Peer(connections_max_idle_ms=10_000)
        peer.link.unsent_bytes = 5_000
        await asyncio.sleep(16)
        assert "abort" in peer.link.log
        peer.connection.link_lost(None)

    simulate(scenario)


def test_an_idle_client_that_still_takes_bytes_is_not_closed():
    async def scenario(_: Simulation) -> None:
        peer = Peer(connections_max_idle_ms=10_000)
        peer.link.unsent_bytes = 5_000
        for sent in range(1, 10):
            peer.link.sent_bytes = sent
            await asyncio.sleep(5)
        assert peer.link.log == []
        peer.link.unsent_bytes = 0
        await asyncio.sleep(2)
        assert peer.link.log == ["close"]
        peer.connection.link_lost(None)

    simulate(scenario)


def test_a_closed_connection_whose_last_answers_are_not_taken_is_aborted():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.link.unsent_bytes = 5_000
        peer.connection.close()
        await asyncio.sleep(50)
        assert peer.link.log[0] == "close"
        assert "abort" in peer.link.log
        peer.connection.link_lost(None)

    simulate(scenario)


def test_a_connection_that_is_closed_takes_no_more_requests():
    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.fetch()
        peer.connection.close()
        peer.send(METADATA)
        assert peer.link.sent == []
        peer.connection.link_lost(None)
        peer.connection.close()
        peer.connection.abort()
        assert peer.link.log == ["close"]

    simulate(scenario)
