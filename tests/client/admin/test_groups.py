"""Groups and their positions, seen and changed by an administrator; each against our broker on virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from kafkaraw import (
    AclOperation,
    AsyncConsumer,
    BrokerError,
    GroupState,
    GroupType,
    KafkaTimeoutError,
    OffsetAndMetadata,
    TopicPartition,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
AT_ONCE = 0
"""How long a classic group waits for more members, in milliseconds."""


@contextlib.asynccontextmanager
async def member(
    cluster: VirtualCluster, group: str, protocol: str, **settings: object
) -> AsyncIterator[AsyncConsumer]:
    """A consumer that has got all partitions of its topic."""
    async with cluster.consumer(group_id=group, group_protocol=protocol, **settings) as consumer:
        consumer.subscribe(["t"])
        while len(consumer.assignment()) < 2:
            await consumer.poll(1)
        yield consumer


def test_groups_of_both_protocols_are_listed_and_filtered() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with (
            cluster.admin() as admin,
            member(cluster, "old", "classic"),
            member(cluster, "new", "consumer"),
        ):
            await admin.alter_group_offsets("simple", {P0: 0})
            listed = {group.group_id: (group.protocol_type, group.group_type) for group in await admin.list_groups()}
            assert listed == {
                "new": ("consumer", GroupType.CONSUMER),
                "old": ("consumer", GroupType.CLASSIC),
                "simple": ("", GroupType.CLASSIC),
            }
            assert [group.group_id for group in await admin.list_groups(types=[GroupType.CONSUMER])] == ["new"]
            assert [group.group_id for group in await admin.list_groups(states=[GroupState.EMPTY])] == ["simple"]
            assert [group.group_id for group in await admin.list_groups(protocol_types=["consumer"])] == ["new", "old"]
            with pytest.raises(UsageError, match="list of names"):
                await admin.list_groups(states="Empty")

    on_cluster(life, group_initial_rebalance_delay_ms=AT_ONCE)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_is_described_in_the_same_form_by_both_protocols(protocol: str) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        more = {"group_instance_id": "one", "client_id": "reader", "client_rack": "r1"}
        async with cluster.admin() as admin, member(cluster, "g", protocol, **more) as consumer:
            await consumer.poll(10)  # long enough for the next heartbeat
            described = (await admin.describe_groups(["g"], authorized_operations=True))["g"]
            assert (described.state, described.protocol_type) == (GroupState.STABLE, "consumer")
            assert described.group_type == GroupType(protocol)
            assert described.coordinator.node_id == 0
            assert AclOperation.DELETE in (described.authorized_operations or ())
            (only,) = described.members
            assert (only.group_instance_id, only.client_id, only.rack_id) == ("one", "reader", "r1")
            assert (only.subscribed_topics, only.assignment) == (("t",), (P0, P1))
            assert only.protocol == GroupType(protocol)
            assert only.member_id == consumer.group_metadata().member_id
            modern = protocol == "consumer"
            assert only.target_assignment == ((P0, P1) if modern else None)
            assert (only.member_epoch is not None) == (described.group_epoch is not None) == modern
            assert described.assignor == ("uniform" if modern else "range")

    on_cluster(life, group_initial_rebalance_delay_ms=AT_ONCE)


@pytest.mark.parametrize("versions", [None, "2.4", "3.0"])
def test_what_is_wrong_with_each_group_is_told_by_its_name(versions: str | None) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin, member(cluster, "busy", "classic"):
            await admin.alter_group_offsets("idle", {P0: 1})
            with pytest.raises(BrokerError, match=r"GROUP_ID_NOT_FOUND.*'nope'") as caught:
                await admin.describe_groups(["idle", "nope", "neither"])
            assert set(caught.value.failures) == {"nope", "neither"}
            with pytest.raises(BrokerError, match=r"NON_EMPTY_GROUP.*'busy'.*stop them") as caught:
                await admin.delete_groups(["busy", "idle", "nope"])
            codes = {name: getattr(error, "code", None) for name, error in caught.value.failures.items()}
            assert codes == {"busy": ErrorCode.NON_EMPTY_GROUP, "nope": ErrorCode.GROUP_ID_NOT_FOUND}
            assert [group.group_id for group in await admin.list_groups()] == ["busy"]
        assert cluster.now < 10

    on_cluster(life, max_versions=versions, group_initial_rebalance_delay_ms=AT_ONCE)


@pytest.mark.parametrize("versions", [None, "2.4", "3.0"])
def test_positions_of_many_groups_are_set_seen_and_deleted(versions: str | None) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin:
            await admin.alter_group_offsets("a", {P0: 5, P1: OffsetAndMetadata(7, "note", 0)})
            await admin.alter_group_offsets("b", {P0: 6})
            every = {
                "a": {P0: OffsetAndMetadata(5), P1: OffsetAndMetadata(7, "note", 0)},
                "b": {P0: OffsetAndMetadata(6)},
            }
            assert await admin.list_group_offsets(["a", "b", "none"]) == {**every, "none": {}}
            assert await admin.list_group_offsets({"a": [P1], "b": None}) == {
                "a": {P1: every["a"][P1]},
                "b": every["b"],
            }
            await admin.delete_group_offsets("a", [P0])
            assert await admin.list_group_offsets(["a"]) == {"a": {P1: every["a"][P1]}}

    on_cluster(life, max_versions=versions)


def test_a_partition_that_does_not_exist_is_named_and_the_others_are_set() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*'g', t-1") as caught:
                await admin.alter_group_offsets("g", {P0: 1, P1: 1})
            assert set(caught.value.failures) == {P1}
            assert await admin.list_group_offsets(["g"]) == {"g": {P0: OffsetAndMetadata(1)}}
            with pytest.raises(UsageError, match="'t' is not a partition"):
                await admin.alter_group_offsets("g", {"t": 1})
        assert cluster.now < 1

    on_cluster(life)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_keeps_its_positions_and_says_why(protocol: str) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin, member(cluster, "g", protocol) as consumer:
            await consumer.commit({P0: 3, P1: 4})
            with pytest.raises(BrokerError, match="the group has members, and only they may commit") as caught:
                await admin.alter_group_offsets("g", {P0: 0, P1: 0})
            assert str(caught.value).count("only they may commit") == 1
            assert set(caught.value.failures) == {P0, P1}
            with pytest.raises(BrokerError, match=r"GROUP_SUBSCRIBED_TO_TOPIC.*members of the group read this topic"):
                await admin.delete_group_offsets("g", [P0])
            positions = (await admin.list_group_offsets(["g"]))["g"]
            assert [positions[key].offset for key in (P0, P1)] == [3, 4]

    on_cluster(life, group_initial_rebalance_delay_ms=AT_ONCE)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_is_removed_by_its_name_and_an_unknown_one_is_named(protocol: str) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin:
            async with member(cluster, "g", protocol, group_instance_id="one"):
                pass  # a static member that is closed stays a member for a while
            assert len((await admin.describe_groups(["g"]))["g"].members) == 1
            with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID") as caught:
                await admin.remove_members("g", ["one", "two"], reason="scaled down")
            assert set(caught.value.failures) == {"two"}
            assert (await admin.describe_groups(["g"]))["g"].members == ()
            await admin.delete_groups(["g"])

    on_cluster(life, group_initial_rebalance_delay_ms=AT_ONCE)


def test_all_members_are_removed_and_those_that_run_come_back() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin, member(cluster, "g", "classic") as consumer:
            await admin.remove_members("g")
            assert (await admin.describe_groups(["g"]))["g"].state == GroupState.EMPTY
            await consumer.poll(5)
            assert len((await admin.describe_groups(["g"]))["g"].members) == 1
            await admin.remove_members("g", [])

    on_cluster(life, group_initial_rebalance_delay_ms=AT_ONCE)


def test_the_coordinators_of_many_groups_are_asked_for_at_once() -> None:
    async def life(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            await admin.list_group_offsets([f"g{number}" for number in range(50)])
        asked = [message for message in cluster.requests() if isinstance(message, FindCoordinatorRequest)]
        assert [len(message.coordinator_keys) for message in asked] == [50]

    on_cluster(life)


def test_positions_that_a_transaction_may_change_are_waited_for() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin, cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({P0: 9}, "g")
            assert await admin.list_group_offsets(["g"]) == {"g": {}}
            with pytest.raises((BrokerError, KafkaTimeoutError), match="UNSTABLE_OFFSET_COMMIT"):
                await admin.list_group_offsets({"g": [P0]}, require_stable=True, timeout=5)
            await producer.commit_transaction()
            stable = await admin.list_group_offsets(["g"], require_stable=True)
            assert stable == {"g": {P0: OffsetAndMetadata(9)}}

    on_cluster(life)
