"""The plan of faults: which requests go wrong, how, how often, and that the test is told."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkaraw.broker import BrokerConfig, BrokerNode, EmbeddedBroker, Faults
from kafkaraw.broker.faults import Incoming
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, ProtocolError, UsageError
from kafkaraw.protocol import RequestHeader
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import batch
from tests.interrupting import interrupted_elsewhere

HOST, PORT = "127.0.0.1", 9092
LATEST = -1
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Case:
    """A node with the topics `a` and `b`, and connections to it."""

    def __init__(self, simulation: Simulation, node: BrokerNode) -> None:
        self.simulation, self.node, self.faults = simulation, node, node.faults

    async def connect(self, client_id: str = "test") -> Connection:
        return await Connection.open(self.simulation.network, HOST, PORT, client_id=client_id, connect_timeout=5)

    async def end_of(self, connection: Connection, topic: str = "a") -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
            ],
        )
        answer: Any = await connection.request(request, timeout=5)
        return answer.topics[0].partitions[0].offset


def simulate(body: Callable[[Case], Awaitable[None]], **node_settings: Any) -> None:
    async def main(simulation: Simulation) -> None:
        node = BrokerNode(
            BrokerConfig.parse({"listeners": f"PLAINTEXT://{HOST}:{PORT}", "num.partitions": 2}),
            network=simulation.network,
            storage=MemoryStorage(),
            clock=simulation.clock,
            rng=random.Random(1),
            **node_settings,
        )
        async with node:
            case = Case(simulation, node)
            connection = await case.connect()
            topics = [
                CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
                for name in "ab"
            ]
            await connection.request(CreateTopicsRequest(topics=topics), timeout=5)
            await connection.close()
            await body(case)

    run_virtual(main, 1)


def produce(*places: tuple[str, int], acks: int = -1) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=batch(b"x")))
    data = [TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=data)


def codes(answer: Any) -> dict[tuple[str, int], int]:
    return {(t.name, p.index): p.error_code for t in answer.responses for p in t.partition_responses}


async def ask(connection: Connection, request: Any, version: int | None = None) -> Any:
    return await connection.request(request, version=version, timeout=5)


def test_one_partition_is_answered_with_a_code_and_the_others_are_handled():
    async def body(case: Case) -> None:
        fault = case.faults.on("Produce", topic="a", partition=1).answer(NOT_LEADER)
        connection = await case.connect()
        answer = await ask(connection, produce(("a", 0), ("a", 1), ("b", 1)), 9)
        assert codes(answer) == {("a", 0): 0, ("a", 1): NOT_LEADER, ("b", 1): 0}
        assert await case.end_of(connection) == 1
        assert fault.consumed
        assert codes(await ask(connection, produce(("a", 1)), 9)) == {("a", 1): 0}

    simulate(body)


def test_faults_come_in_the_order_in_which_they_were_set():
    async def body(case: Case) -> None:
        for code in (NOT_LEADER, ErrorCode.REQUEST_TIMED_OUT):
            case.faults.on("Produce").answer(code)
        connection = await case.connect()
        seen = [codes(await ask(connection, produce(("a", 0)), 9))["a", 0] for _ in range(3)]
        assert seen == [NOT_LEADER, ErrorCode.REQUEST_TIMED_OUT, 0]
        case.faults.assert_all_consumed()

    simulate(body)


def test_the_nth_request_is_counted_among_those_that_match():
    async def body(case: Case) -> None:
        case.faults.on("Produce", topic="a", nth=2, times=2).answer(NOT_LEADER)
        connection = await case.connect()
        topics = "abaaba"
        seen = [codes(await ask(connection, produce((topic, 0)), 9))[topic, 0] for topic in topics]
        assert seen == [0, 0, NOT_LEADER, NOT_LEADER, 0, 0]

    simulate(body)


def test_without_a_limit_it_happens_until_cleared():
    async def body(case: Case) -> None:
        fault = case.faults.on("Produce", times=None).answer(NOT_LEADER)
        connection = await case.connect()
        for _ in range(3):
            assert codes(await ask(connection, produce(("a", 0)), 9)) == {("a", 0): NOT_LEADER}
        case.faults.clear()
        assert codes(await ask(connection, produce(("a", 0)), 9)) == {("a", 0): 0}
        assert fault.hits == 3

    simulate(body)


@pytest.mark.parametrize(
    ("match", "hit"), [({"client_id": "other"}, False), ({"version": 9}, True), ({"node": 7}, False)]
)
def test_a_request_that_is_not_meant_is_let_through(match, hit):
    async def body(case: Case) -> None:
        fault = case.faults.on("Produce", **match).answer(NOT_LEADER)
        answer = await ask(await case.connect(), produce(("a", 0)), 9)
        assert codes(answer) == {("a", 0): NOT_LEADER if hit else 0}
        assert fault.consumed == hit
        if not hit:
            with pytest.raises(AssertionError, match="answer NOT_LEADER_OR_FOLLOWER on api=Produce"):
                case.faults.assert_all_consumed()

    simulate(body)


def test_a_topic_is_known_by_its_id_too():
    async def body(case: Case) -> None:
        connection = await case.connect()
        metadata = await ask(connection, MetadataRequest(topics=[MetadataRequestTopic(name="a")]))
        case.faults.on("Fetch", topic="a").answer(NOT_LEADER)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic_id=metadata.topics[0].topic_id, partitions=[partition])]
        answer = await ask(connection, FetchRequest(max_wait_ms=3000, min_bytes=1, topics=topics))
        assert answer.responses[0].partitions[0].error_code == NOT_LEADER

    simulate(body)


def test_metadata_with_an_error_still_names_the_brokers():
    async def body(case: Case) -> None:
        case.faults.on("Metadata", topic="a").answer(ErrorCode.LEADER_NOT_AVAILABLE)
        topics = [MetadataRequestTopic(name=name) for name in "ab"]
        answer = await ask(await case.connect(), MetadataRequest(topics=topics))
        assert {topic.name: topic.error_code for topic in answer.topics} == {"a": 5, "b": 0}
        assert [broker.port for broker in answer.brokers] == [PORT]

    simulate(body)


def test_produce_without_acknowledgement_is_refused_by_closing():
    async def body(case: Case) -> None:
        fault = case.faults.on("Produce").answer(NOT_LEADER)
        connection = await case.connect()
        connection.submit(produce(("a", 0), acks=0), lambda outcome: None, version=9, timeout=9.0, oneway=True)
        with pytest.raises(KafkaError):
            await case.end_of(connection)
        assert fault.consumed
        assert await case.end_of(await case.connect()) == 0

    simulate(body)


def test_a_delay_is_on_the_loops_time_and_keeps_the_order():
    async def body(case: Case) -> None:
        case.faults.on("Produce").delay(3)
        connection, loop = await case.connect(), case.simulation.loop
        began = loop.time()
        first = asyncio.create_task(ask(connection, produce(("a", 0)), 9))
        second = asyncio.create_task(case.end_of(connection))
        assert await second == 1
        assert first.done()
        assert 3 < loop.time() - began < 3.1

    simulate(body)


@pytest.mark.parametrize(("handled", "end"), [(False, 0), (True, 1)])
def test_closing_loses_the_answer_and_by_choice_the_request(handled, end):
    async def body(case: Case) -> None:
        case.faults.on("Produce").close(handled=handled)
        with pytest.raises(NetworkError):
            await ask(await case.connect(), produce(("a", 0)), 9)
        assert await case.end_of(await case.connect()) == end

    simulate(body)


@pytest.mark.parametrize(("handled", "end"), [(False, 0), (True, 1)])
def test_swallowing_leaves_the_connection_without_answers(handled, end):
    async def body(case: Case) -> None:
        case.faults.on("Produce").swallow(handled=handled)
        with pytest.raises(KafkaTimeoutError):
            await ask(await case.connect(), produce(("a", 0)), 9)
        assert await case.end_of(await case.connect()) == end

    simulate(body)


@pytest.mark.parametrize("at", [0, 3, 4, 7, 11])
def test_a_cut_answer_ends_the_connection(at):
    async def body(case: Case) -> None:
        fault = case.faults.on("Produce").cut(at=at)
        with pytest.raises(NetworkError):
            await ask(await case.connect(), produce(("a", 0)), 9)
        assert fault.consumed
        assert await case.end_of(await case.connect()) == 1

    simulate(body)


def test_a_corrupt_answer_differs_and_the_same_seed_damages_the_same():
    def damaged(seed: int) -> Any:
        told: list[Any] = []

        async def body(case: Case) -> None:
            case.faults.on("Metadata").corrupt(seed=seed)
            try:
                told.append(await ask(await case.connect(), MetadataRequest(topics=[])))
            except ProtocolError as error:
                told.append(str(error))

        simulate(body)
        return told[0]

    assert damaged(1) == damaged(1)
    assert len({repr(damaged(seed)) for seed in range(4)}) > 1


def test_what_is_held_goes_on_when_released_and_nothing_is_held_after_that():
    async def body(case: Case) -> None:
        held = case.faults.on("Produce", times=None).hold()
        connection = await case.connect()
        asked = asyncio.create_task(ask(connection, produce(("a", 0)), 9))
        await held.until_consumed(5)
        await asyncio.sleep(1)
        assert not asked.done()
        assert await case.end_of(await case.connect()) == 0
        held.release()
        assert codes(await asked) == {("a", 0): 0}
        assert codes(await ask(connection, produce(("a", 0)), 9)) == {("a", 0): 0}

    simulate(body)


def test_clearing_releases_what_is_held():
    async def body(case: Case) -> None:
        held = case.faults.on("Produce").hold()
        asked = asyncio.create_task(ask(await case.connect(), produce(("a", 0)), 9))
        await held.until_consumed(5)
        case.faults.clear()
        assert codes(await asked) == {("a", 0): 0}

    simulate(body)


def test_waiting_for_what_does_not_happen_ends_with_what_was_seen():
    async def body(case: Case) -> None:
        fault = case.faults.on("Fetch").close()
        with pytest.raises(KafkaTimeoutError, match="close on api=Fetch"):
            await fault.until_consumed(1)

    simulate(body)


def test_what_makes_no_sense_is_refused_at_once():
    faults = Faults()
    with pytest.raises(UsageError, match="Prodcue"):
        faults.on("Prodcue")
    with pytest.raises(UsageError, match="count from 1"):
        faults.on("Produce", nth=0)


def test_a_broker_in_another_process_says_that_faults_cannot_reach_it():
    with pytest.raises(UsageError, match="process=True"):
        _ = EmbeddedBroker(process=True).faults


def test_ctrl_c_ends_the_wait_for_a_fault():
    fault = Faults().on("Produce").answer(NOT_LEADER)
    with interrupted_elsewhere():
        fault.wait_until_consumed(600)


def incoming(handle: Callable[[object], object]) -> Incoming:
    api = API_BY_NAME["Metadata"]
    return Incoming(api, RequestHeader(api.key, 9, 1, "test"), 0, MetadataRequest(topics=[]), lambda _: None, handle)


def test_a_fault_whose_handler_raises_is_consumed():
    def broken(request: object) -> object:
        raise OSError("disk full")

    faults = Faults()
    fault = faults.on("Metadata").close(handled=True)
    with pytest.raises(OSError, match="disk full"):
        faults.answer(incoming(broken))
    assert (fault.hits, fault.consumed) == (1, True)
    faults.assert_all_consumed()


def test_a_fault_is_consumed_when_its_last_action_ends_and_not_when_that_begins():
    faults = Faults()
    fault = faults.on("Metadata", times=2).close(handled=True)
    begun, go_on = threading.Event(), threading.Event()

    def slow(request: object) -> object:
        begun.set()
        assert go_on.wait(10)
        return None

    other_loop = threading.Thread(target=faults.answer, args=(incoming(slow),))
    other_loop.start()
    assert begun.wait(10)
    faults.answer(incoming(lambda request: None))
    assert (fault.hits, fault.consumed) == (2, False)
    go_on.set()
    fault.wait_until_consumed(10)
    other_loop.join()
