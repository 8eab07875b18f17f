from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator

import pytest

from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.metadata import in_turns
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    RetriableError,
    Stage,
    StaleMetadataError,
    UnknownTopicError,
    UsageError,
)
from kafkaraw.net import AsyncioNetwork
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster
from tests.net.stream_server import stream_server

Play = Callable[[Engine, ScriptedCluster], Awaitable[None]]


def engine_on(simulation: Simulation, servers: str, **settings: object) -> Engine:
    config = parse(AdminConfig, {"bootstrap_servers": servers} | settings)
    return Engine(config, network=simulation.network, clock=simulation.clock, rng=simulation.rng)


def simulate(play: Play, *, nodes: int = 1, servers: str | None = None, seed: int = 1, **settings: object) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, nodes).start()
        engine = engine_on(simulation, servers or cluster.bootstrap_servers, **settings)
        try:
            await play(engine, cluster)
        finally:
            await engine.close()

    run_virtual(main, seed)


# -- finding the cluster


def test_the_first_use_finds_the_cluster_once() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await asyncio.gather(*(engine.start(5) for _ in range(5)))
        assert engine.cluster.cluster_id == "scripted"
        assert cluster.count() == {"ApiVersions": 1, "Metadata": 1}

    simulate(play)


@pytest.mark.parametrize("turns", range(0, 40, 3))
def test_closing_during_the_start_leaves_no_task(turns: int) -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        calls = [asyncio.create_task(engine.start(5)) for _ in range(2)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await engine.close()
        await asyncio.sleep(10)
        for call in calls:
            assert call.done()
            assert call.exception() is None or isinstance(call.exception(), ClosedError)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "metadata keeper"]

    simulate(play)


def test_closing_tells_a_call_that_is_connecting_that_the_client_is_closed() -> None:
    """It must not be told by a CancelledError: the caller would take that for its own cancellation."""

    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        cluster.simulation.network.silence("broker2", 9092)
        call = asyncio.create_task(engine.request(2, MetadataRequest(topics=[]), timeout=5))
        await asyncio.sleep(0.5)
        await engine.close()
        with pytest.raises(ClosedError, match=r"connecting to broker 2 .*the client was closed"):
            await call

    simulate(play, nodes=2, servers="broker1:9092")


def test_a_call_that_is_cancelled_while_it_connects_is_cancelled_though_the_client_is_closed() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        cluster.simulation.network.silence("broker2", 9092)
        call = asyncio.create_task(engine.request(2, MetadataRequest(topics=[]), timeout=5))
        await asyncio.sleep(0.5)
        call.cancel()
        await engine.close()
        with pytest.raises(asyncio.CancelledError):
            await call

    simulate(play, nodes=2, servers="broker1:9092")


def test_the_bootstrap_connection_is_kept_as_the_brokers_own() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.request(1, MetadataRequest(topics=[]), timeout=5)
        assert len({asked.client_port for asked in cluster.seen}) == 1

    simulate(play)


def test_every_server_is_tried_until_one_answers() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(30)
        assert engine.cluster.cluster_id == "scripted"

    simulate(play, servers="nowhere:1,broker1:1,broker1:9092")


def test_a_silent_server_does_not_hold_up_the_next_for_long() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.simulation.network.silence("broker1", 9092)
        await engine.start(30)
        assert cluster.simulation.loop.time() < 2

    simulate(play, nodes=2)


def test_when_no_server_answers_each_is_named_with_stage_and_cause() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.simulation.network.silence("broker1", 9092)
        with pytest.raises(NetworkError) as caught:
            await engine.start(60)
        text = str(caught.value)
        assert "nowhere:1 [resolve]: cannot resolve" in text
        assert "broker1:2 [connect]: cannot connect to broker1:2: Connection refused" in text
        assert "broker1:9092 [connect]: cannot connect to broker1:9092: no answer in time" in text
        assert "No brokers available" not in text
        assert cluster.simulation.loop.time() < 15

    simulate(play, servers="nowhere:1,broker1:2,broker1:9092")


