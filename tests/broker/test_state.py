"""What a node keeps over a restart, and what it makes of a data directory that a crash left in disorder."""

from __future__ import annotations

import errno
import gc
import itertools
import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaraw.broker.groups.coordinator import CommitIdentity
from kafkaraw.broker.groups.node import OFFSETS_TOPIC
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.producer_ids import BLOCK_SIZE, ProducerIds
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.core.log.metadata_files import read_partition_metadata, write_partition_metadata
from kafkaraw.core.log.names import FolderState
from kafkaraw.errors import ConfigError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.records import TopicPartition
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import NOW_MS, append_sent, ask, batch, in_a_loop, make_state


@pytest.fixture(params=["memory", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path):
    """Gives the same storage again, as a restarted broker gets it."""
    memory = MemoryStorage()

    def again() -> LogStorage:
        return memory if request.param == "memory" else FileStorage(tmp_path / "data")

    return again


def create(state: BrokerState, name: str, partitions: int = 1, **configs: str):
    given: dict[str, str | None] = {key.replace("_", "."): value for key, value in configs.items()}
    return state.create_topic(plan_topic(TopicSpec(name, partitions, configs=given), state.catalog, state.config))


def append(state: BrokerState, name: str, index: int = 0) -> None:
    partition = state.partition(TopicPartition(name, index))
    assert partition is not None
    append_sent(partition, memoryview(bytearray(batch(b"v"))))


def test_topics_ids_settings_and_records_survive_a_restart(reopen):
    state = make_state(reopen())
    topic = create(state, "t", 3, cleanup_policy="compact", max_message_bytes="5000")
    partition = state.partition(TopicPartition("t", 2))
    assert partition is not None
    append_sent(partition, memoryview(bytearray(batch(b"v", key=b"k"))))
    cluster_id = state.catalog.cluster_id
    state.close()

    again = make_state(reopen(), seed=2)
    assert again.catalog.topics() == [topic]
    assert again.catalog.cluster_id == cluster_id
    ends = [part.high_watermark for part in again.partitions_of(topic)]
    assert ends == [0, 0, 1]
    found = again.partition(TopicPartition("t", 0))
    assert found is not None
    assert found.config.max_message_bytes == 5000
    assert found.config.is_compacted
    again.close()


def test_a_data_directory_looks_like_kafkas(tmp_path: Path):
    state = make_state(FileStorage(tmp_path))
    topic = create(state, "t", 2)
    append(state, "t", 1)
    state.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0", "t-1"]
    assert (tmp_path / "t-1" / f"{0:020d}.log").stat().st_size == len(batch(b"v"))
    assert (tmp_path / "t-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {topic.topic_id}"
    meta = (tmp_path / "meta.properties").read_text().splitlines()
    assert {"version=1", f"cluster.id={state.catalog.cluster_id}", "node.id=0"} < set(meta)


def test_a_deleted_topic_is_gone_for_good(reopen):
    state = make_state(reopen())
    topic = create(state, "t")
    append(state, "t")
    kept = (TopicPartition("t", 0), CommittedOffset(1, -1, "", NOW_MS))
    coordinator = state.groups.coordinator("g")
    in_a_loop(lambda: coordinator.commit(CommitIdentity("g"), [kept], lambda code: None))
    assert coordinator.committed_offsets("g", None, stable=False) == dict([kept])
    state.delete_topic(topic)
    assert state.partition(TopicPartition("t", 0)) is None
    assert coordinator.committed_offsets("g", None, stable=False) == {}
    new = create(state, "t")
    assert new.topic_id != topic.topic_id
    state.close()
    storage = reopen()
    again = make_state(storage)
    assert [folder for folder in storage.folders() if not folder.startswith(OFFSETS_TOPIC)] == ["t-0"]
    assert [part.high_watermark for part in again.partitions_of(new)] == [0]
    again.close()


def test_a_creation_cut_short_leaves_no_topic_and_nothing_to_inherit(caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    make_state(storage).close()
    storage.make_folder("t-0")
    storage.write_text("t-0", "partition.metadata", write_partition_metadata(Uuid(b"x" * 16)))
    storage.open_file("t-0", f"{0:020d}.log").append(batch(b"old"))
    state = make_state(storage)
    assert state.catalog.topics() == []
    assert [folder.rpartition(".")[0] for folder in storage.folders()] == ["t-0"]
    assert storage.folders()[0].endswith("-stray")
    assert "belongs to no topic" in caplog.text
    topic = create(state, "t")
    assert [part.high_watermark for part in state.partitions_of(topic)] == [0]
    before = storage.folders()
    state.close()
    make_state(storage)
    assert storage.folders() == before


def test_a_deletion_cut_short_is_completed():
    storage = MemoryStorage()
    make_state(storage).close()
    storage.make_folder("t-0.0123456789abcdef0123456789abcdef-delete")
    make_state(storage)
    assert storage.folders() == []


def test_a_folder_of_an_older_topic_of_the_same_name_is_not_taken_over():
    storage = MemoryStorage()
    state = make_state(storage)
    topic = create(state, "t")
    state.close()
    storage.open_file("t-0", f"{0:020d}.log").append(batch(b"old"))
    storage.write_text("t-0", "partition.metadata", write_partition_metadata(Uuid(b"x" * 16)))
    again = make_state(storage)
    assert [part.high_watermark for part in again.partitions_of(topic)] == [0]


def test_a_damaged_partition_metadata_is_written_anew():
    storage = MemoryStorage()
    state = make_state(storage)
    topic = create(state, "t")
    append(state, "t")
    state.close()
    storage.write_text("t-0", "partition.metadata", "nonsense")
    again = make_state(storage)
    assert [part.high_watermark for part in again.partitions_of(topic)] == [1]
    assert read_partition_metadata(storage.read_text("t-0", "partition.metadata") or "") == topic.topic_id


def test_a_topic_that_cannot_be_stored_does_not_exist(monkeypatch: pytest.MonkeyPatch):
    storage = MemoryStorage()
    state = make_state(storage)

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")  # other errors would take the log directory offline

    monkeypatch.setattr(storage, "write_text", fails)
    with pytest.raises(OSError, match="Too many open files"):
        create(state, "t", 3)
    monkeypatch.undo()
    assert state.catalog.topics() == []
    assert storage.folders() == []
    assert create(state, "t", 2).partitions_count == 2


def test_the_longest_topic_name_can_be_created_and_deleted(tmp_path: Path):
    state = make_state(FileStorage(tmp_path), log_segment_delete_delay_ms=0)
    state.delete_topic(create(state, "x" * 249, 11))
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    state.close()


def test_a_directory_of_another_node_is_refused():
    storage = MemoryStorage()
    make_state(storage, node_id=3).close()
    with pytest.raises(ConfigError, match="belongs to node 3, not 4"):
        make_state(storage, node_id=4)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("meta.properties", "version=1\n"),
        ("meta.properties", "version=7\ncluster.id=x\nnode.id=0\n"),
        ("kafkaraw-topics.json", "{"),
        ("kafkaraw-topics.json", json.dumps({"version": 2, "topics": []})),
        ("kafkaraw-topics.json", json.dumps({"version": 1, "topics": [{"name": "t"}]})),
        ("kafkaraw-topics.json", json.dumps([1])),
    ],
)
def test_a_damaged_file_is_named(file: str, text: str):
    storage = MemoryStorage()
    storage.write_text(ROOT, file, text)
    with pytest.raises(ConfigError, match=file):
        make_state(storage)


def test_producer_ids_are_never_given_out_twice_even_after_a_crash():
    storage = MemoryStorage()
    first = ProducerIds(storage)
    taken = [first.take() for _ in range(BLOCK_SIZE + 1)]
    taken += [ProducerIds(storage).take() for _ in range(3)]
    assert len(set(taken)) == len(taken)


def test_the_same_seed_gives_the_same_ids():
    one, two, other = make_state(seed=5), make_state(seed=5), make_state(seed=6)
    assert one.catalog.cluster_id == two.catalog.cluster_id != other.catalog.cluster_id
    assert create(one, "t").topic_id == create(two, "t").topic_id


@pytest.mark.parametrize("times", [1, 2])
def test_a_creation_that_fails_leaves_no_folder_and_no_open_file(reopen, times: int):
    inner = reopen()
    storage = FaultyStorage(inner)
    state = make_state(storage)
    create(state, "other")
    folders, open_files = storage.folders(), storage.open_files
    failed = set()
    for operation in itertools.count(1):
        storage.fail_at(operation, errno.EMFILE, times=times)
        try:
            create(state, "t", partitions=3)
        except OSError:
            failed.add(storage.failures[0])
        else:
            break
        failures = list(storage.failures)
        assert state.catalog.topic("t") is None
        assert storage.open_files == open_files, failures
        left = [folder for folder in storage.folders() if not folder.endswith((FolderState.DELETED, FolderState.STRAY))]
        assert left == folders or "rename_folder" in failures, failures
    assert {"make_folder", "files", "open_file", "write_text"} <= failed
    storage.fail_at(1, times=0)
    append(state, "t", 2)
    in_a_loop(state.close)
    again = make_state(reopen())
    assert [topic.name for topic in again.catalog.topics()] == ["other", "t"]
    in_a_loop(again.close)
    assert not [name for name in reopen().folders() if name.endswith(FolderState.DELETED)]


def test_a_folder_that_could_not_be_removed_is_not_taken_over_by_a_new_topic_of_the_name():
    inner = MemoryStorage()
    storage = FaultyStorage(inner)
    state = make_state(storage)
    topic = create(state, "t")
    append(state, "t")
    storage.fail_at(2, errno.EMFILE)  # the first writes the topics down, the second renames the folder
    in_a_loop(lambda: state.delete_topic(topic))
    assert storage.failures == ["rename_folder"]
    create(state, "t")
    partition = state.partition(TopicPartition("t", 0))
    assert partition is not None
    assert partition.log.log_end_offset == 0
    assert any(folder.startswith("t-0.") and folder.endswith(FolderState.STRAY) for folder in storage.folders())


def test_topics_of_one_request_are_written_down_together():
    storage = FaultyStorage(MemoryStorage())
    state = make_state(storage)
    written = []
    storage.on_attempt = lambda name: written.append(name)
    asked = [
        CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for number in range(20)
    ]
    answer = ask(state, CreateTopicsRequest(topics=asked))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
    assert written.count("write_text") == 20 + 1, "a file for each partition, and one for all topics"
    storage.fail_at(len(written), errno.ENOSPC)
    names = [replace(topic, name=f"u{number}") for number, topic in enumerate(asked)]
    answer = ask(state, CreateTopicsRequest(topics=names))
    assert storage.failures == ["write_text"]
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(state.catalog.topics()) == 20
    assert not [folder for folder in storage.folders() if folder.startswith("u")]


def test_reference_counts_free_the_partitions_of_a_deleted_topic(reopen):
    state = make_state(reopen())
    topic = create(state, "t", 3)
    append(state, "t", 1)
    freed = [weakref.ref(partition) for partition in state.partitions_of(topic)]
    logs = [weakref.ref(partition.log) for partition in state.partitions_of(topic)]
    gc.disable()
    try:
        in_a_loop(lambda: state.delete_topic(topic))
        assert [reference() for reference in freed + logs] == [None] * 6
    finally:
        gc.enable()
