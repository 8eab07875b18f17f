"""Produce: partitions fail one by one, acks=0 is silent, ids replace names in version 13."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.replies import NO_REPLY, Deferred, Failed
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import TopicPartition
from tests.broker.handlers.test_metadata import create
from tests.broker.support import ask, batch, make_state, through_bytes
from tests.broker.virtual_nodes import VirtualNodes, on_nodes


def request(
    state, *records: bytes | None, topic: str = "t", acks: int = -1, topic_id: Uuid | None = None
) -> ProduceRequest:
    """One batch for each partition from 0 on."""
    known = state.catalog.topic(topic)
    if topic_id is None:
        topic_id = ZERO_UUID if known is None else known.topic_id
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    )


def outcomes(answer) -> list[tuple[ErrorCode, int]]:
    partitions = answer.responses[0].partition_responses
    return [(ErrorCode(part.error_code), part.base_offset) for part in partitions]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_returns_the_offset(version: int):
    state = make_state()
    create(state, "t", partitions=2)
    for offset in (0, 2):
        answer = ask(state, request(state, batch(b"a", b"b"), batch(b"c", b"d")), version)
        assert outcomes(answer) == [(ErrorCode.NONE, offset)] * 2
    assert answer.responses[0].partition_responses[0].log_append_time_ms == -1
    assert state.partition(TopicPartition("t", 1)).high_watermark == 4


def test_one_bad_partition_does_not_stop_the_others():
    state = make_state()
    create(state, "t", partitions=2)
    answer = ask(state, request(state, batch(b"a"), b"nonsense", batch(b"b")))
    assert outcomes(answer) == [
        (ErrorCode.NONE, 0),
        (ErrorCode.INVALID_RECORD, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert "at least one record batch" in answer.responses[0].partition_responses[1].error_message


def test_a_first_batch_of_a_length_that_cannot_be_fails_the_whole_request():
    state = make_state()
    create(state, "t", partitions=2)
    bad = bytearray(batch(b"b"))
    bad[8:12] = (13).to_bytes(4)
    answer = ask(state, request(state, batch(b"a"), bytes(bad)))
    assert outcomes(answer) == [(ErrorCode.CORRUPT_MESSAGE, -1)] * 2
    assert state.partition(TopicPartition("t", 0)).high_watermark == 0
    with pytest.raises(CloseConnectionError, match="CORRUPT_MESSAGE"):
        ask(state, request(state, bytes(bad), acks=0))


def test_records_of_a_transaction_need_a_transactional_id():
    state = make_state()
    create(state, "t", partitions=2)
    of_a_transaction = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    answer = ask(state, request(state, batch(b"a"), of_a_transaction))
    assert outcomes(answer) == [(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)] * 2


def test_the_records_at_fault_are_named_and_where_the_log_starts():
    state = make_state(log_cleanup_policy="compact")
    create(state, "t")
    answer = ask(state, request(state, batch(b"a", b"b"))).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert "without key in topic partition t-0" in answer.record_errors[0].batch_index_error_message
    assert answer.log_start_offset == 0
    too_large = ask(make_small(), request(make_small(), batch(b"x" * 999))).responses[0].partition_responses[0]
    assert too_large.log_start_offset == -1


def make_small():
    state = make_state(message_max_bytes="500")
    create(state, "t")
    return state


def test_an_unknown_topic_is_not_created_by_producing():
    state = make_state()
    assert outcomes(ask(state, request(state, batch(b"a")), 12)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    unknown = request(state, batch(b"a"), topic_id=Uuid(b"x" * 16))
    assert outcomes(ask(state, unknown, 13)) == [(ErrorCode.UNKNOWN_TOPIC_ID, -1)]
    assert state.catalog.topics() == []


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_other_acks_are_refused(acks: int):
    state = make_state()
    create(state, "t")
    answer = ask(state, request(state, batch(b"a"), acks=acks))
    assert outcomes(answer) == [(ErrorCode.INVALID_REQUIRED_ACKS, -1)]
    assert state.partition(TopicPartition("t", 0)).high_watermark == 0


def test_without_acks_there_is_no_answer():
    state = make_state()
    create(state, "t")
    assert ask(state, request(state, batch(b"a"), acks=0)) is NO_REPLY
    assert state.partition(TopicPartition("t", 0)).high_watermark == 1


def test_without_acks_an_error_closes_the_connection():
    state = make_state()
    create(state, "t")
    with pytest.raises(CloseConnectionError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        ask(state, request(state, batch(b"a"), batch(b"b"), acks=0))


def test_log_append_time_is_returned_when_it_applies():
    state = make_state(log_message_timestamp_type="LogAppendTime")
    create(state, "t")
    answer = ask(state, request(state, batch(b"a")))
    assert answer.responses[0].partition_responses[0].log_append_time_ms == state.clock.time_ms()


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
@pytest.mark.parametrize("version", [3, 9, 13])
def test_an_ordinary_client_may_not_write_to_an_internal_topic(topic: str, version: int):
    state = make_state()
    create(state, topic)
    answer = ask(state, request(state, batch(b"a"), topic=topic), version)
    assert outcomes(answer) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
    assert answer.responses[0].partition_responses[0].log_start_offset == -1
    assert outcomes(ask(state, request(state, batch(b"a"), topic=topic, acks=5))) == [
        (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    ]
    with pytest.raises(CloseConnectionError, match="INVALID_TOPIC_EXCEPTION"):
        ask(state, request(state, batch(b"a"), topic=topic, acks=0))
    assert state.partition(TopicPartition(topic, 0)).log.log_end_offset == 0
    as_admin = ask(state, request(state, batch(b"a", key=b"k"), topic=topic), version, client_id="__admin_client")
    assert outcomes(as_admin) == [(ErrorCode.NONE, 0)]


def test_an_answer_names_1000_records_at_fault_at_most():
    state = make_state(log_cleanup_policy="compact")
    create(state, "t", partitions=3)
    many = batch(*[b""] * 700, codec="zstd")
    answer = ask(state, request(state, many, many, many)).responses[0].partition_responses
    assert [one.error_code for one in answer] == [ErrorCode.INVALID_RECORD] * 3
    assert [len(one.record_errors) for one in answer] == [700, 300, 0]
    alone = ask(state, request(state, batch(*[b""] * 5_000, codec="zstd"))).responses[0].partition_responses[0]
    assert len(alone.record_errors) == 1_000
    assert "1000 record errors in total" in alone.error_message


@pytest.fixture
def slow_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition takes longer than other clients are to wait."""
    monkeypatch.setattr(turns, "TURN_S", -1.0)


