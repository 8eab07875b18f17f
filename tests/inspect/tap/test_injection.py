"""Faults between a client and a cluster: the vocabulary of the embedded broker, through a tap."""

from __future__ import annotations

import asyncio
import struct

import pytest

from kafkaraw import Consumer, Producer, TopicPartition
from kafkaraw.broker.faults import Faults
from kafkaraw.errors import UsageError
from kafkaraw.inspect.tap.proxy import Tap
from kafkaraw.inspect.tap.rules import add_rule
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.inspect.tap.peers import WAIT_S, asked, broker, client, metadata_of, metadata_request, on_loop
from tests.net.stream_server import stream_server


def answers(frame: bytes) -> bytes:
    """Answers Metadata; of anything else, only the correlation id."""
    if frame[:2] == b"\0\3":
        return metadata_of((1, "one.example", 9092))(frame)
    return frame[4:8] + b"the broker's own answer"


def id_of(frame: bytes) -> int:
    return struct.unpack_from(">i", frame)[0]


def heartbeat(correlation_id: int, client_id: str = "app") -> bytes:
    return asked(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, correlation_id, client_id)


def produce(*topics: str, acks: int = -1, correlation_id: int = 1) -> bytes:
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=b"x" * 100)])
        for name in topics
    ]
    return asked(ProduceRequest(acks=acks, timeout_ms=1, topic_data=data), 9, correlation_id)


@on_loop
async def test_answer_is_made_from_the_request_and_the_broker_is_not_asked():
    seen = []

    def answer(frame: bytes) -> bytes:
        seen.append(frame)
        return answers(frame)

    async with broker(answer) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        fault = tap.faults.on(api="Heartbeat", nth=2).answer(ErrorCode.REBALANCE_IN_PROGRESS)
        recording = tap.record()
        first, second, third = [await peer.ask(heartbeat(number)) for number in (1, 2, 3)]
        assert first[4:] == third[4:] == b"the broker's own answer"
        header, message = decode_response(second, 12, 4)
        assert (header.correlation_id, message.error_code) == (2, ErrorCode.REBALANCE_IN_PROGRESS)
        assert fault.consumed
        assert [id_of(frame[4:]) for frame in seen] == [1, 3]
        await asyncio.to_thread(recording.wait_for, "Heartbeat")
    faults = [one.fault for one in recording.exchanges("Heartbeat")]
    assert faults == ["", "answer REBALANCE_IN_PROGRESS on api=Heartbeat, from the 2. on", ""]


@on_loop
async def test_part_of_a_request_is_refused_and_the_rest_goes_to_the_broker():
    from kafkaraw.protocol import ResponseHeader, decode_request, encode_response
    from kafkaraw.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

    def answer(frame: bytes) -> bytes:
        header, request = decode_request(frame)
        parts = [PartitionProduceResponse(index=0, error_code=0, base_offset=7)]
        topics = [TopicProduceResponse(name=one.name, partition_responses=parts) for one in request.topic_data]
        return encode_response(ResponseHeader(header.correlation_id), ProduceResponse(responses=topics), 9)

    async with broker(answer) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        tap.faults.on(api="Produce", topic="flights").answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        _, message = decode_response(await peer.ask(produce("flights", "weather")), 0, 9)
        found = {one.name: one.partition_responses[0] for one in message.responses}
        assert found["flights"].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (found["weather"].error_code, found["weather"].base_offset) == (0, 7)


@on_loop
async def test_addresses_are_rewritten_while_faults_are_set():
    async with broker(answers) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        tap.faults.on(api="Fetch").close()
        _, message = decode_response(await peer.ask(metadata_request()), 3, 9)
        assert message.brokers[0].host == "127.0.0.1"


@on_loop
async def test_delayed_request_keeps_the_order_of_answers():
    async with broker(answers) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        tap.faults.on(api="Heartbeat").delay(0.05)
        peer.writer.write(heartbeat(1) + metadata_request(2) + heartbeat(3))
        assert [id_of(await peer.frame()) for _ in range(3)] == [1, 2, 3]


@on_loop
async def test_held_request_goes_on_when_it_is_released_and_other_connections_meanwhile():
    async with (
        broker(answers) as address,
        Tap(address) as tap,
        client(tap.bootstrap_servers) as peer,
        client(tap.bootstrap_servers) as other,
    ):
        held = tap.faults.on(api="Heartbeat", client_id="app").hold()
        peer.writer.write(heartbeat(1))
        assert id_of(await other.ask(heartbeat(5, "other"))) == 5
        held.release()
        assert id_of(await peer.frame()) == 1


@on_loop
async def test_close_ends_the_connection_without_an_answer():
    async with broker(answers) as address, Tap(address) as tap:
        recording = tap.record()
        tap.faults.on(api="Heartbeat").close()
        async with client(tap.bootstrap_servers) as peer:
            peer.writer.write(heartbeat(1))
            assert await peer.rest() == b""
            (lost,) = [await asyncio.to_thread(recording.wait_for, "Heartbeat")]
        assert lost.ended == "fault: close on api=Heartbeat"


