"""Replicas on several nodes: what followers copy, what is acknowledged when, and what is cut when leaders change."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.topics.topic_files import TOPICS_FILE, read_topics
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE
from kafkaraw.core.log.offset_checkpoint import HIGH_WATERMARKS_FILE, read_offsets
from kafkaraw.errors import UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.records import TopicPartition
from tests.broker.support import content_bytes
from tests.broker.virtual_nodes import VirtualNodes, on_nodes, outcome

NONE = ErrorCode.NONE


def test_followers_hold_the_same_bytes_and_all_is_in_sync():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        for number in range(20):
            nodes.append(b"%d" % number, codec=("none", "lz4")[number % 2])
        await asyncio.sleep(1)
        logs = [nodes.replica(node).log for node in range(3)]
        assert {log.log_end_offset for log in logs} == {20}
        assert len({content_bytes(log.read(0, 1 << 20, at_least_one=True)) for log in logs}) == 1
        assert {nodes.replica(node).high_watermark for node in range(3)} == {20}
        assert nodes.cluster.isr_of("t") == [0, 1, 2]

    on_nodes(life)


def test_acks_all_waits_for_every_replica_in_sync_and_acks_one_does_not():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        assert outcome(await nodes.produce(0, b"one", acks=1)) == (NONE, 0)
        assert nodes.ends() == {0: 1, 1: 0, 2: 0}
        assert outcome(await nodes.produce(0, b"all", acks=-1)) == (NONE, 1)
        assert nodes.ends() == {0: 2, 1: 2, 2: 2}

    on_nodes(life)


def test_acks_all_times_out_when_a_replica_in_sync_gets_nothing():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        nodes.cluster.pause_replication(2)
        before = nodes.now
        assert outcome(await nodes.produce(0, b"a", timeout_ms=700)) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert nodes.now - before == pytest.approx(0.7)
        assert nodes.leader().high_watermark == 0

    on_nodes(life)


def test_a_follower_that_lags_too_long_leaves_the_isr_and_joins_again_when_it_has_caught_up():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        nodes.cluster.pause_replication(2)
        assert outcome(await nodes.produce(0, b"a", timeout_ms=60_000)) == (NONE, 0)
        assert nodes.cluster.isr_of("t") == [0, 1]
        assert 10 < nodes.now <= 15.1  # between lag and one and a half of it, as it is looked at every half
        nodes.cluster.resume_replication(2)
        await nodes.cluster.wait_until_in_sync()
        assert nodes.cluster.isr_of("t") == [0, 1, 2]
        assert nodes.cluster.partition_state("t", 0).leader_epoch == 0

    on_nodes(life, replica_lag_time_max_ms=10_000)


def test_a_follower_without_news_stays_in_sync_for_ever():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"a")
        await asyncio.sleep(3600)
        assert nodes.cluster.isr_of("t") == [0, 1, 2]

    on_nodes(life)


def test_followers_that_are_always_a_little_behind_stay_in_sync():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        for number in range(2_000):
            nodes.append(b"%d" % number)
            await asyncio.sleep(0.001)
        assert nodes.leader().high_watermark < 2_000
        assert nodes.cluster.isr_of("t") == [0, 1, 2]
        assert nodes.cluster.partition_state("t", 0).partition_epoch == 0

    on_nodes(life, replica_lag_time_max_ms=200)


def test_under_min_insync_replicas_acks_all_is_refused_and_acks_one_is_not_shown():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(min_insync_replicas="2")
        assert outcome(await nodes.produce(0, b"a")) == (NONE, 0)
        await nodes.cluster.stop_node(1)
        assert outcome(await nodes.produce(0, b"b")) == (NONE, 1)
        await nodes.cluster.kill_node(2)
        assert outcome(await nodes.produce(0, b"c")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        assert outcome(await nodes.produce(0, b"d", acks=1)) == (NONE, 2)
        assert nodes.leader().high_watermark == 2
        await nodes.cluster.start_node(2)
        await asyncio.sleep(1)
        assert nodes.leader().high_watermark == 3

    on_nodes(life)


def test_a_topic_never_asks_for_more_replicas_in_sync_than_it_has():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1, min_insync_replicas="2")
        assert outcome(await nodes.produce(0, b"a")) == (NONE, 0)

    on_nodes(life)


def test_a_follower_names_the_leader_and_its_address():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        nodes.cluster.move_leader("t", 0, 2)
        response = await nodes.produce(0, b"a")
        ((answer,),) = [topic.partition_responses for topic in response.responses]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
        assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(2, "127.0.0.1", 9094)]

    on_nodes(life)


def test_a_wait_for_acknowledgement_ends_when_the_leader_changes():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        nodes.cluster.pause_replication(2)
        waiting = asyncio.ensure_future(nodes.produce(0, b"a"))
        await asyncio.sleep(0.1)
        nodes.cluster.move_leader("t", 0, 1)
        assert outcome(await waiting)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_nodes(life)


def test_a_wait_for_acknowledgement_ends_when_the_topic_is_deleted():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        nodes.cluster.pause_replication(2)
        waiting = asyncio.ensure_future(nodes.produce(0, b"a"))
        await asyncio.sleep(0.1)
        state = nodes.cluster.nodes[1].state
        topic = state.catalog.topic("t")
        assert topic is not None
        state.delete_topic(topic)
        assert outcome(await waiting)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert all(folder.endswith("-delete") for storage in nodes.storages.values() for folder in storage.folders())
        await asyncio.sleep(61)  # file.delete.delay.ms
        assert all(storage.folders() == [] for storage in nodes.storages.values())

    on_nodes(life)


def test_what_was_not_replicated_is_cut_when_a_killed_leader_comes_back():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"kept")
        nodes.cluster.pause_replication(1)
        nodes.cluster.pause_replication(2)
        await nodes.produce(0, b"lost", acks=1)
        await nodes.cluster.kill_node(0)
        nodes.cluster.resume_replication(1)
        nodes.cluster.resume_replication(2)
        assert nodes.cluster.leader_of("t") == 1
        assert outcome(await nodes.produce(1, b"new")) == (NONE, 1)
        await nodes.cluster.start_node(0)
        await nodes.cluster.wait_until_in_sync()
        assert [nodes.values(node) for node in range(3)] == [[b"kept", b"new"]] * 3
        assert [nodes.replica(node).log.epochs.rows for node in range(3)] == [[(0, 0), (1, 1)]] * 3
        assert nodes.storages[0].read_text("t-0", EPOCHS_FILE) == "0\n2\n0 0\n1 1\n"

    on_nodes(life)


def test_logs_that_parted_several_epochs_ago_are_cut_to_the_last_one_in_common():
    async def life(nodes: VirtualNodes) -> None:
        """KIP-279: two short-lived leaders wrote different things at the same offsets."""
        nodes.create(unclean_leader_election_enable="true")
        cluster = nodes.cluster
        await nodes.produce(0, b"both")
        cluster.pause_replication(1)
        cluster.pause_replication(2)
        await nodes.produce(0, b"a1", acks=1)
        await nodes.produce(0, b"a2", acks=1)
        await cluster.kill_node(0)
        await nodes.produce(1, b"b1", acks=1)
        await cluster.kill_node(1)
        await nodes.produce(2, b"c1", acks=1)
        await nodes.produce(2, b"c2", acks=1)
        await nodes.produce(2, b"c3", acks=1)
        cluster.resume_replication(1)
        cluster.resume_replication(2)
        await cluster.start_node(1)
        await cluster.start_node(0)
        await cluster.wait_until_in_sync()
        assert [nodes.values(node) for node in range(3)] == [[b"both", b"c1", b"c2", b"c3"]] * 3

    on_nodes(life)


def test_sequences_of_what_was_cut_are_free_again_and_those_of_what_was_copied_are_known():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        idempotent = {"producer_id": 7, "producer_epoch": 0}
        assert outcome(await nodes.produce(0, b"0", base_sequence=0, **idempotent)) == (NONE, 0)
        nodes.cluster.pause_replication(1)
        nodes.cluster.pause_replication(2)
        await nodes.produce(0, b"1", base_sequence=1, acks=1, **idempotent)
        await nodes.cluster.kill_node(0)
        nodes.cluster.resume_replication(1)
        nodes.cluster.resume_replication(2)
        assert outcome(await nodes.produce(1, b"0", base_sequence=0, **idempotent)) == (NONE, 0)  # a repetition
        assert outcome(await nodes.produce(1, b"1", base_sequence=1, **idempotent)) == (NONE, 1)
        await nodes.cluster.start_node(0)
        await nodes.cluster.wait_until_in_sync()
        nodes.cluster.move_leader("t", 0, 0)
        assert outcome(await nodes.produce(0, b"1", base_sequence=1, **idempotent)) == (NONE, 1)
        assert outcome(await nodes.produce(0, b"2", base_sequence=2, **idempotent)) == (NONE, 2)
        assert nodes.values(0) == [b"0", b"1", b"2"]

    on_nodes(life)


def test_a_repetition_is_acknowledged_only_when_the_batch_itself_is():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        nodes.cluster.pause_replication(2)
        idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        assert outcome(await nodes.produce(0, b"0", timeout_ms=100, **idempotent))[0] == ErrorCode.REQUEST_TIMED_OUT
        assert outcome(await nodes.produce(0, b"0", timeout_ms=100, **idempotent))[0] == ErrorCode.REQUEST_TIMED_OUT
        nodes.cluster.resume_replication(2)
        assert outcome(await nodes.produce(0, b"0", **idempotent)) == (NONE, 0)
        assert nodes.leader().log.log_end_offset == 1

    on_nodes(life)


def test_a_node_that_stops_in_order_hands_over_and_nothing_acknowledged_is_lost():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=6)
        for node in (0, 1, 2, 0):
            for index in range(6):
                leader = nodes.leader(partition=index)
                assert leader.state.leader in nodes.cluster.nodes
            written = nodes.leader().log.log_end_offset
            assert outcome(await nodes.produce(nodes.leader().node_id, b"x"))[1] == written
            await nodes.cluster.stop_node(node)
            assert nodes.cluster.leader_of("t") not in (None, node)
            await nodes.cluster.start_node(node)
            await nodes.cluster.wait_until_in_sync()
        assert nodes.values(0) == nodes.values(1) == nodes.values(2) == [b"x"] * 4

    on_nodes(life)


def test_without_unclean_election_a_partition_waits_for_the_last_one_in_sync():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=2)
        cluster = nodes.cluster
        await nodes.produce(0, b"a")
        await cluster.kill_node(1)
        await nodes.produce(0, b"b")
        await cluster.kill_node(0)
        await cluster.start_node(1)
        assert (cluster.leader_of("t"), cluster.isr_of("t")) == (None, [0])
        assert outcome(await nodes.produce(1, b"x"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.start_node(0)
        await cluster.wait_until_in_sync()
        assert nodes.values(0) == nodes.values(1) == [b"a", b"b"]

    on_nodes(life)


def test_unclean_election_loses_what_only_others_had():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=2, unclean_leader_election_enable="true")
        cluster = nodes.cluster
        await nodes.produce(0, b"a")
        await cluster.kill_node(1)
        await nodes.produce(0, b"b")
        await cluster.kill_node(0)
        await cluster.start_node(1)
        assert (cluster.leader_of("t"), cluster.isr_of("t")) == (1, [1])
        await nodes.produce(1, b"c")
        await cluster.start_node(0)
        await cluster.wait_until_in_sync()
        assert nodes.values(0) == nodes.values(1) == [b"a", b"c"]

    on_nodes(life)


def test_a_topic_that_is_altered_takes_effect_at_once_for_leaders_and_elections():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=2, min_insync_replicas="2")
        cluster = nodes.cluster
        await nodes.produce(0, b"a")
        await cluster.kill_node(1)
        assert outcome(await nodes.produce(0, b"b", acks=1)) == (NONE, 1)
        assert nodes.leader().high_watermark == 1
        topic = cluster.controller.catalog.topic("t")
        assert topic is not None
        cluster.controller.alter_topic(replace(topic, configs={}))
        assert nodes.leader().high_watermark == 2
        await cluster.kill_node(0)
        await cluster.start_node(1)
        assert cluster.leader_of("t") is None
        topic = cluster.controller.catalog.topic("t")
        assert topic is not None
        cluster.controller.alter_topic(replace(topic, configs={"unclean.leader.election.enable": "true"}))
        assert (cluster.leader_of("t"), cluster.isr_of("t")) == (1, [1])

    on_nodes(life)


def test_a_dead_follower_does_not_hold_the_high_watermark():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"a")
        await nodes.cluster.kill_node(2)
        before = nodes.now
        assert outcome(await nodes.produce(0, b"b")) == (NONE, 1)
        assert nodes.now - before < 1

    on_nodes(life)


def test_only_a_node_that_runs_and_is_in_sync_is_made_the_leader():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=2)
        await nodes.cluster.kill_node(1)
        for node in (1, 2, 9):
            with pytest.raises(UsageError, match=rf"node {node} cannot lead t-0.*in sync are \[0\]"):
                nodes.cluster.move_leader("t", 0, node)
        with pytest.raises(UsageError, match="no partition u-0"):
            nodes.cluster.move_leader("u", 0, 0)

    on_nodes(life)


def test_the_controller_and_the_coordinators_move_with_their_node():
    async def life(nodes: VirtualNodes) -> None:
        cluster = nodes.cluster
        assert cluster.controller_id == 0
        await nodes.ask(0, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        group = next(name for name in map(str, range(99)) if cluster.coordinator_of(name) == 0)
        await cluster.stop_node(0)
        coordinator = cluster.coordinator_of(group)
        assert cluster.controller_id == 1
        assert coordinator in (1, 2)
        await cluster.start_node(0)
        assert (cluster.controller_id, cluster.coordinator_of(group)) == (1, coordinator)
        await cluster.kill_node(1)
        assert cluster.controller_id == 2

    on_nodes(life)


def test_a_node_that_is_added_holds_what_is_created_from_then_on():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create("before", partitions=3)
        added = await nodes.cluster.add_node()
        assert (added, nodes.cluster.node_ids) == (3, [0, 1, 2, 3])
        nodes.create(partitions=4, replicas=4)
        assert sorted(nodes.cluster.leader_of("t", index) or 0 for index in range(4)) == [0, 1, 2, 3]
        assert all(3 not in nodes.cluster.partition_state("before", index).replicas for index in range(3))

    on_nodes(life)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_cluster_that_starts_again_has_its_topics_leaders_and_records(end: str):
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=3)
        await nodes.cluster.add_node()
        nodes.cluster.move_leader("t", 0, 2)
        await nodes.produce(2, b"a")
        cluster_id = nodes.cluster.controller.catalog.cluster_id
        await getattr(nodes.cluster, end)()
        if end == "stop":
            text = nodes.storages[2].read_text(ROOT, HIGH_WATERMARKS_FILE)
            assert text is not None
            assert read_offsets(text)[TopicPartition("t", 0)] == 1
        nodes.cluster = nodes.new_cluster()
        await nodes.cluster.start()
        cluster = nodes.cluster
        assert (cluster.controller.catalog.cluster_id, cluster.node_ids) == (cluster_id, [0, 1, 2, 3])
        assert (cluster.leader_of("t"), cluster.isr_of("t")) == (2, [0, 1, 2])
        assert cluster.partition_state("t", 0).leader_epoch == 2  # one for the move, one for the new life
        assert outcome(await nodes.produce(2, b"b")) == (NONE, 1)
        assert nodes.values(0) == nodes.values(1) == nodes.values(2) == [b"a", b"b"]

    on_nodes(life)


def test_a_topic_deleted_while_a_node_is_down_is_gone_when_it_comes_back():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"old")
        await nodes.cluster.stop_node(2)
        state = nodes.cluster.nodes[0].state
        topic = state.catalog.topic("t")
        assert topic is not None
        state.delete_topic(topic)
        nodes.create()
        await nodes.produce(nodes.leader().node_id, b"new")
        await nodes.cluster.start_node(2)
        await nodes.cluster.wait_until_in_sync()
        assert nodes.values(2) == [b"new"]
        assert [name for name in nodes.storages[2].folders() if name.endswith("-stray")]

    on_nodes(life)


def test_a_node_is_started_and_stopped_only_once():
    async def life(nodes: VirtualNodes) -> None:
        with pytest.raises(UsageError, match="node 1 is already running"):
            await nodes.cluster.start_node(1)
        with pytest.raises(UsageError, match="there is no node 7"):
            await nodes.cluster.start_node(7)
        await nodes.cluster.stop_node(1)
        with pytest.raises(UsageError, match=r"node 1 does not run; those that do are \[0, 2\]"):
            await nodes.cluster.kill_node(1)

    on_nodes(life)


def test_the_same_seed_gives_the_same_history():
    def digest() -> list[tuple[float, int]]:
        seen: list[tuple[float, int]] = []

        async def life(nodes: VirtualNodes) -> None:
            nodes.create(partitions=3)
            for number in range(10):
                await nodes.produce(nodes.leader().node_id, b"%d" % number)
                seen.append((nodes.now, nodes.leader().high_watermark))
                if number == 5:
                    await nodes.cluster.kill_node(nodes.leader().node_id)

        on_nodes(life, seed=7)
        return seen

    assert digest() == digest()


def test_many_replicas_that_come_into_sync_are_written_down_together():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=100)
        await nodes.cluster.kill_node(1)
        writes: list[str] = []
        write_text = nodes.facts.write_text

        def count(folder: str, name: str, text: str, *, durable: bool = True, private: bool = False) -> None:
            writes.append(text)
            write_text(folder, name, text, durable=durable, private=private)

        nodes.facts.write_text = count  # type: ignore[method-assign]
        await nodes.cluster.start_node(1)
        await nodes.cluster.wait_until_in_sync()
        await asyncio.sleep(1)
        assert len(writes) <= 2
        stored = [state for _, states in read_topics(writes[-1]) for state in states]
        assert stored == nodes.cluster.controller.catalog.states_of(nodes.cluster.controller.catalog.topics()[0])
        assert all(len(state.isr) == 3 for state in stored)

    on_nodes(life)


def test_what_is_not_written_down_yet_is_written_when_the_cluster_ends():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.cluster.kill_node(1)
        await nodes.cluster.start_node(1)
        await nodes.cluster.wait_until_in_sync()
        await nodes.cluster.kill()
        text = nodes.facts.read_text(ROOT, TOPICS_FILE)
        assert text is not None
        (((_, (state,))),) = read_topics(text)
        assert state.isr == (0, 2, 1)

    on_nodes(life)
