"""Filters of messages in SQL: what stands behind WHERE, over one topic, with the limits that queries have.

Start at `condition_of`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.queries import QUERY_MAX, SECONDS_MAX, check_patterns, limited
from kafkaraw.console.searching import KEPT_MAX
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site
from kafkaraw.console.streams import EventStream, event
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import Record

if TYPE_CHECKING:
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.console.messages import View

_PAUSE_S: Final = 0.2
_POLL_S: Final = 0.5
_READING_S: Final = 15.0
_BYTES_MAX: Final = 64 << 20
Render: TypeAlias = Callable[[Sequence[Record]], Awaitable[str]]


def query_of(topic: str, view: View) -> str:
    """Return the query of the newest records that a condition and the view's other limits leave.

    Raises:
        UsageError: it is too long.
    """
    if len(view.condition) > QUERY_MAX:
        raise UsageError(f"the condition has {len(view.condition):,} characters; at most {QUERY_MAX:,} are run")
    check_patterns(view.condition)
    limits = []
    if view.partitions is not None:
        limits.append(f"partition IN ({', '.join(map(str, view.partitions))})")
    if view.start == "offset":
        limits.append(f'"offset" >= {view.offset}')
    if view.start == "time":
        limits.append(f"\"timestamp\" >= TIMESTAMPTZ '{datetime.fromtimestamp(view.time_ms / 1_000, UTC).isoformat()}'")
    table = "topic('{}')".format(topic.replace("'", "''"))
    both = " AND ".join([f"({view.condition}\n)", *limits])
    newest = f'ORDER BY "timestamp" DESC, partition, "offset" DESC LIMIT {KEPT_MAX}'
    return f'SELECT partition, "offset" FROM {table} WHERE {both} {newest}'


class ConditionSearch:
    """A search by a condition, which begins at once, in a thread of its own.

    Args:
        cluster: with the topic.
        query: returns partitions and offsets.

    Attributes:
        total: offsets that are read in all.
        places: partition and offset of what was found, the newest first.
        error: why it failed.
    """

    def __init__(self, cluster: ClusterConnection, query: str) -> None:
        self._cluster, self._query = cluster, query
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._read = 0
        self.began: float = time.monotonic()
        self.total: int = 0
        self.places: list[tuple[int, int]] = []
        self.error: KafkaError | None = None
        self._thread = threading.Thread(target=self._run, name="kafkaraw-console-condition", daemon=True)
        self._thread.start()

    @property
    def read(self) -> int:
        """Offsets that were read."""
        with self._lock:
            return self._read

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it soon."""
        self._stopped.set()

    def _run(self) -> None:
        try:
            with limited(self._cluster) as session:
                self.total = sum(each.offsets for each in session.explain(self._query))
                rows = session.query(self._query, on_scan=lambda _: self._count).read_all().to_pylist()
            self.places = [(int(row["partition"]), int(row["offset"])) for row in rows][:KEPT_MAX]
        except KafkaError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - the page shows it
            self.error = UsageError(f"the search failed: {type(error).__name__}: {str(error)[:300]}")

    def _count(self, offsets: int) -> None:
        with self._lock:
            self._read += offsets
        if self._stopped.is_set() or time.monotonic() - self.began > SECONDS_MAX:
            raise UsageError(f"the search was ended after {SECONDS_MAX:.0f} s: choose partitions, or a later start")


async def condition_of(site: Site, cluster: ClusterConnection, topic: str, view: View, render: Render) -> EventStream:
    """Search a topic by a condition, and send what is found, as rows that `render` makes."""
    query = query_of(topic, view)
    done = site.searches.take()
    running = ConditionSearch(cluster, query)

    def ended() -> None:
        running.stop()
        done()

    return EventStream(_events(cluster, topic, running, render), ended)


async def _events(
    cluster: ClusterConnection, topic: str, running: ConditionSearch, render: Render
) -> AsyncIterator[bytes]:
    def facts() -> dict[str, Any]:
        seconds = round(time.monotonic() - running.began, 2)
        return {"read": running.read, "total": running.total, "matches": len(running.places), "seconds": seconds}

    while not running.is_done:
        yield event("progress", facts())
        await asyncio.sleep(_PAUSE_S)
    if running.error is not None:
        yield event("failed", {**facts(), "error": visible(str(running.error))})
        return
    try:
        records = await records_at(cluster, topic, running.places)
    except KafkaError as error:
        yield event("failed", {**facts(), "error": visible(str(error))})
        return
    yield event("final", await render(records))
    yield event("done", {**facts(), "kept": KEPT_MAX})


async def planned(cluster: ClusterConnection, topic: str, view: View) -> int:
    """Return how many records a condition would read, after it was checked."""

    def explained() -> int:
        with limited(cluster) as session:
            return sum(each.offsets for each in session.explain(query_of(topic, view)))

    return await asyncio.to_thread(explained)


async def records_at(cluster: ClusterConnection, topic: str, places: Sequence[tuple[int, int]]) -> list[Record]:
    """Return the records at places, as far as they are there, in the order of the places."""
    found: dict[tuple[int, int], Record] = {}
    size = 0
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _READING_S
    async with cluster.consumer(max_partition_fetch_bytes=256 << 10) as consumer:
        known = {each.partition: each for each in await consumer.partitions_for(topic)}
        for partition in sorted({each for each, _ in places if each in known}):
            consumer.assign([known[partition]])
            ends = (await consumer.end_offsets([known[partition]]))[known[partition]]
            left = sorted({offset for at, offset in places if at == partition and offset < ends})
            while left and loop.time() < deadline and size < _BYTES_MAX:
                consumer.seek(known[partition], left[0])
                size += await _take(consumer, partition, left, found)
    return [found[place] for place in places if place in found]


async def _take(consumer: AsyncConsumer, partition: int, left: list[int], found: dict[tuple[int, int], Record]) -> int:
    """Read from the first offset that is left on, and the next ones as far as one poll has them; return their bytes."""
    size = 0
    for batch in (await consumer.poll(_POLL_S)).values():
        for record in batch:
            while left and left[0] < record.offset:
                del left[0]
            if left and record.offset == left[0]:
                found[(partition, left.pop(0))] = record
                size += len(record.key or b"") + len(record.value or b"")
            if not left:
                return size
    return size
