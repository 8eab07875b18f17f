"""Searches all partitions of a topic: a thread scans columns of Arrow, and a page watches it.

The bytes that a filter needs are looked for in whole columns first; only records that have them are decoded and tested.
So a search costs little more than fetching. A search is bounded: in time, in the records it keeps, and in how many run
at once. Must not render anything. Start at `Search`.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.filters import Candidate, Need, NumberOf, Term
from kafkaraw.console.shown import Decoder, UnreadableJsonError, parsed
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import Record

if TYPE_CHECKING:
    import pyarrow as pa

KEPT_MAX: Final = 200
_KEPT_BYTES: Final = 32 << 20
"""Of large records fewer are kept."""
_FRESH_BYTES: Final = 8 << 20
_SEARCHING: Final = {
    "client_id": "kafkaraw-console-search",
    "fetch_max_bytes": 2 << 20,  # memory rather than the last tenth of speed
    "max_partition_fetch_bytes": 512 << 10,
}
SECONDS_MAX: Final = 900.0
_SCHEMA_TIMEOUT_S: Final = 10.0
_FRAME: Final = 0


@dataclass(frozen=True)
class Scope:
    """What is searched.

    Attributes:
        topic: its name.
        partitions: only these; None for all.
        start_offset: from this offset of each partition on.
        start_ms: from this time on.
    """

    topic: str
    partitions: Sequence[int] | None = None
    start_offset: int | None = None
    start_ms: int | None = None


@dataclass(frozen=True)
class Progress:
    """How far a search is.

    Attributes:
        read: offsets that were read.
        total: offsets that are read in all.
        matches: records that match.
        seconds: since it began.
        is_done: whether it has ended.
        error: why it failed.
    """

    read: int
    total: int
    matches: int
    seconds: float
    is_done: bool
    error: KafkaError | None


class Search:
    """A search, which begins at once, in a thread of its own.

    Args:
        cluster: with the topic.
        scope: what is searched.
        terms: all of them must match.
        decoder: decodes values with schemas.
    """

    def __init__(self, cluster: ClusterConnection, scope: Scope, terms: Sequence[Term], decoder: Decoder) -> None:
        self._cluster, self._scope, self._terms, self._decoder = cluster, scope, terms, decoder
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._began = time.monotonic()
        self._read = self._total = self._matches = 0
        self._kept_bytes = 0
        self._newest: list[tuple[int, int, int, Record]] = []
        self._fresh: list[Record] = []
        self._error: KafkaError | None = None
        self._ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="kafkaraw-console-search", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the search soon."""
        self._stopped.set()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        with self._lock:
            now = self._ended_at if self._ended_at is not None else time.monotonic()
            is_done = self._ended_at is not None
            return Progress(self._read, self._total, self._matches, now - self._began, is_done, self._error)

    def fresh(self) -> list[Record]:
        """Return the records found since the last call, at most `KEPT_MAX` in all."""
        with self._lock:
            found, self._fresh = self._fresh, []
        return found

    def newest(self) -> list[Record]:
        """Return the newest records that match, the newest one first."""
        with self._lock:
            return [each[-1] for each in sorted(self._newest, key=lambda each: each[:3], reverse=True)]

    # -- the thread

    def _run(self) -> None:
        try:
            self._scan()
        except KafkaError as error:
            with self._lock:
                self._error = error
        except Exception as error:  # noqa: BLE001 - the page shows it
            with self._lock:
                self._error = UsageError(f"the search failed: {type(error).__name__}: {str(error)[:300]}")
        finally:
            with self._lock:
                self._ended_at = time.monotonic()

    def _scan(self) -> None:
        import pyarrow.compute as pc

        from kafkaraw.datasets.dataset import dataset

        scope = self._scope
        found = dataset(scope.topic, **{**self._cluster.settings.consumer, **_SEARCHING})
        condition = None
        if scope.partitions is not None:
            condition = pc.field("partition").isin(list(scope.partitions))
        if scope.start_offset is not None:
            later = pc.field("offset") >= scope.start_offset
            condition = later if condition is None else condition & later
        if scope.start_ms is not None:
            since = pc.field("timestamp") >= _timestamp(scope.start_ms)
            condition = since if condition is None else condition & since
        total = sum(each.size for each in found.planned(condition))
        with self._lock:
            self._total = total
        columns = ["partition", "offset", "timestamp", "key", "value"]
        if any(term.column in ("headers", "any") for term in self._terms):
            columns.append("headers")
        scanner = found.scanner(columns, condition, on_read=self._count)
        with closing(scanner.to_batches()) as batches:
            for batch in batches:
                if self._stopped.is_set():
                    return
                if time.monotonic() - self._began > SECONDS_MAX:
                    why = f"the search was ended after {SECONDS_MAX:.0f} s"
                    raise UsageError(f"{why}: choose partitions, or a later start")
                self._take(batch)

    def _count(self, offsets: int) -> None:
        with self._lock:
            self._read += offsets

    def _take(self, batch: pa.RecordBatch) -> None:
        has_registry = self._cluster.settings.registry is not None
        for term in self._terms:
            if not batch.num_rows:
                return
            batch = _with_needed(batch, term, has_registry=has_registry)
        for row, record in enumerate(_candidates(batch, self._decoded)):
            if self._stopped.is_set():
                return
            if all(term.matches(record) for term in self._terms):
                self._keep(_record(batch, row, self._scope.topic, record))

    def _decoded(self, data: bytes | None) -> Any:  # noqa: ANN401
        if not data:
            raise UnreadableJsonError("no value")
        if data[0] == _FRAME and self._cluster.settings.registry is not None:
            work = self._decoder.with_schema(self._scope.topic, "value", data)
            value, why = asyncio.run_coroutine_threadsafe(work, self._loop).result(_SCHEMA_TIMEOUT_S)
            if why:
                raise UnreadableJsonError(why)
            return value
        return parsed(data)

    def _keep(self, record: Record) -> None:
        entry = (record.timestamp_ms, record.partition, record.offset, record)
        with self._lock:
            self._matches += 1
            if self._matches <= KEPT_MAX and sum(map(_size, self._fresh)) < _FRESH_BYTES:
                self._fresh.append(record)
            heapq.heappush(self._newest, entry)
            self._kept_bytes += _size(record)
            while len(self._newest) > KEPT_MAX or (self._kept_bytes > _KEPT_BYTES and len(self._newest) > 1):
                self._kept_bytes -= _size(heapq.heappop(self._newest)[-1])


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _timestamp(milliseconds: int) -> Any:  # noqa: ANN401 - a scalar of Arrow
    import pyarrow as pa

    return pa.scalar(milliseconds * 1_000, pa.timestamp("us", tz="UTC"))


