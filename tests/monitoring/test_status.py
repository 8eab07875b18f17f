"""What follows from snapshots: lag, its trend and age, brokers, members, and what is wrong, in sentences."""

from __future__ import annotations

import pytest

from kafkaraw import GroupState, GroupType, TopicAuthorizationError, TopicPartition
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.errors import ClusterAuthorizationError, NetworkError, Stage
from kafkaraw.monitoring import ClusterStatus, LagHistory, LagSample, Missing, Severity, Snapshot, Timeline, problems_of
from kafkaraw.monitoring.timeline import LAGS_MAX
from tests.monitoring.snapshots import NODE, directory, group, member, partition, snapshot, topic

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def after(*snapshots: Snapshot) -> ClusterStatus:
    timeline = Timeline()
    for each in snapshots:
        timeline.add(each)
    found = timeline.status()
    assert found is not None
    return found


def texts(status: ClusterStatus, *severities: Severity) -> list[str]:
    return [each.text for each in problems_of(status) if not severities or each.severity in severities]


# -- lag


def test_the_lag_of_a_group_is_that_of_all_its_partitions() -> None:
    status = after(snapshot(0, {A0: 100, A1: 50, B0: 9}, groups=[group("g", {A0: 90, A1: 50, B0: 0})]))
    found = status.group("g")
    assert found is not None
    assert (found.lag, found.topics, found.members) == (19, 2, 0)
    assert [(row.topic, row.partition, row.lag) for row in status.group_partitions("g") or ()] == [
        ("a", 0, 10), ("a", 1, 0), ("b", 0, 9)
    ]  # fmt: skip
    assert [topic.lag for topic in status.topics] == [10, 9]
    assert [row.lag for row in status.partitions("a") or ()] == [10, 0]


def test_a_group_that_has_committed_nothing_has_no_lag() -> None:
    status = after(snapshot(0, {A0: 100}, groups=[group("g", {})]))
    found = status.group("g")
    assert found is not None
    assert (found.lag, found.time_lag, found.lag_per_s) == (None, None, None)


def test_offsets_of_a_topic_that_was_deleted_are_no_lag() -> None:
    status = after(snapshot(0, {A0: 100}, groups=[group("g", {A0: 99, B0: 5})]))
    found, rows = status.group("g"), status.group_partitions("g") or ()
    assert found is not None and found.lag == 1
    assert [(row.topic, row.lag, row.end_offset) for row in rows] == [("a", 1, 100), ("b", None, None)]
    assert status.partitions("b") is None


def test_a_share_group_has_the_lag_that_the_broker_tells() -> None:
    shared = group("s", {A0: 10}, kind=GroupType.SHARE, share_lags={A0: 4})
    found = after(snapshot(0, {A0: 100}, groups=[shared])).group("s")
    assert found is not None and found.lag == 4


def test_a_lag_that_falls_says_when_it_will_be_gone() -> None:
    status = after(
        snapshot(0, {A0: 1000}, groups=[group("g", {A0: 0})]),
        snapshot(10_000, {A0: 1100}, groups=[group("g", {A0: 500})]),
    )
    found = status.group("g")
    assert found is not None
    assert (found.lag, found.lag_per_s, found.gone_in_s, found.consumed_per_s) == (600, -40, 15, 50)


def test_a_lag_that_grows_is_never_gone() -> None:
    status = after(
        snapshot(0, {A0: 1000}, groups=[group("g", {A0: 900})]),
        snapshot(10_000, {A0: 1100}, groups=[group("g", {A0: 900})]),
    )
    found = status.group("g")
    assert found is not None and (found.lag_per_s, found.gone_in_s) == (10, None)


def test_a_trend_is_that_of_the_last_minute_in_bounded_memory() -> None:
    timeline = Timeline()
    for second in range(0, 1000, 2):
        committed = 0 if second < 500 else (second - 500) * 10
        timeline.add(snapshot(second * 1000, {A0: 10_000}, groups=[group("g", {A0: committed})]))
    assert all(len(each.samples) <= LAGS_MAX for each in timeline._lags.values())
    status = timeline.status()
    assert status is not None
    found = status.group("g")
    assert found is not None and found.lag_per_s == pytest.approx(-10)


def test_a_lag_is_compared_with_the_ends_of_its_own_time() -> None:
    timeline = Timeline()
    timeline.add(snapshot(0, {A0: 100}, groups=[group("g", {A0: 90})]))
    timeline.add(snapshot(10_000, {A0: 500}))  # of a view without groups
    status = timeline.status()
    assert status is not None
    found = status.group("g")
    assert found is not None and found.lag == 10
    assert status.topics[0].lag == 10


def test_another_cluster_at_the_same_address_has_no_rates_with_the_first_one() -> None:
    status = after(snapshot(0, {A0: 5}), snapshot(1000, {A0: 50}, cluster_id="other"))
    assert status.topics[0].records_per_s is None


