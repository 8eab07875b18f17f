"""One task of the source, against a consumer that does as the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.client.fetching.offsets import OffsetLookupTimeoutError
from kafkaraw.core.fetch.subscription_state import FetchRange
from kafkaraw.errors import BrokerError, KafkaError, KafkaTimeoutError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.ranges import reading
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.ranges.reading import grouped, size_max_bytes
from kafkaraw.records import Batch, TopicPartition, encode_batch
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from kafkaraw.spark.worker import ClientPool

T0 = TopicPartition("t", 0)
SCHEMA = pa.schema([("value", pa.binary()), ("offset", pa.int64())])


@dataclass
class Log:
    """A partition as a consumer meets it: batches from offset `first` on, the end at `end`."""

    first: int = 0
    end: int = 100
    batch_rows: int = 10
    gaps: tuple[int, ...] = ()
    position: int = -1
    assigned: list[TopicPartition] = field(default_factory=list)
    closed: bool = False
    failing: Callable[[], Exception | None] = lambda: None
    topic_ids: tuple[str, ...] = ("id",)  # the one that is known, and those that come with polls or refreshes

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = list(partitions)

    def assign_ranges(self, ranges: dict[TopicPartition, FetchRange]) -> None:
        self.assigned = list(ranges)
        self.position = ranges[T0].start

    def assignment(self) -> list[TopicPartition]:
        return self.assigned

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [each for each in self.assigned if each not in partitions]

    def out_of_range(self) -> list[TopicPartition]:
        return [] if self.first <= self.position <= self.end else self.assigned

    def failures(self) -> dict[TopicPartition, KafkaError]:
        return {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert self.assigned == [partition]
        self.position = offset

    def poll(self, timeout: float) -> dict[TopicPartition, Batch]:
        self.topic_ids = self.topic_ids[1:] or self.topic_ids
        error = self.failing()
        if error is not None:
            raise error
        if not self.first <= self.position <= self.end:
            raise error_for(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")
        base = self.position - self.position % self.batch_rows
        if self.position >= self.end:
            return {}
        start, self.position = self.position, min(base + self.batch_rows, self.end)
        if base in self.gaps:
            return {}
        records = [(0, None, b"%d" % offset, None) for offset in range(base, self.position)]
        wire = memoryview(encode_batch(records, base_offset=base))
        return {T0: Batch("t", 0, wire, start_offset=start)}

    def beginning_offsets(self, partitions: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)

    def end_offsets(self, partitions: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def close(self) -> None:
        self.closed = True


class Clock:
    """Time that passes by a second at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 1
        return self.now_s


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(reading, "time", Clock())


def read(monkeypatch, log: Log, start: int, end: int, *, strict: bool = True) -> list[int]:
    monkeypatch.setattr("kafkaraw.spark.reading.task._consumers", ClientPool(lambda settings: Consumer(log)))
    settings = ReadSettings({}, strict, 30_000)
    batches = list(read_ranges([OffsetRange("t", 0, start, end, "id")], SCHEMA, settings))
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["value"] == b"%d" % row["offset"] for row in rows)
    return [row["offset"] for row in rows]


