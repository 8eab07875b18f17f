"""What the driver asks the cluster, and how often."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkaraw.client.fetching.offsets import OffsetAndTimestamp, OffsetLookupTimeoutError
from kafkaraw.errors import BrokerError, NetworkError, Stage, UnknownTopicError, UsageError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading import lookup
from kafkaraw.spark.reading.lookup import ClusterLookup, consumer_settings

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """A client that counts what it is asked."""

    def __init__(self, **partitions: int) -> None:
        self.topics = partitions
        self.ids: dict[str, str] = {}
        self.ends: dict[TopicPartition, int] = {T0: 5}
        self.descriptions = 0
        self.end_lookups = 0

    def describe_topics(self, names: list[str]) -> dict[str, SimpleNamespace]:
        self.descriptions += 1
        if any(name not in self.topics for name in names):
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "describe")
        return {
            name: SimpleNamespace(
                name=name, partitions=range(self.topics[name]), topic_id=self.ids.get(name, ZERO_UUID)
            )
            for name in names
        }

    def list_topics(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                name=name,
                partitions=count,
                is_internal=name.startswith("__"),
                topic_id=self.ids.get(name, ZERO_UUID),
            )
            for name, count in self.topics.items()
        ]

    def end_offsets(self, partitions: list[TopicPartition], timeout: float | None = None) -> dict[TopicPartition, int]:
        self.end_lookups += 1
        if self.end_lookups == 4:
            self.ends[T0] = 6
        if any(tp.topic not in self.topics for tp in partitions):
            raise UnknownTopicError("not there")
        return {tp: self.ends[tp] for tp in partitions}

    def close(self) -> None:
        pass


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lookup, "time", clock)
    return clock


def look(monkeypatch, cluster: Cluster, **options: str) -> ClusterLookup:
    monkeypatch.setattr(lookup, "ClusterClient", lambda settings: cluster)
    monkeypatch.setattr(lookup, "_committer", lambda options: cluster if options.commit_offsets else None)
    return ClusterLookup(parse_options({"kafka.bootstrap.servers": "h:1"} | options))


def test_all_partitions_of_subscribed_topics_are_read(monkeypatch, clock):
    found = look(monkeypatch, Cluster(t=2, s=1), subscribe="t,s")
    assert found.partitions() == [TopicPartition("s", 0), T0, T1]
    found.require_all()


def test_the_list_of_partitions_is_asked_for_once_a_second(monkeypatch, clock):
    cluster = Cluster(t=1)
    found = look(monkeypatch, cluster, subscribe="t")
    for _ in range(50):
        assert found.partitions() == [T0]
    assert cluster.descriptions == 1
    cluster.topics["t"] = 2
    clock.sleep(1)
    assert found.partitions() == [T0, T1]


def test_one_missing_topic_of_a_thousand_costs_few_requests(monkeypatch, clock):
    cluster = Cluster(**{f"t{number}": 1 for number in range(1000) if number != 700})
    found = look(monkeypatch, cluster, subscribe=",".join(f"t{number}" for number in range(1000)))
    assert found.partitions() == [TopicPartition(topic, 0) for topic in sorted(cluster.topics)]
    assert cluster.descriptions == 4 * 21, "it is looked up four times, and each time in halves"
    with pytest.raises(UsageError, match="topic 't700' does not exist"):
        found.require_all()


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern"])
def test_topic_ids_are_asked_for_once_a_second_unless_the_newest_are_wanted(monkeypatch, clock, option):
    cluster = Cluster(t=1)
    found = look(monkeypatch, cluster, **{option: "t"})
    assert found.topic_ids() == {}  # an old broker
    cluster.ids = {"t": "one", "other": "two"}
    assert found.topic_ids() == {}
    assert found.topic_ids(newest=True) == {"t": "one"}
    cluster.ids = {"t": "three"}
    clock.sleep(1)
    assert found.topic_ids() == {"t": "three"}


def test_an_unknown_topic_is_reported_after_some_retries(monkeypatch, clock):
    found = look(monkeypatch, Cluster(t=1), subscribe="nowhere,t")
    with pytest.raises(UsageError, match=r"topic 'nowhere' does not exist on h:1: create it.* option subscribe"):
        found.require_all()
    assert found.partitions() == [T0]
    assert 0 < sum(clock.slept) < 2


def test_a_newly_created_topic_is_waited_for(monkeypatch, clock):
    cluster = Cluster()
    found = look(monkeypatch, cluster, subscribe="t")
    monkeypatch.setattr(clock, "sleep", lambda seconds: cluster.topics.update(t=1))
    assert found.partitions() == [T0]


def test_a_partition_that_does_not_exist_is_named(monkeypatch, clock):
    found = look(monkeypatch, Cluster(t=1), assign='{"t":[0,1]}')
    with pytest.raises(UsageError, match=r"partition t-1 does not exist.* option assign"):
        found.require_all()
    assert found.partitions() == [T0]


def test_a_newly_deleted_topic_has_no_end_offsets(monkeypatch, clock):
    cluster = Cluster(t=1, s=1)
    found = look(monkeypatch, cluster, subscribePattern="[st]")
    cluster.ends[TopicPartition("s", 0)] = 9
    assert found.ends() == {TopicPartition("s", 0): 9, T0: 5}
    del cluster.topics["s"]
    assert found.ends() == {T0: 5}


def test_waiting_ends_when_something_new_is_there(monkeypatch, clock):
    cluster = Cluster(t=1)
    assert look(monkeypatch, cluster, subscribe="t").wait_for_change({T0: 5}) == {T0: 6}
    assert cluster.end_lookups == 4


def test_an_idle_query_asks_ten_times_a_second_at_most(monkeypatch, clock):
    cluster = Cluster(t=1)
    found = look(monkeypatch, cluster, subscribe="t")
    found.wait_for_change({T0: 5})
    clock.now_s, cluster.end_lookups = 0.0, 100
    while clock.now_s < 10:
        assert found.wait_for_change({T0: 6}) == {T0: 6}
    assert cluster.end_lookups - 100 <= 110


def slowed(monkeypatch, clock: Clock, cluster: Cluster, *, topics_s: float = 0.0, ends_s: float) -> Cluster:
    """Return the cluster, whose lookups take as long as those of thousands of partitions."""
    describe, end_offsets = cluster.describe_topics, cluster.end_offsets

    def described_slowly(names: list[str]) -> dict[str, SimpleNamespace]:
        clock.now_s += topics_s
        return describe(names)

    def looked_up_slowly(partitions: list[TopicPartition], timeout: float | None = None) -> dict[TopicPartition, int]:
        found = end_offsets(partitions, timeout)
        clock.now_s += ends_s
        return found

    monkeypatch.setattr(cluster, "describe_topics", described_slowly)
    monkeypatch.setattr(cluster, "end_offsets", looked_up_slowly)
    cluster.end_lookups = 100
    return cluster


def planned(found: ClusterLookup, seen: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the ends for a micro-batch that begins at `seen`, as `StreamPlan` looks them up."""
    ends = found.ends()
    return ends if ends != seen else found.wait_for_change(seen)


