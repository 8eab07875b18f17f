"""The decisions of a streaming query's driver, on a cluster that is a dictionary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.positions import parse_position, parse_timestamp
from kafkaraw.spark.reading.stream_plan import BatchLimits, StreamPlan

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
MANY = 2**63 - 1


class Cluster:
    """A cluster of one topic; each partition reaches from `first` to `end`."""

    def __init__(self, **ends: int) -> None:
        self.first: dict[TopicPartition, int] = {}
        self.end = {TopicPartition("t", int(name[1:])): end for name, end in ends.items()}
        self.topic_id = "as it was"
        self.last_look = "as it was"
        self.expected: set[str] = set()
        self.known: dict[TopicPartition, int] = {}

    def partitions(self):
        return sorted(self.end)

    def expect(self, topics):
        self.expected = set(topics)

    def ends(self, known=None):
        self.known = known or {}
        return dict(self.end)

    def topic_ids(self, *, newest=False):
        return {"t": self.topic_id if newest else self.last_look}

    def remake(self, **ends: int) -> None:
        """Delete the topic and make it again; who looks finds that out."""
        self.topic_id = self.last_look = "made anew"
        self.end = {TopicPartition("t", int(name[1:])): end for name, end in ends.items()}

    def earliest(self, partitions):
        return {tp: self.first.get(tp, 0) for tp in partitions}

    def latest(self, partitions):
        return {tp: self.end[tp] for tp in partitions}

    def at_timestamps(self, timestamps):
        return dict(timestamps)


def plan(cluster: Cluster, starting: str = "latest", *, fail_on_data_loss: bool = True) -> StreamPlan:
    return StreamPlan(cluster, parse_position("startingOffsets", starting), fail_on_data_loss=fail_on_data_loss)


def work(ranges):
    return [(each.partition, each.start, each.end) for each in ranges]


def at(**offsets: int) -> dict[str, dict[str, int]]:
    return {"t": {name[1:]: offset for name, offset in offsets.items()}}


def test_the_initial_offset_is_the_same_when_asked_again():
    cluster = Cluster(p0=100)
    query = plan(cluster)
    assert query.initial() == at(p0=100)
    cluster.end[T0] = 150
    assert query.initial() == at(p0=100)


def test_batch_0_is_empty_when_the_start_is_latest_so_that_the_checkpoint_holds_the_start():
    cluster = Cluster(p0=100)
    query = plan(cluster)
    start = query.initial()
    cluster.end[T0] = 150
    assert query.latest(start, MANY) is start
    assert query.ranges(start, start) == []
    assert query.latest(start, MANY) == at(p0=150)


def test_batch_0_is_empty_when_one_partition_of_several_starts_at_latest():
    query = plan(Cluster(p0=100, p1=70), '{"t":{"0":-1,"1":-2}}')
    start = query.initial()
    assert start == at(p0=100, p1=0)
    assert query.latest(start, MANY) is start
    assert query.latest(start, MANY) == at(p0=100, p1=70)


@pytest.mark.parametrize(("starting", "first"), [("earliest", 3), ('{"t":{"0":3}}', 3), ('{"t":{"0":-2}}', 3)])
def test_batch_0_holds_data_when_the_start_can_be_found_again(starting, first):
    cluster = Cluster(p0=100)
    cluster.first[T0] = 3
    query = plan(cluster, starting)
    start = query.initial()
    assert start == at(p0=first)
    assert query.latest(start, MANY) == at(p0=100)


def test_a_restart_from_a_checkpoint_reads_on_at_once():
    assert plan(Cluster(p0=100)).latest(at(p0=40), MANY) == at(p0=100)


def test_nothing_is_lost_when_the_driver_dies_between_logging_and_committing_batch_0():
    """The restarted query is asked for its start anew, and for the work up to the logged end."""
    cluster = Cluster(p0=100)
    first = plan(cluster)
    logged = first.latest(first.initial(), MANY)
    cluster.end[T0] = 150
    second = plan(cluster)
    assert second.initial() == at(p0=150)
    assert second.ranges(second.initial(), logged) == []
    assert second.latest(logged, MANY) == at(p0=150)
    assert work(second.ranges(logged, at(p0=150))) == [(0, 100, 150)]


def test_a_repeated_batch_0_does_not_make_the_next_batch_empty_as_well():
    """Under AvailableNow an empty answer ends the query, though partition 1 has not been read yet."""
    cluster = Cluster(p0=100, p1=70)
    starting = '{"t":{"0":-1,"1":-2}}'
    first = plan(cluster, starting)
    first.fix_target()
    logged = first.latest(first.initial(), MANY)
    second = plan(cluster, starting)
    second.fix_target()
    assert second.ranges(second.initial(), logged) == []
    assert second.latest(logged, MANY) == at(p0=100, p1=70)


def test_trigger_once_reads_in_batch_0_but_holds_partitions_that_start_at_latest():
    cluster = Cluster(p0=100, p1=70)
    query = plan(cluster, '{"t":{"0":-1,"1":-2}}')
    start = query.initial()
    cluster.end[T0] = 150
    assert query.latest(start, None) == at(p0=100, p1=70)


def test_trigger_once_reads_everything_in_later_runs():
    assert plan(Cluster(p0=100)).latest(at(p0=1), None) == at(p0=100)


def test_available_now_stops_at_what_was_there_at_its_start():
    cluster = Cluster(p0=100)
    query = plan(cluster, "earliest")
    query.fix_target()
    cluster.end[T0] = 500
    assert query.latest(query.initial(), 60) == at(p0=60)
    assert query.latest(at(p0=60), 60) == at(p0=100)
    start = at(p0=100)
    assert query.latest(start, 60) is start


def test_available_now_from_latest_starts_at_its_own_target():
    cluster = Cluster(p0=100)
    query = plan(cluster)
    query.fix_target()
    cluster.end[T0] = 500
    start = query.initial()
    assert start == at(p0=100)
    assert query.latest(start, MANY) is start
    assert query.latest(start, MANY) is start


def test_without_new_records_the_start_offset_is_returned_unchanged():
    start = {"t": {"1": 5, "0": 100}}
    assert plan(Cluster(p0=100, p1=5)).latest(start, MANY) is start


def test_without_new_records_the_plan_waits_once():
    waited = []

    def wait(seen):
        waited.append(seen)
        return {T0: 101}

    query = plan(Cluster(p0=100))
    assert query.latest(at(p0=100), MANY, wait) == at(p0=101)
    assert waited == [{T0: 100}]
    assert query.known_latest == at(p0=101)


def test_with_a_fixed_target_it_never_waits():
    def wait(seen):
        raise AssertionError("waited")

    query = plan(Cluster(p0=100))
    query.fix_target()
    assert query.latest(at(p0=100), MANY, wait) == at(p0=100)


def test_a_new_partition_is_read_from_its_first_record():
    cluster = Cluster(p0=100)
    query = plan(cluster)
    start = at(p0=100)
    cluster.end[T1] = 7
    end = query.latest(start, MANY)
    assert end == at(p0=100, p1=7)
    assert work(query.ranges(start, end)) == [(1, 0, 7)]


def test_a_new_partition_shares_the_limit():
    cluster = Cluster(p0=200, p1=100)
    assert plan(cluster).latest(at(p0=100), 10) == at(p0=105, p1=5)


LOSSES = {
    "an end before the start": ({T0: 40, T1: 9}, {}, "t-0 ends at offset 40, before 50"),
    "a partition that is gone": ({T1: 9}, {}, "t-0 is gone; the query had read it up to offset 50"),
    "a new partition that has lost records": ({T0: 50, T1: 9, T2: 9}, {T2: 3}, "t-2 starts at offset 3 instead of 0"),
}


@pytest.mark.parametrize(("end", "first", "message"), LOSSES.values(), ids=LOSSES)
def test_lost_records_end_the_query(end, first, message):
    cluster = Cluster()
    cluster.end, cluster.first = end, first
    with pytest.raises(DataLossError, match=message) as error:
        plan(cluster).latest(at(p0=50, p1=5), MANY)
    assert "failOnDataLoss" in str(error.value)


@pytest.mark.parametrize(("end", "first", "message"), LOSSES.values(), ids=LOSSES)
def test_lost_records_are_a_warning_without_fail_on_data_loss(end, first, message, caplog):
    cluster = Cluster()
    cluster.end, cluster.first = end, first
    query = plan(cluster, fail_on_data_loss=False)
    planned = query.latest(at(p0=50, p1=5), MANY)
    assert planned == {"t": {str(tp.partition): offset for tp, offset in sorted(end.items())}}
    assert (1, 5, 9) in work(query.ranges(at(p0=50, p1=5), planned))
    assert message in caplog.text


@pytest.mark.parametrize("end", [0, 40, 100, 500])
def test_a_recreated_topic_ends_the_query_whatever_its_size(end):
    cluster = Cluster(p0=100)
    query = plan(cluster, "earliest")
    query.latest(query.initial(), MANY)
    cluster.remake(p0=end)
    with pytest.raises(
        DataLossError, match="topic t was deleted and created again; the query had read t-0 up to offset 100"
    ):
        query.latest(at(p0=100), MANY)


@pytest.mark.parametrize("end", [40, 100, 500])
def test_a_recreated_topic_is_read_from_its_first_record_without_fail_on_data_loss(end, caplog):
    cluster = Cluster(p0=100, p1=5)
    query = plan(cluster, "earliest", fail_on_data_loss=False)
    query.latest(query.initial(), MANY)
    cluster.remake(p0=end, p1=7)
    restart = query.latest(at(p0=100, p1=5), MANY)
    assert restart == at(p0=0, p1=0)
    assert query.ranges(at(p0=100, p1=5), restart) == []
    assert "t was deleted and created again; the query had read t-1 up to offset 5" in caplog.text
    assert work(query.ranges(restart, query.latest(restart, MANY))) == [(0, 0, end), (1, 0, 7)]


def test_a_topic_recreated_while_the_query_waits_is_read_from_its_first_record():
    cluster = Cluster(p0=100)
    query = plan(cluster, "earliest", fail_on_data_loss=False)
    query.latest(query.initial(), MANY)

    def wait(seen):
        cluster.remake(p0=40)
        return cluster.ends()

    assert query.latest(at(p0=100), MANY, wait) == at(p0=0)


def test_topic_ids_are_looked_up_if_a_topic_ends_too_early_and_are_passed_to_tasks():
    cluster = Cluster(p0=100)
    query = plan(cluster, "earliest", fail_on_data_loss=False)
    query.latest(query.initial(), MANY)
    cluster.remake(p0=40)
    cluster.last_look = "as it was"
    assert query.latest(at(p0=100), MANY) == at(p0=0)
    assert [each.topic_id for each in query.ranges(at(p0=0), at(p0=40))] == ["made anew"]


def test_a_partition_missing_from_a_recreated_topic_is_omitted():
    cluster = Cluster(p0=100, p1=5)
    query = plan(cluster, "earliest", fail_on_data_loss=False)
    query.latest(query.initial(), MANY)
    cluster.remake(p0=40)
    assert query.latest(at(p0=100, p1=5), MANY) == at(p0=0)


def test_available_now_leaves_a_recreated_topic_to_the_next_run():
    cluster = Cluster(p0=100, p1=5)
    query = plan(cluster, "earliest", fail_on_data_loss=False)
    query.fix_target()
    begin = query.latest(query.initial(), 10)
    cluster.remake(p0=40)
    restart = query.latest(begin, 10)
    assert restart == at(p0=0)
    assert query.latest(restart, 10) is restart


def test_a_repeated_batch_of_a_deleted_partition_is_data_loss(caplog):
    """After a death between log and commit, Spark asks for the logged work before anything else."""
    logged = at(p0=50, p1=5), at(p0=60, p1=9)
    with pytest.raises(DataLossError, match="t-1 is gone from offset 5 on"):
        plan(Cluster(p0=60)).ranges(*logged)
    assert work(plan(Cluster(p0=60), fail_on_data_loss=False).ranges(*logged)) == [(0, 50, 60)]
    assert "t-1 is gone" in caplog.text


def test_the_lookup_receives_the_topics_and_offsets_that_the_query_has_read():
    cluster = Cluster(p0=100)
    plan(cluster).latest(at(p0=40), MANY)
    assert (cluster.expected, cluster.known) == ({"t"}, {T0: 40})


class Minutes:
    """A clock that the test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def plan_that_has_read(cluster: Cluster, clock: Minutes, offset: int) -> StreamPlan:
    starting = parse_position("startingOffsets", "earliest")
    query = StreamPlan(cluster, starting, fail_on_data_loss=False, now_s=clock)
    assert query.latest(query.initial(), MANY) == at(p0=offset)
    return query


