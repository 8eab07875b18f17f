"""The work of `kafkaraw sql`: statements, their results, and the prompt.

A result is written while it comes: no more than some batches are in memory. Ctrl-C ends a statement; at the prompt it
does not end the program. What records contain is written to a terminal without its control characters. Start at `run`.
"""

from __future__ import annotations

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
from kafkaraw.readable import size_text

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from kafkaraw.datasets.sql import PlannedScan, SqlSession
    from kafkaraw.datasets.statements import Copy

_INTERRUPTED: Final = 130
_WARN_OFFSETS: Final = 50_000_000
_WARN_BYTES: Final = 10 << 30
"""What is more is said before it is read."""
_WIDTH_MAX: Final = 10_000
"""Of a table that is not for a terminal."""
_OF_EXPLAIN: Final = ["explain_key", "explain_value"]
_HISTORY_LINES: Final = 1_000
_DELIMITERS: Final = " \t\n,()=<>*+/;'\""
"""No minus: names of topics have it."""
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
    log_dirs: tuple[str, ...]
    isolation_level: str | None
    threads: int | None
    explain: bool
    rows: int
    quiet: bool


def run(cluster: Cluster, query: str | None, **options: Unpack[QueryOptions]) -> int:
    """Run a statement, or those of the prompt or of standard input; return the exit code."""
    with _session(cluster, options) as session:
        from kafkaraw.datasets.statements import statements_in

        statements = _Statements(session, options)
        if query is None and sys.stdin.isatty():
            return _prompt(statements, session)
        whole, rest = statements_in(sys.stdin.read() if query is None else query)
        for text in [*whole, rest] if rest else whole:
            code = statements.one(text)
            if code:
                return code
        return 0


@contextmanager
def _session(cluster: Cluster, options: QueryOptions) -> Iterator[SqlSession]:
    from kafkaraw.client.config import ConsumerConfig, ProducerConfig

    try:
        from kafkaraw.datasets.sql import SqlSession
    except ImportError as error:
        raise UsageError(f"sql needs {error.name}: pip install 'kafkaraw[sql]'") from None
    formats = dict(each.partition("=")[::2] for each in options["formats"])
    address = cluster.registry(options["registry_url"])
    settings: dict[str, Any] = {"isolation_level": options["isolation_level"]}
    producer = None
    if not options["log_dirs"]:
        settings = cluster.settings(ConsumerConfig, isolation_level=options["isolation_level"])
    if not options["log_dirs"] or cluster.is_named:
        producer = cluster.settings(ProducerConfig)
    with SqlSession(
        key=options["key"],
        value=options["value"],
        formats=formats,
        registry=address.connect() if address.is_given else None,
        threads=options["threads"],
        log_dirs=options["log_dirs"] or None,
        producer=producer,
        **{name: value for name, value in settings.items() if value is not None},
    ) as session:
        yield session


class _Statements:
    """Runs statements, and writes what they return.

    Args:
        session: of the queries.
        options: of the command.
    """

    def __init__(self, session: SqlSession, options: QueryOptions) -> None:
        self._session, self._options = session, options

    def one(self, text: str) -> int:
        """Run a statement; return the exit code."""
        from kafkaraw.datasets.statements import Copy, copy_in

        try:
            if self._options["explain"]:
                _show_plan(self._session.explain(text))
                return 0
            copied = copy_in(text)
            if copied is None and self._options["to_topic"] is not None:
                copied = Copy(text, self._options["to_topic"])
            with _Progress(quiet=self._options["quiet"]) as progress:
                if copied is None:
                    self._write(self._session.query(text, on_scan=progress.began), progress)
                else:
                    self._copy(copied, progress)
        except KeyboardInterrupt:
            click.echo("% Interrupted.", err=True)
            return _INTERRUPTED
        except BrokenPipeError:  # as with `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0

    def _copy(self, copied: Copy, progress: _Progress) -> None:
        written = 0

        def count(rows: int) -> None:
            nonlocal written
            written += rows

        try:
            written = self._session.write(copied.query, copied.topic, on_scan=progress.began, on_written=count)
        except BaseException:
            progress.end()
            if written:
                click.echo(f"% up to {written:,} records were written to {copied.topic} before", err=True)
            raise
        progress.end()
        click.echo(f"% {written:,} records written to {copied.topic}", err=True)

    def _write(self, reader: pa.RecordBatchReader, progress: _Progress) -> None:
        options = self._options
        if not reader.schema.names:  # a statement without a result
            reader.read_all()
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
        if not self._quiet and (scan.offsets > _WARN_OFFSETS or (scan.size_bytes or 0) > _WARN_BYTES):
            size = "" if scan.size_bytes is None else f", about {size_text(scan.size_bytes)}"
            click.echo(f"% reading {scan.offsets:,} offsets of {scan.topic}{size}; Ctrl-C stops", err=True)
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
        size = "" if scan.size_bytes is None else f", about {size_text(scan.size_bytes)}"
        click.echo(f"{scan.topic}: {scan.offsets:,} offsets{size}, columns {', '.join(map(_safe, scan.columns))}")
        for each in scan.ranges:
            click.echo(f"  {each.topic}-{each.partition}: {each.start:,} to {each.end:,} ({each.size:,} offsets)")


