"""Several log directories: where replicas go, what each directory keeps, and moves between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.log.directories import LogDirectory, Volume
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.system import real_node
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.core.log.metadata_files import read_meta_properties
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkaraw.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkaraw.records import Batch, TopicPartition
from kafkaraw.testing.virtual import VirtualLoop
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import append_sent, ask, batch, content_bytes, make_state

KEY = TopicPartition("t", 0)
PATHS = ("/a", "/b", "/c")


class Directories:
    """Three directories in memory, which outlive the broker."""

    def __init__(self) -> None:
        self.storages = {path: MemoryStorage() for path in PATHS}

    def opened(self, *paths: str) -> list[LogDirectory]:
        return [LogDirectory(path, self.storages[path], lambda: Volume(1000, 300)) for path in paths or PATHS]

    def folders(self) -> dict[str, list[str]]:
        return {path: storage.folders() for path, storage in self.storages.items()}


def create(state: BrokerState, name: str = "t", partitions: int = 1, **configs: str) -> None:
    given: dict[str, str | None] = {key.replace("_", "."): value for key, value in configs.items()}
    state.create_topic(plan_topic(TopicSpec(name, partitions, configs=given), state.catalog, state.config))


def partition_of(state: BrokerState, key: TopicPartition = KEY) -> Partition:
    found = state.partition(key)
    assert found is not None
    return found


def fill(state: BrokerState, count: int, key: TopicPartition = KEY) -> None:
    for number in range(count):
        append_sent(partition_of(state, key), batch(b"%d" % number))


def values(state: BrokerState, key: TopicPartition = KEY) -> list[bytes | None]:
    log, found = partition_of(state, key).log, []
    offset = log.log_start_offset
    while content := log.read(offset, 1 << 20, at_least_one=True):
        records = list(Batch(key.topic, key.partition, memoryview(content_bytes(content)), start_offset=offset))
        found += [record.value for record in records]
        offset = records[-1].offset + 1
    return found


def path_of(state: BrokerState, key: TopicPartition = KEY) -> str:
    home = state.directories.home_of(key)
    assert home is not None
    return home.path


def move(state: BrokerState, path: str, key: TopicPartition = KEY) -> ErrorCode:
    topic = AlterReplicaLogDirTopic(name=key.topic, partitions=[key.partition])
    answer = ask(state, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])]))
    ((result,),) = [found.partitions for found in answer.results]
    return ErrorCode(result.error_code)


async def moved(state: BrokerState, key: TopicPartition = KEY) -> None:
    while state.directories.future_of(key) is not None:
        await asyncio.sleep(0)


def run(coroutine) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(coroutine)


# -- placement and identity ------------------------------------------------------------------------------------------


def test_a_new_replica_goes_to_the_directory_with_the_fewest():
    directories = Directories()
    state = make_state(directories.opened())
    create(state, "t", 7)
    assert [path_of(state, TopicPartition("t", index)) for index in range(7)] == ["/a", "/b", "/c"] * 2 + ["/a"]
    assert {path: len(folders) for path, folders in directories.folders().items()} == {"/a": 3, "/b": 2, "/c": 2}


def test_a_cordoned_directory_gets_no_new_replicas():
    state = make_state(Directories().opened(), **{"log_dirs": "/a,/b,/c", "cordoned_log_dirs": "/b"})
    create(state, "t", 4)
    assert [path_of(state, TopicPartition("t", index)) for index in range(4)] == ["/a", "/c"] * 2


def test_replicas_are_found_again_whatever_the_order_of_the_directories():
    directories = Directories()
    state = make_state(directories.opened())
    create(state, "t", 3)
    for index in range(3):
        fill(state, index + 1, TopicPartition("t", index))
    state.close()
    for order in (PATHS, PATHS[::-1]):
        state = make_state(directories.opened(*order))
        for index, path in enumerate(PATHS):
            key = TopicPartition("t", index)
            assert path_of(state, key) == path
            assert len(values(state, key)) == index + 1
        state.close()


def test_each_directory_has_an_identity_and_checkpoints_of_its_own_replicas():
    directories = Directories()
    state = make_state(directories.opened())
    create(state, "t", 3)
    fill(state, 5, TopicPartition("t", 1))
    state.close()
    metas = [
        read_meta_properties(storage.read_text(ROOT, "meta.properties")) for storage in directories.storages.values()
    ]
    assert len({meta.directory_id for meta in metas}) == 3
    assert len({(meta.cluster_id, meta.node_id) for meta in metas}) == 1
    for index, storage in enumerate(directories.storages.values()):
        offset = 5 if index == 1 else 0
        for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            assert storage.read_text(ROOT, file) == f"0\n1\nt {index} {offset}\n", file
        assert storage.read_text(ROOT, ".kafka_cleanshutdown") == '{"version":0,"brokerEpoch":-1}'


def test_a_clean_shutdown_marker_is_removed_at_the_start_and_not_written_after_a_crash():
    directories = Directories()
    make_state(directories.opened()).close()
    state = make_state(directories.opened())
    assert all(".kafka_cleanshutdown" not in storage.files(ROOT) for storage in directories.storages.values())
    state.close(sync=False)
    assert all(".kafka_cleanshutdown" not in storage.files(ROOT) for storage in directories.storages.values())


# -- DescribeLogDirs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 3, 4, 5])
def test_log_directories_are_described_with_sizes_and_lags(version: int):
    state = make_state(Directories().opened(), log_dirs="/a,/b,/c", cordoned_log_dirs="/c")
    create(state, "t", 2)
    fill(state, 3)
    answer = ask(state, DescribeLogDirsRequest(topics=None), version)
    assert [found.log_dir for found in answer.results] == list(PATHS)
    (part,) = answer.results[0].topics[0].partitions
    size = partition_of(state).log.size_bytes
    assert (part.partition_index, part.partition_size, part.offset_lag, part.is_future_key) == (0, size, 0, False)
    if version >= 4:
        assert {(found.total_bytes, found.usable_bytes) for found in answer.results} == {(1000, 300)}
    if version >= 5:
        assert [found.is_cordoned for found in answer.results] == [False, False, True]


def test_only_the_partitions_asked_about_are_described():
    state = make_state(Directories().opened())
    create(state, "t", 2)
    wanted = [DescribableLogDirTopic(topic="t", partitions=[1, 7])]
    answer = ask(state, DescribeLogDirsRequest(topics=wanted))
    found = {
        one.log_dir: [part.partition_index for topic in one.topics for part in topic.partitions]
        for one in answer.results
    }
    assert found == {"/a": [], "/b": [1], "/c": []}


def test_an_offline_directory_is_described_by_its_error():
    state = make_state(Directories().opened())
    state.directories.all[1].is_offline = True
    answer = ask(state, DescribeLogDirsRequest(topics=None))
    assert [found.error_code for found in answer.results] == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]


# -- AlterReplicaLogDirs ---------------------------------------------------------------------------------------------


def test_a_replica_moves_while_it_is_written_to():
    directories = Directories()

    async def life() -> None:
        state = make_state(directories.opened())
        create(state, internal_segment_bytes="2000", cleanup_policy="delete")
        fill(state, 300)
        assert move(state, "/b") is ErrorCode.NONE
        assert move(state, "/b") is ErrorCode.NONE, "it is on its way already"
        fill(state, 5)
        await moved(state)
        assert path_of(state) == "/b"
        fill(state, 1)
        assert len(values(state)) == 306
        live = [folder for folders in directories.folders().values() for folder in folders if folder == "t-0"]
        assert live == ["t-0"]
        assert [name.endswith("-delete") for name in directories.storages["/a"].folders()] == [True]
        state.close()
        again = make_state(directories.opened())
        assert (path_of(again), len(values(again))) == ("/b", 306)
        assert directories.folders() == {"/a": [], "/b": ["t-0"], "/c": []}
        again.close()

    run(life())


def test_a_future_replica_is_described_and_goes_on_after_a_crash(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.broker.log.replica_moves.COPY_BYTES", 1000)
    monkeypatch.setattr("kafkaraw.broker.turns.TURN_S", -1)  # every step ends its turn
    directories = Directories()

    async def life() -> None:
        state = make_state(directories.opened())
        create(state)
        fill(state, 200)
        assert move(state, "/c") is ErrorCode.NONE
        future = state.moves.future_log(KEY)
        assert future is not None
        assert 0 < future.log_end_offset < 200
        answer = ask(state, DescribeLogDirsRequest(topics=None))
        (part,) = answer.results[2].topics[0].partitions
        assert (part.is_future_key, part.offset_lag) == (True, 200 - future.log_end_offset)
        assert part.partition_size == future.size_bytes
        state.close(sync=False)
        assert [folder.endswith("-future") for folder in directories.storages["/c"].folders()] == [True]
        again = make_state(directories.opened())
        again.start()
        assert again.directories.future_of(KEY) is not None
        await moved(again)
        assert (path_of(again), len(values(again))) == ("/c", 200)
        again.close()

    run(life())


def test_of_two_copies_that_a_kill_during_a_move_has_left_the_newer_one_is_kept(caplog: pytest.LogCaptureFixture):
    directories = Directories()

    async def life() -> None:
        state = make_state(directories.opened())
        create(state)
        fill(state, 20)
        old = directories.storages["/a"]
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(old, "rename_folder", lambda folder, new_name: None)  # is not durable yet
        move(state, "/b")
        await moved(state)
        monkeypatch.undo()
        fill(state, 1)
        state.close(sync=False)
        assert directories.folders() == {"/a": ["t-0"], "/b": ["t-0"], "/c": []}
        again = make_state(directories.opened())
        assert (path_of(again), len(values(again))) == ("/b", 21)
        assert [folder.endswith("-stray") for folder in old.folders()] == [True]
        assert "t-0 is in /b, too" in caplog.text
        again.close()

    run(life())


def test_another_destination_replaces_the_first_and_the_own_directory_ends_a_move(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.broker.log.replica_moves.COPY_BYTES", 1000)
    monkeypatch.setattr("kafkaraw.broker.turns.TURN_S", -1)
    directories = Directories()

    async def life() -> None:
        state = make_state(directories.opened())
        create(state)
        fill(state, 200)
        move(state, "/c")
        move(state, "/b")
        assert directories.storages["/c"].folders() == []
        assert len(directories.storages["/b"].folders()) == 1
        move(state, "/a")
        assert directories.folders() == {"/a": ["t-0"], "/b": [], "/c": []}
        move(state, "/b")
        state.delete_topic(state.catalog.topic("t"))
        assert directories.storages["/b"].folders() == []
        state.close()

    run(life())


def test_a_copy_follows_truncation_and_the_log_start_of_its_log(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.broker.log.replica_moves.COPY_BYTES", 1000)
    monkeypatch.setattr("kafkaraw.broker.turns.TURN_S", -1)
    directories = Directories()

    async def life() -> None:
        state = make_state(directories.opened())
        create(state, internal_segment_bytes="2000")
        fill(state, 200)
        partition = partition_of(state)
        partition.delete_records(90)
        move(state, "/b")
        future = state.moves.future_log(KEY)
        assert future is not None
        while future.log_end_offset < 150:
            await asyncio.sleep(0)
        partition.log.truncate_to(120)
        partition.delete_records(100)
        await moved(state)
        log = partition.log
        assert (log.log_start_offset, log.log_end_offset, path_of(state)) == (100, 120, "/b")
        assert values(state) == [b"%d" % number for number in range(100, 120)]
        state.close()

    run(life())


def test_a_move_that_the_destination_cannot_take_leaves_the_replica_where_it_is(caplog: pytest.LogCaptureFixture):
    async def life() -> None:
        broken = FaultyStorage(MemoryStorage())
        directories = [LogDirectory("/a", MemoryStorage()), LogDirectory("/b", broken)]
        state = make_state(directories)
        create(state)
        fill(state, 20)
        broken.fail_at(8)
        move(state, "/b")
        await moved(state)
        assert path_of(state) == "/a"
        assert broken.failures
        answer = ask(state, DescribeLogDirsRequest(topics=None))
        assert [found.error_code for found in answer.results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
        assert move(state, "/b") is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(values(state)) == 20
        create(state, "u", 2)
        assert {path_of(state, TopicPartition("u", index)) for index in range(2)} == {"/a"}
        state.close()
        again = make_state([LogDirectory("/a", directories[0].storage), LogDirectory("/b", broken)])
        again.start()
        await moved(again)
        assert (path_of(again), len(values(again))) == ("/b", 20), "the next start goes on with the move"
        again.close()

    run(life())


def test_a_partition_may_be_given_a_directory_before_it_is_created():
    state = make_state(Directories().opened())
    assert move(state, "/c") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(state)
    assert path_of(state) == "/c"


@pytest.mark.parametrize(
    ("path", "key", "code"),
    [
        ("/nope", KEY, ErrorCode.LOG_DIR_NOT_FOUND),
        ("a", KEY, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/b", TopicPartition("x" * 249, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("/b", TopicPartition("t", 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/a", KEY, ErrorCode.NONE),
    ],
)
def test_moves_that_cannot_be_made_get_kafkas_codes(path: str, key: TopicPartition, code: ErrorCode):
    state = make_state(Directories().opened())
    create(state)
    assert move(state, path, key) is code


# -- real directories ------------------------------------------------------------------------------------------------


def node_on(*paths: Path, node_id: int = 0):
    config = BrokerConfig.parse(
        {"log.dirs": ",".join(map(str, paths)), "listeners": "PLAINTEXT://127.0.0.1:0", "node.id": node_id}
    )
    return real_node(config)


def test_a_directory_with_foreign_files_is_refused_and_not_changed(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match=r"mine has 'letter\.txt', which is not a broker's"):
        node_on(tmp_path / "new", tmp_path / "mine")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "letter.txt"]


def test_a_directory_of_another_node_is_refused_and_not_changed(tmp_path: Path):
    async def life() -> None:
        async with node_on(tmp_path / "a"):
            pass

    asyncio.run(life())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(ConfigError, match="a belongs to node 0, not 3"):
        node_on(tmp_path / "a", tmp_path / "b", node_id=3)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_directory_in_use_is_refused_and_the_others_are_free_again(tmp_path: Path):
    async def life() -> None:
        async with node_on(tmp_path / "b"):
            with pytest.raises(ConfigError, match="b is in use by another broker"):
                node_on(tmp_path / "a", tmp_path / "b")
            async with node_on(tmp_path / "a"):
                pass

    asyncio.run(life())


# -- directories that fail -------------------------------------------------------------------------------------------


def test_a_failed_directory_takes_only_its_own_replicas_offline():
    async def life() -> None:
        broken = FaultyStorage(MemoryStorage())
        state = make_state([LogDirectory("/a", MemoryStorage()), LogDirectory("/b", broken)])
        create(state, "t", 2)
        first, second = TopicPartition("t", 0), TopicPartition("t", 1)
        fill(state, 3, first)
        broken.fail_at(1)
        with pytest.raises(ApiError):
            fill(state, 1, second)
        await asyncio.sleep(0)
        assert (state.is_offline(first), state.is_offline(second)) == (False, True)
        fill(state, 1, first)
        assert len(values(state, first)) == 4
        state.close()
        assert ".kafka_cleanshutdown" not in broken.files(ROOT)

    run(life())


def test_a_broker_starts_without_a_directory_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    directories = Directories()

    async def life() -> None:
        state = make_state(directories.opened())
        create(state, "t", 3)
        for index in range(3):
            fill(state, index + 1, TopicPartition("t", index))
        state.close()

        def broken(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(directories.storages["/b"], "folders", broken)
            state = make_state(directories.opened())
            offline = [state.is_offline(TopicPartition("t", index)) for index in range(3)]
            assert offline == [False, True, False], "and it is not created anew in another directory"
            assert len(values(state, TopicPartition("t", 2))) == 3
            state.close()
            for path in PATHS:
                patch.setattr(directories.storages[path], "folders", broken)
            with pytest.raises(OSError, match="Input/output error"):
                make_state(directories.opened())
        state = make_state(directories.opened())
        assert [len(values(state, TopicPartition("t", index))) for index in range(3)] == [1, 2, 3]
        state.close()

    run(life())
