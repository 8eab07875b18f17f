from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    KafkaTimeoutError,
    NetworkError,
    StaleMetadataError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreateTopicsRequest
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster, runtime_of
from tests.client.virtual_cluster import VirtualCluster, on_cluster

Play = Callable[[AsyncAdmin, ScriptedCluster], Awaitable[None]]


def simulate(play: Play, *, nodes: int = 2, **settings: object) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, nodes).start()
        servers = cluster.bootstrap_servers
        async with AsyncAdmin(runtime=runtime_of(simulation), bootstrap_servers=servers, **settings) as admin:
            await play(admin, cluster)

    run_virtual(main, 1)


def test_topics_are_created_by_the_controller_in_one_request() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.controller_id = 2
        created = await admin.create_topics([NewTopic("a", 3, 2, {"cleanup.policy": "compact"}), "b"])
        assert list(created) == ["a", "b"]
        (asked,) = cluster.asked(CreateTopicsRequest)
        assert asked.node_id == 2
        first, second = asked.message.topics
        assert (first.num_partitions, first.replication_factor) == (3, 2)
        assert [(config.name, config.value) for config in first.configs] == [("cleanup.policy", "compact")]
        assert (second.num_partitions, second.replication_factor) == (-1, -1)

    simulate(play)


def test_replicas_can_be_placed_by_hand() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        await admin.create_topics([NewTopic("a", assignments={0: [1, 2], 1: [2, 1]})])
        (asked,) = cluster.asked(CreateTopicsRequest)
        (topic,) = asked.message.topics
        assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
        assert [(a.partition_index, a.broker_ids) for a in topic.assignments] == [(0, [1, 2]), (1, [2, 1])]

    simulate(play)


def test_a_controller_that_moved_is_found() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        await admin.list_topics()
        cluster.controller_id = 2
        await admin.create_topics(["a"])
        assert [asked.node_id for asked in cluster.asked(CreateTopicsRequest)] == [1, 2]

    simulate(play)


def test_validating_creates_nothing() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        assert list(await admin.create_topics(["a"], validate_only=True)) == ["a"]
        assert cluster.topics == {}

    simulate(play)


def test_a_topic_that_exists_is_an_error_and_the_others_are_created() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        await admin.create_topics(["a"])
        with pytest.raises(BrokerError, match="'a'") as caught:
            await admin.create_topics(["a", "b"])
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert set(cluster.topics) == {"a", "b"}

    simulate(play)


def test_when_several_fail_each_is_named() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.fail("CreateTopics", "a", ErrorCode.INVALID_PARTITIONS)
        cluster.fail("CreateTopics", "b", ErrorCode.INVALID_CONFIG)
        with pytest.raises(BrokerError, match=r"INVALID_PARTITIONS.*'a'.*INVALID_CONFIG.*'b'"):
            await admin.create_topics(["a", "b"])

    simulate(play)


