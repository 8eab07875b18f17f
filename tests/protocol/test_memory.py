"""Memory that is given out again: large or small, it tells whether somebody still has a view of it."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.memory import HUGE_PAGE_BYTES, fresh_memory, is_free

SIZES = (1, 1 << 16, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, 3 * HUGE_PAGE_BYTES)


@pytest.mark.parametrize("size", SIZES)
def test_fresh_memory_is_zeroed_and_writable(size: int) -> None:
    memory = fresh_memory(size)
    assert len(memory) == size
    view = memoryview(memory)
    assert not any(view[-1:])
    view[:1] = b"x"
    assert bytes(memory[:1]) == b"x"


@pytest.mark.parametrize("size", SIZES)
def test_memory_is_free_when_its_last_view_is_gone_and_keeps_what_it_holds(size: int) -> None:
    memory = fresh_memory(size)
    memory[-1:] = b"z"
    assert is_free(memory)
    part = memoryview(memory)[:1]
    assert not is_free(memory)
    rest = part[1:]
    del part
    assert not is_free(memory), "a view of a view counts, too"
    del rest
    assert is_free(memory)
    assert (len(memory), bytes(memory[-1:])) == (size, b"z")