def test_the_error_of_a_lone_server_is_its_own() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        with pytest.raises(NetworkError) as caught:
            await engine.start(60)
        assert caught.value.stage is Stage.RESOLVE
        assert "nowhere:1" in str(caught.value)

    simulate(play, servers="nowhere:1")


def test_a_timeout_while_searching_names_the_server() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.simulation.network.silence("broker1", 9092)
        with pytest.raises(KafkaTimeoutError, match="broker1:9092"):
            await engine.start(0.5)
        assert cluster.simulation.loop.time() == pytest.approx(0.5)

    simulate(play)


def test_a_server_that_failed_can_be_tried_again() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.simulation.network.silence("broker1", 9092)
        with pytest.raises(KafkaError):
            await engine.start(1)
        cluster.simulation.network.silence("broker1", 9092, silent=False)
        await engine.start(5)
        assert engine.cluster.brokers.keys() == {1}

    simulate(play)


def test_with_bootstrap_timeout_an_unreachable_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        loop = cluster.simulation.loop
        cluster.simulation.network.silence("broker1", 9092)
        loop.call_later(40, lambda: cluster.simulation.network.silence("broker1", 9092, silent=False))
        await engine.start(60)
        assert 40 <= loop.time() < 55

    simulate(play, servers="broker1:2,broker1:9092", bootstrap_timeout_ms=50_000)
    assert len(caplog.records) == 1
    assert "no broker yet, trying for" in caplog.text
    assert "broker1:2 [connect]: cannot connect to broker1:2: Connection refused" in caplog.text


def test_waiting_for_the_first_server_ends_with_its_time_or_that_of_the_call() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        loop = cluster.simulation.loop
        with pytest.raises(NetworkError, match="Connection refused"):
            await engine.start(2)
        assert loop.time() == pytest.approx(2, abs=1)
        with pytest.raises(NetworkError, match="Connection refused"):
            await engine.start(60)
        assert loop.time() == pytest.approx(12, abs=2)

    simulate(play, servers="broker1:2", bootstrap_timeout_ms=10_000)


def test_a_broker_that_cannot_be_reached_under_its_advertised_name_says_so() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.nodes = [7]
        with pytest.raises(NetworkError) as caught:
            await engine.request(7, MetadataRequest(topics=[]), timeout=5)
        assert "broker 7" in str(caught.value)
        assert "advertised.listeners" in str(caught.value)

    simulate(play)


def test_an_engine_that_is_closed_while_it_starts_leaves_no_task_behind() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, 1).start()
        for turns in range(40):
            before = asyncio.all_tasks()
            engine = engine_on(simulation, cluster.bootstrap_servers)
            starting = asyncio.create_task(engine.start(5))
            await asyncio.sleep(turns * 0.0002)
            was_started = starting.done()
            await engine.close()
            (outcome,) = await asyncio.gather(starting, return_exceptions=True)
            assert (outcome is None) if was_started else isinstance(outcome, KafkaError)
            await asyncio.sleep(1)  # the cluster's own tasks end, too
            assert asyncio.all_tasks() <= before

    run_virtual(main, 1)


def test_a_closed_engine_refuses_and_says_so() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        await engine.close()
        await engine.close()
        with pytest.raises(ClosedError):
            await engine.refresh(["t"])

    simulate(play)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        with pytest.raises(UsageError, match="timeout"):
            await engine.refresh([], timeout=timeout)

    simulate(play)


# -- requests and lanes


def test_versions_are_negotiated_with_each_broker() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.versions = {3: (0, 7)}
        await engine.request(1, MetadataRequest(topics=[]), timeout=5)
        assert {asked.version for asked in cluster.asked(MetadataRequest)} == {7}

    simulate(play)


def test_metadata_is_requested_from_brokers_without_allow_auto_topic_creation() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.versions = {3: (0, 2)}
        cluster.create("t")
        await engine.wait_for_topics(["t"], 5)
        assert engine.cluster.leader_of(TopicPartition("t", 0)) == 1

    simulate(play)