def test_only_what_may_succeed_is_tried_again() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.fail("CreateTopics", "a", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        await admin.create_topics(["a", "b"])
        assert [[t.name for t in asked.message.topics] for asked in cluster.asked(CreateTopicsRequest)] == [
            ["a", "b"],
            ["a"],
        ]

    simulate(play)


@pytest.mark.parametrize("version", [1, 5, 6])
def test_topics_are_deleted_in_every_version(version: int) -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.versions = {20: (1, version)}
        cluster.create("a")
        cluster.create("b")
        await admin.delete_topics(["a", "b"])
        assert cluster.topics == {}
        assert {asked.version for asked in cluster.asked(DeleteTopicsRequest)} == {version}

    simulate(play)


def test_a_topic_is_deleted_by_its_id_and_a_newer_one_of_the_name_is_not() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("a")
        async with cluster.admin() as admin:
            (first,) = await admin.list_topics()
            await admin.delete_topics([first.topic_id])
            assert await admin.list_topics() == []
            await admin.create_topics(["a"])
            with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_ID.*{first.topic_id}"):
                await admin.delete_topics([first.topic_id, "a"])
            assert await admin.list_topics() == []

    on_cluster(life)


def test_a_broker_without_topic_ids_is_recognised() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("a")
        topic_id = cluster.node.state.catalog.topics()[0].topic_id
        async with cluster.admin() as admin:
            with pytest.raises(UnsupportedVersionError, match="by id"):
                await admin.delete_topics([topic_id])

    on_cluster(life, max_versions="2.4")


def test_deleting_what_does_not_exist_is_an_error_at_once() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        with pytest.raises(BrokerError, match="'nope'") as caught:
            await admin.delete_topics(["nope"])
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster.simulation.loop.time() < 1

    simulate(play)


def test_a_name_instead_of_a_list_is_refused() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        with pytest.raises(UsageError, match="list of names"):
            await admin.delete_topics("flights")
        with pytest.raises(UsageError, match="not a NewTopic"):
            await admin.create_topics([3])
        assert cluster.asked(DeleteTopicsRequest) == []

    simulate(play)


def test_topics_are_listed_and_described() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.create("b", 1, 2)
        cluster.create("a", 2)
        assert [(topic.name, topic.partitions) for topic in await admin.list_topics()] == [("a", 1), ("b", 2)]
        described = await admin.describe_topics(["b"])
        assert [(part.partition, part.leader_id) for part in described["b"].partitions] == [(0, 1), (1, 2)]
        assert described["b"].topic_id == cluster.topics["b"].topic_id

    simulate(play)


def test_a_deleted_topic_is_no_longer_listed() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.create("a")
        await admin.list_topics()
        await admin.delete_topics(["a"])
        assert await admin.list_topics() == []

    simulate(play)


def test_describing_what_does_not_exist_is_an_error_at_once() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.create("a")
        with pytest.raises(BrokerError, match="'nope'"):
            await admin.describe_topics(["a", "nope"])
        assert cluster.simulation.loop.time() < 1

    simulate(play)


def test_a_lost_connection_is_tried_again() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        await admin.list_topics()
        gate = asyncio.Event()
        cluster.hold = lambda message: gate if isinstance(message, CreateTopicsRequest) else None

        def lose() -> None:
            cluster.simulation.network.cut("broker1", 9092)
            gate.set()

        cluster.simulation.loop.call_later(1, lose)
        await admin.create_topics(["a"])
        assert set(cluster.topics) == {"a"}

    simulate(play, nodes=1)


def test_a_broker_that_never_answers_is_a_timeout() -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        await admin.list_topics()
        cluster.hold = lambda message: asyncio.Event()
        began = cluster.simulation.loop.time()
        with pytest.raises(KafkaTimeoutError):
            await admin.create_topics(["a"], timeout=4)
        assert cluster.simulation.loop.time() - began == pytest.approx(4, abs=0.2)

    simulate(play)


def test_no_server_is_an_error_at_once_and_a_closed_admin_refuses() -> None:
    async def main(simulation: Simulation) -> None:
        admin = AsyncAdmin(runtime=runtime_of(simulation), bootstrap_servers="nowhere:9092")
        with pytest.raises(NetworkError, match="cannot resolve 'nowhere'"):
            await admin.create_topics(["a"])
        assert simulation.loop.time() < 1
        await admin.close()
        with pytest.raises(ClosedError):
            await admin.list_topics()

    run_virtual(main, 1)


def test_one_name_instead_of_a_list_creates_no_topics() -> None:
    """Each letter would be the name of a topic."""

    async def main() -> None:
        async with AsyncAdmin(bootstrap_servers="localhost:1") as admin:
            with pytest.raises(UsageError, match=r"create_topics\(\['abc'\]\)"):
                await admin.create_topics("abc")

    asyncio.run(main())


@pytest.mark.parametrize("times", [1, 1_000])
def test_a_topic_that_an_answer_leaves_out_is_asked_for_again_and_named(times: int) -> None:
    async def play(admin: AsyncAdmin, cluster: ScriptedCluster) -> None:
        cluster.create("a", 1)
        cluster.create("b", 1)
        cluster.left_out["b"] = times
        if times == 1:
            assert (await admin.describe_topics(["a", "b"])).keys() == {"a", "b"}
            return
        with pytest.raises(StaleMetadataError, match="describe topic 'b': the broker's answer leaves it out"):
            await admin.describe_topics(["a", "b"], timeout=5)

    simulate(play)
