"""SQL of DuckDB over topics.

A name in a query that is no table of DuckDB's is a topic. Three functions stand where a table does: `topic('orders',
value='avro')` says how records are decoded, `topics('orders-.*')` is all topics that a pattern matches,
`compacted('users')` is the newest record of each key. They are replaced by names and subqueries before DuckDB reads the
query. Each query sees what the topics have when it begins.

DuckDB runs a statement on a thread of its own: the caller waits in Python, where Ctrl-C interrupts it. Must not decode
records. Start at `SqlSession.query`.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Unpack

import duckdb
import pyarrow as pa

from kafkaraw.client.config import ClientConfig
from kafkaraw.datasets import values
from kafkaraw.datasets.dataset import KafkaDataset, source_of
from kafkaraw.datasets.origins import ClusterOrigin, Locations, origin_of
from kafkaraw.datasets.running import Running
from kafkaraw.datasets.scan import Scan, scanned
from kafkaraw.datasets.scanner import Columns, TopicScanner
from kafkaraw.datasets.statements import calls_in, copy_in, names_offset, quoted, shows_tables
from kafkaraw.datasets.tables import QueryTables, SessionTables, TableDefaults
from kafkaraw.datasets.writing import write_rows
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.ranges.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from kafkaraw.client.settings_types import ConsumerSettings
    from kafkaraw.schemas.blocking import Registry

_PREFIX: Final = "kafkaraw_topic_"
_MISSING: Final = re.compile(r"Table with name (.+?) does not exist!")
_DOTTED: Final = re.compile(r'Table with name "?(.+?)"? does not exist because')
_KEY_OF_COMPACTION: Final = ("topic", "partition", "key")
_POLL_TIMEOUT_MS: Final = 60_000
_CLIENT_SETTINGS: Final = frozenset(each.name for each in dataclasses.fields(ClientConfig))
_OWN_TABLES: Final = "SELECT table_name FROM duckdb_tables()"
_WITH_DASH: Final = re.compile(r"\w-\w")
_SYNTAX: Final = "syntax error"
_COUNT: Final = pa.schema([pa.field("Count", pa.int64())])

OnScan = Callable[["PlannedScan"], Callable[[int], None] | None]


@dataclass(frozen=True)
class PlannedScan:
    """What a query reads of one topic.

    Attributes:
        topic: its name, or several.
        columns: those that are decoded.
        ranges: the offsets that are fetched.
        record_bytes: the mean size of keys and values of a sample; None if none was taken.
    """

    topic: str
    columns: tuple[str, ...]
    ranges: tuple[OffsetRange, ...]
    record_bytes: float | None = None

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return sum(each.size for each in self.ranges)

    @property
    def size_bytes(self) -> int | None:
        """About how many bytes of keys and values they have, before compression; None if no sample was taken."""
        return None if self.record_bytes is None else int(self.offsets * self.record_bytes)


def sql(
    query: str,
    *,
    key: str = values.AUTO,
    value: str = values.AUTO,
    registry: Registry | str | Mapping[str, object] | None = None,
    log_dirs: Locations | None = None,
    **settings: Unpack[ConsumerSettings],
) -> pa.Table:
    """Return the result of a query over topics; for several queries, see `SqlSession`.

    Args:
        query: SQL of DuckDB; topics are tables. A name that is no word is quoted: `SELECT * FROM "orders-eu"`.
            `COPY (SELECT ...) TO TOPIC 'totals'` writes rows to a topic.
        key: how keys are decoded; see `dataset`.
        value: how values are decoded.
        registry: of values with schemas.
        log_dirs: log directories that are read instead of a cluster; see `dataset`.
        settings: of the consumers that read.

    Raises:
        UnknownTopicError: there is no such topic.
        UsageError: the query is wrong.
        KafkaError: the cluster cannot be asked.
    """
    with SqlSession(key=key, value=value, registry=registry, log_dirs=log_dirs, **settings) as session:
        return session.query(query).read_all()


class SqlSession:
    """Runs queries over topics, in one DuckDB in memory, whose tables and settings last as long.

    A session runs one statement at a time: the rows of a statement end when the next one begins.

    Args:
        key: how keys are decoded; see `dataset`.
        value: how values are decoded.
        formats: by topic, how its values are decoded.
        registry: of values with schemas.
        threads: how many threads read a topic; None is the number of processors, at most 4.
        log_dirs: log directories that are read instead of a cluster; see `dataset`.
        producer: settings of the producer of `COPY ... TO TOPIC`; None is those of `settings` that all clients have.
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
        log_dirs: Locations | None = None,
        producer: Mapping[str, Any] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.scans: list[PlannedScan] = []
        origin = origin_of(log_dirs, settings, _POLL_TIMEOUT_MS).kept_open()
        source = source_of((), origin, registry, threads)
        self._registry = source.registry if isinstance(registry, str | Mapping) else None  # which nothing else closes
        self._tables = SessionTables(source, TableDefaults(key, value, dict(formats or {})))
        self._producer = producer
        self._spill = tempfile.mkdtemp(prefix="kafkaraw-sql-")
        weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        # Names are topics, never variables of this program.
        config: dict[str, Any] = {"python_enable_replacements": False, "temp_directory": self._spill}
        self._connection = duckdb.connect(config=config)
        self._registered: set[str] = set()
        self._may_have_tables = False
        self._running: Running | None = None

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End a statement that is under way, and close DuckDB and the connections to brokers and the registry."""
        self.interrupt()
        self._connection.close()
        self._tables.source.origin.close()
        if self._registry is not None:
            self._registry.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def interrupt(self) -> None:
        """End a statement that is under way; its reader raises `QueryInterruptedError`. Any thread may call it."""
        running = self._running
        if running is not None:
            running.stop()

    def topics(self) -> list[str]:
        """Return the names of the topics, without those that Kafka keeps for itself."""
        return _shown(self._tables.begin())

    def table(self, topic: str) -> KafkaDataset:
        """Return the data set that a topic is in queries, as of now."""
        return self._tables.begin().dataset((topic,), {})

    def query(self, text: str, *, on_scan: OnScan | None = None) -> pa.RecordBatchReader:
        """Run a statement, and return its rows while they come.

        `COPY (SELECT ...) TO TOPIC 'name'` writes the rows to a topic, as `write` does, and returns their number.

        Args:
            text: one statement.
            on_scan: called when the query begins to read a topic; it may return what is called, from any thread, with
                the number of offsets that were read since the last call.

        Raises:
            UnknownTopicError: there is no such topic.
            UsageError: the statement is wrong.
            KafkaError: records cannot be read.
        """
        copied = copy_in(text)
        if copied is None:
            return self._run(text, on_scan, is_dry=False)
        rows = self.write(copied.query, copied.topic, on_scan=on_scan)
        return pa.Table.from_pydict({"Count": [rows]}, schema=_COUNT).to_reader()

    def write(
        self,
        query: str,
        topic: str,
        *,
        on_scan: OnScan | None = None,
        on_written: Callable[[int], None] | None = None,
    ) -> int:
        """Write the rows of a query to a topic; return how many they are.

        The columns `key`, `value`, `headers`, `partition` and `timestamp` are those of the record. Without a column
        `value`, the value is a JSON object of the other columns. The records before an error stay in the topic.

        Args:
            query: returns the rows.
            topic: its name; it is not created.
            on_scan: as for `query`.
            on_written: called with the number of rows that were handed to the producer since the last call.

        Raises:
            UnknownTopicError: there is no such topic.
            UsageError: the query is wrong, or a column is no part of a record.
            KafkaError: records cannot be read or delivered.
        """
        settings = self._producer
        origin = self._tables.source.origin
        if settings is None and isinstance(origin, ClusterOrigin):
            settings = {name: value for name, value in origin.settings.items() if name in _CLIENT_SETTINGS}
        if not settings:
            raise UsageError(f"topic {topic!r}: log directories are only read; producer= names a cluster to write to")
        reader = self._run(query, on_scan, is_dry=False)
        with closing(_batches_of(reader)) as batches:
            return write_rows(batches, topic, settings, on_written)

    def explain(self, text: str) -> list[PlannedScan]:
        """Return what a query, or the query of `COPY ... TO TOPIC`, would read; nothing is read or written.

        Raises:
            UsageError: it is no query; others as for `query`.
        """
        copied = copy_in(text)
        query = text if copied is None else copied.query
        self._run(query, None, is_dry=True).read_all()
        return self.scans

    def _run(self, text: str, on_scan: OnScan | None, *, is_dry: bool) -> pa.RecordBatchReader:
        self.interrupt()
        self.scans = []
        for name in self._registered:
            self._connection.unregister(name)
        self._registered.clear()
        tables = self._tables.begin()
        if shows_tables(text):
            names = ", ".join(f"'{name}'" for name in _shown(tables))  # which have no quotes
            text = f"SELECT unnest([{names}]::VARCHAR[]) AS name UNION {_OWN_TABLES} ORDER BY 1"
        run = self._running = Running(self._connection)
        rewritten, functions, calls = _with_functions(text, tables)
        try:
            if is_dry:
                self._check_query(rewritten)
            for name in self._named_topics(rewritten, tables):
                functions[name] = tables.dataset((name,), {})
            # The parser does not tell all names: those in views and in some statements are found when they are missed.
            while True:
                for name in functions.keys() - self._registered:
                    table = _Table(functions[name], self.scans, on_scan, run, is_dry=is_dry)
                    self._connection.register(name, table)
                    self._registered.add(name)
                try:
                    return run.start(rewritten, tables.rows_per_batch)
                except duckdb.CatalogException as error:
                    missed = _MISSING.search(str(error))
                    if missed is None or missed[1] in functions or missed[1] not in tables.topics:
                        raise
                    functions[missed[1]] = tables.dataset((missed[1],), {})
        except (duckdb.Error, pa.ArrowException) as error:
            raise UsageError(_explained(str(error), rewritten, tables, calls)) from error

    def _check_query(self, text: str) -> None:
        kinds = {each.type for each in self._connection.extract_statements(text)}
        if kinds - {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
            raise UsageError("only a query can be explained: SELECT, or COPY (SELECT ...) TO TOPIC 'name'")

    def _named_topics(self, text: str, tables: QueryTables) -> list[str]:
        """Return the names in a query that are topics, and no tables or views of DuckDB's."""
        try:
            named = {name for name in self._connection.get_table_names(text) if not name.startswith(_PREFIX)}
            self._may_have_tables |= any(
                each.type != duckdb.StatementType.SELECT for each in self._connection.extract_statements(text)
            )
        except duckdb.Error:
            self._may_have_tables = True
            return []
        if named and self._may_have_tables:
            known = "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views()"
            taken = {row[0].lower() for row in self._connection.execute(known).fetchall()}
            named = {name for name in named if name.lower() not in taken}
        found = sorted(tables.among(named), key=lambda name: (name.lower(), name))
        for one, other in pairwise(found):
            if one.lower() == other.lower():
                raise UsageError(
                    f"{one} and {other} are one name in SQL: write topic('{one}') and topic('{other}') instead"
                )
        return found


