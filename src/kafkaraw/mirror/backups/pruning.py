"""`prune`: remove files of a backup that no run needs any more, or whose records are old.

Theory of operation. The runs that are kept begin with one of them, whose manifest is replaced by a base: it names every
file of earlier runs that is still needed (`base_of`). The base is a new file, so the backup changes at the moment at
which it is there. Only then are files removed: the manifests that the base replaces, and everything in the folders of
runs that no manifest names. A prune that is killed leaves either the backup as it was, or the pruned one with files
that do not count; the next one removes them.

A run that is being made meanwhile is safe: it adds files in a folder with a greater number. A restore that reads the
backup meanwhile may find that a file is missing. Start at `prune`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.backups.manifest import (
    RUNS_FOLDER,
    BackupError,
    DataFile,
    Manifest,
    TopicState,
    base_of,
    folder_in,
    states_of,
)
from kafkaraw.mirror.backups.store import BackupStore


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune has removed, or would.

    Attributes:
        first_run: the first run to which the backup can be restored from then on.
        removed_runs: those to which it could be restored before.
        files: the removed files, with their sizes in bytes.
        manifests_count: number of manifests that are replaced.
        records: by topic, the number of records that the last run does not restore any more.
    """

    first_run: int
    removed_runs: Sequence[int]
    files: Mapping[str, int]
    manifests_count: int
    records: Mapping[str, int]

    @property
    def size_bytes(self) -> int:
        """The size of all removed files."""
        return sum(self.files.values())


def prune(
    store: BackupStore, *, keep_last: int | None = None, before_ms: int | None = None, dry_run: bool = False
) -> Pruned:
    """Remove what a backup does not need any more. Give one of `keep_last` and `before_ms`.

    Args:
        store: the backup.
        keep_last: this many runs are kept: the backup can be restored as it was after each of them.
        before_ms: runs that began before this time, in milliseconds since 1970 UTC, are not kept, and neither are their
            records. The last run is kept, and so are the records of topics that are compacted: they have no later ones.
        dry_run: change nothing.

    Raises:
        UsageError: there is no backup.
        BackupError: it is damaged, or cannot be changed.
    """
    manifests = store.required_manifests()
    kept = kept_manifests(manifests, keep_last=keep_last, before_ms=before_ms)
    needed = {file.path for manifest in kept for file in manifest.files}
    last = manifests[-1]
    files = {
        path: size
        for path, size in store.sizes().items()
        if path not in needed and (folder_in(path) == last.folder or path < f"{RUNS_FOLDER}/{last.run:06}-")
    }
    removed_runs = [manifest.run for manifest in manifests if manifest.run < kept[0].run]
    if not dry_run:
        if kept[0] != manifests[0]:
            store.add_base(kept[0])
            if store.manifests()[: len(kept)] != kept:
                raise BackupError(f"{store.url}: another process has pruned it meanwhile; start again")
        store.remove(store.superseded_manifests())
        store.remove(sorted(files))
    return Pruned(kept[0].run, removed_runs, files, len(removed_runs), _records(manifests, kept))


def kept_manifests(
    manifests: Sequence[Manifest], *, keep_last: int | None = None, before_ms: int | None = None
) -> list[Manifest]:
    """Return the manifests of a backup after a prune, the first one of which may be a base; see `prune`. Pure."""
    if before_ms is None:
        first = max(0, len(manifests) - (keep_last or 1))
    else:
        old = [place for place, manifest in enumerate(manifests) if manifest.created_ms < before_ms]
        first = min(1 + max(old, default=-1), len(manifests) - 1)
    began_ms = {folder: at for manifest in manifests for folder, at in manifest.earlier.items()}
    began_ms |= {manifest.folder: manifest.created_ms for manifest in manifests}

    def drops(topic: TopicState, file: DataFile) -> bool:
        folder = folder_in(file.path)
        is_kept = before_ms is None or folder == manifests[first].folder or began_ms[folder] >= before_ms
        return not is_kept and "compact" not in topic.configs.get("cleanup.policy", "")

    base = base_of(manifests[: first + 1], drops)
    is_same = not first and base.files == manifests[0].files
    return [manifests[0] if is_same else base, *manifests[first + 1 :]]


def _records(before: Sequence[Manifest], after: Sequence[Manifest]) -> dict[str, int]:
    counts = [
        {
            topic.name: sum(partition.records_count for partition in topic.partitions.values())
            for topic in states_of(manifests).topics.values()
        }
        for manifests in (before, after)
    ]
    return {topic: count - counts[1].get(topic, 0) for topic, count in counts[0].items() if count != counts[1][topic]}
