"""`IndexFile`: an index of an inactive segment, of which only what searches compare is in memory.

The indexes of a segment of 1 GB may have 5 MB. A search compares about 20 entries of them: reading all would make the
first look-up in each segment slow, and look-ups in many segments would fill the memory.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkaraw.broker.log.storage import LogFile

BLOCK_BYTES: Final = 3_072
"""How much is read at once: whole entries of both kinds, of 8 and 12 bytes."""
LOADED_BYTES_MAX: Final = 16 * BLOCK_BYTES
"""Index files up to this size are read as a whole."""


class IndexFile:
    """The entries of an index file; see `segment_indexes.EntryFile`. Blocks that were read stay in memory.

    Args:
        file: the file; its owner closes it.
    """

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._size_bytes = file.size_bytes
        self._blocks: dict[int, memoryview] = {}

    def __len__(self) -> int:
        return self._size_bytes

    def __getitem__(self, part: slice) -> memoryview:
        return self._file.read(part.start, min(part.stop, self._size_bytes) - part.start)

    def unpack_from(self, layout: struct.Struct, at: int) -> tuple[int, ...]:
        """Return the numbers at a byte, within one entry."""
        number, within = divmod(at, BLOCK_BYTES)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = self._file.read(number * BLOCK_BYTES, BLOCK_BYTES)
        return layout.unpack_from(block, within)

    def cut(self, size_bytes: int) -> None:
        """Leave out the bytes behind the first ones."""
        self._size_bytes = size_bytes