def test_the_age_of_a_lag_is_that_of_the_oldest_partition() -> None:
    first = snapshot(0, {A0: 0, A1: 0}, groups=[group("g", {A0: 0, A1: 0})])
    second = snapshot(10_000, {A0: 10, A1: 10}, groups=[group("g", {A0: 10, A1: 5})])
    status = after(first, second)
    found = status.group("g")
    assert found is not None and found.time_lag is not None
    assert found.time_lag == (5, False)
    at_the_end, behind = status.group_partitions("g") or ()
    assert at_the_end.time_lag == (0, False) and behind.time_lag == (5, False)


def test_lookups_are_for_the_largest_lags_first_and_bounded() -> None:
    ends = {TopicPartition("a", number): 1000 for number in range(50)}
    groups = [group("g", {key: key.partition for key in ends}), group("h", {key: 0 for key in ends})]
    timeline = Timeline()
    timeline.add(snapshot(1_000_000, ends, groups=groups))
    asked = timeline.lookups(limit=10)
    assert len(asked) == 10 and set(asked.values()) == {0}
    timeline.found(asked, {key: OffsetAndTimestamp(0, 400_000, 0) for key in asked})
    status = timeline.status()
    assert status is not None
    known = status.time_lags["h"]
    assert {known[key] for key in asked} == {(600.0, False)}
    assert {age for key, age in known.items() if key not in asked} == {(0.0, True)}


def test_an_offset_that_was_deleted_before_it_was_committed_counts_from_the_first_record() -> None:
    timeline = Timeline()
    timeline.add(snapshot(1_000_000, {A0: 1000}, starts={A0: 400}, groups=[group("g", {A0: 10})]))
    asked = timeline.lookups()
    timeline.found(asked, {A0: OffsetAndTimestamp(400, 700_000, 0)})
    status = timeline.status()
    assert status is not None
    (row,) = status.group_partitions("g") or ()
    assert (row.lag, row.deleted_unread, row.time_lag) == (990, 390, (300, False))
    assert texts(status) == ["Offsets that were deleted before the group has committed them: g (390)."]


def test_a_lookup_of_a_partition_that_could_not_be_asked_changes_nothing() -> None:
    timeline = Timeline()
    timeline.add(snapshot(1_000_000, {A0: 10}, groups=[group("g", {A0: 0})]))
    timeline.found(timeline.lookups(), {})
    status = timeline.status()
    assert status is not None and status.time_lags["g"][A0] == (0, True)


# -- members and brokers


def test_a_member_has_the_lag_of_its_partitions() -> None:
    two = group("g", {A0: 1, A1: 2, B0: 9}, member("m1", A0, A1), member("m2", B0))
    status = after(snapshot(0, {A0: 10, A1: 10, B0: 9}, groups=[two]))
    assert [(row.member.member_id, row.lag) for row in status.members("g") or ()] == [("m1", 17), ("m2", 0)]
    owners = [row.member.member_id if row.member else None for row in status.group_partitions("g") or ()]
    assert owners == ["m1", "m1", "m2"]
    assert status.members("other") is None and status.group_partitions("other") is None


def test_members_of_a_share_group_have_no_lag_of_their_own() -> None:
    shared = group("s", {A0: 10}, member("m1", A0), member("m2", A0), kind=GroupType.SHARE, share_lags={A0: 4})
    status = after(snapshot(0, {A0: 100}, groups=[shared]))
    assert [row.lag for row in status.members("s") or ()] == [None, None]


def test_a_partition_that_is_owned_and_not_committed_is_shown() -> None:
    status = after(snapshot(0, {A0: 100, A1: 5}, groups=[group("g", {A0: 1}, member("m1", A0, A1))]))
    assert [(row.partition, row.committed, row.lag) for row in status.group_partitions("g") or ()] == [
        (0, 1, 99), (1, None, None)
    ]  # fmt: skip


def test_a_broker_that_has_replicas_and_does_not_run_is_away() -> None:
    topics = [topic("a", [partition(0, 1, (1, 2), (1,)), partition(1, -1, (2,), ())])]
    status = after(snapshot(0, {A0: 1}, topics=topics, brokers=[NODE]))
    one, two = status.brokers
    assert (one.node_id, one.is_online, one.is_controller, one.leaders, one.out_of_sync) == (1, True, True, 1, 0)
    assert (two.node_id, two.is_online, two.address, two.replicas, two.out_of_sync) == (2, False, None, 2, 2)
    assert texts(status, Severity.ERROR) == [
        "Broker 2 is away: 2 replicas are on it.",
        "1 partition without a leader: a-1.",
    ]
    assert texts(status, Severity.WARNING) == ["1 under-replicated partition: a-0."]


def test_directories_of_one_volume_count_its_size_once() -> None:
    same = (directory({A0: 5}), directory({A1: 7}))
    other = directory({}, total_bytes=5000, usable_bytes=5000)
    status = after(snapshot(0, {A0: 1}, log_dirs={1: (*same, other)}))
    (broker,) = status.brokers
    assert (broker.size_bytes, broker.disk_bytes, broker.free_bytes) == (12, 6000, 5400)
    assert broker.disk_used == pytest.approx(0.1)


