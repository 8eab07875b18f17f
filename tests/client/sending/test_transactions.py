"""Transactions of our producer on our broker, in virtual time: what breaks in between, and what is read in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kafkaraw import (
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortableError,
    UsageError,
)
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.network.coordinator import CoordinatorKind
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.sending import transactions
from kafkaraw.core.producer.transaction import Change, Reaction, reaction_to
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.virtual_cluster import HOST, PORT, VirtualCluster, on_cluster

TOPIC = "orders"
GENERATIONS = pytest.mark.parametrize("level", [0, 2])


async def committed(cluster: VirtualCluster, topic: str = TOPIC) -> list[bytes | None]:
    """What a reader of committed records finds between the two ends."""
    consumer: AsyncConsumer = cluster.consumer(isolation_level="read_committed")
    async with consumer:
        partitions = await consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        values = []
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            values += [record.value for batch in (await consumer.poll(1)).values() for record in batch]
    return sorted(values, key=lambda value: value or b"")


async def committed_offset(cluster: VirtualCluster, group: str) -> int | None:
    """What a group has committed for the first partition."""
    first = TopicPartition(TOPIC, 0)
    consumer: AsyncConsumer = cluster.consumer(group_id=group)
    async with consumer:
        found = (await consumer.committed([first]))[first]
    return None if found is None else found.offset


@GENERATIONS
def test_a_transaction_spans_a_crash_of_the_broker(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 3)
        async with cluster.producer(transactional_id="tx", linger_ms=0) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"before", partition=0)
            await producer.flush()
            await cluster.kill()
            await cluster.restart()
            await producer.send(TOPIC, b"after", partition=1)
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send(TOPIC, b"next", partition=0)
        assert await committed(cluster) == [b"after", b"before", b"next"]

    on_cluster(test, transaction_version=level)


@GENERATIONS
def test_a_transaction_that_begins_without_a_broker_waits_for_it(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx", linger_ms=0) as producer:
            await producer.init_transactions()
            await cluster.kill()
            await asyncio.sleep(1)  # the client notices
            begun = asyncio.ensure_future(producer.begin_transaction())
            await asyncio.sleep(2)
            assert not begun.done()
            await cluster.restart()
            await begun
            await producer.send(TOPIC, b"behind the restart")
            await producer.commit_transaction()
        assert await committed(cluster) == [b"behind the restart"]

    on_cluster(test, transaction_version=level)


def test_begin_transaction_without_a_broker_ends_by_its_timeout() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(transactional_id="tx", default_api_timeout_ms=3_000) as producer:
            await producer.init_transactions()
            await cluster.kill()
            await asyncio.sleep(1)  # the client notices
            with pytest.raises(KafkaTimeoutError, match=r"not done within 3 s; last seen: .*cannot connect"):
                await producer.begin_transaction()
            await cluster.restart()
            await producer.begin_transaction()
            await producer.abort_transaction()

    on_cluster(test)


def test_a_producer_that_takes_too_long_is_fenced_and_its_records_are_not_read() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        producer = cluster.producer(transactional_id="tx", transaction_timeout_ms=5_000)
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(TOPIC, b"late", partition=0)
        await producer.flush()
        await asyncio.sleep(30)
        with pytest.raises(ProducerFencedError, match="transaction_timeout_ms=5000"):
            await producer.commit_transaction()
        await producer.close()
        assert await committed(cluster) == []

    on_cluster(test, transaction_version=0)


def test_with_epoch_bumps_a_producer_that_takes_too_long_aborts_and_goes_on() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx", transaction_timeout_ms=5_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"late", partition=0)
            await producer.flush()
            await asyncio.sleep(30)
            with pytest.raises(TransactionAbortableError, match="transaction_timeout_ms=5000"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(TOPIC, b"in time", partition=0)
        assert await committed(cluster) == [b"in time"]

    on_cluster(test, transaction_version=2)


@GENERATIONS
def test_an_outcome_that_is_not_known_in_time_can_be_asked_for_again(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx", request_timeout_ms=1_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"kept", partition=0)
            await producer.flush()
            cluster.silence()
            with pytest.raises(KafkaTimeoutError, match="the coordinator of transaction 'tx'"):
                await producer.commit_transaction(3)
            with pytest.raises(UsageError, match="commit_transaction\\(\\) again"):
                await producer.abort_transaction(3)
            cluster.silence(False)
            await producer.commit_transaction(60)
        assert await committed(cluster) == [b"kept"]

    on_cluster(test, transaction_version=level)


@GENERATIONS
def test_unacknowledged_records_fail_the_transaction_and_the_next_one_succeeds(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        settings = {"request_timeout_ms": 500, "delivery_timeout_ms": 2_000, "linger_ms": 0}
        async with cluster.producer(transactional_id="tx", **settings) as producer:
            await producer.init_transactions()
            await producer.partitions_for(TOPIC)
            await producer.begin_transaction()
            cluster.silence()
            ticket = await producer.send(TOPIC, b"lost", partition=0)
            with pytest.raises(TransactionAbortableError, match="delivery_timeout_ms=2000"):
                await producer.commit_transaction(20)
            assert ticket.done
            cluster.silence(False)
            await producer.abort_transaction(60)
            for number in range(3):
                async with producer.transaction():
                    await producer.send(TOPIC, b"%d" % number, partition=0)
        assert await committed(cluster) == [b"0", b"1", b"2"]

    on_cluster(test, transaction_version=level)


def test_a_producer_that_asks_again_for_the_epoch_after_an_abort_does_not_fence_itself() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        settings = {"request_timeout_ms": 500, "delivery_timeout_ms": 2_000, "linger_ms": 0}
        async with cluster.producer(transactional_id="tx", **settings) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"written", partition=0)
            await producer.flush()
            cluster.silence()
            await producer.send(TOPIC, b"lost", partition=0)
            with pytest.raises(TransactionAbortableError, match="delivery_timeout_ms=2000"):
                await producer.commit_transaction(20)
            cluster.silence(False)
            lost = cluster.node.faults.on(api="InitProducerId").swallow(handled=True)
            with pytest.raises(KafkaTimeoutError, match="the coordinator of transaction 'tx'"):
                await producer.abort_transaction(0.4)
            assert lost.consumed
            await producer.abort_transaction(60)
            async with producer.transaction():
                await producer.send(TOPIC, b"next", partition=0)
        assert await committed(cluster) == [b"next"]

    on_cluster(test, transaction_version=0)


def ids_asked_for(cluster: VirtualCluster) -> list[tuple[int, int]]:
    """Of every request for a producer id, in order: the id and the epoch that it says its producer has."""
    return [
        (request.producer_id, request.producer_epoch)
        for request in cluster.requests()
        if isinstance(request, InitProducerIdRequest)
    ]


def is_of(request: type) -> Callable[[bytes], bool]:
    """Whether a frame is such a request."""
    key = api_of(request).key
    return lambda frame: int.from_bytes(frame[:2], "big") == key


asks_for_id = is_of(InitProducerIdRequest)


def test_a_request_for_the_next_epoch_that_arrives_again_late_does_not_fence_the_producer() -> None:
    """It says which epoch is to be followed, so that the coordinator knows that it was (KIP-360)."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        settings = {"request_timeout_ms": 500, "delivery_timeout_ms": 2_000, "linger_ms": 0}
        async with cluster.producer(transactional_id="tx", **settings) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"written", partition=0)
            await producer.flush()
            cluster.silence()
            await producer.send(TOPIC, b"lost", partition=0)
            with pytest.raises(TransactionAbortableError):
                await producer.commit_transaction(20)
            cluster.silence(False)
            cluster.network.repeat(HOST, PORT, (1, 1), asks_for_id)
            await producer.abort_transaction(60)
            await asyncio.sleep(2)
            async with producer.transaction():
                await producer.send(TOPIC, b"next", partition=0)
        first, *others = ids_asked_for(cluster)
        assert first == (-1, -1)
        assert others, "the abort asked for no epoch"
        assert (-1, -1) not in others
        assert await committed(cluster) == [b"next"]

    on_cluster(test, transaction_version=0)