def test_a_topic_that_comes_back_with_its_id_is_read_on_where_the_query_was(caplog):
    cluster, clock = Cluster(p0=100), Minutes()
    query = plan_that_has_read(cluster, clock, 100)
    cluster.end = {}
    start = at(p0=100)
    for clock.now_s in (0.0, 30.0, 59.0):
        assert query.latest(start, MANY, lambda seen: cluster.ends()) is start
    assert caplog.text.count("topic t is gone; its offsets stay in the checkpoint for 60 s") == 1
    cluster.end = {T0: 130}
    assert query.latest(start, MANY) == at(p0=130)
    assert work(query.ranges(start, at(p0=130))) == [(0, 100, 130)]


def test_a_topic_that_stays_away_for_a_minute_leaves_the_checkpoint(caplog):
    cluster, clock = Cluster(p0=100), Minutes()
    query = plan_that_has_read(cluster, clock, 100)
    cluster.end = {}
    query.latest(at(p0=100), MANY)
    clock.now_s = 60.0
    assert query.latest(at(p0=100), MANY) == {}
    assert "t-0 is gone; the query had read it up to offset 100" in caplog.text


def test_a_topic_that_comes_back_with_another_id_is_read_from_its_first_record():
    cluster, clock = Cluster(p0=100), Minutes()
    query = plan_that_has_read(cluster, clock, 100)
    cluster.end = {}
    start = at(p0=100)
    assert query.latest(start, MANY) is start
    cluster.remake(p0=400)
    assert query.latest(start, MANY) == at(p0=0)
    assert query.latest(at(p0=0), MANY) == at(p0=400)