def _show_table(reader: pa.RecordBatchReader, rows_max: int, progress: _Progress) -> None:
    from kafkaraw.datasets.writing import rows_of

    rows = list(islice((row for batch in reader for row in rows_of(batch)), rows_max + 1))
    reader.close()
    progress.end()
    from rich.console import Console
    from rich.measure import Measurement

    if reader.schema.names == _OF_EXPLAIN:  # a drawing of several lines
        for row in rows:
            for line in str(row[_OF_EXPLAIN[1]]).splitlines():
                click.echo(_safe(line))
        return
    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=_WIDTH_MAX)
    table = _table_of(reader.schema, rows[:rows_max])
    if Measurement.get(console, console.options, table).maximum <= console.width:
        console.print(table)
    else:
        for number, row in enumerate(rows[:rows_max], 1):
            console.print(f"-- row {number} --", style="dim")
            for name, value in row.items():
                console.print(f"{_safe(name)}: {_safe(_cell(value))}", markup=False, highlight=False)
    if len(rows) > rows_max:
        click.echo(f"% only the first {rows_max:,} rows are shown; --rows shows more, -o csv all", err=True)


def _table_of(schema: pa.Schema, rows: Sequence[dict[str, object]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for field in schema:
        is_number = str(field.type).startswith(("int", "uint", "double", "float", "decimal"))
        table.add_column(Text(_safe(field.name)), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_safe(_cell(value))) for value in row.values()))
    return table


def _cell(value: object) -> str:
    from kafkaraw.datasets.writing import json_text

    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    if isinstance(value, list | dict):
        return json_text(value)
    return str(value)


def _safe(text: str) -> str:
    """Return a text that a terminal shows and does not obey: control characters are written by their numbers."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _write_rows(reader: pa.RecordBatchReader, form: str, stream: BinaryIO) -> None:
    import pyarrow as pa

    if form == "csv" or form == "table":
        import pyarrow.csv

        options = pa.csv.WriteOptions()
        with pa.csv.CSVWriter(stream, _flat(reader.schema), write_options=options) as writer:
            for batch in reader:
                writer.write_batch(_flattened(batch))
    elif form == "json":
        from kafkaraw.datasets.writing import json_text, rows_of

        for batch in reader:
            stream.write("".join(f"{json_text(row)}\n" for row in rows_of(batch)).encode())
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

    from kafkaraw.datasets.writing import is_bytes

    return pa.schema([
        pa.field(field.name, pa.string() if pa.types.is_nested(field.type) or is_bytes(field.type) else field.type)
        for field in schema
    ])  # fmt: skip


def _flattened(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    from kafkaraw.datasets.writing import values_of

    schema = _flat(batch.schema)
    columns = [
        column if column.type == field.type
        else pa.array([None if value is None else _cell(value) for value in values_of(column)], pa.string())
        for column, field in zip(batch.columns, schema, strict=True)
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# -- the prompt


def _prompt(statements: _Statements, session: SqlSession) -> int:
    import readline

    from kafkaraw.datasets.statements import statements_in

    history = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kafkaraw" / "sql_history"
    with _History(history):
        readline.set_completer(_Completer(session).complete)
        readline.set_completer_delims(_DELIMITERS)
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
            whole, rest = statements_in(text)
            _said(statements, whole)
            lines = [rest] if rest else []


def _said(statements: _Statements, texts: Sequence[str]) -> None:
    """Run statements; an error ends them, and not the prompt."""
    try:
        for each in texts:
            if statements.one(each):
                return
    except (KafkaError, click.ClickException, OSError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else error
        click.echo(f"Error: {message}", err=True)


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

            line = readline.get_line_buffer()
            self._found = self._candidates(text, line, line[: readline.get_begidx()][-1:])
        return self._found[state] if state < len(self._found) else None

    def _candidates(self, text: str, line: str, before: str = "") -> list[str]:
        """Return the completions of a word, which may stand behind a quote."""
        from kafkaraw.datasets.statements import quoted

        if self._topics is None:
            self._topics = self._session.topics()
        names = list(self._topics)
        for topic in self._topics:
            if topic in line and topic != text:
                if topic not in self._columns:
                    self._columns[topic] = list(self._session.table(topic).schema.names)
                names += self._columns[topic]
        found = [each for each in dict.fromkeys(names) if each.lower().startswith(text.lower())]
        if before in ("'", '"'):
            return [each + before for each in found]
        return [*map(quoted, found), *(each for each in _WORDS if each.lower().startswith(text.lower()))]