def test_lookups_that_take_long_take_a_small_share_of_the_time_of_an_idle_query(monkeypatch, clock):
    """Topics take 5 % of the time at most, and ends of an idle query a fifth: it keeps no core busy."""
    cluster = slowed(monkeypatch, clock, Cluster(t=1), topics_s=0.3, ends_s=0.1)
    found = look(monkeypatch, cluster, subscribe="t")
    while clock.now_s < 60:
        assert planned(found, {T0: 5}) == {T0: 5}
    assert cluster.descriptions <= 11
    assert (cluster.end_lookups - 100) * 0.1 <= 0.2 * 60 + 0.5
    clock.sleep(1)
    cluster.ends[T0] = 7
    assert found.ends() == {T0: 7}


def test_a_lookup_that_takes_long_is_not_delayed_after_new_records(monkeypatch, clock):
    """A query that receives records all the time plans each micro-batch with one lookup."""
    cluster = slowed(monkeypatch, clock, Cluster(t=1), ends_s=0.15)
    found = look(monkeypatch, cluster, subscribe="t")
    ends = found.ends()
    clock.slept.clear()
    for offset in range(6, 16):
        cluster.ends[T0] = offset
        before_s = clock.now_s
        ends = planned(found, ends)
        assert ends == {T0: offset}
        assert clock.now_s - before_s == pytest.approx(0.15)
    assert clock.slept == []


