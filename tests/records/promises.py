"""What tests of tickets and batches need: a clock, a lock, and a way to wait without waiting."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Generator

from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import PARTITIONERS, BatchPromise, OpenBatches, Partitioner


class Suspended:
    """An awaitable that gives control away once."""

    def __await__(self) -> Generator[str, None, None]:
        yield "waiting"


class FakeWaiter:
    """Remembers what was waited for; settles it when told how, else times out."""

    def __init__(self) -> None:
        self.waited: list[tuple[BatchPromise, float | None]] = []
        self.base_offset: int | None = None

    def wait(self, promise: BatchPromise, timeout: float | None) -> None:
        self.waited.append((promise, timeout))
        if self.base_offset is None:
            raise KafkaTimeoutError(f"no answer within {timeout} s")
        promise.resolve(self.base_offset)

    def awaitable(self, promise: BatchPromise) -> Awaitable[None]:
        return Suspended()


class FakeClock:
    """A wall clock that stands still until it is set."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def open_batches(
    clock: FakeClock | None = None,
    *,
    batch_size: int = 1000,
    codec: str = "none",
    buffer_memory: int = 1_000_000,
    waiter: FakeWaiter | None = None,
    value_size_safe: int = 100_000,
    partitioner: Partitioner = PARTITIONERS["default"],
) -> OpenBatches:
    """Batches for topic `t` with three partitions, the sticky one being 0."""
    batches = OpenBatches(
        batch_size,
        codec,
        None,
        buffer_memory,
        clock or FakeClock(3),
        waiter=waiter or FakeWaiter(),
        new_lock=threading.RLock,
        value_size_safe=value_size_safe,
        partitioner=partitioner,
    )
    batches.set_partitions("t", 3)
    return batches
