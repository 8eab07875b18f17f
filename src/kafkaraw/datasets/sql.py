"""SQL of DuckDB over topics.

A name in a query that is no table of DuckDB's is a topic. Two functions stand where a table does: `topic('orders',
value='avro')` says how records are decoded, `compacted('users')` is the newest record of each key. They are replaced by
names and subqueries before DuckDB reads the query. Each query sees what the topics have when it begins. Must not decode
records. Start at `SqlSession.query`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Unpack

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.datasets import values
from kafkaraw.datasets.dataset import Columns, KafkaDataset, dataset, scanner_of
from kafkaraw.datasets.scan import scanned
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.ranges.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from kafkaraw.client.settings_types import ConsumerSettings
    from kafkaraw.schemas.blocking import Registry

_PREFIX: Final = "kafkaraw_topic_"
_MISSING: Final = re.compile(r"Table with name (.+?) does not exist")
_ARGUMENTS: Final = ("key", "value", "subject")
_NEWEST: Final = (
    '(SELECT * FROM {name} WHERE "key" IS NOT NULL QUALIFY row_number() OVER '
    '(PARTITION BY "topic", "partition", "key" ORDER BY "offset" DESC) = 1 AND "value" IS NOT NULL)'
)
"""A compacted topic keeps the newest record of each key of a partition, and none whose value is null."""


@dataclass(frozen=True)
class PlannedScan:
    """What a query reads of one topic.

    Attributes:
        topic: its name, or several.
        columns: those that are decoded.
        ranges: the offsets that are fetched.
    """

    topic: str
    columns: tuple[str, ...]
    ranges: tuple[OffsetRange, ...]

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return sum(each.size for each in self.ranges)


def sql(
    query: str,
    *,
    key: str = values.AUTO,
    value: str = values.AUTO,
    registry: Registry | str | Mapping[str, object] | None = None,
    **settings: Unpack[ConsumerSettings],
) -> pa.Table:
    """Return the result of a query over topics; for several queries, see `SqlSession`.

    Args:
        query: SQL of DuckDB; topics are tables. A name that is no word is quoted: `SELECT * FROM "orders-eu"`.
        key: how keys are decoded; see `dataset`.
        value: how values are decoded.
        registry: of values with schemas.
        settings: of the consumers that read.

    Raises:
        UnknownTopicError: there is no such topic.
        UsageError: the query is wrong.
        KafkaError: the cluster cannot be asked.
    """
    with SqlSession(key=key, value=value, registry=registry, **settings) as session:
        return session.query(query).read_all()


class SqlSession:
    """Runs queries over topics, in one DuckDB in memory, whose tables and settings last as long.

    Args:
        key: how keys are decoded; see `dataset`.
        value: how values are decoded.
        formats: by topic, how its values are decoded.
        registry: of values with schemas.
        threads: how many threads read a topic; None is the number of processors, at most 4.
        settings: of the consumers that read.

    Attributes:
        scans: what the last query has read, or would have.
    """

    def __init__(
        self,
        *,
        key: str = values.AUTO,
        value: str = values.AUTO,
        formats: Mapping[str, str] | None = None,
        registry: Registry | str | Mapping[str, object] | None = None,
        threads: int | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.scans: list[PlannedScan] = []
        self._key, self._value, self._formats = key, value, dict(formats or {})
        self._registry, self._threads, self._settings = registry, threads, settings
        self._connection = duckdb.connect()
        self._known: dict[tuple[str, str, str, str | None], KafkaDataset] = {}
        self._registered: set[str] = set()

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close DuckDB."""
        self._connection.close()

    def topics(self) -> list[str]:
        """Return the names of the topics, without those that Kafka keeps for itself."""
        return sorted(name for name in self._all_topics() if not name.startswith("__"))

    def _all_topics(self) -> list[str]:
        with Consumer(**self._settings) as consumer:
            return list(consumer.list_topics())

    def table(self, topic: str) -> KafkaDataset:
        """Return the data set that a topic is in queries, as of now."""
        return self._dataset(topic, {})

    def query(
        self, text: str, *, on_scan: Callable[[PlannedScan], Callable[[int], None] | None] | None = None
    ) -> pa.RecordBatchReader:
        """Run a statement, and return its rows while they come.

        Args:
            text: one statement.
            on_scan: called when the query begins to read a topic; it may return what is called, from any thread, with
                the number of offsets that were read since the last call.

        Raises:
            UnknownTopicError: there is no such topic.
            UsageError: the statement is wrong.
            KafkaError: records cannot be read.
        """
        return self._run(text, on_scan or (lambda scan: None), is_dry=False)

    def explain(self, text: str) -> list[PlannedScan]:
        """Return what a statement would read; errors as for `query`."""
        self._run(text, lambda scan: None, is_dry=True).read_all()
        return self.scans

    def _run(
        self, text: str, on_scan: Callable[[PlannedScan], Callable[[int], None] | None], *, is_dry: bool
    ) -> pa.RecordBatchReader:
        self.scans = []
        tables: dict[str, KafkaDataset] = {}
        for name in self._registered:
            self._connection.unregister(name)
        self._registered.clear()
        failures: list[KafkaError] = []
        with _clear_errors(failures, self._explained):
            rewritten = self._with_functions(text, tables)
            tables |= {name: self._dataset(name, {}) for name in self._named_topics(rewritten)}
            for name, each in tables.items():
                self._connection.register(name, _Table(each, self.scans, on_scan, failures=failures, is_dry=is_dry))
                self._registered.add(name)
            relation: duckdb.DuckDBPyRelation | None = self._connection.sql(rewritten)
            if relation is None:  # a statement without a result
                return pa.RecordBatchReader.from_batches(pa.schema([]), [])
            return _checked(relation.to_arrow_reader(), failures)

    # -- names

    def _named_topics(self, text: str) -> list[str]:
        """Return the names in a query that are topics, and no tables or views of DuckDB's."""
        named = {name for name in self._connection.get_table_names(text) if not name.startswith(_PREFIX)}
        if not named:
            return []
        known = "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views()"
        named -= {row[0] for row in self._connection.execute(known).fetchall()}
        return sorted(named & set(self._all_topics())) if named else []

    def _explained(self, message: str) -> str:
        """Return a message of DuckDB's; for a table that does not exist, one that knows the topics."""
        missing = _MISSING.search(message)
        if missing is None:
            return message
        near = get_close_matches(missing[1], self.topics(), 3)
        return f"there is no topic and no table {missing[1]!r}" + (f"; did you mean {', '.join(near)}?" if near else "")

    def _dataset(self, topic: str, given: Mapping[str, str]) -> KafkaDataset:
        key, value = given.get("key", self._key), given.get("value", self._formats.get(topic, self._value))
        subject = given.get("subject")
        known = self._known.get((topic, key, value, subject))
        if known is not None:
            return known.refresh()
        made = dataset(
            topic,
            registry=self._registry,
            threads=self._threads,
            key=key,
            value=value,
            subject=subject,
            **self._settings,
        )
        self._known[topic, key, value, subject] = made
        return made

    def _with_functions(self, text: str, tables: dict[str, KafkaDataset]) -> str:
        """Return the query with names and subqueries in the places of our functions."""
        pieces, end = [], 0
        for call in calls_in(text):
            name = f"{_PREFIX}{len(tables)}"
            tables[name] = self._dataset(call.topic, call.arguments)
            pieces += [text[end : call.start], _NEWEST.format(name=name) if call.function == "compacted" else name]
            end = call.end
        return "".join([*pieces, text[end:]])


