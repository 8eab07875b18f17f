"""The memory that compiled batches are written into: used again, and never while somebody may still look at it."""

from __future__ import annotations

import pytest

from kafkaraw.records import Batch, SealedBatch, verify_crc
from tests.records.promises import open_batches


@pytest.fixture(autouse=True)
def _compiled(implementation: str) -> None:
    if implementation != "native":
        pytest.skip("plain Python leaves memory to the interpreter")


def address(view: memoryview) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def sealed_of(batches: object, content: bytes) -> SealedBatch:
    batches.append("t", None, content, None, 0, 1)
    (sealed,) = batches.seal_all()
    return sealed


def test_a_batch_that_nobody_refers_to_leaves_its_memory_to_the_next() -> None:
    batches = open_batches()
    sealed = sealed_of(batches, b"first")
    where = address(sealed.encode())
    batches.release(sealed)
    del sealed
    assert address(sealed_of(batches, b"second").encode()) == where


def test_memory_of_a_released_batch_is_not_used_again_while_a_socket_may_send_it() -> None:
    batches = open_batches()
    sealed = sealed_of(batches, b"first")
    in_socket = sealed.encode(7, 0, 0)[30:]
    before = bytes(in_socket)
    batches.release(sealed)  # the delivery timeout has passed, for example
    del sealed
    others = [sealed_of(batches, b"%05d" % number) for number in range(10)]
    assert all(Batch("t", 1, other.encode(), start_offset=0).values() for other in others)
    assert bytes(in_socket) == before


def test_memory_of_a_released_batch_is_not_used_again_while_it_may_be_sent_once_more() -> None:
    batches = open_batches()
    sealed = sealed_of(batches, b"first")
    first = bytes(sealed.encode(7, 0, 0))
    batches.release(sealed)
    for number in range(10):
        sealed_of(batches, b"%05d" % number).encode()
    assert bytes(sealed.encode(7, 0, 0)) == first
    verify_crc(sealed.encode(8, 0, 0))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 940, 1000, 70_000, 300_000, 2_000_000])
@pytest.mark.parametrize("batch_size", [1, 1000, 65_536, 262_144])
def test_memory_grows_with_the_records(batch_size: int, size: int) -> None:
    batches = open_batches(batch_size=batch_size, buffer_memory=100_000_000)
    wanted = [bytes([number]) * size for number in range(3)]
    for value in wanted:
        batches.append("t", b"key", value, [("name", value)], None, 0)
    found = [record for sealed in batches.seal_all() for record in Batch("t", 0, sealed.encode(), start_offset=0)]
    assert [record.value for record in found] == wanted
    assert [record.headers for record in found] == [[("name", value)] for value in wanted]
