"""A backup has all committed records once, reports what is missing, and is restored with exact offsets of groups."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import UsageError
from kafkaraw.mirror.backups import backup as backups
from kafkaraw.mirror.backups import restore as restores
from kafkaraw.mirror.backups.backup import BackupOptions
from kafkaraw.mirror.backups.checking import check
from kafkaraw.mirror.backups.manifest import BackupError, FileFormat
from kafkaraw.mirror.backups.restore import RestoreOptions
from kafkaraw.mirror.backups.store import BackupStore, HashedFile
from kafkaraw.mirror.slices import SourceChangedError
from tests.mirror.copies import (
    FEW_PARTITIONS,
    TIME_MS,
    backup,
    compacted_log,
    compared,
    ends_of,
    fill,
    random_topic,
    restored,
    rows_of,
)
from tests.rotation import rotating

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The cluster that is backed up."""
    with EmbeddedBroker(properties={"log.retention.ms": -1, **FEW_PARTITIONS}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """The cluster into which backups are restored."""
    with EmbeddedBroker(properties={"log.retention.ms": -1, **FEW_PARTITIONS}) as broker:
        yield broker.bootstrap_servers


def create(servers: str, name: str, partitions: int = 2, **configs: str) -> None:
    named = {config.replace("_", "."): value for config, value in configs.items()}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, partitions=partitions, configs=named)])


def commit(servers: str, group: str, topic: str, *offsets: int) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, at): offset for at, offset in enumerate(offsets)})


@pytest.mark.parametrize(
    ("seed", "file_format"), rotating([(seed, each) for seed in range(80) for each in FileFormat], 1)
)
def test_any_topic_is_restored_and_each_offset_is_that_of_the_same_record(
    other: str, tmp_path: Path, seed: int, file_format: FileFormat
) -> None:
    rng = random.Random(seed)
    compacted_log(tmp_path / "source", "t", rng)
    options = BackupOptions(file_format, file_bytes=rng.choice([1, 500, 1 << 20]))
    name = f"t-{seed}-{file_format.value}"
    seen: dict[tuple[int, int], tuple[object, ...]] = {}
    committed: dict[str, list[int]] = {}
    with EmbeddedBroker(data_dir=str(tmp_path / "source"), properties=FEW_PARTITIONS) as broker:
        for run in range(rng.randrange(1, 4)):
            random_topic(broker.bootstrap_servers, "t", rng)
            ranges = ends_of(broker.bootstrap_servers, "t").values()
            for group in ("a", "b"):
                committed[group] = [rng.randrange(max(0, start - 2), end + 1) for start, end in ranges]
                commit(broker.bootstrap_servers, group, "t", *committed[group])
            seen.update({row[:2]: row[2:] for row in rows_of(broker.bootstrap_servers, "t")})
            backup(broker.bootstrap_servers, ["t"], tmp_path / "backup", options, f"{run:08}")
    found = restored(other, tmp_path / "backup", RestoreOptions(rename={"t": name}))
    assert [(row[0], *row[2:]) for row in rows_of(other, name)] == [(key[0], *seen[key]) for key in sorted(seen)]
    assert not check(BackupStore(str(tmp_path / "backup"))).damages
    for group, offsets in committed.items():
        assert [found.groups[group][TopicPartition(name, number)].offset for number in range(len(offsets))] == [
            sum(key[0] == number and key[1] < offset for key in seen) for number, offset in enumerate(offsets)
        ]


def test_the_next_run_has_newer_records_only_and_a_run_without_any_has_no_file(
    servers: str, other: str, tmp_path: Path
) -> None:
    create(servers, "growing")
    fill(servers, "growing", range(10))
    first = backup(servers, ["growing"], tmp_path, run_id="a")
    fill(servers, "growing", range(10, 14))
    second = backup(servers, ["growing"], tmp_path, run_id="b")
    third = backup(servers, ["growing"], tmp_path, run_id="c")
    restored(other, tmp_path)
    reports = compared(servers, other, ("growing", "growing"))
    assert [(report.equal_count, report.is_equal) for report in reports] == [(7, True)] * 2
    assert [sum(file.records_count for file in run.manifest.files) for run in (first, second, third)] == [10, 4, 0]
    assert [[(one.begin, one.end) for one in run.manifest.topics[0].partitions] for run in (first, second, third)] == [
        [(0, 5)] * 2, [(5, 7)] * 2, [(7, 7)] * 2,
    ]  # fmt: skip
    again = backup(servers, ["growing"], tmp_path, BackupOptions(full=True), run_id="d")
    assert sum(file.records_count for file in again.manifest.files) == 14


