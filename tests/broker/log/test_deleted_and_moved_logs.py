"""Work on logs by schedule, when the topic is deleted or the replica is moved in the middle of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kafkaraw.broker.log.directories import LogDirectory
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Steps, run_to_end
from kafkaraw.core.log.offset_checkpoint import CLEANER_FILE, read_offsets, write_offsets
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition, encode_batch
from tests.broker.log.test_log_directories import (
    KEY,
    Directories,
    create,
    fill,
    move,
    moved,
    partition_of,
    path_of,
    run,
    values,
)
from tests.broker.support import NOW_MS, FixedClock, append_sent, make_state

COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0", "internal_segment_bytes": "2000"}


def on_disk(path: Path, clock: FixedClock) -> BrokerState:
    """A broker with a directory of files: names that are gone are errors there."""
    return make_state([LogDirectory("/a", FileStorage(path))], clock=clock)  # type: ignore[arg-type]


def fill_keys(state: BrokerState, count: int, keys: int = 10) -> None:
    """Append records whose values are their offsets."""
    for _ in range(count):
        offset = partition_of(state).log.log_end_offset
        record = (NOW_MS, b"k%d" % (offset % keys), b"%d" % offset, None)
        append_sent(partition_of(state), encode_batch([record]))


def run_to_end_of_turn(steps: Steps[None]) -> None:
    """Run to the first step that ends a turn."""
    while not next(steps):
        pass


def delete(state: BrokerState) -> None:
    topic = state.catalog.topic("t")
    assert topic is not None
    state.delete_topic(topic)


def test_retention_leaves_a_topic_alone_that_was_deleted_after_the_pass_began(tmp_path: Path):
    async def life() -> None:
        clock = FixedClock()
        state = on_disk(tmp_path, clock)
        create(state, "first")
        create(state, "t", retention_ms="1000")
        fill(state, 20)
        clock.now_ms += 1_000_000
        steps = state.logs.deleting_old_segments()
        next(steps)
        delete(state)
        run_to_end(steps)
        assert [directory.path for directory in state.directories.online] == ["/a"]
        create(state, "t")
        fill(state, 3)
        assert len(values(state)) == 3
        state.close()

    run(life())


def test_the_flusher_leaves_a_topic_alone_that_was_deleted_after_the_pass_began(tmp_path: Path):
    async def life() -> None:
        clock = FixedClock()
        state = on_disk(tmp_path, clock)
        create(state, "first")
        create(state, "t", flush_ms="1000")
        fill(state, 20)
        steps = state.logs.flushing()
        next(steps)
        delete(state)
        run_to_end(steps)
        assert [directory.path for directory in state.directories.online] == ["/a"]
        state.close()

    run(life())


def test_the_cleaner_stops_between_two_groups_of_segments_of_a_deleted_topic(tmp_path: Path):
    async def life() -> None:
        state = on_disk(tmp_path, FixedClock())
        create(state, **COMPACTED)
        fill_keys(state, 500, keys=1000)
        assert partition_of(state).log.segments_count > 10
        steps = state.cleaner.cleaning()
        run_to_end_of_turn(steps)
        delete(state)
        run_to_end(steps)
        assert [directory.path for directory in state.directories.online] == ["/a"]
        create(state, **COMPACTED)
        fill_keys(state, 3)
        state.close()

    run(life())


def test_a_topic_that_is_created_again_does_not_take_over_the_cleaner_checkpoint_of_the_deleted_one():
    async def life() -> None:
        directories = Directories()
        state = make_state(directories.opened("/a"))
        create(state, **COMPACTED)
        fill_keys(state, 200)
        partition_of(state).log.roll()
        run_to_end(state.cleaner.cleaning())
        assert len(values(state)) == 10
        delete(state)
        create(state, **COMPACTED)
        fill_keys(state, 150)
        fill_keys(state, 150, keys=1000)  # no key of before
        partition_of(state).log.roll()
        run_to_end(state.cleaner.cleaning())
        assert values(state) == [b"%d" % offset for offset in range(140, 300)]
        state.close()

    run(life())


def test_a_replica_that_is_being_moved_is_not_cleaned(monkeypatch: pytest.MonkeyPatch):
    """The copy has records from before a round; the tombstones and markers for them must be in what follows."""
    monkeypatch.setattr("kafkaraw.broker.log.replica_moves.COPY_BYTES", 1000)
    monkeypatch.setattr("kafkaraw.broker.turns.TURN_S", -1)
    directories = Directories()

    async def life() -> None:
        clock = FixedClock()
        state = make_state(directories.opened(), clock=clock)
        create(state, delete_retention_ms="0", **COMPACTED)
        append_sent(partition_of(state), encode_batch([(NOW_MS, b"key", b"deleted below", None)]))
        fill_keys(state, 200)
        partition_of(state).log.roll()
        move(state, "/b")
        future = state.moves.future_log(KEY)
        assert future is not None
        assert 0 < future.log_end_offset < 200
        append_sent(partition_of(state), encode_batch([(NOW_MS, b"key", None, None)]))
        for _ in range(3):
            fill_keys(state, 1)
            partition_of(state).log.roll()
            clock.now_ms += 1000
            run_to_end(state.cleaner.cleaning())
        await moved(state)
        assert path_of(state) == "/b"
        for _ in range(3):
            fill_keys(state, 1)
            partition_of(state).log.roll()
            clock.now_ms += 1000
            run_to_end(state.cleaner.cleaning())
        assert b"deleted below" not in values(state)
        assert len(values(state)) == 10
        state.close()

    run(life())


def test_a_copy_of_a_compacted_log_is_made_anew_after_a_restart(monkeypatch: pytest.MonkeyPatch):
    """Its directory was offline, so that a round removed the tombstone of a key that the copy has."""
    monkeypatch.setattr("kafkaraw.broker.log.replica_moves.COPY_BYTES", 1000)
    monkeypatch.setattr("kafkaraw.broker.turns.TURN_S", -1)
    directories = Directories()

    async def life() -> None:
        clock = FixedClock()
        state = make_state(directories.opened(), clock=clock)
        create(state, delete_retention_ms="0", **COMPACTED)
        append_sent(partition_of(state), encode_batch([(NOW_MS, b"key", b"deleted below", None)]))
        fill_keys(state, 200)
        partition_of(state).log.roll()
        move(state, "/b")
        state.close()
        state = make_state(directories.opened("/a"), clock=clock)
        append_sent(partition_of(state), encode_batch([(NOW_MS, b"key", None, None)]))
        for _ in range(4):
            fill_keys(state, 1)
            partition_of(state).log.roll()
            clock.now_ms += 1000
            run_to_end(state.cleaner.cleaning())
        assert not {b"deleted below", None} & set(values(state)), "neither the value nor its tombstone is left"
        state.close()
        state = make_state(directories.opened(), clock=clock)
        state.start()
        await moved(state)
        assert path_of(state) == "/b"
        assert b"deleted below" not in values(state)
        assert [folder for folder in directories.storages["/b"].folders() if folder.startswith("t-0")] == ["t-0"]
        state.close()

    run(life())


def test_a_round_ends_when_the_replica_is_moved():
    async def life() -> None:
        directories = Directories()
        state = make_state(directories.opened())
        create(state, **COMPACTED)
        fill_keys(state, 300)
        steps = state.cleaner.cleaning()
        for _ in range(50):
            next(steps)
        state.directories.set_future(KEY, state.directories.at("/b"))
        run_to_end(steps)
        assert state.cleaner.rounds == 0
        assert len(values(state)) == 300
        state.close()

    run(life())


def test_a_moved_replica_does_not_take_over_an_old_cleaner_checkpoint_of_its_new_directory():
    async def life() -> None:
        directories = Directories()
        state = make_state(directories.opened())
        directories.storages["/b"].write_text(ROOT, CLEANER_FILE, write_offsets({KEY: 200}))
        create(state, **COMPACTED)
        fill_keys(state, 150)
        fill_keys(state, 150, keys=1000)  # no key of before
        move(state, "/b")
        await moved(state)
        partition_of(state).log.roll()
        run_to_end(state.cleaner.cleaning())
        assert values(state) == [b"%d" % offset for offset in range(140, 300)]
        text = directories.storages["/b"].read_text(ROOT, CLEANER_FILE)
        assert text is not None
        assert read_offsets(text) == {KEY: 300}
        state.close()

    run(life())


def test_a_move_of_a_damaged_log_ends_and_can_be_tried_again(caplog: pytest.LogCaptureFixture):
    async def life() -> None:
        directories = Directories()
        state = make_state(directories.opened())
        create(state)
        fill(state, 20)
        name = f"{0:020d}.log"
        directories.storages["/a"].open_file("t-0", name).write_at(8, b"\0\0\0\1")  # an impossible length
        for _ in range(2):
            assert move(state, "/b") is ErrorCode.NONE
            await asyncio.sleep(0)
            assert state.directories.future_of(KEY) is None
        assert caplog.text.count("cannot be moved to /b") == 2
        assert directories.storages["/b"].folders() == []
        state.close(sync=False)

    run(life())


def test_a_damaged_log_does_not_end_the_retention_of_the_others(caplog: pytest.LogCaptureFixture):
    async def life() -> None:
        directories, clock, other = Directories(), FixedClock(), TopicPartition("u", 0)
        state = make_state(directories.opened("/a"), clock=clock)
        for topic in ("t", "u"):
            create(state, topic, internal_segment_bytes="1000", retention_ms="1000")
            fill(state, 50, TopicPartition(topic, 0))
        state.close()
        directories.storages["/a"].open_file("t-0", f"{0:020d}.log").write_at(8, b"\0\0\0\1")
        again = make_state(directories.opened("/a"), clock=clock)
        clock.now_ms += 1_000_000
        run_to_end(again.logs.deleting_old_segments())
        assert partition_of(again, other).log.log_start_offset == 50
        assert "the timestamp of the first batch cannot be read" in caplog.text
        again.close()

    run(life())