def _with_needed(batch: pa.RecordBatch, term: Term, *, has_registry: bool) -> pa.RecordBatch:
    """Return the rows that have the bytes that a term needs."""
    for need in term.needs:
        if term.column == "any":
            mask = _any_column(batch, need)
        else:
            mask = _has(batch.column(term.column), need)
            if term.decodes and has_registry:
                mask = _either(mask, _starts_with_frame(batch.column(term.column)))
        batch = batch.filter(mask)
        if not batch.num_rows:
            break
    return batch


def _has(column: pa.Array, need: Need) -> pa.Array:
    """Return for each row whether the bytes have one of the texts or the pattern; null has not."""
    import pyarrow.compute as pc

    mask = None if need.number is None else _may_compare(column, need.number)
    for text in need.texts:
        found = pc.fill_null(pc.match_substring(column, text), False)
        mask = found if mask is None else _either(mask, found)
        if mask.true_count == len(mask):
            return mask
    if need.pattern is not None:
        found = pc.fill_null(pc.match_substring_regex(column, need.pattern), False)
        mask = found if mask is None else _either(mask, found)
    assert mask is not None
    return mask


def _may_compare(column: pa.Array, number: NumberOf) -> pa.Array:
    """Return for each row whether the comparison may be true: where the field is there once, its number decides."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = pc.fill_null(pc.count_substring(column, number.field), 0)
    escapes = pc.fill_null(pc.match_substring(column, "\\"), False)
    found = pc.extract_regex(column, number.pattern).field("number")
    try:
        numbers = found.cast(pa.string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return _either(pc.greater(times, 0), escapes)
    slack = abs(number.wanted) * 1e-14
    if number.operator.startswith("<"):
        is_true = pc.less_equal(numbers, number.wanted + slack)
    else:
        is_true = pc.greater_equal(numbers, number.wanted - slack)
    once = pc.and_(pc.equal(times, 1), pc.fill_null(is_true, False))
    return _either(_either(pc.greater(times, 1), once), escapes)


def _any_column(batch: pa.RecordBatch, need: Need) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    mask = _either(_has(batch.column("value"), need), _has(batch.column("key"), need))
    headers = batch.column("headers")
    if mask.true_count == len(mask) or not len(headers.flatten()):
        return mask
    rows, inner = pc.list_parent_indices(headers), headers.flatten()
    names, values = inner.field(0), inner.field(1)
    hits = _either(_has(names, need), _has(values, need))
    found = pc.is_in(pa.array(range(len(mask)), rows.type), value_set=rows.filter(hits))
    return _either(mask, found)


def _starts_with_frame(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.fill_null(pc.starts_with(column, "\0"), False)


def _either(one: pa.Array, other: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.or_(one, other)


def _candidates(batch: pa.RecordBatch, decoded: Callable[[bytes | None], Any]) -> Iterator[Candidate]:
    """Return what terms test, row by row; a value is decoded once, if a term asks for it."""
    has_headers = "headers" in batch.schema.names
    headers = batch.column("headers").to_pylist() if has_headers else [None] * batch.num_rows
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    for key, value, pairs in zip(keys, values, headers, strict=True):
        found = [(each["key"], each["value"]) for each in pairs] if pairs else ()
        yield Candidate(key, value, found, functools.cache(functools.partial(decoded, value)))


def _record(batch: pa.RecordBatch, row: int, topic: str, found: Candidate) -> Record:
    import pyarrow as pa

    time_of = batch.column("timestamp").slice(row, 1).cast(pa.int64())[0].as_py()
    unit = 1_000 if batch.schema.field("timestamp").type.unit == "us" else 1
    partition, offset = batch.column("partition")[row].as_py(), batch.column("offset")[row].as_py()
    timestamp_ms = -1 if time_of is None else time_of // unit
    return Record(topic, partition, offset, timestamp_ms, 0, found.key, found.value, list(found.headers))