def test_a_restore_as_of_an_earlier_run_or_time_has_no_later_record(servers: str, other: str, tmp_path: Path) -> None:
    create(servers, "timed")
    fill(servers, "timed", range(10))
    commit(servers, "of-timed", "timed", 4, 5)
    backup(servers, ["timed"], tmp_path, run_id="a")
    fill(servers, "timed", range(10, 20))
    backup(servers, ["timed"], tmp_path, run_id="b")
    restored(other, tmp_path, RestoreOptions(run=1, rename={"timed": "timed-1"}))
    assert ends_of(other, "timed-1") == {0: (0, 5), 1: (0, 5)}
    found = restored(other, tmp_path, RestoreOptions(to_ms=TIME_MS + 6, rename={"timed": "timed-2"}))
    assert [row[5] - TIME_MS for row in rows_of(other, "timed-2")] == [0, 2, 4, 6, 1, 3, 5]
    assert [one.left_out_count for one in found.partitions] == [6, 7]
    offsets = found.groups["of-timed"]
    assert [offsets[TopicPartition("timed-2", number)].offset for number in (0, 1)] == [4, 3]
    with pytest.raises(UsageError, match="has no run 3: it has 2"):
        restored(other, tmp_path, RestoreOptions(run=3))


def test_a_second_restore_is_refused_unless_it_appends(servers: str, other: str, tmp_path: Path) -> None:
    create(servers, "twice")
    fill(servers, "twice", range(6))
    commit(servers, "of-twice", "twice", 1, 3)
    backup(servers, ["twice"], tmp_path)
    restored(other, tmp_path)
    with pytest.raises(
        UsageError, match="topic 'twice' is not empty: twice-0 has offsets 0 to 2; delete it, restore under"
    ):
        restored(other, tmp_path)
    dry = restored(other, tmp_path, RestoreOptions(append=True, dry_run=True))
    assert ends_of(other, "twice") == {0: (0, 3), 1: (0, 3)}
    found = restored(other, tmp_path, RestoreOptions(append=True))
    assert dry == found
    assert ends_of(other, "twice") == {0: (0, 6), 1: (0, 6)}
    with Admin(bootstrap_servers=other) as admin:
        offsets = admin.list_group_offsets(["of-twice"])["of-twice"]
    assert {key.partition: one.offset for key, one in offsets.items()} == {0: 4, 1: 6}


def test_a_dry_run_changes_nothing(servers: str, other: str, tmp_path: Path) -> None:
    create(servers, "dry")
    fill(servers, "dry", range(6))
    backup(servers, ["dry"], tmp_path)
    found = restored(other, tmp_path, RestoreOptions(dry_run=True))
    assert found.created == ["dry"]
    assert [one.records_count for one in found.partitions] == [3, 3]
    with Admin(bootstrap_servers=other) as admin:
        assert "dry" not in [topic.name for topic in admin.list_topics()]


def test_settings_that_would_change_records_are_set_behind_them(servers: str, other: str, tmp_path: Path) -> None:
    from kafkaraw.client.admin.configs import ConfigResource

    settings = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "1000",
        "segment.bytes": "2000000",
    }
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("set", partitions=1, configs=settings)])
    fill(servers, "set", range(5), partitions=1)
    backup(servers, ["set"], tmp_path)
    restored(other, tmp_path, RestoreOptions(configs={"segment.bytes": "3000000", "cleanup.policy": None}))
    assert [row[2:] for row in rows_of(servers, "set")] == [row[2:] for row in rows_of(other, "set")]
    with Admin(bootstrap_servers=other) as admin:
        entries = admin.describe_configs([ConfigResource.topic("set")])[ConfigResource.topic("set")]
    expected = {**settings, "segment.bytes": "3000000", "cleanup.policy": "delete"}
    assert {name: entries[name].value for name in settings} == expected


def test_a_topic_that_exists_with_other_settings_or_fewer_partitions_is_refused(
    servers: str, other: str, tmp_path: Path
) -> None:
    create(servers, "exists", retention_ms="-1")
    fill(servers, "exists", range(4))
    backup(servers, ["exists"], tmp_path)
    create(other, "exists", retention_ms="5000")
    with pytest.raises(
        UsageError, match=r"topic 'exists' exists with retention.ms=5000, and the backup has -1; alter it"
    ):
        restored(other, tmp_path)
    create(other, "narrow", partitions=1, retention_ms="-1")
    with pytest.raises(UsageError, match="topic 'narrow' exists with 1 partitions, and 'exists' had 2"):
        restored(other, tmp_path, RestoreOptions(rename={"exists": "narrow"}))
    restored(other, tmp_path, RestoreOptions(keep_settings=True))
    assert len(rows_of(other, "exists")) == 4


