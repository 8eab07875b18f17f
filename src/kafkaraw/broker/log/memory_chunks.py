"""Memory for files in memory: chunks that never move, and are reused once no view refers to them.

Touching fresh memory takes several times longer than copying a batch into it. Large chunks therefore consist of huge
pages (`protocol.buffers`), and chunks of deleted files are kept for new files. This module does not know files. Start
at `ChunkPool.take`.
"""

from __future__ import annotations

import mmap
from typing import Final

from kafkaraw.protocol.buffers import Memory, fresh_memory, is_free

CHUNK_BYTES_MIN: Final = 64 * 1024
CHUNK_BYTES_MAX: Final = 16 * 1024 * 1024
GROWTH: Final = 4
"""Few chunks allow large responses: the bytes that a fetch returns of one partition end with a chunk."""
SPARE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Memory above this limit is freed."""


class Chunk:
    """Memory of a fixed size, filled from the front. It never moves, so views of it may be handed out."""

    __slots__ = ("memory", "owner", "position", "used")

    def __init__(self, owner: Memory, position: int) -> None:
        self.owner = owner
        self.memory = memoryview(owner)
        self.position = position
        self.used = 0


class ChunkPool:
    """Makes chunks, and takes back those that files need no longer."""

    def __init__(self) -> None:
        self._spares: list[mmap.mmap] = []
        self._spare_bytes = 0

    def take(self, size: int, file_bytes: int) -> Chunk:
        """A chunk for the end of a file.

        Args:
            size: what it must hold at least, in bytes.
            file_bytes: how large the file is: chunks grow with it, and what is never touched costs nothing.
        """
        wanted = max(size, min(max(CHUNK_BYTES_MIN, GROWTH * (file_bytes + size)), CHUNK_BYTES_MAX))
        capacity = 1 << (wanted - 1).bit_length()  # of few different sizes, so that they fit other files, too
        return Chunk(self._spare(capacity) or fresh_memory(capacity), file_bytes)

    def give_back(self, chunks: list[Chunk]) -> None:
        """Take back the chunks of a deleted file; existing views of them stay valid."""
        for chunk in chunks:
            owner = chunk.owner
            if isinstance(owner, mmap.mmap) and self._spare_bytes + len(owner) <= SPARE_BYTES_MAX:
                self._spares.append(owner)
                self._spare_bytes += len(owner)

    def _spare(self, capacity: int) -> mmap.mmap | None:
        for at in range(len(self._spares) - 1, -1, -1):
            if len(self._spares[at]) == capacity and is_free(self._spares[at]):
                self._spare_bytes -= capacity
                return self._spares.pop(at)
        return None