class Consumer:
    """A log with the consumer's method `positions`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        for name in (
            "assign", "assign_ranges", "assignment", "incremental_unassign", "out_of_range", "failures",
            "seek", "poll", "beginning_offsets", "end_offsets", "close",
        ):  # fmt: skip
            setattr(self, name, getattr(log, name))

    def positions(self) -> dict[TopicPartition, int]:
        return {T0: self._log.position}

    def topic_id(self, topic: str) -> str:
        return self._log.topic_ids[0]

    def partitions_for(self, topic: str, timeout: float) -> None:
        self._log.topic_ids = self._log.topic_ids[1:] or self._log.topic_ids


def test_a_range_is_cut_out_of_the_batches_that_hold_it(monkeypatch):
    log = Log()
    assert read(monkeypatch, log, 13, 37) == list(range(13, 37))
    assert log.assigned == []
    assert not log.closed


def test_offsets_without_records_are_skipped(monkeypatch):
    """Transaction markers at the end of a range, or a compacted stretch: the position moves on, nothing is given."""
    assert read(monkeypatch, Log(gaps=(10, 30)), 5, 40) == [*range(5, 10), *range(20, 30)]


def test_a_stretch_without_records_that_takes_longer_than_the_poll_timeout_is_read_to_its_end(monkeypatch):
    """The clock moves on by a second with every poll, and the poll timeout is 30 s."""
    log = Log(end=1000, gaps=tuple(range(10, 990, 10)))
    assert read(monkeypatch, log, 0, 1000) == [*range(10), *range(990, 1000)]


@given(
    first=st.integers(0, 20),
    end=st.integers(20, 400),
    batch_rows=st.integers(1, 40),
    gaps=st.sets(st.integers(0, 400)),
    start=st.integers(0, 400),
    size=st.integers(0, 400),
)
def test_a_task_ends_if_its_position_advances(first, end, batch_rows, gaps, start, size):
    log = Log(first, end, batch_rows, tuple(gaps))
    expected = [
        offset
        for offset in range(max(start, first), min(start + size, end))
        if offset // batch_rows * batch_rows not in gaps
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert read(monkeypatch, log, start, start + size, strict=False) == expected


def test_records_deleted_by_retention_end_the_task(monkeypatch):
    with pytest.raises(DataLossError, match="t-0 starts at offset 20 now, 13 is gone"):
        read(monkeypatch, Log(first=20), 13, 37)


def test_records_deleted_by_retention_are_skipped_without_fail_on_data_loss(monkeypatch, caplog):
    assert read(monkeypatch, Log(first=20), 13, 37, strict=False) == list(range(20, 37))
    assert "t-0 starts at offset 20 now, 13 is gone" in caplog.text


@pytest.mark.parametrize("end", [25, 5])
def test_a_log_that_ends_early_ends_the_task(monkeypatch, end):
    with pytest.raises(DataLossError, match=f"t-0 ends at offset {end} now, records up to 37 were expected"):
        read(monkeypatch, Log(end=end), 13, 37)


@pytest.mark.parametrize(("end", "found"), [(25, range(13, 25)), (5, [])])
def test_a_truncated_log_is_read_to_its_end_without_fail_on_data_loss(monkeypatch, end, found):
    assert read(monkeypatch, Log(end=end), 13, 37, strict=False) == list(found)


@pytest.mark.parametrize("first", [0, 50])
def test_a_recreated_topic_ends_the_task(monkeypatch, first):
    with pytest.raises(DataLossError, match="topic t was deleted and created again, t-0 is gone from offset 13 on"):
        read(monkeypatch, Log(first=first, topic_ids=("id", "another")), 13, 37)


@pytest.mark.parametrize("first", [0, 50])
def test_nothing_of_a_recreated_topic_is_read_without_fail_on_data_loss(monkeypatch, caplog, first):
    assert read(monkeypatch, Log(first=first, topic_ids=("id", "another")), 13, 37, strict=False) == []
    assert "topic t was deleted and created again" in caplog.text


@pytest.mark.parametrize("first", [0, 13])
def test_a_consumer_that_knew_a_topic_of_that_name_before_is_asked_again(monkeypatch, first):
    log = Log(first=first, topic_ids=("an older one", "an older one", "id"))
    assert read(monkeypatch, log, 13, 37) == list(range(13, 37))


def test_a_range_ends_where_the_topic_was_recreated(monkeypatch):
    log = Log(topic_ids=("id", "id", "another"))
    assert read(monkeypatch, log, 13, 37, strict=False) == list(range(13, 20))


def test_a_topic_without_an_id_is_read(monkeypatch):
    assert read(monkeypatch, Log(topic_ids=(ZERO_UUID,)), 13, 37) == list(range(13, 37))


def test_a_task_does_not_wait_forever(monkeypatch):
    log = Log(end=30)
    log.end_offsets = lambda partitions, timeout: dict.fromkeys(partitions, 100)
    with pytest.raises(
        KafkaTimeoutError, match="position 30 did not advance within 30000 ms, the read ends at offset 37"
    ):
        read(monkeypatch, log, 13, 37)


def test_lookups_of_ends_end_with_the_poll_timeout(monkeypatch):
    """Its leader does not answer; another partition's leader does, and says that the log is shorter."""
    now_s = [0.0]
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    log = Log(end=30)
    waited_s = []

    def end_offsets(partitions: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        waited_s.append(timeout)
        now_s[0] += timeout
        raise OffsetLookupTimeoutError("too late", {}, {})

    def poll(timeout: float) -> dict[TopicPartition, Batch]:
        now_s[0] += timeout
        return Log.poll(log, timeout)

    log.end_offsets, log.poll = end_offsets, poll
    with pytest.raises(KafkaTimeoutError, match="position 30 did not advance within 30000 ms"):
        read(monkeypatch, log, 13, 37)
    assert max(waited_s) == 5.0, "the task takes records of other partitions in between"
    assert now_s[0] < 30 + 1 + 0.5


def test_log_start_that_is_not_known_in_time_is_looked_up_again(monkeypatch, caplog):
    log = Log(first=20)
    failures = [OffsetLookupTimeoutError("too late", {}, {}), KafkaTimeoutError("no broker")]

    def beginning_offsets(partitions: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        if failures:
            raise failures.pop()
        return dict.fromkeys(partitions, 20)

    log.beginning_offsets = beginning_offsets
    assert read(monkeypatch, log, 13, 37, strict=False) == list(range(20, 37))
    assert "t-0 starts at offset 20 now, 13 is gone" in caplog.text


def test_another_error_of_the_broker_reaches_the_user_and_the_consumer_is_not_used_again(monkeypatch):
    log = Log(failing=lambda: error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(monkeypatch, log, 13, 37)
    assert log.closed


def test_rows_come_in_batches_of_bounded_length(monkeypatch):
    log = Log(end=65_000, batch_rows=65_000)
    monkeypatch.setattr("kafkaraw.spark.reading.task._consumers", ClientPool(lambda settings: Consumer(log)))
    batches = list(read_ranges([OffsetRange("t", 0, 0, 65_000)], SCHEMA, ReadSettings({}, True, 30_000)))
    assert [batch.num_rows for batch in batches] == [20_000, 20_000, 20_000, 5_000]


def test_a_task_gives_about_16_mib_of_decompressed_records_at_a_time(monkeypatch):
    """5 KB on the wire may be 100 MB; a wire batch is never divided."""
    wires = b"".join(
        encode_batch([(0, None, bytes(4 << 20), None)], codec="zstd", base_offset=offset) for offset in range(25)
    )
    log = Log(end=25)
    log.poll = lambda timeout: {T0: Batch("t", 0, memoryview(wires), start_offset=0)}
    monkeypatch.setattr("kafkaraw.spark.reading.task._consumers", ClientPool(lambda settings: Consumer(log)))
    offsets = []
    for batch in read_ranges([OffsetRange("t", 0, 0, 23, "id")], SCHEMA, ReadSettings({}, True, 30_000)):
        assert batch.nbytes <= 20 << 20
        offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(23))


RANGES = st.lists(
    st.builds(
        lambda partition, start, size: OffsetRange("t", partition, start, start + size),
        st.integers(0, 5),
        st.integers(0, 100_000),
        st.sampled_from([1, 10, 1_000, 20_000, 40_000]),
    ),
    max_size=40,
)


@given(RANGES)
def test_groups_have_all_ranges_once_and_a_partition_once(work):
    groups = list(grouped(work))
    for group in groups:
        assert len({each.partition for each in group}) == len(group)
        assert len(group) == 1 or sum(map(size_max_bytes, group[:-1])) < 32 << 20
    offsets = sorted((each.partition, at) for each in work for at in (each.start, each.end))
    read = sorted((each.partition, at) for group in groups for each in group for at in (each.start, each.end))
    joined = list(offsets)
    for bound in read:
        joined.remove(bound)
    assert joined[::2] == joined[1::2], "only bounds at which two ranges adjoin are left out"


@given(RANGES)
def test_groups_read_the_ranges_of_a_partition_in_the_order_of_the_task(work):
    work = sorted(work, key=lambda each: (each.partition, each.start))
    read = [each for group in grouped(work) for each in group]
    for partition in {each.partition for each in work}:
        starts = [each.start for each in read if each.partition == partition]
        assert starts == sorted(starts)


def test_a_large_range_is_read_after_the_smaller_one_before_it():
    """As a partition that is cut for `minPartitions` into tasks that `maxTasks` bundles again."""
    before, large = OffsetRange("t", 0, 0, 32_766), OffsetRange("t", 0, 32_767, 65_535)
    assert list(grouped([before, large])) == [[before], [large]]


def test_a_task_may_have_thousands_of_ranges_of_one_partition():
    """With `minPartitions` far above `maxTasks`, a task has every second part of a partition."""
    work = [OffsetRange("t", 0, start, start + 1) for start in range(0, 6_000, 2)]
    assert list(grouped(work)) == [[each] for each in work]


def test_ranges_that_adjoin_are_read_as_one_and_large_ones_alone():
    small, large = OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 10**6)
    assert list(grouped([small, OffsetRange("t", 0, 10, 20), large, OffsetRange("t", 0, 30, 40)])) == [
        [large],
        [OffsetRange("t", 0, 0, 20)],
        [OffsetRange("t", 0, 30, 40)],
    ]