@pytest.mark.parametrize("ends_s", [0.06, 0.13, 0.5, 2.0])
def test_a_new_record_is_seen_after_the_longest_pause_and_two_lookups_at_most(monkeypatch, clock, ends_s):
    """It may be written just after the broker has read the ends for the lookup under way."""
    cluster = slowed(monkeypatch, clock, Cluster(t=1), ends_s=ends_s)
    found = look(monkeypatch, cluster, subscribe="t")
    ends, written = found.ends(), 0
    written_s: float | None = None
    plain = cluster.end_offsets

    def end_offsets(partitions: list[TopicPartition], timeout: float | None = None) -> dict[TopicPartition, int]:
        nonlocal written, written_s
        answer, began_s = plain(partitions, timeout), clock.now_s - ends_s
        if written_s is None and cluster.end_lookups % 7 == 0:
            cluster.ends[T0] += 1
            written, written_s = written + 1, began_s
        return answer

    monkeypatch.setattr(cluster, "end_offsets", end_offsets)
    while written < 10 or written_s is not None:
        later = planned(found, ends)
        if later != ends:
            assert written_s is not None
            assert clock.now_s - written_s <= min(4 * ends_s, 0.5) + 2 * ends_s + 1e-9
            ends, written_s = later, None


def test_a_wait_is_short_enough_for_the_query_to_stop_promptly(monkeypatch, clock):
    cluster = Cluster(t=1)
    cluster.end_lookups = 100
    look(monkeypatch, cluster, subscribe="t").wait_for_change({T0: 5})
    assert clock.now_s <= 0.25


def test_consumers_have_no_offset_reset_and_create_no_topics():
    settings = consumer_settings({"bootstrap_servers": "h:1", "client_id": "mine", "linger_ms": "5"})
    assert settings["auto_offset_reset"] == "none"
    assert settings["allow_auto_create_topics"] == "false"
    assert settings["client_id"] == "mine"
    assert "linger_ms" not in settings


def test_fetch_sizes_can_be_set():
    assert consumer_settings({"max_partition_fetch_bytes": "5"})["max_partition_fetch_bytes"] == "5"
    assert consumer_settings({})["max_partition_fetch_bytes"] == "4194304"


def test_topics_that_match_a_pattern_are_read_apart_from_internal_ones(monkeypatch, clock):
    cluster = Cluster(events=1, events_v2=2, orders=1, __events=1)
    found = look(monkeypatch, cluster, subscribePattern=r"^\p{Lower}+$|^.*events$")
    assert found.partitions() == [TopicPartition("events", 0), TopicPartition("orders", 0)]
    found.require_all()


@pytest.mark.parametrize("pattern", ["rders", " rders\t", "^ord", "s$", "o.d"])
def test_a_pattern_is_found_anywhere_in_a_name(monkeypatch, clock, pattern):
    found = look(monkeypatch, Cluster(orders=1, other=1), subscribePattern=pattern)
    assert found.partitions() == [TopicPartition("orders", 0)]


def test_a_pattern_without_matches_is_no_error_and_new_topics_are_found(monkeypatch, clock):
    cluster = Cluster()
    found = look(monkeypatch, cluster, subscribePattern="t.*")
    assert found.partitions() == []
    found.require_all()
    cluster.topics["tt"] = 1
    clock.sleep(1)
    assert found.partitions() == [TopicPartition("tt", 0)]