def _with_functions(text: str, tables: QueryTables) -> tuple[str, dict[str, KafkaDataset], dict[str, str]]:
    """Return the query with names and subqueries in the places of our functions, and what the names stand for."""
    found: dict[str, KafkaDataset] = {}
    calls: dict[str, str] = {}
    calls_found = list(calls_in(text))
    data = text.encode()
    pieces, end = [], 0
    for call in calls_found:
        name = f"{_PREFIX}{len(found)}"
        found[name] = tables.called(call)
        calls[name] = data[call.start : call.end].decode()
        table = _newest(name, found[name].schema.names) if call.function == "compacted" else name
        pieces += [data[end : call.start].decode(), table]
        end = call.end
    return "".join([*pieces, data[end:].decode()]), found, calls


def _newest(table: str, columns: Iterable[str]) -> str:
    """Return the query of the newest record of each key of a partition, without those whose value is null.

    A window function would keep the whole topic; an aggregate keeps one record of each key, and only columns that the
    query uses.
    """
    chosen = []
    for column in columns:
        name = quoted(column)
        if column in _KEY_OF_COMPACTION:
            chosen.append(f"{table}.{name}")
        else:
            newest = "max" if column == "offset" else "arg_max_null"
            rest = "" if column == "offset" else f', {table}."offset"'
            chosen.append(f"{newest}({table}.{name}{rest}) AS {name}")
    keys = ", ".join(f'{table}."{column}"' for column in _KEY_OF_COMPACTION)
    return (
        f'(SELECT * FROM (SELECT {", ".join(chosen)} FROM {table} WHERE {table}."key" IS NOT NULL GROUP BY {keys}) '
        'WHERE "value" IS NOT NULL)'
    )