async def answered_late(state, asked: ProduceRequest, others) -> object:
    answer = ask(state, asked)
    assert isinstance(answer, Deferred)
    came: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    answer.when_done(came.set_result)
    for _ in range(6):
        others()
        await asyncio.sleep(0)
    return await asyncio.wait_for(came, 60)


@pytest.mark.usefixtures("slow_partitions")
def test_other_clients_have_their_turn_between_the_partitions_of_a_request():
    async def life(nodes: VirtualNodes) -> None:
        state = nodes.cluster.nodes[0].state
        create(state, "t", partitions=3)
        ends = []

        def others() -> None:
            ends.append(sum(state.partition(TopicPartition("t", index)).log.log_end_offset for index in range(3)))

        asked = request(state, batch(b"a"), b"nonsense", batch(b"c"), acks=1)
        answer = through_bytes(await answered_late(state, asked, others), 13)
        assert outcomes(answer) == [(ErrorCode.NONE, 0), (ErrorCode.INVALID_RECORD, -1), (ErrorCode.NONE, 0)]
        assert ends == [1, 1, 2, 2, 2, 2], "a partition in each turn; the second one takes nothing"
        failed = await answered_late(state, request(state, batch(b"a"), b"nonsense", acks=0), lambda: None)
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, CloseConnectionError)

    on_nodes(life, nodes=1)


@pytest.mark.usefixtures("slow_partitions")
def test_replicas_that_catch_up_between_the_partitions_of_a_request_are_not_waited_for():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=2)
        leaders = [nodes.cluster.leader_of("t", index) for index in range(2)]
        await asyncio.sleep(1)
        if leaders[0] != leaders[1]:
            nodes.cluster.move_leader("t", 1, leaders[0])
        state = nodes.cluster.nodes[leaders[0]].state
        began = nodes.simulation.loop.time()
        asked = request(state, batch(b"a"), batch(b"b"))
        answer = through_bytes(await answered_late(state, asked, lambda: None), 13)
        assert outcomes(answer) == [(ErrorCode.NONE, 0)] * 2
        assert nodes.simulation.loop.time() - began < 0.5, "long before the request's time is up"

    on_nodes(life)


@pytest.mark.usefixtures("slow_partitions")
def test_other_clients_have_their_turn_while_the_records_of_a_batch_are_read():
    async def life(nodes: VirtualNodes) -> None:
        state = nodes.cluster.nodes[0].state
        create(state, "t")
        state.partition(TopicPartition("t", 0)).reconfigure(compacted(state), 1)
        turns_of_others = []
        asked = request(state, batch(*[b""] * 1_500, key=b"k", codec="gzip"), acks=1)
        answer = through_bytes(await answered_late(state, asked, lambda: turns_of_others.append(None)), 13)
        assert outcomes(answer) == [(ErrorCode.NONE, 0)]
        assert len(turns_of_others) == 6, "after 256 records each"

    on_nodes(life, nodes=1)