def test_leader_epochs_of_old_brokers_are_not_trusted() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.versions = {3: (0, 8)}
        cluster.create("t")
        await engine.wait_for_topics(["t"], 5)
        assert engine.cluster.leader_epoch_of(TopicPartition("t", 0)) == -1

    simulate(play)


def test_a_client_stays_on_its_event_loop() -> None:
    engines: list[Engine] = []

    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        engines.append(engine)

    async def elsewhere() -> None:
        engines[0]._closed = False
        with pytest.raises(UsageError, match="another event loop"):
            await engines[0].start(5)

    simulate(play)
    asyncio.run(elsewhere())


def test_a_long_poll_does_not_hold_up_requests_on_the_main_lane() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t")
        await engine.wait_for_topics(["t"], 5)
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
        fetch = FetchRequest(
            max_wait_ms=5_000,
            min_bytes=1,
            topics=[FetchTopic(topic="t", topic_id=engine.cluster.topic_id_of("t"), partitions=[part])],
        )
        poll = asyncio.create_task(engine.request(1, fetch, timeout=30, lane="fetch"))
        await asyncio.sleep(1)
        began = cluster.simulation.loop.time()
        await engine.request(1, MetadataRequest(topics=[]), timeout=5)
        assert cluster.simulation.loop.time() - began < 0.1
        assert not poll.done()
        await poll

    simulate(play)


def test_a_broker_that_is_not_in_the_metadata_is_an_error() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        with pytest.raises(StaleMetadataError, match=r"broker 9 .*has 1, 2"):
            await engine.request(9, MetadataRequest(topics=[]), timeout=5)

    simulate(play, nodes=2)


def test_a_request_without_answer_ends_at_its_timeout() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        cluster.hold = lambda message: asyncio.Event()
        began = cluster.simulation.loop.time()
        with pytest.raises(KafkaTimeoutError):
            await engine.request(1, MetadataRequest(topics=[]), timeout=2)
        assert cluster.simulation.loop.time() - began == pytest.approx(2, abs=0.1)

    simulate(play)


def test_a_lost_connection_is_opened_anew_by_the_next_request() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        cluster.simulation.network.cut("broker1", 9092)
        await asyncio.sleep(0.1)
        await engine.request(1, MetadataRequest(topics=[]), timeout=5)
        assert len(cluster.asked(ApiVersionsRequest)) == 2

    simulate(play)


def test_any_broker_will_do_when_one_is_gone() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(5)
        reached = next(asked.node_id for asked in cluster.seen)
        cluster.simulation.network.cut(f"broker{reached}", 9092)
        cluster.simulation.network.silence(f"broker{reached}", 9092)
        answer = await engine.request_any(MetadataRequest(topics=[]), timeout=60)
        assert isinstance(answer, MetadataResponse)
        assert cluster.seen[-1].node_id == 3 - reached

    simulate(play, nodes=2, socket_connection_setup_timeout_ms=1_000)


def test_when_every_known_broker_is_gone_the_bootstrap_servers_are_tried_again() -> None:
    """KIP-899: clients start again from the bootstrap servers."""

    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.nodes = [7]  # the cluster as it was: all of it is gone now
        await engine.start(5)
        cluster.nodes = [1]
        answer = await engine.request_any(MetadataRequest(topics=[]), timeout=30)
        assert isinstance(answer, MetadataResponse)
        assert engine.cluster.brokers.keys() == {1}

    simulate(play)


def test_controller_requests_go_to_the_controller() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.controller_id = 2
        await engine.request_controller(MetadataRequest(topics=[]), timeout=5)
        assert cluster.seen[-1].node_id == 2

    simulate(play, nodes=2)


# -- metadata


