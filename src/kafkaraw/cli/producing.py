"""The work of `kafkaraw produce`: read, send, and wait for the acknowledgements.

A signal ends the reading. Messages that were read before are still delivered, unless they are part of a transaction,
which is aborted. Start at `produce`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypedDict, Unpack

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.formats import unescape
from kafkaraw.cli.inputs import Lines, Message, json_message, length_prefixed, lines, messages_of
from kafkaraw.cli.kafka_properties import lines_of
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.outputs import discard_pending, write_all
from kafkaraw.cli.serdes import OF_SCHEMAS, ToBytes, reading
from kafkaraw.cli.stopping import Stop
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.errors import UsageError
from kafkaraw.records import Header, Ticket

_ARROW_COLUMNS: Final = ("key", "value", "headers", "timestamp")


class ProduceOptions(TypedDict):
    """The command's options, by click's names."""

    arguments: tuple[str, ...]
    topic: str | None
    partition: int | None
    key: str | None
    key_delimiter: str | None
    delimiter: str
    headers: tuple[str, ...]
    empty_is_null: bool
    null_marker: str | None
    by_lines: bool
    as_json: bool
    length_prefixed: bool
    columns: str | None
    serdes: tuple[str, ...]
    registry_url: str | None
    schema_files: tuple[str, ...]
    ignore_rules: bool
    reader_properties: tuple[str, ...]
    compression: str | None
    max_messages: int | None
    tee: bool
    quiet: bool
    verbose: int


@dataclass(frozen=True)
class Plan:
    """What to send, and where.

    Attributes:
        topic: the topic.
        files: the files to read; standard input if empty.
        whole_files: each file is one message.
        lines: how lines become messages.
        delimiter: the text between lines.
        headers: headers of every message that has none of its own.
        partition: None lets the partitioner choose.
        messages_max: stop after this many messages.
        size_max: maximum size of a message in bytes.
    """

    topic: str
    files: tuple[Path, ...]
    whole_files: bool
    lines: Lines
    delimiter: bytes
    headers: list[Header] | None
    partition: int | None
    messages_max: int | None
    size_max: int


def produce(cluster: Cluster, stop: Stop, **options: Unpack[ProduceOptions]) -> None:
    """Run the command.

    Args:
        cluster: the cluster to send to.
        stop: the requests of signals.
        options: the command's options.

    Raises:
        click.UsageError: the options are invalid.
        KafkaError: an error of the client, or of the input.
    """
    try:
        settings = cluster.settings(ProducerConfig, **_compression(options["compression"]))
        plan = _plan(options, parse(ProducerConfig, settings).max_request_size, cluster)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    source = sys.stdin.buffer
    notes = Notes(quiet=options["quiet"], verbose=options["verbose"], shares_terminal=source.isatty())
    if not plan.files and source.isatty():
        notes.say("Type one message per line; end with Ctrl-D on an empty line.")
    with notes, Producer(runtime=None, **settings) as producer:
        sending = _Sending(producer, plan, notes, sys.stdout.buffer if options["tee"] else None)
        if "transactional_id" in settings:
            producer.init_transactions()
            producer.begin_transaction()
        try:
            if options["columns"]:
                sending.send_columns(options["columns"], source)
            elif plan.whole_files:
                sending.send_files()
            else:
                sending.send_streams(source, options)
        except KeyboardInterrupt:
            pass
        with stop.noted():
            _finish(producer, notes, stop, in_transaction="transactional_id" in settings)
        notes.summary("Sent", sending.count, sending.size_bytes)


def _finish(producer: Producer, notes: Notes, stop: Stop, *, in_transaction: bool) -> None:
    if in_transaction and stop.asked:
        notes.say("Stopped: aborting the transaction")
        producer.abort_transaction()
    elif in_transaction:
        producer.commit_transaction()
    else:
        if stop.asked:
            notes.say("Stopped: waiting for acknowledgements; a second signal ends at once")
        producer.flush()


def _plan(options: ProduceOptions, size_max: int, cluster: Cluster) -> Plan:
    topic, files = options["topic"], options["arguments"]
    if topic is None:
        if not files:
            raise UsageError("no topic given: kafkaraw produce TOPIC")
        topic, files = files[0], files[1:]
    forms = [
        name
        for name, is_given in (
            ("--json", options["as_json"]),
            ("--length-prefixed", options["length_prefixed"]),
            (f"--input {options['columns']}", options["columns"]),
        )
        if is_given
    ]
    if len(forms) > 1:
        raise UsageError(f"{' and '.join(forms)} exclude each other")
    how, delimiter = _lines(options, topic, cluster), unescape(options["delimiter"])
    if not delimiter or how.key_delimiter == b"":
        raise UsageError(f"{'-K' if delimiter else '-D'} must not be empty")
    if forms and forms != ["--length-prefixed"] and how != Lines():
        raise UsageError(
            f"{forms[0]} excludes -k, -K, -Z, -s and --null-marker: the input has keys, values and nulls of its own"
        )
    return Plan(
        topic=topic,
        files=tuple(map(Path, files)),
        whole_files=bool(files) and not options["by_lines"] and not forms,
        lines=how,
        delimiter=delimiter,
        headers=[_header(text) for text in options["headers"]] or None,
        partition=None if options["partition"] == -1 else options["partition"],
        messages_max=options["max_messages"],
        size_max=size_max,
    )


def _lines(options: ProduceOptions, topic: str, cluster: Cluster) -> Lines:
    """Return how lines become messages: by Kafka's properties, and then by our options."""
    how = lines_of(options["reader_properties"]) if options["reader_properties"] else Lines()
    convert_key, convert_value = _converters(options, topic, cluster)
    how = replace(
        how,
        convert_key=convert_key or how.convert_key,
        convert_value=convert_value or how.convert_value,
        empty_is_null=options["empty_is_null"],
    )
    key, marker = options["key"], options["null_marker"]
    if options["key_delimiter"] is not None:
        how = replace(how, key_delimiter=unescape(options["key_delimiter"]))
    if marker is not None:
        how = replace(how, null_marker=marker.encode())
    if key is None:
        return how
    try:
        return replace(how, key=key.encode() if how.convert_key is None else how.convert_key(key.encode()))
    except ValueError as error:
        raise UsageError(f"-k {key}: {error}") from error