def test_the_wait_for_new_records_knows_that_a_topic_is_gone():
    """Were it told of the topic's offset, it would find another end at once, and the driver would not wait."""
    cluster, clock = Cluster(p0=100), Minutes()
    query = plan_that_has_read(cluster, clock, 100)
    cluster.end = {}
    seen = []
    query.latest(at(p0=100), MANY, lambda offsets: seen.append(offsets) or cluster.ends())
    assert seen == [{}]


def test_available_now_reads_a_topic_missing_from_the_first_response():
    cluster = Cluster(p0=100, p1=50)
    query = plan(cluster)
    end = cluster.end.pop(T1)
    query.fix_target()
    cluster.end[T1] = end
    assert query.latest(at(p0=40, p1=20), MANY) == at(p0=100, p1=50)


def test_a_topic_whose_id_is_not_known_is_the_same_as_before():
    cluster = Cluster(p0=100)
    cluster.topic_ids = lambda newest=False: {}
    query = plan(cluster, "earliest")
    query.latest(query.initial(), MANY)
    cluster.remake(p0=500)
    assert query.latest(at(p0=100), MANY) == at(p0=500)


def test_the_latest_offsets_are_reported_even_if_the_batch_is_limited():
    query = plan(Cluster(p0=100), "earliest")
    assert query.known_latest is None
    query.latest(query.initial(), 10)
    assert query.known_latest == at(p0=100)