def test_refreshes_at_the_same_time_share_one_request() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        for name in ("a", "b", "c"):
            cluster.create(name)
        await engine.start(5)
        before = len(cluster.asked(MetadataRequest))
        await asyncio.gather(*(engine.refresh([name]) for name in "abcabc" for _ in range(50)))
        asked = cluster.asked(MetadataRequest)[before:]
        assert len(asked) <= 2
        assert set(engine.cluster.topics) == {"a", "b", "c"}

    simulate(play)


def test_only_one_metadata_request_is_in_flight() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t")
        await engine.start(5)
        gate = asyncio.Event()
        cluster.hold = lambda message: gate if isinstance(message, MetadataRequest) else None
        before = len(cluster.asked(MetadataRequest))
        calls = [asyncio.create_task(engine.refresh(["t"]))]
        for _ in range(10):
            await asyncio.sleep(0.05)
            calls.append(asyncio.create_task(engine.refresh(["t"])))
        assert len(cluster.asked(MetadataRequest)) - before == 1
        gate.set()
        await asyncio.gather(*calls)
        assert len(cluster.asked(MetadataRequest)) - before == 2

    simulate(play)


def test_a_refresh_cancelled_by_one_caller_continues_for_the_others() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t")
        await engine.start(5)
        gate = asyncio.Event()
        cluster.hold = lambda message: gate if isinstance(message, MetadataRequest) else None
        patient = asyncio.create_task(engine.refresh(["t"], timeout=20))
        with pytest.raises(KafkaTimeoutError):
            await engine.refresh(["t"], timeout=1)
        gate.set()
        await patient
        assert engine.cluster.leader_of(TopicPartition("t", 0)) == 1

    simulate(play)


def test_the_view_is_renewed_when_it_gets_old() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t", 1)
        await engine.wait_for_topics(["t"], 5)
        cluster.move("t", 0, 2)
        await asyncio.sleep(400)
        assert engine.cluster.leader_of(TopicPartition("t", 0)) == 2

    simulate(play, nodes=2)


def test_refresh_of_thousands_of_partitions_decodes_only_the_topic_that_has_changed() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        for name in ("still", "moving"):
            cluster.create(name, *[1] * 1500)
        await engine.wait_for_topics(["still", "moving"], 5)
        before = dict(engine.cluster.topics)
        cluster.move("moving", 1499, 2)
        await engine.refresh(())
        assert engine.cluster.topics["still"] is before["still"]
        assert engine.cluster.leader_of(TopicPartition("moving", 1499)) == 2
        assert engine.cluster.encoded.keys() == before.keys()

    simulate(play, nodes=2)


def test_metadata_is_decoded_in_turns_with_other_tasks() -> None:
    def steps() -> Generator[None, None, str]:
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            yield
        return "done"

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> str:
        task = asyncio.create_task(count_turns())
        found = await in_turns(steps())
        task.cancel()
        return found

    turns = 0
    assert asyncio.run(main()) == "done"
    assert turns >= 3


def test_a_refresh_of_a_topic_leaves_out_the_others_if_many_are_in_use() -> None:
    """Those are renewed when they get old, though refreshes of single topics came in between."""

    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        names = [f"t{number}" for number in range(200)]
        for name in names:
            cluster.create(name)
        engine.use_topics(names)
        await engine.wait_for_topics(names, 5)
        for name in names[:40]:
            cluster.move(name, 0, 2)
        for name in names[:20]:
            await engine.refresh([name])
            await asyncio.sleep(10)
        asked = [len(each.message.topics or ()) for each in cluster.asked(MetadataRequest)]
        assert asked[-20:] == [1] * 20
        leaders = [engine.cluster.leader_of(TopicPartition(name, 0)) for name in names]
        assert leaders == [2] * 20 + [1] * 180
        await asyncio.sleep(110)
        assert engine.cluster.leader_of(TopicPartition("t39", 0)) == 2

    simulate(play, nodes=2)