def compacted(state) -> TopicConfig:
    return TopicConfig.of({"cleanup.policy": "compact"}, state.config.topic_defaults)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_batch_of_more_than_4_mib_is_read_when_no_other_large_request_is_worked_on(codec: str):
    async def life(nodes: VirtualNodes) -> None:
        state = nodes.cluster.nodes[0].state
        create(state, "t", partitions=3)
        for index in range(3):
            state.partition(TopicPartition("t", index)).reconfigure(compacted(state), 1)
        large = batch(bytes(5 << 20), key=b"k", codec=codec)
        other = object()
        state.large_requests.enter(other, lambda: None)
        answer = ask(state, request(state, batch(b"a", key=b"k"), large, batch(b"b", key=b"k"), acks=1))
        came: list[object] = []
        answer.when_done(came.append)
        assert [state.partition(TopicPartition("t", index)).log.log_end_offset for index in range(3)] == [1, 0, 0]
        small = await nodes.ask(0, request(state, batch(b"c", key=b"k"), acks=1), 13)
        assert outcomes(small) == [(ErrorCode.NONE, 1)], "it does not wait"
        await asyncio.sleep(1)
        assert came == []
        state.large_requests.leave(other)
        await asyncio.sleep(1)
        assert outcomes(through_bytes(came[0], 13)) == [(ErrorCode.NONE, 0)] * 3
        entered: list[None] = []
        state.large_requests.enter(other, lambda: entered.append(None))
        assert entered == [None], "the place is free again"

    on_nodes(life, nodes=1)


def test_a_batch_of_more_than_128_mib_that_must_be_read_is_refused():
    async def life(nodes: VirtualNodes) -> None:
        state = nodes.cluster.nodes[0].state
        create(state, "t")
        state.partition(TopicPartition("t", 0)).reconfigure(compacted(state), 1)
        bomb = batch(bytes(64 << 20), bytes(64 << 20), b"", key=b"k", codec="zstd")
        answer = await nodes.ask(0, request(state, bomb, acks=1), 13)
        assert outcomes(answer) == [(ErrorCode.INVALID_RECORD, -1)]
        assert "134217728 bytes" in answer.responses[0].partition_responses[0].error_message

    on_nodes(life, nodes=1)


@pytest.mark.usefixtures("slow_partitions")
def test_a_batch_whose_topic_is_made_anew_while_it_is_read_is_not_appended():
    async def life(nodes: VirtualNodes) -> None:
        state = nodes.cluster.nodes[0].state
        create(state, "t")
        state.partition(TopicPartition("t", 0)).reconfigure(compacted(state), 1)
        answer = ask(state, request(state, batch(*[b""] * 600, key=b"k"), acks=1))
        came: list[object] = []
        answer.when_done(came.append)
        state.delete_topic(state.catalog.topic("t"))
        create(state, "t")
        await asyncio.sleep(1)
        assert outcomes(through_bytes(came[0], 13)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
        assert state.partition(TopicPartition("t", 0)).log.log_end_offset == 0

    on_nodes(life, nodes=1)


@pytest.mark.usefixtures("slow_partitions")
@pytest.mark.parametrize("verification", [True, False])
def test_a_batch_whose_transaction_ends_while_it_is_read_is_not_appended(verification: bool):
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=2, replicas=1)
        state = nodes.cluster.nodes[0].state
        for index in range(2):
            state.partition(TopicPartition("t", index)).reconfigure(compacted(state), 1_000_000)
        begin = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        started = await nodes.ask(0, begin, 4)
        who = {"transactional_id": "tx", "producer_id": started.producer_id, "producer_epoch": started.producer_epoch}
        topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]
        names = {"v3_and_below_" + name: value for name, value in who.items()}
        await nodes.ask(0, AddPartitionsToTxnRequest(**names, v3_and_below_topics=topics), 3)
        identity = {"producer_id": started.producer_id, "producer_epoch": started.producer_epoch, "base_sequence": 0}
        sent = batch(*[b""] * 2_000, key=b"k", transactional=True, **identity)
        asked = request(state, sent, topic="t", acks=1)
        asked.transactional_id = "tx"
        answer = asyncio.ensure_future(nodes.ask(0, asked, 11))
        await asyncio.sleep(0)
        ended = await nodes.ask(0, EndTxnRequest(**who, committed=True), 3)
        assert ended.error_code == ErrorCode.NONE
        await asyncio.sleep(1)
        assert outcomes(await answer) == [(ErrorCode.INVALID_TXN_STATE, -1)]
        partition = state.partition(TopicPartition("t", 0))
        assert partition.last_stable_offset == partition.high_watermark

    on_nodes(life, nodes=1, transaction_partition_verification_enable=verification)
