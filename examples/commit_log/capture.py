"""Change data capture: PostgreSQL's logical decoding (plugin pgoutput) into Kafka topics, as Debezium envelopes.

A replication slot has every change since its creation. Changes are peeked at, produced in one transaction, and only
then is the slot advanced: a crash in between repeats changes and loses none. A repeated change has the same `lsn`, so
applying it again changes nothing. Start at `Capture.poll`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from kafkaraw import Producer

SLOT: Final = "kafkaraw"
PUBLICATION: Final = "kafkaraw"
_POSTGRES_EPOCH_MS: Final = 946_684_800_000  # 2000-01-01 UTC
_INTEGERS: Final = frozenset({20, 21, 23})  # type OIDs: bigint, smallint, integer
_BOOLEAN, _TIMESTAMP_WITH_ZONE = 16, 1184

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table: its name and the type's OID."""

    name: str
    type_oid: int


@dataclass(frozen=True)
class Table:
    """A table, as the decoder describes it before its first change."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Change:
    """One change of a row: op is "c", "u", "d" or "r" (a row of the snapshot), as in Debezium."""

    table: Table
    op: str
    before: Row | None
    after: Row | None
    lsn: int
    time_ms: int


class PgoutputDecoder:
    """Decodes messages of the plugin pgoutput, protocol version 1 (PostgreSQL's manual, chapter 55.9)."""

    def __init__(self) -> None:
        self._tables: dict[int, Table] = {}
        self._commit_ms = 0

    def decode(self, lsn: int, message: bytes) -> Change | None:
        """Return the change that a message has; None for the begin and end of a transaction, types and tables."""
        kind, read = message[:1], _Reader(message, 1)
        if kind == b"B":
            _, commit_us = read.unpack(">qq")
            self._commit_ms = _POSTGRES_EPOCH_MS + commit_us // 1000
        elif kind == b"R":
            (oid,) = read.unpack(">I")
            self._tables[oid] = self._table(oid, read)
        elif kind in (b"I", b"U", b"D"):
            return self._change(kind, lsn, read)
        return None

    def _table(self, oid: int, read: _Reader) -> Table:
        schema, name = read.text(), read.text()
        _, count = read.unpack(">bh")
        columns = []
        for _ in range(count):
            read.unpack(">b")
            column = read.text()
            type_oid, _ = read.unpack(">Ii")
            columns.append(Column(column, type_oid))
        return Table(oid, schema, name, tuple(columns))

    def _change(self, kind: bytes, lsn: int, read: _Reader) -> Change:
        table = self._tables[read.unpack(">I")[0]]
        rows: dict[bytes, Row] = {}
        while not read.at_end:
            part = read.bytes(1)  # N: the new row; O and K: the old row, whole or its key
            rows[part] = self._row(table, read)
        before = rows.get(b"O") or rows.get(b"K")
        op = {b"I": "c", b"U": "u", b"D": "d"}[kind]
        return Change(table, op, before, rows.get(b"N"), lsn, self._commit_ms)

    def _row(self, table: Table, read: _Reader) -> Row:
        read.unpack(">h")
        return {column.name: _value(column, read) for column in table.columns}


class _Reader:
    """Reads fields of a message one after another."""

    def __init__(self, message: bytes, position: int) -> None:
        self._message = message
        self._position = position

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._message)

    def bytes(self, count: int) -> bytes:
        start, self._position = self._position, self._position + count
        return self._message[start : self._position]

    def unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.bytes(struct.calcsize(layout)))

    def text(self) -> str:
        end = self._message.index(0, self._position)
        start, self._position = self._position, end + 1
        return self._message[start:end].decode()


def _value(column: Column, read: _Reader) -> Any:  # noqa: ANN401
    kind = read.bytes(1)
    if kind != b"t":
        return None  # n is NULL; u, an unchanged large value, does not occur with REPLICA IDENTITY FULL and short texts
    text = read.bytes(read.unpack(">i")[0]).decode()
    if column.type_oid in _INTEGERS:
        return int(text)
    if column.type_oid == _TIMESTAMP_WITH_ZONE:
        return text.replace(" ", "T").replace("+00", "Z")  # in UTC, as the connection's time zone is
    return text == "t" if column.type_oid == _BOOLEAN else text


class Capture:
    """Copies the changes of a database into topics named SERVER.SCHEMA.TABLE, with records keyed by primary key.

    Args:
        connection: in autocommit mode.
        producer: with a transactional id.
        server: the first part of the topics' names.
    """

    def __init__(self, connection: psycopg.Connection[Any], producer: Producer, server: str) -> None:
        self._connection = connection
        self._producer = producer
        self._server = server
        self._decoder = PgoutputDecoder()
        self._keys: dict[int, tuple[str, ...]] = {}
        connection.execute("SET timezone TO 'UTC'")

    def start(self, tables: Iterable[str]) -> None:
        """Create the publication and the slot; changes before this call are not captured."""
        for table in tables:  # the old row of a change is decoded whole, as Debezium recommends
            self._connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        self._connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {', '.join(tables)}")
        self._connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (SLOT,))

    def poll(self) -> int:
        """Produce the changes that the slot has, and advance it; return their number."""
        changes = self._connection.execute(
            "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_peek_binary_changes("
            "%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)",
            (SLOT, PUBLICATION),
        ).fetchall()
        if not changes:
            return 0
        count = 0
        with self._producer.transaction():
            for change in self._decoded(changes):
                self._send(change)
                count += 1
        self._connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)", (SLOT, changes[-1][0]))
        return count

    def _decoded(self, changes: list[tuple[Any, bytes]]) -> Iterator[Change]:
        for lsn, message in changes:
            change = self._decoder.decode(int(lsn), message)
            if change is not None:
                yield change

    def _send(self, change: Change) -> None:
        topic = f"{self._server}.{change.table.schema}.{change.table.name}"
        row = change.after or change.before or {}
        key = _json({column: row[column] for column in self._key_of(change.table)})
        source = {
            "connector": "postgresql",
            "name": self._server,
            "schema": change.table.schema,
            "table": change.table.name,
            "lsn": change.lsn,
            "ts_ms": change.time_ms,
        }
        envelope = {"before": change.before, "after": change.after, "source": source, "op": change.op}
        self._producer.send(topic, _json(envelope | {"ts_ms": change.time_ms}), key, timestamp_ms=change.time_ms)
        if change.op == "d":  # compaction then removes the key
            self._producer.send(topic, None, key, timestamp_ms=change.time_ms)

    def _key_of(self, table: Table) -> tuple[str, ...]:
        """Return a table's primary key: with REPLICA IDENTITY FULL, the decoder calls all columns keys."""
        if table.oid not in self._keys:
            rows = self._connection.execute(
                "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)"
                " WHERE indisprimary AND indrelid = %s ORDER BY attnum",
                (table.oid,),
            )
            self._keys[table.oid] = tuple(name for (name,) in rows)
        return self._keys[table.oid]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