def test_choices_that_do_not_fit_the_backup_are_refused(servers: str, other: str, tmp_path: Path) -> None:
    create(servers, "one")
    create(servers, "two")
    backup(servers, ["one", "two"], tmp_path)
    for options, message in [
        (RestoreOptions(topics=["three"]), "the backup has no topic 'three'; it has one, two"),
        (RestoreOptions(rename={"three": "four"}), "topic 'three' is to be renamed, and is not restored"),
        (RestoreOptions(rename={"one": "two"}), "two topics would be restored as 'two'"),
    ]:
        with pytest.raises(UsageError, match=message):
            restored(other, tmp_path, options)


def test_offsets_that_retention_has_deleted_before_a_run_are_reported(servers: str, other: str, tmp_path: Path) -> None:
    create(servers, "lossy", partitions=1)
    fill(servers, "lossy", range(10), partitions=1, batch_size=1)
    backup(servers, ["lossy"], tmp_path, run_id="a")
    fill(servers, "lossy", range(10, 30), partitions=1, batch_size=1)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition("lossy", 0): 15})
    run = backup(servers, ["lossy"], tmp_path, run_id="b")
    reported = "lossy-0: offsets 10 to 14 were deleted in the source before they were backed up"
    assert run.notices == [reported]
    found = restored(other, tmp_path)
    assert found.notices == [reported]
    assert [row[3] for row in rows_of(other, "lossy")] == [b"v%d" % number for number in (*range(10), *range(15, 30))]


def test_a_topic_that_was_created_again_starts_anew(servers: str, other: str, tmp_path: Path) -> None:
    create(servers, "again", partitions=1)
    fill(servers, "again", range(10), partitions=1)
    backup(servers, ["again"], tmp_path, run_id="a")
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["again"])
    create(servers, "again", partitions=1)
    fill(servers, "again", range(50, 53), partitions=1)
    run = backup(servers, ["again"], tmp_path, run_id="b")
    assert run.notices == [
        "topic again was deleted and created again: it is backed up anew, and earlier runs keep the old one"
    ]
    restored(other, tmp_path)
    assert [row[3] for row in rows_of(other, "again")] == [b"v50", b"v51", b"v52"]
    restored(other, tmp_path, RestoreOptions(run=1, rename={"again": "again-1"}))
    assert len(rows_of(other, "again-1")) == 10


def test_a_log_that_ends_before_what_was_backed_up_is_refused(servers: str, tmp_path: Path) -> None:
    create(servers, "cut", partitions=1)
    fill(servers, "cut", range(4), partitions=1)
    backup(servers, ["cut"], tmp_path, run_id="a")
    store = BackupStore(str(tmp_path))
    known = backups.states_of(store.manifests())
    known.topics["cut"].partitions[0].end = 9
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(
            SourceChangedError, match="cut-0 ends at offset 4, and offsets up to 8 were backed up: its log was"
        ),
    ):
        patch.setattr(backups, "states_of", lambda manifests: known)
        backup(servers, ["cut"], tmp_path, run_id="b")