@on_loop
async def test_damaged_answers_of_the_broker():
    async with broker(answers) as address, Tap(address) as tap:
        tap.faults.on(api="Heartbeat").cut(10)
        async with client(tap.bootstrap_servers) as peer:
            peer.writer.write(heartbeat(1))
            assert await peer.rest() == struct.pack(">ii", 27, 1) + b"th"
        tap.faults.on(api="Heartbeat").corrupt(seed=1)
        async with client(tap.bootstrap_servers) as peer:
            damaged = await peer.ask(heartbeat(2))
        assert id_of(damaged) == 2
        assert damaged[4:] != b"the broker's own answer"
        assert len(damaged) == 27


@on_loop
async def test_swallowed_request_is_never_answered():
    async with broker(answers) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        fault = tap.faults.on(api="Heartbeat").swallow()
        peer.writer.write(heartbeat(1) + heartbeat(2))
        await fault.until_consumed()
        async with client(tap.bootstrap_servers) as other:
            assert id_of(await other.ask(heartbeat(3))) == 3


@on_loop
async def test_produce_without_acks_passes_and_is_closed_by_a_fault():
    async with broker(answers) as address, Tap(address) as tap:
        tap.faults.on(api="Produce", nth=2).answer(ErrorCode.CORRUPT_MESSAGE)
        async with client(tap.bootstrap_servers) as peer:
            peer.writer.write(produce("t", acks=0) + produce("t", acks=0))
            assert b"the broker's own answer" not in await peer.rest()


@on_loop
async def test_rate_delays_by_the_size():
    async with broker(answers) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        tap.faults.on(api="Heartbeat").limit(2000)
        loop = asyncio.get_running_loop()
        began = loop.time()
        request = heartbeat(1)
        await peer.ask(request)
        assert loop.time() - began >= (len(request) - 4 + 27) / 2000


@on_loop
async def test_faults_that_are_set_while_answers_are_due_do_not_mix_them_up():
    wait = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            await wait.wait()
            answer = answers(frame)
            writer.write(struct.pack(">i", len(answer)) + answer)
        writer.close()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap, client(tap.bootstrap_servers) as peer:
        peer.writer.write(metadata_request(1))
        await asyncio.to_thread(lambda: None)
        tap.faults.on(api="Heartbeat").answer(ErrorCode.UNKNOWN_MEMBER_ID)
        peer.writer.write(heartbeat(2) + metadata_request(3))
        async with asyncio.timeout(WAIT_S):
            wait.set()
        assert [id_of(await peer.frame()) for _ in range(3)] == [1, 2, 3]


def test_client_survives_faults_of_a_real_broker(kafka_broker_session):
    with Tap(kafka_broker_session.bootstrap_servers) as tap:
        tap.faults.on(api="Produce", times=2, topic="faulty").answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        tap.faults.on(api="Fetch", topic="faulty").close()
        with Producer(bootstrap_servers=tap.bootstrap_servers, retry_backoff_ms=1) as producer:
            producer.send("faulty", b"value").result(WAIT_S)
        with Consumer(bootstrap_servers=tap.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("faulty", 0)])
            assert next(iter(consumer)).value == b"value"
        tap.faults.assert_all_consumed()


# -- faults as text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("Produce: close", "close on api=Produce"),
        (
            "produce topic=flights nth=3 every=10 times=2: answer not_leader_or_follower",
            "answer NOT_LEADER_OR_FOLLOWER on api=Produce, topic=flights, from the 3. on, each 10. one",
        ),
        ("any client=app broker=2: delay 500ms", "delay 0.5 s on node=2, client_id=app"),
        ("Fetch version=17 partition=0: limit 2MB/s", "limit 2e+06 B/s on api=Fetch, version=17, partition=0"),
        ("Fetch: limit 500 B/s", "limit 500 B/s on api=Fetch"),
        ("Fetch: close handled", "close when handled on api=Fetch"),
        ("Fetch: swallow", "swallow on api=Fetch"),
        ("Fetch: cut 20", "cut at byte 20 on api=Fetch"),
        ("Fetch: corrupt", "corrupt on api=Fetch"),
    ],
)
def test_rule_is_a_fault(text, description):
    assert add_rule(Faults(), text).description == description


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Produce", "a fault is API"),
        ("Prodduce: close", "no API named 'Prodduce'; did you mean Produce"),
        ("Produce topik=a: close", "'topik=a' is no condition; there are client="),
        ("Produce nth=x: close", "nth is a number, not 'x'"),
        ("Produce nth=0: close", "count from 1"),
        ("Produce: explode", "'explode' is no action; there are answer CODE"),
        ("Produce: answer NOT_LEADER", "no error code; did you mean NOT_"),
        ("Produce: delay 5", "'5' is no time; write 500ms or 2s"),
        ("Produce: limit fast", "'fast' is no rate"),
        ("Produce: limit 0kB/s", "lets nothing through"),
    ],
)
def test_rule_that_is_none_is_explained(text, words):
    with pytest.raises(UsageError) as raised:
        add_rule(Faults(), text)
    assert words in str(raised.value)


@on_loop
async def test_client_is_not_read_while_many_of_its_requests_wait_for_a_fault():
    async with broker(answers) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        held = tap.faults.on(api="Heartbeat").hold()
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 500_000:
                peer.writer.write(b"".join(heartbeat(number, "x" * 1000) for number in range(sent, sent + 1000)))
                sent += 1000
                async with asyncio.timeout(0.3):
                    await peer.writer.drain()
        held.release()
        assert [id_of(await peer.frame()) for _ in range(sent)] == list(range(sent))