class _Table(KafkaDataset):
    """A topic in one query: says what is read of it, and ends with the query."""

    def __init__(
        self, of: KafkaDataset, scans: list[PlannedScan], on_scan: OnScan | None, run: Running, *, is_dry: bool
    ) -> None:
        super().__init__(of.source, of.ranges, of.condition)
        self._scans, self._on_scan, self._run, self._is_dry = scans, on_scan, run, is_dry

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **options: object) -> TopicScanner:  # type: ignore[override]
        try:
            scan = self.scan(columns, filter)
        except Exception as error:
            self._run.failures.append(error)
            raise
        topics = ", ".join(dict.fromkeys(each.topic for each in self.ranges))
        planned = PlannedScan(topics, tuple(scan.schema.names), tuple(scan.ranges), self.source.record_bytes)
        self._scans.append(planned)
        if self._is_dry:
            scan = scan.without_ranges()
        elif self._on_scan is not None:
            scan = scan.watched(self._on_scan(planned))
        return TopicScanner(scan, columns, filter, self._noted)

    def _noted(self, scan: Scan) -> Generator[pa.RecordBatch]:
        """Read a scan, and keep its error: DuckDB makes a text of it."""
        try:
            yield from scanned(scan, self._run.stopped)
        except Exception as error:
            self._run.failures.append(error)
            raise


