"""A pruned backup is restored as before, from its first run on, also if the prune is killed at any step."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.mirror.backups import store as stores
from kafkaraw.mirror.backups.checking import check
from kafkaraw.mirror.backups.manifest import (
    BackupState,
    DataFile,
    FileFormat,
    Manifest,
    PartitionRun,
    TopicRun,
    folder_of,
    states_of,
)
from kafkaraw.mirror.backups.pruning import kept_manifests, prune
from kafkaraw.mirror.backups.store import BackupStore
from tests.rotation import rotating

pytest.importorskip("fsspec")

DAY_MS = 24 * 3_600_000
NOW_MS = 1_000 * DAY_MS
CONTENT = b"no batch"


class Killed(BaseException):
    """Ends a process."""


@pytest.fixture(autouse=True)
def without_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncing takes most of the time, and no machine crashes here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_files_that_a_full_run_has_replaced_are_removed(tmp_path: Path) -> None:
    store, manifests = written(tmp_path, [{"t": 3}, {"t": 2}, {"t": 1}], full={2})
    before = states_of(manifests)
    assert prune(store, keep_last=2, dry_run=True).files == {}, "run 2 needs what run 1 has"
    found = prune(store, keep_last=1)
    assert (found.first_run, found.removed_runs, found.size_bytes) == (3, [1, 2], 2 * len(CONTENT))
    assert found.records == {}
    assert states_of(store.manifests()) == before
    assert sorted(store.sizes()) == [file.path for file in manifests[-1].files]


def test_runs_before_the_kept_ones_cannot_be_restored_and_the_kept_ones_are_as_before(tmp_path: Path) -> None:
    store, manifests = written(tmp_path, [{"t": 3}, {"t": 2, "u": 1}, {"t": 1}, {"u": 2}])
    before = {run: states_of(manifests[:run]) for run in (3, 4)}
    found = prune(store, keep_last=2)
    assert (found.first_run, found.removed_runs, found.files) == (3, [1, 2], {})
    assert {run: states_of(store.manifests(run)) for run in (3, 4)} == before
    with pytest.raises(UsageError, match="has no run 2: it has 2; those before 3 were pruned"):
        store.manifests(2)
    assert [name.name for name in sorted((tmp_path / "manifests").iterdir())] == [
        "000003-base-0001.json",
        "000004.json",
    ]
    assert not check(store).unfinished


def test_old_records_are_removed_except_those_of_compacted_topics_and_of_the_last_run(tmp_path: Path) -> None:
    runs = [{"t": 3, "compacted": 1}, {"t": 2}, {"t": 1, "compacted": 1}]
    store, _ = written(tmp_path, runs, configs={"compacted": {"cleanup.policy": "compact,delete"}})
    found = prune(store, before_ms=NOW_MS + DAY_MS)
    assert (found.first_run, found.records, len(found.files)) == (2, {"t": 3}, 1)
    state = states_of(store.manifests())
    assert [(each.begin, each.end, each.records_count) for each in partitions(state, "t")] == [(3, 6, 3)]
    assert [each.records_count for each in partitions(state, "compacted")] == [2]
    assert prune(store, before_ms=NOW_MS + DAY_MS).files == {}
    found = prune(store, before_ms=NOW_MS + 99 * DAY_MS)
    assert (found.first_run, found.records) == (3, {"t": 2})
    assert not (tmp_path / "runs" / folder_of(2, "2").rpartition("/")[2]).exists(), "empty folders are removed"


def test_lost_offsets_stay_known(tmp_path: Path) -> None:
    store, manifests = written(tmp_path, [{"t": 3}, {"t": 2}, {"t": 4}, {"t": 1}], lost={1, 2})
    before = states_of(manifests)
    assert [each.lost for each in partitions(before, "t")] == [[(3, 5), (7, 9)]]
    prune(store, keep_last=1)
    assert states_of(store.manifests()) == before
    prune(store, before_ms=NOW_MS + 2 * DAY_MS)
    assert [each.lost for each in partitions(states_of(store.manifests()), "t")] == [[]]


def test_a_later_run_continues_a_pruned_backup(tmp_path: Path) -> None:
    store, manifests = written(tmp_path, [{"t": 3}, {"t": 2}])
    prune(store, keep_last=1)
    after = run_of(3, {"t": 1}, states_of(manifests))
    store.add(after)
    assert states_of(store.manifests()) == states_of([*manifests, after])
    assert prune(store, before_ms=NOW_MS + DAY_MS).records == {"t": 3}, "it is known when the first run began"


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    store, _ = written(tmp_path, [{"t": 3}, {"t": 2}, {"t": 1}], full={2})
    before = names(tmp_path)
    shown = prune(store, keep_last=1, dry_run=True)
    assert names(tmp_path) == before
    assert prune(store, keep_last=1) == shown


@pytest.mark.parametrize("seed", rotating(range(30), 1))
def test_a_prune_that_is_killed_at_any_step_leaves_a_backup_that_the_next_prune_completes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    runs = [{topic: rng.randrange(1, 5) for topic in "tu" if rng.random() < 0.8} for _ in range(rng.randrange(2, 6))]
    full, lost = {rng.randrange(1, len(runs))}, {rng.randrange(1, len(runs))}
    limits = rng.choice([{"keep_last": rng.randrange(1, 3)}, {"before_ms": NOW_MS + rng.randrange(6) * DAY_MS}])
    _, manifests = written(tmp_path / "before", runs, full=full, lost=lost)
    kept = kept_manifests(manifests, **limits)
    shutil.copytree(tmp_path / "before", tmp_path / "complete")
    prune(BackupStore(str(tmp_path / "complete")), **limits)
    complete = names(tmp_path / "complete")
    for step in range(100):
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "before", folder)
        store = BackupStore(str(folder))
        with monkeypatch.context() as patches:
            steps = kill_at(patches, step)
            with suppress(Killed):
                prune(store, **limits)
        found = BackupStore(str(folder)).manifests()
        assert found in (manifests, kept)
        assert {file.path for manifest in found for file in manifest.files} <= set(store.sizes())
        prune(BackupStore(str(folder)), **limits)
        assert names(folder) == complete
        if next(steps) < step:
            break
    assert step > 1


def kill_at(patches: pytest.MonkeyPatch, at: int) -> Iterator[int]:
    """Raise `Killed` before the call with this number that changes the filesystem; yields how many calls there were."""
    count = 0

    def counted(function):
        def call(*args: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count > at:
                raise Killed
            return function(*args, **named)

        return call

    from fsspec.implementations.local import LocalFileSystem

    patches.setattr(LocalFileSystem, "rm", counted(LocalFileSystem.rm))
    patches.setattr(LocalFileSystem, "open", counted(LocalFileSystem.open))
    for name in ("replace", "rmdir", "fsync"):
        patches.setattr(stores.os, name, counted(getattr(stores.os, name)))

    def counts() -> Iterator[int]:
        while True:
            yield count

    return counts()


def names(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.is_file() and path.suffix != ".draft"
    )


def partitions(state: BackupState, topic: str):
    return list(state.topics[topic].partitions.values())


def written(
    folder: Path,
    runs: list[dict[str, int]],
    *,
    full: frozenset[int] | set[int] = frozenset(),
    lost: frozenset[int] | set[int] = frozenset(),
    configs: dict[str, dict[str, str]] | None = None,
) -> tuple[BackupStore, list[Manifest]]:
    """Write a backup: so many records of each topic in each run, one run a day; of the numbers in `full`, anew."""
    store, manifests = BackupStore(str(folder)), list[Manifest]()
    store.begin()
    for number, counts in enumerate(runs):
        known = BackupState() if number in full else states_of(manifests)
        manifest = run_of(number + 1, counts, known, lost_count=2 * (number in lost), configs=configs or {})
        for file in manifest.files:
            with store.writing(file.path) as opened:
                opened.write(CONTENT)
        store.add(manifest)
        manifests.append(manifest)
    return store, manifests


def run_of(
    run: int,
    counts: dict[str, int],
    known: BackupState,
    *,
    lost_count: int = 0,
    configs: dict[str, dict[str, str]] | None = None,
) -> Manifest:
    topics = []
    for topic, count in counts.items():
        before = known.topics[topic].partitions[0].end if topic in known.topics else None
        begin = (before or 0) + lost_count * (before is not None)
        lost = (before, begin) if before is not None and lost_count else None
        file = DataFile(f"{folder_of(run, str(run))}/{topic}/0/{begin:020}.log", begin, begin + count, count, 8, "")
        partition = PartitionRun(0, begin, begin + count, before is not None, lost, (file,))
        topics.append(TopicRun(topic, topic, 1, (configs or {}).get(topic, {}), (partition,)))
    created_ms = NOW_MS + (run - 1) * DAY_MS
    return Manifest(run, str(run), created_ms, "cluster", FileFormat.SEGMENTS, tuple(topics), {}, None)
