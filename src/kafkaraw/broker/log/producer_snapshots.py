"""The producer snapshot files of one partition: written at each roll and at a clean close, read when a log is opened.

A snapshot is named after the first offset that it does not cover. Start at `ProducerSnapshots.newest`.
Source: org.apache.kafka.storage.internals.log.ProducerStateManager.
"""

from __future__ import annotations

import logging
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from typing import Final

from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.core.log.names import FileKind, OffsetFile, Stage
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot, decode_snapshot, encode_snapshot, file_name

_logger: Final = logging.getLogger("kafkaraw.broker")


class ProducerSnapshots:
    """The snapshots of one partition.

    Args:
        storage: where the files are.
        folder: the partition's folder.
        offsets: the offsets in the names of the files that are there.
    """

    def __init__(self, storage: LogStorage, folder: str, offsets: Iterable[int] = ()) -> None:
        self._storage = storage
        self._folder = folder
        self._offsets = sorted(offsets)

    @property
    def offsets(self) -> list[int]:
        """The offsets of all snapshots, sorted."""
        return list(self._offsets)

    def write(self, offset: int, producers: Iterable[ProducerSnapshot]) -> None:
        """Write the snapshot of an offset; one that is there is left alone, because it says the same.

        Raises:
            OSError: the storage is full or broken.
        """
        if offset in self._offsets:
            return
        self._storage.write_bytes(self._folder, file_name(offset), encode_snapshot(producers))
        insort(self._offsets, offset)

    def newest(self, offset: int) -> tuple[int, list[ProducerSnapshot]] | None:
        """Return the last snapshot that covers no batch at `offset` or behind it; a damaged one is removed.

        Returns:
            its offset and the producers; None if there is none.

        Raises:
            OSError: the storage is broken.
        """
        for found in reversed(self._offsets[: bisect_right(self._offsets, offset)]):
            name = file_name(found)
            try:
                data = self._storage.read_bytes(self._folder, name)
                if data is not None:
                    return found, decode_snapshot(data, f"{self._folder}/{name}")
            except ValueError as error:
                _logger.warning("Failed to load producer snapshot: %s; it is damaged and ignored", error)
            self._remove(found)
        return None

    def remove(self, is_stray: Callable[[int], bool]) -> None:
        """Remove the snapshots of the offsets for which `is_stray` holds.

        Raises:
            OSError: the storage is broken.
        """
        for offset in [offset for offset in self._offsets if is_stray(offset)]:
            self._remove(offset)

    def mark_deleted(self, offset: int) -> list[str]:
        """Rename the snapshot of an offset, if there is one, to be removed later. Return its new name.

        Raises:
            OSError: the storage is broken.
        """
        if offset not in self._offsets:
            return []
        new_name = OffsetFile(offset, FileKind.PRODUCER_SNAPSHOT, Stage.DELETED).name
        self._storage.rename_file(self._folder, file_name(offset), new_name)
        self._offsets.remove(offset)
        return [new_name]

    def _remove(self, offset: int) -> None:
        self._storage.remove_file(self._folder, file_name(offset))
        self._offsets.remove(offset)
