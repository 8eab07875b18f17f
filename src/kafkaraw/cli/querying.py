"""The work of `kafkaraw sql`: statements, their results, and the prompt.

A result is written while it comes: no more than one batch is in memory. Ctrl-C ends a statement; at the prompt it does
not end the program. Start at `run`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypedDict, Unpack

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.errors import KafkaError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from kafkaraw.datasets.sql import PlannedScan, SqlSession

_INTERRUPTED: Final = 130
_WARN_OFFSETS: Final = 50_000_000
"""More than so many are said before they are read."""
_WIDTH_MAX: Final = 10_000
"""Of a table that is not for a terminal."""
_HISTORY_LINES: Final = 1_000
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "compacted('", "topic('", "count(*)",
)  # fmt: skip


class QueryOptions(TypedDict):
    """The options of the command."""

    registry_url: str | None
    output: str
    output_file: str | None
    to_topic: str | None
    key: str
    value: str
    formats: tuple[str, ...]
    isolation_level: str | None
    threads: int | None
    explain: bool
    rows: int
    quiet: bool


def run(cluster: Cluster, query: str | None, **options: Unpack[QueryOptions]) -> int:
    """Run a statement, or those of the prompt or of standard input; return the exit code."""
    with _session(cluster, options) as session:
        if query is not None:
            return _Statements(cluster, session, options).one(query)
        if sys.stdin.isatty():
            return _prompt(_Statements(cluster, session, options), session)
        statements = _Statements(cluster, session, options)
        for text in _split(sys.stdin.read()):
            code = statements.one(text)
            if code:
                return code
        return 0


@contextmanager
def _session(cluster: Cluster, options: QueryOptions) -> Iterator[SqlSession]:
    from kafkaraw.client.config import ConsumerConfig

    try:
        from kafkaraw.datasets.sql import SqlSession
    except ImportError as error:
        raise UsageError(f"sql needs {error.name}: pip install 'kafkaraw[sql]'") from None
    formats = dict(each.partition("=")[::2] for each in options["formats"])
    address = cluster.registry(options["registry_url"])
    with SqlSession(
        key=options["key"],
        value=options["value"],
        formats=formats,
        registry=address.connect() if address.is_given else None,
        threads=options["threads"],
        **cluster.settings(ConsumerConfig, isolation_level=options["isolation_level"]),
    ) as session:
        yield session


class _Statements:
    """Runs statements, and writes what they return.

    Args:
        cluster: where `--to-topic` writes.
        session: of the queries.
        options: of the command.
    """

    def __init__(self, cluster: Cluster, session: SqlSession, options: QueryOptions) -> None:
        self._cluster, self._session, self._options = cluster, session, options

    def one(self, text: str) -> int:
        """Run a statement; return the exit code."""
        try:
            if self._options["explain"]:
                _show_plan(self._session.explain(text))
                return 0
            with _Progress(quiet=self._options["quiet"]) as progress:
                reader = self._session.query(text, on_scan=progress.began)
                self._write(reader, progress)
        except KeyboardInterrupt:
            click.echo("% Interrupted.", err=True)
            return _INTERRUPTED
        except BrokenPipeError:  # as with `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0

    def _write(self, reader: pa.RecordBatchReader, progress: _Progress) -> None:
        options = self._options
        if options["to_topic"] is not None:
            rows = write_to_topic(self._cluster, options["to_topic"], reader)
            progress.end()
            click.echo(f"% {rows:,} records written to {options['to_topic']}", err=True)
        elif options["output"] == "table" and options["output_file"] is None:
            _show_table(reader, options["rows"], progress)
        elif options["output_file"] is not None:
            with open(options["output_file"], "wb") as stream:
                _write_rows(reader, options["output"], stream)
        else:
            if options["output"] in ("parquet", "arrow") and sys.stdout.isatty():
                raise UsageError(f"-o {options['output']} writes bytes: give --output-file, or redirect it: ... > FILE")
            _write_rows(reader, options["output"], sys.stdout.buffer)
            sys.stdout.buffer.flush()


class _Progress:
    """A bar on the standard error of a terminal: how many of the offsets of a statement were read."""

    def __init__(self, *, quiet: bool) -> None:
        self._is_shown = not quiet and sys.stderr.isatty()
        self._quiet = quiet
        self._bar: Any = None
        self._tasks: dict[int, Any] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def began(self, scan: PlannedScan) -> Callable[[int], None] | None:
        """Show a scan; return what is called with the number of offsets read."""
        if scan.offsets > _WARN_OFFSETS and not self._quiet:
            click.echo(f"% reading {scan.offsets:,} offsets of {scan.topic}; Ctrl-C stops", err=True)
        if not self._is_shown or not scan.offsets:
            return None
        with self._lock:
            if self._bar is None:
                from rich.console import Console
                from rich.progress import Progress

                self._bar = Progress(console=Console(stderr=True), transient=True)
                self._bar.start()
            task = self._bar.add_task(scan.topic, total=scan.offsets)
        return lambda offsets: self._bar.advance(task, offsets)

    def end(self) -> None:
        """Remove the bar; rows may be written to the terminal then."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
            self._is_shown = False