def failing(cluster: Cluster, code: ErrorCode, times: int) -> list[int]:
    """Have the cluster refuse to tell its ends so often; gives a list that grows with every question."""
    asked: list[int] = []
    plain = cluster.end_offsets

    def end_offsets(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        asked.append(len(partitions))
        if len(asked) <= times:
            raise error_for(code, "look up")
        return plain(partitions)

    cluster.end_offsets = end_offsets
    return asked


def test_a_failed_look_up_is_tried_again_as_often_as_the_option_says(monkeypatch, clock):
    cluster = Cluster(t=1)
    options = {"subscribe": "t", "fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "500"}
    found = look(monkeypatch, cluster, **options)
    failing(cluster, ErrorCode.LEADER_NOT_AVAILABLE, times=2)
    assert found.latest([T0]) == {T0: 5}
    assert clock.slept == [0.5, 0.5]
    failing(cluster, ErrorCode.LEADER_NOT_AVAILABLE, times=3)
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE"):
        found.latest([T0])


def test_fatal_errors_are_not_retried(monkeypatch, clock):
    cluster = Cluster(t=1)
    found = look(monkeypatch, cluster, subscribe="t")
    asked = failing(cluster, ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=9)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        found.latest([T0])
    assert len(asked) == 1


def test_a_failed_commit_is_a_warning_with_the_names_of_the_options(monkeypatch, clock, caplog):
    cluster = Cluster(t=1)
    group = {"kafka.group.id": "lags", "commitOffsets": "true"}
    found = look(monkeypatch, cluster, subscribe="t", **group)

    def commit(offsets: object, timeout: float) -> None:
        raise NetworkError("it may want a login (see security_protocol)", stage=Stage.REQUEST)

    cluster.commit = commit
    found.commit({T0: 5})
    assert "not committed to lags: it may want a login (see kafka.security.protocol)" in caplog.text


def test_consumers_of_tasks_have_no_group():
    settings = consumer_settings(
        {"bootstrap_servers": "h:1", "group_id": "g", "enable_auto_commit": "true", "group_instance_id": "i"}
    )
    assert not settings.keys() & {"group_id", "enable_auto_commit", "group_instance_id"}


class Behind(Cluster):
    """A broker whose lists of topics leave `t` out; it answers for it by name after `denials` times."""

    denials = 0

    def list_topics(self) -> list[SimpleNamespace]:
        return [topic for topic in super().list_topics() if topic.name != "t"]

    def describe_topics(self, names: list[str]) -> dict[str, SimpleNamespace]:
        self.denials -= 1
        if self.denials >= 0:
            self.descriptions += 1
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "describe")
        return super().describe_topics(names)


@pytest.mark.parametrize("denials", [0, 1, 3])
def test_a_topic_that_the_query_has_read_is_looked_up_by_name_before_it_counts_as_deleted(monkeypatch, clock, denials):
    cluster = Behind(t=2, s=1)
    cluster.denials = denials
    cluster.ids = {"t": "id of t"}
    found = look(monkeypatch, cluster, subscribePattern="[st]")
    assert found.partitions() == [TopicPartition("s", 0)]
    found.expect({"t", "s"})
    assert found.partitions() == [TopicPartition("s", 0), T0, T1]
    assert found.topic_ids() == {"t": "id of t"}


def test_a_topic_counts_as_deleted_after_as_many_retries_as_the_option_says(monkeypatch, clock):
    cluster = Behind(t=2, s=1)
    cluster.denials = 1_000_000
    found = look(monkeypatch, cluster, subscribePattern="[st]", **{"fetchOffset.numRetries": "5"})
    found.expect({"t"})
    assert found.partitions() == [TopicPartition("s", 0)]
    assert cluster.descriptions == 6
    found.require_all()
    clock.sleep(1)
    slept = len(clock.slept)
    assert found.partitions() == [TopicPartition("s", 0)]
    assert len(clock.slept) == slept, "a topic that counts as deleted is not waited for again"
    cluster.denials = 0
    clock.sleep(1)
    assert found.partitions() == [TopicPartition("s", 0), T0, T1]


def test_only_topics_that_match_the_pattern_are_looked_up_by_name(monkeypatch, clock):
    """A query that starts again with another pattern has topics in its checkpoint that it reads no longer."""
    cluster = Behind(t=2, s=1)
    found = look(monkeypatch, cluster, subscribePattern="s")
    found.expect({"t", "s"})
    assert found.partitions() == [TopicPartition("s", 0)]
    assert cluster.descriptions == 0


class OpenTransaction(Cluster):
    """A leader that does not return the end offset of `t-1`."""

    def end_offsets(self, partitions: list[TopicPartition], timeout: float | None = None) -> dict[TopicPartition, int]:
        failures = {tp: error_for(ErrorCode.OFFSET_NOT_AVAILABLE, "offsets") for tp in partitions if tp == T1}
        if not failures:
            return super().end_offsets(partitions)
        assert timeout is not None, "the partition was asked about until the default timeout"
        found = {tp: OffsetAndTimestamp(self.ends[tp], -1, 0) for tp in partitions if tp != T1}
        raise OffsetLookupTimeoutError("not known", found, failures)


def test_the_last_known_end_offset_is_used_while_the_leader_returns_none(monkeypatch, clock, caplog):
    cluster = OpenTransaction(t=2)
    found = look(monkeypatch, cluster, subscribe="t")
    for _ in range(3):
        assert found.ends({T0: 2, T1: 7}) == {T0: 5, T1: 7}
    assert caplog.text.count("t-1: the leader does not return the end offset (OFFSET_NOT_AVAILABLE)") == 1


def test_an_unknown_end_offset_is_looked_up_until_the_default_timeout(monkeypatch, clock):
    cluster = OpenTransaction(t=2)
    found = look(monkeypatch, cluster, subscribe="t")
    with pytest.raises(AssertionError, match="until the default timeout"):
        found.ends()
