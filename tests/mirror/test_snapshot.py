"""A snapshot has the committed records of its slice with their offsets, and is whole or not there."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.log.descriptor_file import DescriptorFile
from kafkaraw.errors import ConfigError, CorruptBatchError, UnknownTopicError, UsageError
from kafkaraw.mirror import slices
from kafkaraw.mirror import snapshot as snapshots
from kafkaraw.mirror.batch_changes import Mask, without_records
from kafkaraw.mirror.slices import Bounds, SourceChangedError
from kafkaraw.mirror.snapshot import SNAPSHOT_FILE, SnapshotError, SnapshotOptions
from kafkaraw.records import iter_headers, verify_crc
from tests.mirror.copies import (
    FEW_PARTITIONS,
    TIME_MS,
    compacted_log,
    ends_of,
    fill,
    random_topic,
    rows_of,
    snapshot,
)
from tests.rotation import rotating

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties={"log.retention.ms": -1, **FEW_PARTITIONS}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics(
                [
                    NewTopic("orders", partitions=2, configs={"retention.ms": "60000", "segment.bytes": "1048576"}),
                    NewTopic("orders-small", partitions=1),
                ]
            )
        fill(broker.bootstrap_servers, "orders", range(200))
        yield broker.bootstrap_servers


def opened(directory: Path) -> EmbeddedBroker:
    return EmbeddedBroker(data_dir=str(directory), properties=FEW_PARTITIONS)


@pytest.mark.parametrize("seed", rotating(range(80), 1))
def test_committed_records_of_any_topic_keep_their_offsets(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    compacted_log(tmp_path / "source", "t", rng)
    bounds = Bounds(last=rng.choice([None, None, 0, 5, 30]), since_ms=rng.choice([None, None, TIME_MS + 1]))
    with opened(tmp_path / "source") as broker:
        random_topic(broker.bootstrap_servers, "t", rng)
        made = snapshot(broker.bootstrap_servers, ["t"], tmp_path / "copy", SnapshotOptions(bounds))
        expected = rows_of(broker.bootstrap_servers, "t")
        ends = ends_of(broker.bootstrap_servers, "t")
    begins = {one.slice.key.partition: one.slice.begin for one in made.partitions}
    if bounds.last is not None:
        assert all(end - begins[number] <= bounds.last for number, (_, end) in ends.items())
    expected = [row for row in expected if row[1] >= begins[row[0]]]
    with opened(tmp_path / "copy") as copy:
        assert rows_of(copy.bootstrap_servers, "t") == expected
        assert ends_of(copy.bootstrap_servers, "t") == {
            number: (begins[number], end) for number, (_, end) in ends.items()
        }
    assert sum(one.records_count for one in made.partitions) == len(expected)


def test_topics_keep_ids_and_settings_and_groups_their_offsets(servers: str, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("g", {TopicPartition("orders", 0): 95, TopicPartition("orders", 1): 3})
        topic_id = admin.describe_topics(["orders"])["orders"].topic_id
    options = SnapshotOptions(Bounds(last=10), groups=["*"], configs={"max.message.bytes": "2000000"})
    made = snapshot(servers, ["orders*"], tmp_path / "copy", options)
    assert [topic.name for topic in made.topics] == ["orders", "orders-small"]
    with opened(tmp_path / "copy") as copy, Admin(bootstrap_servers=copy.bootstrap_servers) as admin:
        assert admin.describe_topics(["orders"])["orders"].topic_id == topic_id
        offsets = admin.list_group_offsets(["g"])["g"]
        assert {key.partition: one.offset for key, one in offsets.items()} == {0: 95, 1: 3}
        assert ends_of(copy.bootstrap_servers, "orders") == {0: (90, 100), 1: (90, 100)}
    configs = (tmp_path / "copy" / "kafkaraw-topics.json").read_text()
    assert '"retention.ms": "-1"' in configs
    assert '"segment.bytes": "1048576"' in configs
    assert '"max.message.bytes": "2000000"' in configs


def test_the_copy_takes_new_records_at_the_end_of_the_source(servers: str, tmp_path: Path) -> None:
    snapshot(servers, ["orders"], tmp_path / "copy", SnapshotOptions(Bounds(partitions=[1]), keep_retention=True))
    with opened(tmp_path / "copy") as copy, Producer(bootstrap_servers=copy.bootstrap_servers) as producer:
        assert ends_of(copy.bootstrap_servers, "orders") == {0: (100, 100), 1: (0, 100)}
        assert [producer.send("orders", b"new", partition=number).result().offset for number in (0, 1)] == [100, 100]
    assert '"retention.ms": "60000"' in (tmp_path / "copy" / "kafkaraw-topics.json").read_text()


def test_keys_and_values_are_masked_and_nothing_before_the_slice_is_written(servers: str, tmp_path: Path) -> None:
    mask = Mask(lambda data: b"<%d>" % len(data), keys=True, values=True)
    snapshot(servers, ["orders"], tmp_path / "copy", SnapshotOptions(Bounds(last=3), mask=mask))
    with opened(tmp_path / "copy") as copy:
        rows = rows_of(copy.bootstrap_servers, "orders")
    assert [(row[1], row[2], row[3], row[5]) for row in rows if row[0] == 0] == [
        (97, b"<4>", b"<4>", TIME_MS + 194),
        (98, b"<4>", b"<4>", TIME_MS + 196),
        (99, b"<4>", b"<4>", TIME_MS + 198),
    ]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "copy").rglob("*.log"))
    assert b"v19" not in stored


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda data: 1 / 0, "the mask failed at orders-0 offset 99: ZeroDivisionError"),
        (lambda data: "text", "the mask returned str at orders-0 offset 99; it must return bytes or None"),
    ],
)
def test_a_mask_that_fails_is_reported_with_the_record(
    servers: str, tmp_path: Path, function: object, message: str
) -> None:
    mask = Mask(function, keys=False, values=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        snapshot(servers, ["orders"], tmp_path / "copy", SnapshotOptions(Bounds(last=1, partitions=[0]), mask=mask))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_copied_is_refused_before_anything_is_written(servers: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownTopicError, match="there is no topic 'nowhere'"):
        snapshot(servers, ["nowhere"], tmp_path / "copy")
    with pytest.raises(UnknownTopicError, match=r"no topic matches 'x\*'"):
        snapshot(servers, ["x*"], tmp_path / "copy")
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("internal", {TopicPartition("orders", 0): 1})
    with pytest.raises(UsageError, match="topic '__consumer_offsets' is internal"):
        snapshot(servers, ["__consumer_offsets"], tmp_path / "copy")
    with pytest.raises(UsageError, match="topic 'orders' has no partition 7: it has 2"):
        snapshot(servers, ["orders"], tmp_path / "copy", SnapshotOptions(Bounds(partitions=[7])))
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UsageError, match="holds notes, which is no snapshot"):
        snapshot(servers, ["orders"], tmp_path)
    with pytest.raises(UsageError, match="is a file; name a directory"):
        snapshot(servers, ["orders"], tmp_path / "notes")
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_an_earlier_snapshot_is_replaced_only_on_request_and_never_under_a_broker(servers: str, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=1)))
    with pytest.raises(UsageError, match=r"holds a snapshot; replace it \(--replace\)"):
        snapshot(servers, ["orders"], directory)
    with opened(directory), pytest.raises(UsageError, match="is in use by a broker"):
        snapshot(servers, ["orders"], directory, SnapshotOptions(replace=True))
    snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=5), replace=True))
    with opened(directory) as copy:
        assert ends_of(copy.bootstrap_servers, "orders") == {0: (95, 100), 1: (95, 100)}
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


class _Killed(BaseException):
    """Ends a snapshot as SIGKILL does, with `shutil.rmtree` out of order: nothing is cleaned up."""


@pytest.mark.parametrize(
    "step", rotating(["append", "finish", "_write", "_put_in_place", "second rename", "after the renames"], 2)
)
def test_a_killed_snapshot_leaves_the_earlier_one_and_the_next_one_is_whole(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    directory = tmp_path / "copy"
    snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=1)))

    def kill(*given: object, **more: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(snapshots.shutil, "rmtree", lambda path, **more: None)
        if step in ("append", "finish"):
            patch.setattr(snapshots._Writer, step, kill)
        elif step == "second rename":
            patch.setattr(Path, "rename", _once(Path.rename, kill))
        elif step == "after the renames":
            patch.setattr(snapshots, "sync_folder", _once(snapshots.sync_folder, kill))
        else:
            patch.setattr(snapshots, step, kill)
        with pytest.raises(_Killed):
            snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=5), replace=True))
    draft = tmp_path / "copy.incomplete"
    if step != "after the renames":  # then nothing is left in it
        with pytest.raises(ConfigError, match="which is not a broker's"):
            opened(draft).start()
    expected = {"after the renames": 95, "second rename": None}.get(step, 99)
    assert (directory / SNAPSHOT_FILE).exists() == (expected is not None)
    if expected is not None:
        with opened(directory) as copy:
            assert ends_of(copy.bootstrap_servers, "orders")[0] == (expected, 100)
    snapshot(servers, ["orders"], directory, SnapshotOptions(Bounds(last=7), replace=True))
    with opened(directory) as copy:
        assert ends_of(copy.bootstrap_servers, "orders")[0] == (93, 100)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def _once(real, kill):
    calls = iter([real])

    def call(*given: object) -> object:
        return next(calls, kill)(*given)

    return call


def test_a_full_disk_is_reported_with_the_partition_and_the_offset(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(DescriptorFile, "append", full)
    with pytest.raises(SnapshotError, match=r"copy: orders-[01] at offset \d+: No space left on device; the snapshot"):
        snapshot(servers, ["orders"], tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_records_that_the_source_deletes_meanwhile_are_reported(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("shrinking", partitions=1)])
        fill(servers, "shrinking", range(20), partitions=1)
        planned = slices.plan_slices

        async def plan(*given: object) -> object:
            found = await planned(*given)  # type: ignore[arg-type]
            admin.delete_records({TopicPartition("shrinking", 0): 7})
            return found

        monkeypatch.setattr(snapshots, "plan_slices", plan)
        with pytest.raises(SourceChangedError, match=r"lost records while it was read \(shrinking-0 at offset 0\)"):
            snapshot(servers, ["shrinking"], tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_batch_of_the_source_is_reported_with_its_offset(tmp_path: Path) -> None:
    compacted_log(tmp_path / "source", "t", random.Random(3), partitions=1)
    (segment,) = sorted((tmp_path / "source" / "t-0").glob("*.log"))[:1]
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    *_, (header, _) = iter_headers(memoryview(content))
    segment.write_bytes(content)
    with (
        opened(tmp_path / "source") as broker,
        pytest.raises(
            CorruptBatchError, match=f"t-0: the source is damaged: the batch at offset {header.base_offset}: checksum"
        ),
    ):
        snapshot(broker.bootstrap_servers, ["t"], tmp_path / "copy")


def test_a_gap_at_the_end_is_filled_by_batches_without_records() -> None:
    made = without_records(10, 5_000_000_000, leader_epoch=0)
    headers = list(iter_headers(memoryview(made)))
    for _, batch in headers:
        verify_crc(batch)
    assert [header.records_count for header, _ in headers] == [0, 0, 0]
    assert headers[0][0].base_offset == 10
    assert headers[-1][0].next_offset == 5_000_000_000
    assert without_records(7, 7, leader_epoch=0) == b""
