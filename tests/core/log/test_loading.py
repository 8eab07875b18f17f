"""What a broker does with unfinished renames and stray producer snapshots before it opens a log."""

from __future__ import annotations

from kafkaraw.core.log.loading import finish_renames, stray_snapshots
from kafkaraw.core.log.names import FileKind, OffsetFile, Stage


def files(*offsets: int, stage: Stage = Stage.LIVE) -> list[OffsetFile]:
    return [OffsetFile(offset, kind, stage) for offset in offsets for kind in (FileKind.LOG, FileKind.OFFSET_INDEX)]


def finished(found: list[OffsetFile], ends: dict[int, int] | None = None) -> tuple[set[str], set[str]]:
    """The live names with another source, and what is removed."""
    renames = finish_renames(found, lambda file: (ends or {})[file.offset])
    return {name for name, source in renames.names.items() if name != source}, set(renames.removed)


def test_deleted_and_cleaned_files_are_removed():
    gone = [*files(0, stage=Stage.DELETED), *files(5, stage=Stage.CLEANED)]
    assert finished([*files(10), *gone]) == (set(), {file.name for file in gone})


def test_swap_files_replace_the_segments_whose_offsets_they_cover():
    swap = files(0, stage=Stage.SWAP)
    renamed, removed = finished([*files(0, 4, 9, 12), *swap], {0: 12})
    assert renamed == {file.name for file in files(0)}
    assert removed == {file.name for file in files(0, 4, 9)}


def test_swap_files_behind_a_cleaned_one_are_of_a_replacement_that_never_was():
    left = [*files(5, stage=Stage.SWAP), *files(0, stage=Stage.CLEANED)]
    assert finished([*files(0, 5), *left]) == (set(), {file.name for file in left})


def test_snapshots_of_segments_and_the_last_one_are_kept():
    assert stray_snapshots([0, 3, 5, 9, 20], base_offsets=[0, 5, 9], log_end_offset=15) == [3, 20]
    assert stray_snapshots([5, 12, 15], base_offsets=[5, 9], log_end_offset=15) == [12]
    assert stray_snapshots([7], base_offsets=[9], log_end_offset=9) == [7]
    assert stray_snapshots([], base_offsets=[], log_end_offset=0) == []