def _show_plan(scans: list[PlannedScan]) -> None:
    if not scans:
        click.echo("reads no topic")
    for scan in scans:
        click.echo(f"{scan.topic}: {scan.offsets:,} offsets, columns {', '.join(scan.columns)}")
        for each in scan.ranges:
            click.echo(f"  {each.topic}-{each.partition}: {each.start:,} to {each.end:,} ({each.size:,} offsets)")


def _show_table(reader: pa.RecordBatchReader, rows_max: int, progress: _Progress) -> None:
    rows = list(islice((row for batch in reader for row in batch.to_pylist()), rows_max + 1))
    progress.end()
    if not reader.schema.names:
        return
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=_WIDTH_MAX)
    table = _table_of(reader.schema, rows[:rows_max])
    if Measurement.get(console, console.options, table).maximum <= console.width:
        console.print(table)
    else:
        for number, row in enumerate(rows[:rows_max], 1):
            console.print(f"-- row {number} --", style="dim")
            for name, value in row.items():
                console.print(f"{name}: {_cell(value)}", markup=False, highlight=False)
    if len(rows) > rows_max:
        click.echo(f"% only the first {rows_max:,} rows are shown; --rows shows more, -o csv all", err=True)


def _table_of(schema: pa.Schema, rows: Sequence[dict[str, object]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for field in schema:
        is_number = str(field.type).startswith(("int", "uint", "double", "float", "decimal"))
        table.add_column(Text(field.name), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    if isinstance(value, list | dict):
        return json.dumps(value, default=_plain, ensure_ascii=False)
    return str(value)


def _plain(value: object) -> object:
    """Return a value that JSON has."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _write_rows(reader: pa.RecordBatchReader, form: str, stream: BinaryIO) -> None:
    import pyarrow as pa

    if form == "csv" or form == "table":
        import pyarrow.csv

        options = pa.csv.WriteOptions()
        with pa.csv.CSVWriter(stream, _flat(reader.schema), write_options=options) as writer:
            for batch in reader:
                writer.write_batch(_flattened(batch))
    elif form == "json":
        for batch in reader:
            lines = (json.dumps(row, default=_plain, ensure_ascii=False) for row in batch.to_pylist())
            stream.write("".join(f"{line}\n" for line in lines).encode())
    elif form == "parquet":
        import pyarrow.parquet

        with pa.parquet.ParquetWriter(stream, reader.schema) as parquet:
            for batch in reader:
                parquet.write_batch(batch)
    else:
        with pa.ipc.new_stream(stream, reader.schema) as arrow:
            for batch in reader:
                arrow.write_batch(batch)


def _flat(schema: pa.Schema) -> pa.Schema:
    """Return the schema with text in the places of what CSV does not have."""
    import pyarrow as pa

    return pa.schema([
        pa.field(field.name, pa.string() if pa.types.is_nested(field.type) or _is_bytes(field.type) else field.type)
        for field in schema
    ])  # fmt: skip


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _flattened(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _flat(batch.schema)
    columns = [
        column if column.type == field.type
        else pa.array([None if value is None else _cell(value) for value in column.to_pylist()], pa.string())
        for column, field in zip(batch.columns, schema, strict=True)
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# -- rows as records

_OF_RECORDS: Final = ("key", "value", "headers", "partition", "timestamp")


def write_to_topic(cluster: Cluster, topic: str, reader: pa.RecordBatchReader) -> int:
    """Write rows to a topic; return how many they are.

    Raises:
        KafkaError: a record cannot be delivered; those before may be.
    """
    from kafkaraw.client.blocking.producer import Producer
    from kafkaraw.client.config import ProducerConfig

    rows = 0
    with Producer(runtime=None, **cluster.settings(ProducerConfig)) as producer:
        for batch in reader:
            if batch.num_rows:
                producer.send_arrow(topic, as_records(batch))
                rows += batch.num_rows
        producer.flush()
    return rows


def as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as columns of records; without a column `value`, it is a JSON object of the columns that are left."""
    import pyarrow as pa

    columns = {name: batch.column(name) for name in batch.schema.names if name in _OF_RECORDS}
    others = [name for name in batch.schema.names if name not in _OF_RECORDS]
    if "value" in columns and others:
        raise UsageError(
            f"--to-topic: the columns {', '.join(others)} are no part of a record; leave them out, or leave out value: "
            "then the value is a JSON object of them"
        )
    if "value" not in columns:
        rows = batch.select(others).to_pylist()
        columns["value"] = pa.array([json.dumps(row, default=_plain, ensure_ascii=False).encode() for row in rows])
    for name in ("key", "value"):
        if name in columns and not _is_bytes(columns[name].type):
            made = [None if each is None else _cell(each).encode() for each in columns[name].to_pylist()]
            columns[name] = pa.array(made, pa.binary())
    return pa.RecordBatch.from_pydict(columns)


# -- the prompt


def _split(text: str) -> list[str]:
    """Return the statements of a text."""
    import duckdb

    try:
        return [each.query for each in duckdb.extract_statements(text)]
    except duckdb.Error:
        return [each for each in text.split(";") if each.strip()]


def _prompt(statements: _Statements, session: SqlSession) -> int:
    import readline

    history = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kafkaraw" / "sql_history"
    with _History(history):
        readline.set_completer(_Completer(session).complete)
        readline.set_completer_delims(" \t\n,()=<>*+-/;'\"")
        readline.parse_and_bind("tab: complete")
        click.echo("% SQL over topics; Tab completes their names, a statement ends with ; and Ctrl-D leaves", err=True)
        lines: list[str] = []
        while True:
            try:
                lines.append(input("    ...> " if lines else "kafkaraw> "))
            except EOFError:
                click.echo()
                return 0
            except KeyboardInterrupt:
                click.echo()
                lines = []
                continue
            text = "\n".join(lines)
            if text.strip().rstrip(";").lower() in ("exit", "quit", "\\q"):
                return 0
            if text.rstrip().endswith(";") or not text.strip():
                lines = []
                if text.strip().strip(";"):
                    _said(statements, text)


def _said(statements: _Statements, text: str) -> None:
    """Run the statements of a line; an error does not end the prompt."""
    try:
        for each in _split(text):
            if statements.one(each):
                return
    except KafkaError as error:
        click.echo(f"Error: {error}", err=True)


class _History:
    """The lines of earlier prompts."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> None:
        import readline

        readline.set_history_length(_HISTORY_LINES)
        if self._file.exists():
            readline.read_history_file(self._file)

    def __exit__(self, *_: object) -> None:
        import readline

        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(self._file)
        except OSError as error:
            click.echo(f"% the history was not written to {self._file}: {error.strerror}", err=True)


class _Completer:
    """Completes words, topics, and the columns of topics that the line names."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._topics: list[str] | None = None
        self._columns: dict[str, list[str]] = {}
        self._found: list[str] = []

    def complete(self, text: str, state: int) -> str | None:
        """Return the next completion of a word, as `readline` asks for it."""
        if state == 0:
            import readline

            self._found = self._candidates(text, readline.get_line_buffer())
        return self._found[state] if state < len(self._found) else None

    def _candidates(self, text: str, line: str) -> list[str]:
        if self._topics is None:
            self._topics = self._session.topics()
        known = [*self._topics, *_WORDS]
        for topic in self._topics:
            if topic in line and topic != text:
                if topic not in self._columns:
                    self._columns[topic] = list(self._session.table(topic).schema.names)
                known += self._columns[topic]
        return [each for each in dict.fromkeys(known) if each.lower().startswith(text.lower())]