class _Table(KafkaDataset):
    """A topic in one query: says what is read of it."""

    def __init__(
        self,
        of: KafkaDataset,
        scans: list[PlannedScan],
        on_scan: Callable[[PlannedScan], Callable[[int], None] | None],
        *,
        failures: list[KafkaError],
        is_dry: bool,
    ) -> None:
        super().__init__(of.source, of.ranges, of.condition)
        self._scans, self._on_scan, self._failures, self._is_dry = scans, on_scan, failures, is_dry

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **options: object) -> ds.Scanner:  # type: ignore[override]
        scan = self.scan(columns, filter)
        topics = ", ".join(dict.fromkeys(each.topic for each in self.ranges))
        planned = PlannedScan(topics, tuple(scan.schema.names), tuple(scan.ranges))
        self._scans.append(planned)
        scan = scan.without_ranges() if self._is_dry else scan.watched(self._on_scan(planned))
        return scanner_of(scan.schema, self._noted(scanned(scan)), columns, filter)

    def _noted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Keep the error of a scan: DuckDB makes a text of it."""
        try:
            yield from batches
        except KafkaError as error:
            self._failures.append(error)
            raise


# -- our functions in a query


@dataclass(frozen=True)
class Call:
    """A call of one of our functions.

    Attributes:
        function: its name.
        topic: its first argument.
        arguments: those with names.
        start: where it begins in the text.
        end: behind its bracket.
    """

    function: str
    topic: str
    arguments: Mapping[str, str]
    start: int
    end: int


_CALL: Final = re.compile(r"(topic|compacted)\s*\(", re.IGNORECASE)
_FIRST: Final = re.compile(r"\s*'((?:[^']|'')*)'\s*")
_NAMED: Final = re.compile(r",\s*([a-z_]+)\s*(?::=|=>?)\s*'((?:[^']|'')*)'\s*", re.IGNORECASE)


def calls_in(text: str) -> Iterator[Call]:
    """Return the calls of our functions; texts, comments and quoted names that look like one are none.

    Raises:
        UsageError: the arguments of a call are not texts, or unknown.
    """
    words = [
        place for place, kind in duckdb.tokenize(text) if str(kind).rpartition(".")[2] in ("identifier", "keyword")
    ]
    for start in words:
        found = _CALL.match(text, start)
        if found is None:
            continue
        function, at = found[1].lower(), found.end()
        first = _FIRST.match(text, at)
        if first is None:
            raise UsageError(f"{function}(...): the first argument is the name of a topic in single quotes")
        arguments, at = {}, first.end()
        while (named := _NAMED.match(text, at)) is not None:
            if named[1].lower() not in _ARGUMENTS:
                raise UsageError(f"{function}(...): {named[1]} is unknown; there are {', '.join(_ARGUMENTS)}")
            arguments[named[1].lower()] = named[2].replace("''", "'")
            at = named.end()
        if text[at : at + 1] != ")":
            raise UsageError(f"{function}(...): cannot read {text[at : at + 20]!r}; write value='json' and the like")
        yield Call(function, first[1].replace("''", "'"), arguments, start, at + 1)


# -- errors


@contextmanager
def _clear_errors(failures: Sequence[KafkaError], explained: Callable[[str], str] = str) -> Iterator[None]:
    """Raise the error of a scan; an error of DuckDB's itself is that of the query."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if failures:
            raise failures[0] from None
        raise UsageError(explained(str(error))) from error


def _checked(reader: pa.RecordBatchReader, failures: Sequence[KafkaError]) -> pa.RecordBatchReader:
    """Return the reader with errors of this package."""

    def batches() -> Iterator[pa.RecordBatch]:
        with _clear_errors(failures):
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
