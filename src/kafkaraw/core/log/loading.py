"""What a broker does with the files of a partition's folder before it opens the log. Pure: names in, names out.

Start at `finish_renames`: which files are live once the renames are completed that an earlier broker has begun.
Source: org.apache.kafka.storage.internals.log.{LogLoader, ProducerStateManager.removeStraySnapshots}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kafkaraw.core.log.names import FileKind, OffsetFile, Stage
from kafkaraw.light_classes import NamedTuple


class FinishedRenames(NamedTuple):
    """The files of a folder, as they are to be.

    Attributes:
        names: live name -> name of the file that has its content.
        removed: names of the files to remove, before any is renamed.
    """

    names: dict[str, str]
    removed: list[str]


def finish_renames(files: Collection[OffsetFile], next_offset_of: Callable[[OffsetFile], int]) -> FinishedRenames:
    """Complete what the replacement or deletion of segments has left.

    As LogLoader does: `.deleted` and `.cleaned` files are removed, and so are `.swap` files at or above the lowest
    `.cleaned` one. The other `.swap` files replace the segments whose offsets they cover.

    Args:
        files: all files that are named after an offset.
        next_offset_of: returns the offset behind the last batch of a log file.
    """
    cleaned = [file.offset for file in files if file.stage is Stage.CLEANED]
    swaps = [file for file in files if file.stage is Stage.SWAP]
    valid = [file for file in swaps if not cleaned or file.offset < min(cleaned)]
    removed = [file.name for file in files if file.stage in (Stage.CLEANED, Stage.DELETED)]
    removed += [file.name for file in swaps if file not in valid]
    start, end = 2**63 - 1, -1
    for swap in valid:
        if swap.kind is FileKind.LOG:
            start = min(start, swap.offset)
            end = max(end, next_offset_of(swap))
    names = {}
    for file in files:
        if file.stage is Stage.LIVE and start <= file.offset < end:
            removed.append(file.name)
        elif file.stage is Stage.LIVE:
            names[file.name] = file.name
    names |= {file._replace(stage=Stage.LIVE).name: file.name for file in valid}
    return FinishedRenames(names, removed)


def stray_snapshots(snapshots: Iterable[int], base_offsets: Collection[int], log_end_offset: int) -> list[int]:
    """Return the offsets of the producer snapshots that the log no longer needs.

    It needs those at the base offset of a segment, because they were written when the segment was rolled, and the last
    one, which was written when the broker stopped, if it is behind all segments.

    Args:
        snapshots: the offsets in the names of all snapshots.
        base_offsets: of the segments.
        log_end_offset: of the log; later snapshots belong to batches that are lost.
    """
    offsets = sorted(snapshots)
    newest = max((offset for offset in offsets if offset <= log_end_offset), default=-1)
    kept = {offset for offset in offsets if offset in base_offsets and offset <= log_end_offset}
    if newest > max(base_offsets, default=-1):
        kept.add(newest)
    return [offset for offset in offsets if offset not in kept]