def test_an_unknown_topic_is_an_error_within_seconds_and_named() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        began = cluster.simulation.loop.time()
        with pytest.raises(UnknownTopicError, match="'fligths' does not exist") as caught:
            await engine.wait_for_topics(["fligths"], 60)
        assert not isinstance(caught.value, RetriableError)
        assert cluster.simulation.loop.time() - began < 5

    simulate(play)


def test_a_topic_that_the_broker_creates_is_waited_for() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.auto_create = True
        await engine.wait_for_topics(["new"], 60)
        assert engine.cluster.leader_of(TopicPartition("new", 0)) == 1

    simulate(play)


def test_a_topic_is_not_created_against_the_callers_will() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.auto_create = True
        with pytest.raises(UnknownTopicError):
            await engine.wait_for_topics(["new"], 60)
        assert "new" not in cluster.topics

    simulate(play, allow_auto_create_topics=False)


def test_a_leader_election_is_waited_for() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t")
        cluster.fail("Metadata", "t", *[ErrorCode.LEADER_NOT_AVAILABLE] * 3)
        await engine.wait_for_topics(["t"], 60)
        assert engine.cluster.leader_of(TopicPartition("t", 0)) == 1

    simulate(play)


def test_a_topic_that_stays_without_leader_is_a_timeout_that_names_it() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t", -1)
        with pytest.raises(KafkaTimeoutError, match=r"'t' .no leader.*10 s"):
            await engine.wait_for_topics(["t"], 10)
        assert cluster.simulation.loop.time() < 12

    simulate(play)


def test_a_topic_that_may_not_be_seen_is_an_error_at_once() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.fail("Metadata", "t", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await engine.wait_for_topics(["t"], 60)
        assert cluster.simulation.loop.time() < 1

    simulate(play)


def test_metadata_are_renewed_on_schedule_without_being_asked_for() -> None:
    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        cluster.create("t", 1)
        await engine.wait_for_topics(["t"], 10)
        asked = len(cluster.asked(MetadataRequest))
        cluster.move("t", 0, 2)
        await asyncio.sleep(63)
        assert engine.cluster.leader_of(TopicPartition("t", 0)) == 2
        await asyncio.sleep(240)
        assert len(cluster.asked(MetadataRequest)) in (asked + 4, asked + 5)

    simulate(play, nodes=2, metadata_max_age_ms=60_000)


def test_a_cluster_that_asks_for_a_new_start_gets_one_from_the_bootstrap_servers() -> None:
    """KIP-1102: error REBOOTSTRAP_REQUIRED."""

    async def play(engine: Engine, cluster: ScriptedCluster) -> None:
        await engine.start(10)
        cluster.create("t", 1)
        cluster.fail("Metadata", None, ErrorCode.REBOOTSTRAP_REQUIRED)
        before = len(cluster.asked(MetadataRequest))
        await engine.refresh(["t"])
        assert engine.cluster.leader_of(TopicPartition("t", 0)) == 1
        topics = [[t.name for t in asked.message.topics] for asked in cluster.asked(MetadataRequest)[before:]]
        assert topics == [["t"], [], ["t"]]

    simulate(play)


# -- real sockets: what else may answer


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()
    writer.close()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"\x00\x00\x00\x10" + b"x" * 16)
    await writer.drain()
    writer.close()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("server", "kind", "says"),
    [(http, ProtocolError, "HTTP"), (garbage, ProtocolError, "out of step"), (silence, NetworkError, "did not answer")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_broker_is_named_quickly(server: object, kind: type[KafkaError], says: str) -> None:
    async def main() -> None:
        async with stream_server(server) as port:
            address = f"127.0.0.1:{port}"
            settings = {"bootstrap_servers": address, "socket_connection_setup_timeout_ms": 300}
            settings |= {"bootstrap_timeout_ms": 20_000}  # waiting would not mend it
            engine = Engine(parse(AdminConfig, settings), network=AsyncioNetwork())
            with pytest.raises(kind, match=says) as caught:
                async with asyncio.timeout(10):
                    await engine.start(20)
            assert address in str(caught.value)
            await engine.close()

    asyncio.run(main())