def _batches_of(reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch]:
    try:
        yield from reader
    finally:
        reader.close()


# -- errors


def _shown(tables: QueryTables) -> list[str]:
    return sorted(name for name in tables.topics if not name.startswith("__"))


def _with_dashes(text: str, tables: QueryTables) -> str:
    """Return what is said of topics whose names have dashes and no quotes; nothing if there are none."""
    try:
        names = [name for name in _shown(tables) if "-" in name]
    except KafkaError:  # what is wrong with the text is said, at least
        names = []
    found = [name for name in names if re.search(rf"[^'\"\w-]{re.escape(name)}(?![\w-])", text)]
    return f"\nA name with dashes is written in double quotes: {', '.join(map(quoted, found))}" if found else ""


def _explained(message: str, text: str, tables: QueryTables, calls: Mapping[str, str]) -> str:
    """Return a message of DuckDB's; for a table that does not exist, one that knows the topics."""
    if _SYNTAX in message and names_offset(text):
        return f'{message}\nThe column is written in double quotes, because OFFSET is a keyword of SQL: "offset"'
    if _SYNTAX in message and _WITH_DASH.search(text):
        return message + _with_dashes(text, tables)
    for name, call in calls.items():
        message = message.replace(name, call)
    missing, dotted = _MISSING.search(message), _DOTTED.search(message)
    if missing is not None:
        near = get_close_matches(missing[1], _shown(tables), 3)
        return f"there is no topic and no table {missing[1]!r}" + (f"; did you mean {', '.join(near)}?" if near else "")
    if dotted is not None:
        name = dotted[1].replace('"', "")
        near = [quoted(each) for each in _shown(tables) if each == name or each.startswith(f"{name}.")][:3]
        if near:
            return f"{message}\nA name with dots is written in double quotes: {', '.join(near)}"
    return message
