"""Memory is used again when nobody looks at it any more, and not before."""

from __future__ import annotations

import mmap

import pytest

from kafkaraw.broker.log import memory_chunks
from kafkaraw.broker.log.memory_chunks import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, ChunkPool
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.protocol.buffers import HUGE_PAGE_BYTES

LARGE = b"x" * HUGE_PAGE_BYTES
huge_pages = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="large chunks are kept where pages are huge")


def test_chunks_grow_with_their_file_and_hold_what_they_must():
    pool = ChunkPool()
    assert len(pool.take(1, 0).memory) == CHUNK_BYTES_MIN
    assert len(pool.take(1, 5 * CHUNK_BYTES_MIN).memory) == 32 * CHUNK_BYTES_MIN
    assert len(pool.take(1, 1 << 40).memory) == CHUNK_BYTES_MAX
    assert len(pool.take(CHUNK_BYTES_MAX + 1, 0).memory) == 2 * CHUNK_BYTES_MAX


@huge_pages
def test_the_memory_of_a_file_that_is_gone_serves_the_next_one():
    storage = MemoryStorage()
    storage.open_file(ROOT, "a.log").append(LARGE)
    (chunk,) = storage._folders[ROOT]["a.log"]._chunks
    memory = chunk.owner
    del chunk
    storage.remove_file(ROOT, "a.log")
    storage.open_file(ROOT, "b.log").append(LARGE)
    assert storage._folders[ROOT]["b.log"]._chunks[0].owner is memory


def test_a_view_of_a_file_that_is_gone_keeps_what_it_shows():
    storage = MemoryStorage()
    storage.make_folder("t-0")
    file = storage.open_file("t-0", "a.log")
    file.append(LARGE)
    view = file.content(0, 10)
    storage.remove_folder("t-0")
    storage.open_file(ROOT, "b.log").append(b"y" * HUGE_PAGE_BYTES)
    assert bytes(view) == b"x" * 10


@huge_pages
def test_spare_memory_above_the_limit_is_freed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_chunks, "SPARE_BYTES_MAX", CHUNK_BYTES_MAX)
    pool = ChunkPool()
    kept, dropped = pool.take(CHUNK_BYTES_MAX, 0), pool.take(CHUNK_BYTES_MAX, 0)
    owner = kept.owner
    pool.give_back([kept, dropped])
    del kept, dropped
    assert pool.take(CHUNK_BYTES_MAX, 0).owner is owner
    assert pool.take(CHUNK_BYTES_MAX, 0).owner is not owner