@GENERATIONS
def test_a_producers_first_request_fences_it_when_it_arrives_again_late(level: int) -> None:
    """Who has no id yet cannot say that the request is the same; a coordinator sees another producer. So it is in Java.

    It takes a connection that is given up because of silence, with the request in it; then the producer says so.
    """

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        producer = cluster.producer(transactional_id="tx")
        cluster.network.repeat(HOST, PORT, (1, 1), asks_for_id)
        await producer.init_transactions()
        await asyncio.sleep(2)
        # What is written to hears of a new epoch only.
        with pytest.raises((ProducerFencedError, TransactionAbortableError)):
            async with producer.transaction():
                await producer.send(TOPIC, b"mine", partition=0)
        with pytest.raises(ProducerFencedError, match="another producer has taken over"):
            await producer.begin_transaction()
        await producer.close()
        assert await committed(cluster) == []

    on_cluster(test, transaction_version=level)


@GENERATIONS
def test_a_first_request_that_is_not_answered_in_time_comes_before_the_next_one(level: int) -> None:
    """The connection stays for `request_timeout_ms`, whatever the caller's patience: no request overtakes another."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx") as producer:
            slow = cluster.node.faults.on("InitProducerId").delay(5)
            with pytest.raises(KafkaTimeoutError):
                await producer.init_transactions(1)
            assert slow.consumed
            await producer.init_transactions(20)
            await asyncio.sleep(10)
            async with producer.transaction():
                await producer.send(TOPIC, b"mine", partition=0)
        assert ids_asked_for(cluster) == [(-1, -1)] * 2
        assert await committed(cluster) == [b"mine"]

    on_cluster(test, transaction_version=level)


def test_a_producer_without_a_transactional_id_says_what_is_missing() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer() as producer:
            with pytest.raises(UsageError, match="transactional_id"):
                await producer.begin_transaction()

    on_cluster(test)


def test_offsets_of_an_open_transaction_are_not_committed_yet() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        first = TopicPartition(TOPIC, 0)
        async with cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({first: 7}, "g")
            positions = cluster.node.state.groups.coordinator("g").committed_offsets
            assert positions("g", [first], stable=False) == {first: None}
            assert positions("g", [first], stable=True) == {first: ErrorCode.UNSTABLE_OFFSET_COMMIT}
            await producer.commit_transaction()
            await asyncio.sleep(1)  # the marker follows the answer
            found = positions("g", [first], stable=True)[first]
            assert isinstance(found, CommittedOffset) and found.offset == 7

    on_cluster(test)


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize(("api", "level"), [("AddOffsetsToTxn", 0), ("TxnOffsetCommit", 0), ("TxnOffsetCommit", 2)])
def test_commit_and_prepare_raise_while_offsets_are_in_doubt(api: str, handled: bool, level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 2)
        first = TopicPartition(TOPIC, 0)
        async with cluster.producer(transactional_id="tx", request_timeout_ms=1_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"record", partition=0)
            lost = cluster.node.faults.on(api, times=None).swallow(handled=handled)
            with pytest.raises(KafkaTimeoutError):
                await producer.send_offsets_to_transaction({first: 7}, "g", timeout=3)
            assert lost.consumed
            cluster.node.faults.clear()
            for end in (producer.commit_transaction, producer.prepare_transaction):
                in_doubt = f"group 'g' for {TOPIC}-0 are in doubt.*call it again"
                with pytest.raises(TransactionAbortableError, match=in_doubt):
                    await end()
            await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 1): 1}, "g")
            await producer.send_offsets_to_transaction({first: 1}, "another group")
            with pytest.raises(TransactionAbortableError, match=f"group 'g' for {TOPIC}-0 are in doubt"):
                await producer.commit_transaction()
            await producer.send_offsets_to_transaction({first: 8}, "g")
            await producer.commit_transaction()
        assert await committed(cluster) == [b"record"]
        assert await committed_offset(cluster, "g") == 8

    on_cluster(test, transaction_version=level, offsets_topic_num_partitions="1")


@pytest.mark.parametrize("linger_ms", [0, 200])
@pytest.mark.parametrize("end", ["commit_transaction", "prepare_transaction"])
@GENERATIONS
def test_a_transaction_that_is_being_ended_takes_no_record_of_a_callback(level: int, end: str, linger_ms: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        refused: list[BaseException] = []

        async with cluster.producer(transactional_id="tx", linger_ms=linger_ms) as producer:

            def send_another(_: object) -> None:
                try:
                    producer.send_nowait(TOPIC, b"second")
                except UsageError as error:
                    refused.append(error)

            await producer.init_transactions()
            await producer.begin_transaction()
            (await producer.send(TOPIC, b"first")).add_done_callback(send_another)
            prepared = await getattr(producer, end)()
            assert "accepts no more records" in str(refused)
            if prepared is not None:
                async with cluster.admin() as admin:
                    await admin.end_transaction(prepared, commit=True)
                await producer.init_transactions()
            async with producer.transaction():
                await producer.send(TOPIC, b"third")
        assert await committed(cluster) == [b"first", b"third"]

    on_cluster(test, transaction_version=level)


def test_a_commit_that_times_out_leaves_a_transaction_that_takes_no_records_and_can_be_ended() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx", linger_ms=0) as producer:
            await producer.init_transactions()
            for commits in (True, False):
                await producer.begin_transaction()
                held = cluster.node.faults.on("Produce").hold()
                await producer.send(TOPIC, b"record")
                with pytest.raises(KafkaTimeoutError):
                    await producer.commit_transaction(timeout=1)
                with pytest.raises(UsageError, match="accepts no more records"):
                    await producer.send(TOPIC, b"late")
                held.release()
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        assert await committed(cluster) == [b"record"]

    on_cluster(test)


@GENERATIONS
def test_an_abort_ends_the_doubt_about_offsets_and_fences_those_that_arrive_late(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        first = TopicPartition(TOPIC, 0)
        async with cluster.producer(transactional_id="tx", request_timeout_ms=1_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            cluster.node.faults.on("TxnOffsetCommit").swallow()
            cluster.network.repeat(HOST, PORT, (2, 2), is_of(TxnOffsetCommitRequest))
            with pytest.raises(KafkaTimeoutError):
                await producer.send_offsets_to_transaction({first: 7}, "g", timeout=0.5)
            cluster.network.repeat(HOST, PORT, None)
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({first: 3}, "g")
            await asyncio.sleep(3)
            await producer.commit_transaction()
        assert await committed_offset(cluster, "g") == 3

    on_cluster(test, transaction_version=level)


def test_offsets_stay_in_doubt_when_the_call_that_sends_them_is_cancelled() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"record", partition=0)
            slow = cluster.node.faults.on("TxnOffsetCommit").hold()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 7}, "g")
            with pytest.raises(TransactionAbortableError, match="in doubt"):
                await producer.commit_transaction()
            slow.release()
            await producer.abort_transaction()
        assert await committed(cluster) == []

    on_cluster(test)


def test_the_block_form_of_a_transaction_aborts_when_offsets_are_in_doubt() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx", request_timeout_ms=1_000) as producer:
            await producer.init_transactions()
            cluster.node.faults.on("TxnOffsetCommit").swallow()
            with pytest.raises(TransactionAbortableError, match="in doubt"):
                async with producer.transaction():
                    await producer.send(TOPIC, b"aborted", partition=0)
                    with pytest.raises(KafkaTimeoutError):
                        await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 7}, "g", timeout=0.5)
            async with producer.transaction():
                await producer.send(TOPIC, b"kept", partition=0)
        assert await committed(cluster) == [b"kept"]

    on_cluster(test)


def test_the_coordinator_of_a_group_is_looked_up_once_for_all_calls() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            for offset in range(3):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): offset}, "g")
            cluster.node.faults.on("TxnOffsetCommit").answer(ErrorCode.NOT_COORDINATOR)
            async with producer.transaction():
                await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 9}, "g")
        lookups = [each for each in cluster.requests() if isinstance(each, FindCoordinatorRequest)]
        of_group = [each for each in lookups if each.key_type == CoordinatorKind.GROUP]
        assert len(of_group) == 2  # at first, and when it has moved
        assert await committed_offset(cluster, "g") == 9

    on_cluster(test)


def test_only_the_coordinators_of_the_groups_used_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "GROUPS_MAX", 2)

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        async with cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                for group in ("a", "b", "a", "c", "a", "b"):
                    await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 1}, group)
        lookups = [each for each in cluster.requests() if isinstance(each, FindCoordinatorRequest)]
        asked = [each.coordinator_keys for each in lookups if each.key_type == CoordinatorKind.GROUP]
        assert asked == [["a"], ["b"], ["c"], ["b"]]

    on_cluster(test)


@GENERATIONS
def test_prepared_transactions_are_ended_by_another_client(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 2)
        admin = cluster.admin()
        for round_, commit in enumerate((True, False, True)):
            prepared = []
            for worker in range(2):
                async with cluster.producer(transactional_id=f"tx-{worker}") as producer:
                    await producer.init_transactions()
                    await producer.begin_transaction()
                    await producer.send(TOPIC, b"%d-%d" % (round_, worker), partition=worker)
                    prepared.append(await producer.prepare_transaction())
            before = len(await committed(cluster))
            for each in prepared:
                assert each is not None
                await admin.end_transaction(each, commit=commit)
                await admin.end_transaction(each, commit=commit)  # as when the answer was lost
            assert len(await committed(cluster)) == before + 2 * commit
        assert await committed(cluster) == [b"0-0", b"0-1", b"2-0", b"2-1"]

    on_cluster(test, transaction_version=level)


@GENERATIONS
def test_a_prepared_transaction_is_aborted_by_whoever_takes_over_its_id(level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, 1)
        producer = cluster.producer(transactional_id="tx")
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(TOPIC, b"lost", partition=0)
        prepared = await producer.prepare_transaction()
        assert prepared is not None
        with pytest.raises(UsageError, match="handed its transaction over: call init_transactions"):
            await producer.send(TOPIC, b"outside")
        with pytest.raises(UsageError, match="handed its transaction over"):
            await producer.commit_transaction()
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(TOPIC, b"kept", partition=0)
        with pytest.raises(ProducerFencedError, match="the coordinator refuses, because it was open for too long"):
            await cluster.admin().end_transaction(prepared, commit=True)
        assert await committed(cluster) == [b"kept"]

    on_cluster(test, transaction_version=level)


def test_there_is_nothing_to_end_of_a_transaction_without_records() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            assert await producer.prepare_transaction() is None

    on_cluster(test)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_refusal_of_a_coordinator_says_to_abort_or_to_make_a_new_producer(code: ErrorCode) -> None:
    """What may be tried again is tried until the call's time is over, and never comes here."""
    reaction = reaction_to(code)
    if reaction in (Reaction.NONE, Reaction.AGAIN, Reaction.ELSEWHERE):
        assert code == 0 or is_retriable(code)
        return
    producer = AsyncProducer(bootstrap_servers="a:1", transactional_id="tx")
    transactions = producer._core.sender.transactions
    assert transactions is not None
    for change in (Change.INITIALISED, Change.BEGUN):
        transactions.machine.change(change)
    with pytest.raises(KafkaError) as raised:
        transactions._check(code, "commit_transaction")
    said = str(raised.value)
    assert raised.value.__cause__ is not raised.value, "its chain of causes ends"
    assert "'tx'" in said and (code.name in said or code is ErrorCode.SASL_AUTHENTICATION_FAILED)
    if reaction is Reaction.ABORT:
        assert isinstance(raised.value, TransactionAbortableError) and "call abort_transaction()" in said
        transactions.machine.change(Change.ABORTS)
    else:
        assert isinstance(raised.value, ProducerFencedError) == (reaction is Reaction.FENCED)
        assert "make a new" in said
        with pytest.raises((UsageError, ProducerFencedError), match="make a new"):
            transactions.machine.change(Change.ABORTS)