def test_brokers_before_3_3_tell_no_disk_use() -> None:
    old = directory({A0: 5}, total_bytes=None, usable_bytes=None)
    (broker,) = after(snapshot(0, {A0: 1}, log_dirs={1: (old,)})).brokers
    assert (broker.size_bytes, broker.disk_bytes, broker.disk_used) == (5, None, None)


# -- what is wrong


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    status = after(snapshot(0, {A0: 1}, groups=[group("g", {A0: 1}, member("m", A0))]))
    assert problems_of(status) == ()


def test_a_disk_that_is_nearly_full_and_one_that_failed_are_problems() -> None:
    failed = directory({}, error=NetworkError("I/O error", stage=Stage.REQUEST), total_bytes=None, usable_bytes=None)
    status = after(snapshot(0, {A0: 1}, log_dirs={1: (directory({A0: 5}, usable_bytes=50), failed)}))
    assert [problem.severity for problem in problems_of(status)] == [Severity.ERROR, Severity.WARNING]
    assert texts(status)[1] == "95% of the disks of broker 1 are in use."


def test_a_group_without_members_whose_lag_grows_is_a_problem() -> None:
    status = after(
        snapshot(0, {A0: 10}, groups=[group("g", {A0: 10})]), snapshot(1000, {A0: 20}, groups=[group("g", {A0: 10})])
    )
    assert texts(status) == ["No member, and a lag that grows: g."]


def test_members_that_are_slower_than_the_producers_are_a_problem_after_a_minute() -> None:
    def at(second: int) -> Snapshot:
        return snapshot(second * 1000, {A0: second * 100}, groups=[group("g", {A0: second * 50}, member("m", A0))])

    assert texts(after(*map(at, (0, 2, 4)))) == []
    assert texts(after(*map(at, range(0, 200, 10)))) == [
        "Members that are slower than the producers: g (+50 records/s)."
    ]


def test_a_group_that_rebalances_is_a_note() -> None:
    moving = group("g", {A0: 1}, member("m"), state=GroupState.PREPARING_REBALANCE)
    assert texts(after(snapshot(0, {A0: 1}, groups=[moving])), Severity.NOTE) == ["Rebalancing: g."]


def test_a_permission_that_is_missing_is_named() -> None:
    refused = ClusterAuthorizationError("no", code=31, name="CLUSTER_AUTHORIZATION_FAILED", retriable=False)
    of_topic = TopicAuthorizationError(
        "no", code=29, name="TOPIC_AUTHORIZATION_FAILED", retriable=False, resource_name="a", operation="DESCRIBE"
    )
    missing = (Missing("log directories of broker 1", refused), Missing("topic a", of_topic))
    assert texts(after(snapshot(0, {A0: 1}, missing=missing))) == [
        "Not shown: log directories of broker 1: it needs the permission DESCRIBE on the cluster.",
        "Not shown: topic a: it needs the permission DESCRIBE on the topic a.",
    ]


def test_a_cluster_without_a_visible_topic_says_why_that_may_be() -> None:
    assert texts(after(snapshot(0, {}, topics=[]))) == [
        "No topic is shown: there is none, or this principal lacks the permission DESCRIBE on topics."
    ]


def test_many_names_are_counted() -> None:
    partitions = [partition(number, -1, (1,), ()) for number in range(2000)]
    status = after(snapshot(0, {}, topics=[topic("a", partitions)]))
    assert texts(status) == ["2,000 partitions without a leader: a-0, a-1, a-2, a-3, a-4 and 1,995 more."]
    assert len(problems_of(status)[0].names) == 2000


@pytest.mark.parametrize(
    ("level", "release"),
    [(None, None), (0, None), (1, "3.0"), (19, "3.7"), (29, "4.2"), (30, "4.3"), (31, "4.3 or newer")],
)
def test_a_level_of_metadata_version_is_shown_as_the_release(level: int | None, release: str | None) -> None:
    from kafkaraw.light_classes import replace

    assert replace(snapshot(0, {}), metadata_version=level).release == release


def test_brokers_are_in_the_order_of_their_ids() -> None:
    nodes = [BrokerNode(number, "host", 9092) for number in (10, 9, 100)]
    assert [each.node_id for each in after(snapshot(0, {}, brokers=nodes)).brokers] == [9, 10, 100]


def test_rates_of_a_group_are_those_of_its_window() -> None:
    history = LagHistory(5, 60_000)
    assert (history.lag_per_s, history.consumed_per_s, history.written_per_s) == (None, None, None)
    history.add(LagSample(0, 100, 0))
    assert history.written_per_s is None
    history.add(LagSample(10_000, 50, 100))
    assert (history.lag_per_s, history.consumed_per_s, history.written_per_s) == (-5.0, 10.0, 5.0)
    history.add(LagSample(100_000, 50, 100))  # the window has no other sample: the last two count
    assert (history.lag_per_s, history.consumed_per_s, history.written_per_s) == (0.0, 0.0, 0.0)
    for second in range(101, 120):
        history.add(LagSample(second * 1_000, 50, 100 + second))
    assert len(history.samples) == 5