def test_a_backup_of_another_cluster_and_a_directory_of_something_else_are_refused(
    servers: str, other: str, tmp_path: Path
) -> None:
    create(servers, "mine")
    create(other, "mine")
    backup(servers, ["mine"], tmp_path / "a")
    with pytest.raises(UsageError, match=r"is a backup of cluster .*, and this is cluster .*; name another location"):
        backup(other, ["mine"], tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes").write_text("mine")
    with pytest.raises(UsageError, match="b holds notes, which is no backup"):
        backup(servers, ["mine"], tmp_path / "b")
    with pytest.raises(UsageError, match="c has no complete run of a backup"):
        check(BackupStore(str(tmp_path / "c")))
    with pytest.raises(UsageError, match="unheard://x cannot be opened: Protocol not known: unheard"):
        BackupStore("unheard://x")


def test_a_filesystem_of_fsspec_holds_a_backup(servers: str, other: str) -> None:
    create(servers, "remote")
    fill(servers, "remote", range(6))
    backup(servers, ["remote"], "memory://backups/production", run_id="a")
    backup(servers, ["remote"], "memory://backups/production", BackupOptions(FileFormat.PARQUET), run_id="b")
    assert check(BackupStore("memory://backups/production")).records_count == 6
    restored(other, "memory://backups/production")
    assert len(rows_of(other, "remote")) == 6


class _Killed(BaseException):
    """Ends a run as SIGKILL does: nothing is cleaned up."""


@pytest.mark.parametrize("step", rotating(["begin", "writing", "add", "_replace"], 1))
def test_a_killed_run_does_not_count_and_the_next_one_has_its_records(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic = f"killed-{step.strip('_')}"
    create(servers, topic)
    fill(servers, topic, range(8))
    backup(servers, [topic], tmp_path, run_id="a")
    fill(servers, topic, range(8, 12))

    def kill(*given: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(BackupStore, step, kill)
        patch.setattr(BackupStore, "remove_folder", lambda *given: None)
        with pytest.raises(_Killed):
            backup(servers, [topic], tmp_path, run_id="b")
    assert len(BackupStore(str(tmp_path)).manifests()) == 1
    checked = check(BackupStore(str(tmp_path)))
    assert not checked.damages
    assert checked.unfinished == (["runs/000002-b"] if step in ("add", "_replace") else [])
    second = backup(servers, [topic], tmp_path, run_id="c").manifest
    assert (second.run, sum(file.records_count for file in second.files)) == (2, 4)
    backup(servers, [topic], tmp_path, run_id="d")
    assert check(BackupStore(str(tmp_path))).unfinished == []
    assert check(BackupStore(str(tmp_path))).records_count == 12


@pytest.mark.parametrize("step", rotating(["_write_partition", "_check_ends", "_complete", "_commit"], 1))
def test_a_killed_restore_is_refused_the_next_time_and_commits_no_offset(
    servers: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic, group = f"half{step}", f"of-half{step}"
    create(servers, topic)
    fill(servers, topic, range(8))
    commit(servers, group, topic, 2, 2)
    backup(servers, [topic], tmp_path)
    real, calls = getattr(restores, step), []

    async def kill(*given: object) -> None:
        calls.append(given)
        if step == "_write_partition" and len(calls) == 1:
            await real(*given)
        else:
            raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(restores, step, kill)
        with pytest.raises(_Killed):
            restored(other, tmp_path)
    with Admin(bootstrap_servers=other) as admin:
        assert group not in [one.group_id for one in admin.list_groups()]
        with pytest.raises(UsageError, match=f"topic '{topic}' is not empty"):
            restored(other, tmp_path)
        admin.delete_topics([topic])
    assert [one.records_count for one in restored(other, tmp_path).partitions] == [4, 4]


def test_two_runs_at_once_end_with_one_of_them(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(servers, "raced")
    fill(servers, "raced", range(8))
    real = BackupStore.add

    def add(store: BackupStore, manifest: object) -> None:
        monkeypatch.setattr(BackupStore, "add", real)
        monkeypatch.setattr(backups, "_remove_unfinished", lambda *given: None)
        BackupStore.add(BackupStore(str(tmp_path)), manifest)  # type: ignore[arg-type]
        real(store, manifest)  # type: ignore[arg-type]

    monkeypatch.setattr(BackupStore, "add", add)
    with pytest.raises(BackupError, match=r"000001.json: another process has added run 1 meanwhile; start again"):
        backup(servers, ["raced"], tmp_path)


def test_a_full_disk_is_reported_with_the_file_and_the_run_does_not_count(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(servers, "full")
    fill(servers, "full", range(8))
    store = BackupStore(str(tmp_path))
    real = store._files.open

    def open_full(path: str, mode: str) -> object:
        file = real(path, mode)
        if path.endswith(".log"):
            monkeypatch.setattr(file, "write", _no_space, raising=False)
        return file

    monkeypatch.setattr(type(store._files), "open", lambda self, path, mode: open_full(path, mode))
    with pytest.raises(BackupError, match=r"runs/000001-00000000/full/[01]/0+\.log: cannot be written: No space left"):
        backup(servers, ["full"], tmp_path)
    assert not BackupStore(str(tmp_path)).run_folders()


def _no_space(*given: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("file_format", FileFormat)
def test_damaged_and_missing_files_are_named(servers: str, other: str, tmp_path: Path, file_format: FileFormat) -> None:
    topic = f"damaged-{file_format.value}"
    create(servers, topic, partitions=3)
    fill(servers, topic, range(40), partitions=3)
    manifest = backup(servers, [topic], tmp_path, BackupOptions(file_format)).manifest
    files = [tmp_path / file.path for file in manifest.files]
    files[0].unlink()
    content = bytearray(files[1].read_bytes())
    content[len(content) // 2] ^= 4
    files[1].write_bytes(content)
    files[2].write_bytes(files[2].read_bytes()[:-1])
    found = check(BackupStore(str(tmp_path)))
    reasons = [damage.reason for damage in found.damages]
    assert len(reasons) == 3
    assert f"{files[0]}: is missing" in reasons[0]
    assert f"{files[1]}: its checksum is" in reasons[1]
    assert f"{files[2]}: has {files[2].stat().st_size} bytes, its manifest says" in reasons[2]
    with pytest.raises(BackupError, match="is missing"):
        restored(other, tmp_path, RestoreOptions(dry_run=True))


def test_damaged_and_missing_manifests_are_named(servers: str, tmp_path: Path) -> None:
    create(servers, "listed")
    fill(servers, "listed", range(4))
    for run_id in ("a", "b", "c"):
        backup(servers, ["listed"], tmp_path, run_id=run_id)
    second = tmp_path / "manifests" / "000002.json"
    text = second.read_text()
    second.write_text(text.replace('"begin": 2', '"begin": 1', 1))
    with pytest.raises(BackupError, match=r"manifests/000002.json: its checksum is .*: it is damaged"):
        check(BackupStore(str(tmp_path)))
    second.write_text(text[:100])
    with pytest.raises(BackupError, match=r"manifests/000002.json: is damaged"):
        check(BackupStore(str(tmp_path)))
    second.unlink()
    with pytest.raises(BackupError, match=r"manifests/000002.json is missing: the next run is 3"):
        check(BackupStore(str(tmp_path)))


def test_another_producer_during_a_restore_is_reported_and_no_offset_is_committed(
    servers: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(servers, "busy", partitions=1)
    fill(servers, "busy", range(4), partitions=1)
    commit(servers, "of-busy", "busy", 2)
    backup(servers, ["busy"], tmp_path)
    real = restores._check_ends

    async def check_ends(*given: object) -> None:
        with Producer(bootstrap_servers=other) as producer:
            producer.send("busy", b"from elsewhere").result()
        await real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(restores, "_check_ends", check_ends)
    with pytest.raises(BackupError, match="busy-0 ends at offset 5, and would at 4 with the restored records alone"):
        restored(other, tmp_path)
    with Admin(bootstrap_servers=other) as admin:
        assert "of-busy" not in [group.group_id for group in admin.list_groups()]


def test_acls_of_restored_topics_and_groups_are_created(tmp_path: Path) -> None:
    from kafkaraw.client.admin.acls import AclBinding, ResourcePattern
    from kafkaraw.protocol.acl_codes import AclOperation, PatternType, ResourceType

    secure = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **FEW_PARTITIONS,
    }
    acls = [
        AclBinding(ResourcePattern(ResourceType.TOPIC, "guarded"), "User:ada", AclOperation.READ),
        AclBinding(ResourcePattern(ResourceType.GROUP, "g"), "User:ada", AclOperation.READ),
        AclBinding(ResourcePattern(ResourceType.TOPIC, "gua", PatternType.PREFIXED), "User:ada", AclOperation.WRITE),
    ]
    with EmbeddedBroker(properties=secure) as one, EmbeddedBroker(properties=secure) as two:
        create(one.bootstrap_servers, "guarded", partitions=1)
        commit(one.bootstrap_servers, "g", "guarded", 0)
        with Admin(bootstrap_servers=one.bootstrap_servers) as admin:
            admin.create_acls(acls)
        backup(one.bootstrap_servers, ["guarded"], tmp_path)
        found = restored(two.bootstrap_servers, tmp_path, RestoreOptions(rename={"guarded": "new"}, acls=True))
        assert found.notices == ["1 ACLs are of other resources, or of patterns, and are not restored"]
        with Admin(bootstrap_servers=two.bootstrap_servers) as admin:
            assert {acl.pattern.name for acl in admin.describe_acls()} == {"new", "g"}


def test_files_that_pyarrow_writes_are_counted_and_hashed(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        hashed = HashedFile(file, "file")
        hashed.write(b"abc")
        hashed.write(memoryview(b"def"))
    assert (hashed.size_bytes, hashed.tell()) == (6, 6)
    assert hashed.sha256 == "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721"