@GENERATIONS
@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("late", ["abort", "commit"])
def test_a_second_call_that_ends_a_transaction_leaves_the_next_one_alone(late: str, turns: int, level: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC)
        async with cluster.producer(transactional_id="tx", linger_ms=0) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"aborted")
            first = asyncio.ensure_future(producer.abort_transaction())
            for _ in range(turns):
                await asyncio.sleep(0)
            end = producer.abort_transaction if late == "abort" else producer.commit_transaction
            second = asyncio.ensure_future(end())
            await first
            await producer.begin_transaction()
            await producer.send(TOPIC, b"next")
            (told,) = await asyncio.gather(second, return_exceptions=True)
            await producer.commit_transaction()
        assert await committed(cluster) == [b"next"]
        if late == "commit":
            assert isinstance(told, UsageError | TransactionAbortableError), told
        else:
            assert told is None or isinstance(told, UsageError), told

    on_cluster(test, transaction_version=level)


def test_a_call_for_a_transaction_waits_for_an_earlier_one_as_long_as_it_may() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC)
        async with cluster.producer(transactional_id="tx", linger_ms=0) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"v")
            await cluster.kill()
            commit = asyncio.ensure_future(producer.commit_transaction(20))
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            with pytest.raises(KafkaTimeoutError, match="abort_transaction: an earlier call"):
                await producer.abort_transaction(2)
            assert asyncio.get_running_loop().time() - began == pytest.approx(2, abs=0.1)
            await cluster.restart()
            await commit
        assert await committed(cluster) == [b"v"]

    on_cluster(test)
