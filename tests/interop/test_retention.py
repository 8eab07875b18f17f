"""Retention, DeleteRecords and moves between log directories: the same calls on Apache Kafka and on our broker.

What is compared after each step: where the log starts, names and sizes of the segments on disk, the answers to fetches
around the log start, what DescribeLogDirs says.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafkaraw import Admin, AlterOperation, ConfigChange, ConfigResource, NewTopic, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import TopicPartitionReplica
from kafkaraw.errors import BrokerError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import encode_batch
from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.interop.raw_client import RawClient

pytestmark = pytest.mark.timeout(240)

PATIENCE_S = 60.0
AT_ONCE = {
    "node.id": "1",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "num.partitions": "1",
}
HOUR_MS = 3_600_000
SMALL = {"internal.segment.bytes": "1000"}
EARLIEST, LATEST = -2, -1


class Side:
    """One broker and its two directories."""

    def __init__(self, bootstrap_servers: str, paths: list[Path]) -> None:
        self.paths = paths
        self.admin = Admin(bootstrap_servers=bootstrap_servers)
        self._client = RawClient(bootstrap_servers)

    def close(self) -> None:
        self.admin.close()
        self._client.close()

    def create(self, topic: str, **configs: str) -> None:
        given = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, 1, 1, {**SMALL, **given})])

    def produce(self, topic: str, ages_ms: list[int], *, now_ms: int) -> None:
        """Write batches of one record; the same bytes on both sides."""
        for number, age_ms in enumerate(ages_ms):
            data = encode_batch([(now_ms - age_ms, None, b"%05d" % number, [])])
            part = PartitionProduceData(index=0, records=data)
            topic_data = [TopicProduceData(name=topic, partition_data=[part])]
            request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=topic_data)
            self.until(lambda side, request=request: side._produced(request))

    def _produced(self, request: ProduceRequest) -> bool:
        """Whether the request succeeded; Apache Kafka has no leader for a moment after it has created a topic."""
        ((answer,),) = [found.partition_responses for found in self._client.ask(request, 9).responses]
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return answer.error_code == ErrorCode.NONE

    def expire(self, topic: str) -> None:
        """Keep records for an hour, from now on: retention rolls no segment while the records are written."""
        resource = ConfigResource.topic(topic)
        self.admin.alter_configs({resource: [ConfigChange("retention.ms", str(HOUR_MS), AlterOperation.SET)]})

    def offset(self, topic: str, timestamp: int) -> int:
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        asked = ListOffsetsTopic(name=topic, partitions=[part])
        answer = self._client.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
        return int(answer.topics[0].partitions[0].offset)

    def fetch(self, topic: str, offset: int) -> tuple[int, int, int]:
        """The code, the log start offset and the high watermark."""
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[part])])
        found = self._client.ask(request, 12).responses[0].partitions[0]
        return found.error_code, found.log_start_offset, found.high_watermark

    def segments(self, topic: str) -> dict[str, int]:
        """The log files of partition 0, and their sizes."""
        (folder,) = [path / f"{topic}-0" for path in self.paths if (path / f"{topic}-0").exists()]
        while True:
            with contextlib.suppress(FileNotFoundError):  # deleted between the two calls
                return {path.name: path.stat().st_size for path in sorted(folder.glob("*.log"))}

    def suffixes(self, topic: str) -> set[str]:
        """The kinds of files in the folder of partition 0."""
        (folder,) = [path / f"{topic}-0" for path in self.paths if (path / f"{topic}-0").exists()]
        return {path.suffix for path in folder.iterdir() if re.match(r"\d{20}\.", path.name)}

    def checkpoint(self, name: str) -> list[str]:
        """The rows of a checkpoint of both directories."""
        rows = [line for path in self.paths for line in (path / name).read_text().splitlines()[2:]]
        return sorted(row for row in rows if not row.startswith("__"))

    def directories(self, topic: str) -> list[tuple[int, bool, bool, dict[TopicPartition, tuple[int, int, bool]]]]:
        """What DescribeLogDirs says about a topic: by directory."""
        return [
            (
                self.paths.index(Path(found.path)),
                found.total_bytes is not None and found.usable_bytes is not None,
                found.is_cordoned,
                {
                    key: (info.size_bytes, info.offset_lag, info.is_future)
                    for key, info in found.replicas.items()
                    if key.topic == topic
                },
            )
            for found in sorted(self.admin.describe_log_dirs()[1], key=lambda one: one.path)
        ]

    def until(self, is_so: Callable[[Side], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so(self):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
    our_paths, their_paths = [ours / "logs", ours / "more"], [theirs / "logs", theirs / "more"]
    properties = {**AT_ONCE, "log.dirs": ",".join(map(str, their_paths))}
    with (
        EmbeddedBroker(data_dir=our_paths, properties=AT_ONCE) as broker,
        ApacheKafka(theirs, properties) as apache,
    ):
        both = Side(broker.bootstrap_servers, our_paths), Side(apache.bootstrap_servers, their_paths)
        yield both
        for side in both:
            side.close()


def on_both(sides: tuple[Side, Side], act: Callable[[Side], Any]) -> Any:
    """Do the same on both sides at the same time; the results must be the same."""
    with ThreadPoolExecutor(len(sides)) as pool:
        ours, theirs = pool.map(act, sides)
    assert ours == theirs
    return ours


def around(side: Side, topic: str) -> list[tuple[int, int, int]]:
    start, end = side.offset(topic, EARLIEST), side.offset(topic, LATEST)
    return [side.fetch(topic, offset) for offset in sorted({0, max(0, start - 1), start, end, end + 1})]


def test_retention_bytes_leaves_the_same_segments(sides: tuple[Side, Side]) -> None:
    now_ms = int(time.time() * 1000)

    def act(side: Side) -> Any:
        side.create("size", retention_bytes="2500")
        side.produce("size", [0] * 100, now_ms=now_ms)
        side.until(lambda side: sum(side.segments("size").values()) < 3500 and ".deleted" not in side.suffixes("size"))
        return side.segments("size"), around(side, "size")

    segments, _ = on_both(sides, act)
    assert 1 < len(segments) < 5


def test_retention_ms_deletes_by_the_largest_timestamp_and_the_future_keeps(sides: tuple[Side, Side]) -> None:
    now_ms = int(time.time() * 1000)
    ages = [2 * HOUR_MS] * 30 + [0] * 30 + [2 * HOUR_MS] * 30

    def act(side: Side) -> Any:
        side.create("time")
        side.produce("time", ages, now_ms=now_ms)
        side.create("future")
        side.produce("future", [-HOUR_MS // 2] + [2 * HOUR_MS] * 30, now_ms=now_ms)
        side.expire("future")
        side.expire("time")
        side.until(lambda side: side.offset("time", EARLIEST) > 0 and ".deleted" not in side.suffixes("time"))
        return side.segments("time"), side.segments("future"), around(side, "time"), around(side, "future")

    time_segments, future_segments, fetches, _ = on_both(sides, act)
    assert min(time_segments) > f"{0:020d}.log"
    assert min(future_segments) == f"{0:020d}.log"
    assert fetches[0][0] == 1, "OFFSET_OUT_OF_RANGE"


def test_an_active_segment_that_expires_is_rolled_and_deleted(sides: tuple[Side, Side]) -> None:
    now_ms = int(time.time() * 1000)

    def act(side: Side) -> Any:
        side.create("all")
        side.produce("all", [2 * HOUR_MS] * 20, now_ms=now_ms)
        side.expire("all")
        side.until(lambda side: side.offset("all", EARLIEST) == 20 and ".deleted" not in side.suffixes("all"))
        return side.segments("all"), around(side, "all")

    segments, _ = on_both(sides, act)
    assert segments == {f"{20:020d}.log": 0}


def test_a_changed_retention_time_takes_effect_while_the_broker_runs(sides: tuple[Side, Side]) -> None:
    now_ms = int(time.time() * 1000)

    def act(side: Side) -> Any:
        side.create("changed")
        side.produce("changed", [2 * HOUR_MS] * 20, now_ms=now_ms)
        time.sleep(0.5)  # retention has been checked, and deletes nothing
        before = side.offset("changed", EARLIEST)
        side.expire("changed")
        side.until(lambda side: side.offset("changed", EARLIEST) == 20)
        return before

    assert on_both(sides, act) == 0


def test_delete_records_moves_the_start_and_retention_deletes_the_segments(sides: tuple[Side, Side]) -> None:
    now_ms = int(time.time() * 1000)

    def act(side: Side) -> Any:
        side.create("deleted")
        side.produce("deleted", [0] * 50, now_ms=now_ms)
        side.admin.delete_records({TopicPartition("deleted", 0): 33})
        before = around(side, "deleted")
        side.until(lambda side: min(side.segments("deleted")) > f"{0:020d}.log")
        side.until(lambda side: ".deleted" not in side.suffixes("deleted"))
        side.until(lambda side: "deleted 0 33" in side.checkpoint("log-start-offset-checkpoint"))
        return before, side.segments("deleted"), side.checkpoint("log-start-offset-checkpoint")

    on_both(sides, act)


@pytest.mark.parametrize("value", ["-2", "x", "9223372036854775808"])
def test_impossible_retention_times_are_refused_alike(sides: tuple[Side, Side], value: str) -> None:
    def act(side: Side) -> Any:
        with pytest.raises(BrokerError) as raised:
            side.create("impossible", retention_ms=value)
        return raised.value.code

    on_both(sides, act)


def test_a_replica_moves_to_the_other_directory(sides: tuple[Side, Side]) -> None:
    now_ms = int(time.time() * 1000)

    def move(side: Side, place: int, topic: str = "moving") -> int:
        try:
            side.admin.alter_replica_log_dirs({TopicPartitionReplica(topic, 0, 1): str(side.paths[place])})
        except BrokerError as error:
            return int(error.code)
        return 0

    def home(side: Side) -> int:
        return int((side.paths[1] / "moving-0").exists() and not (side.paths[0] / "moving-0").exists())

    def act(side: Side) -> Any:
        codes = [move(side, 0)]  # before it exists: kept for its creation
        side.create("moving")
        side.produce("moving", [0] * 50, now_ms=now_ms)
        side.admin.delete_records({TopicPartition("moving", 0): 7})
        described = [side.directories("moving")]
        codes.append(move(side, 1))
        side.until(lambda side: home(side) == 1)
        side.produce("moving", [0] * 3, now_ms=now_ms)
        described.append(side.directories("moving"))
        codes += [move(side, 1), move(side, 0, "nope")]
        try:
            side.admin.alter_replica_log_dirs({TopicPartitionReplica("moving", 0, 1): "/nope"})
        except BrokerError as error:
            codes.append(int(error.code))
        return codes, described, around(side, "moving"), sum(side.segments("moving").values())

    codes, described, *_ = on_both(sides, act)
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND,
    ]  # fmt: skip
    assert [bool(replicas) for *_, replicas in described[0]] == [True, False]
    assert [bool(replicas) for *_, replicas in described[1]] == [False, True]