def _converters(options: ProduceOptions, topic: str, cluster: Cluster) -> tuple[ToBytes | None, ToBytes | None]:
    """Return the converters that `-s` selects; those of schemas get their schema from the registry now."""
    if not any(text.endswith(OF_SCHEMAS) for text in options["serdes"]):
        if options["schema_files"]:
            raise UsageError(f"--schema needs -s with one of {', '.join(OF_SCHEMAS)}")
        return reading(options["serdes"])
    from kafkaraw.cli.schema_serdes import Schemas

    files = {}
    for text in options["schema_files"]:
        field, equals, file = text.partition("=")
        if equals and field in ("key", "value"):
            files[field] = file
        else:
            files |= {"key": text, "value": text}
    schemas = Schemas(cluster.registry(options["registry_url"]), ignore_rules=options["ignore_rules"])
    try:
        return reading(options["serdes"], lambda field, name: schemas.reading(field, name, topic, files.get(field)))
    finally:
        schemas.close()


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"-H {text}: must be NAME=VALUE, or NAME for a null value")
    return name, value.encode() if equals else None


def _compression(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    codec, colon, level = text.partition(":")
    if not colon:
        return {"compression_type": codec}
    try:
        return {"compression_type": codec, "compression_level": int(level)}
    except ValueError:
        raise UsageError(f"-z {text}: the level must be a number, as in zstd:3") from None


class _Sending:
    """One run: the messages sent, and their results so far."""

    def __init__(self, producer: Producer, plan: Plan, notes: Notes, tee: BinaryIO | None) -> None:
        self.count = 0
        self.size_bytes = 0
        self._producer = producer
        self._plan = plan
        self._notes = notes
        self._tee = tee
        self._marks: deque[Ticket] = deque()  # one of each portion, to notice an error before the input's end

    def send_streams(self, source: BinaryIO, options: ProduceOptions) -> None:
        """Send the content of standard input, or of files one after the other."""
        for stream in _streams(self._plan.files, source):
            pieces: Iterable[list[bytes] | list[bytes | None]]
            if options["length_prefixed"]:
                pieces = length_prefixed(stream, self._plan.size_max)
            else:
                pieces = lines(stream, self._plan.delimiter, self._plan.size_max)
            if options["as_json"]:
                self._send_messages(messages_of(pieces, json_message))
            elif self._plan.lines.are_values:
                self._send_values(pieces)
            else:
                self._send_messages(messages_of(pieces, self._plan.lines.message))

    def send_files(self) -> None:
        """Send each file as one message."""
        for path in self._plan.files:
            self._send_messages(messages_of([[_content(path)]], self._plan.lines.message))

    def send_columns(self, form: str, source: BinaryIO) -> None:
        """Send tables; topic, partition and offset of the rows are ignored."""
        for stream in _streams(self._plan.files, source):
            for batch in _tables(form, stream):
                names = [name for name in _ARROW_COLUMNS if name in batch.schema.names]
                self._producer.send_arrow(self._plan.topic, batch.select(names))
                self._note_sent(batch.num_rows, batch.nbytes, None)

    def _send_values(self, pieces: Iterable[list[bytes] | list[bytes | None]]) -> None:
        send, plan, ticket = self._producer.send, self._plan, None
        for piece in pieces:
            values = piece[: self._left]
            if plan.headers is None and plan.partition is None:
                for value in values:
                    ticket = send(plan.topic, value)
            else:
                for value in values:
                    ticket = send(plan.topic, value, headers=plan.headers, partition=plan.partition)
            self._note_sent(len(values), sum(map(len, filter(None, values))), ticket)
            self._write(values)
            if self._left == 0:
                return

    def _send_messages(self, pieces: Iterable[list[Message]]) -> None:
        send, plan, ticket = self._producer.send, self._plan, None
        for piece in pieces:
            size_bytes = 0
            chosen = piece[: self._left]
            for value, key, headers, timestamp_ms in chosen:
                ticket = send(
                    plan.topic,
                    value,
                    key,
                    headers=plan.headers if headers is None else headers,
                    partition=plan.partition,
                    timestamp_ms=timestamp_ms,
                )
                size_bytes += len(value or b"") + len(key or b"")
            self._note_sent(len(chosen), size_bytes, ticket)
            self._write([message.value for message in chosen])
            if self._left == 0:
                return

    @property
    def _left(self) -> int | None:
        return None if self._plan.messages_max is None else self._plan.messages_max - self.count

    def _note_sent(self, count: int, size_bytes: int, ticket: Ticket | None) -> None:
        self.count += count
        self.size_bytes += size_bytes
        if ticket is not None:
            self._marks.append(ticket)
        while self._marks and self._marks[0].done:
            error = self._marks.popleft().exception()
            if error is not None:
                raise error
        self._notes.progress(self.count, self.size_bytes)

    def _write(self, values: Iterable[bytes | None]) -> None:
        if self._tee is None:
            return
        try:
            write_all(self._tee, b"".join((value or b"") + self._plan.delimiter for value in values))
            self._tee.flush()
        except BrokenPipeError:  # the reader of the copy may close it; the messages are still sent
            discard_pending(self._tee)
            self._tee = None


def _streams(files: tuple[Path, ...], source: BinaryIO) -> Iterator[Any]:
    if not files:
        yield source
    for path in files:
        try:
            with path.open("rb") as stream:
                yield stream
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _tables(form: str, stream: BinaryIO) -> Iterator[Any]:
    """Record batches of a stream.

    Raises:
        UsageError: it is something else, or pyarrow is missing.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(f"--input {form} needs pyarrow: pip install 'kafkaraw[arrow]'") from None
    try:
        if form == "parquet":
            import pyarrow.parquet as pq

            yield from pq.ParquetFile(stream if stream.seekable() else pa.BufferReader(stream.read())).iter_batches()
        else:
            yield from pa.ipc.open_stream(stream)
    except pa.ArrowInvalid as error:
        raise UsageError(f"--input {form}: the input has another format: {error}") from error