def test_batch_0_is_empty_when_a_timestamp_lies_beyond_the_end_of_a_partition():
    cluster = Cluster(p0=100, p1=70)
    cluster.at_timestamps = lambda times: {T0: None, T1: 30}
    starting = replace(parse_timestamp("startingTimestamp", "5"), unmatched_is_latest=True)
    query = StreamPlan(cluster, starting, fail_on_data_loss=True)
    start = query.initial()
    assert start == at(p0=100, p1=30)
    cluster.end[T0] = 150
    assert query.latest(start, MANY) is start
    assert query.latest(start, MANY) == at(p0=150, p1=70)


class Waiting:
    """A query that starts at offset 0 and wants 50 offsets per batch, or to wait for 10 s at most."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.cluster = Cluster(p0=0)
        self.query = StreamPlan(
            self.cluster,
            parse_position("startingOffsets", "earliest"),
            fail_on_data_loss=True,
            limits=BatchLimits(rows_min=50, delay_max_ms=10_000),
            now_s=lambda: self.now_s,
        )
        self.begin = self.query.initial()

    def begins(self, end: int, rows_max: int | None = MANY) -> bool:
        """Whether a batch begins when the log reaches so far."""
        self.cluster.end[T0] = end
        start, self.begin = self.begin, self.query.latest(self.begin, rows_max)
        return self.begin is not start


def test_a_batch_waits_until_there_is_enough_or_enough_time_has_passed():
    query = Waiting()
    assert query.begins(10)  # the first one waits for nothing
    assert not query.begins(59)
    assert query.begins(60)
    query.now_s += 9.9
    assert not query.begins(61)
    query.now_s += 0.2
    assert query.begins(61)
    assert not query.begins(62)


def test_a_query_with_a_fixed_end_waits_for_nothing():
    once = Waiting()
    assert once.begins(10)
    assert once.begins(11, rows_max=None)
    available_now = Waiting()
    assert available_now.begins(10)
    available_now.cluster.end[T0] = 11
    available_now.query.fix_target()
    assert available_now.begins(11)
