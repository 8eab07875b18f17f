"""A decision: which transactions a micro-batch consists of, and which rows they hold. Its format in the topic. Pure.

One decision is one transaction of the driver: a head record with the query's id as its key, and before it, for more
slots than fit in one record, part records with the keys `id#1`, `id#2` and so on. All of them become visible together,
so the head of a query's newest decision always has its parts: compaction removes only what a newer decision replaced.

A marker is a record in a task's transaction, with the key `id/slot` and the batch as its value.

Start at `Decision`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.errors import KafkaError
from kafkaraw.spark.writing.outcomes import LogRecord

SLOTS_PER_RECORD: Final = 2_000
"""About 150 KB: below the smallest `max.message.bytes` that is in use."""

_FORMAT: Final = 2
_CHECKSUM_MODULUS: Final = 1 << 64


class RowSum(NamedTuple):
    """Rows in any order: how many, and the sum of their checksums modulo 2**64."""

    records_count: int
    checksum: int

    def plus(self, other: RowSum) -> RowSum:
        """Return the sum of both."""
        return RowSum(self.records_count + other.records_count, (self.checksum + other.checksum) % _CHECKSUM_MODULUS)


NO_ROWS: Final = RowSum(0, 0)


class SlotDecision(NamedTuple):
    """One slot of a decision.

    Attributes:
        transaction: the transaction that holds the slot's rows.
        rows: count and checksum of these rows; None in decisions of versions that did not store them.
    """

    transaction: PreparedTransaction | None
    rows: RowSum | None


@dataclass(frozen=True)
class Decision:
    """A micro-batch that is committed, or is being committed.

    Attributes:
        query_id: the query.
        batch_id: the micro-batch.
        slots: one for each task, in their order.
        skipped: the option `resolveBatches` declared the batch as written; it has no slots.
        resolved: the option `resolveBatches` overrode a refusal.
        offset: offset of the head record in the topic; -1 before it is written.
    """

    query_id: str
    batch_id: int
    slots: tuple[SlotDecision, ...]
    skipped: bool = False
    resolved: bool = False
    offset: int = field(default=-1, compare=False)

    @property
    def transactions(self) -> tuple[PreparedTransaction | None, ...]:
        """The transaction of each slot."""
        return tuple(slot.transaction for slot in self.slots)

    def to_records(self) -> list[tuple[bytes, bytes]]:
        """Return keys and values of its records, in the order in which they must be written: the head comes last."""
        prefix = _common_prefix(self)
        names = (transactional_id(prefix, self.query_id, number) for number in range(len(self.slots)))
        slots = [_encode(slot, name) for slot, name in zip(self.slots, names, strict=True)]
        chunks = [slots[at : at + SLOTS_PER_RECORD] for at in range(0, len(slots), SLOTS_PER_RECORD)] or [[]]
        head: dict[str, object] = {"format": _FORMAT, "batch": self.batch_id, "prefix": prefix}
        head |= {"tasks": len(slots), "parts": len(chunks) - 1, "slots": chunks[0]}
        head |= {name: True for name in ("skipped", "resolved") if getattr(self, name)}
        parts = [
            (part_key(self.query_id, number), {"batch": self.batch_id, "part": number, "slots": chunk})
            for number, chunk in enumerate(chunks[1:], 1)
        ]
        return [(key, _json(said)) for key, said in [*parts, (self.query_id.encode(), head)]]

    @classmethod
    def from_records(cls, records: Sequence[LogRecord]) -> Decision:
        """Read a decision from the records of one transaction, in their order.

        Raises:
            KafkaError: a part is missing, the format is of a later version, or the record is not a decision.
        """
        head = records[-1]
        query_id = head.key.decode()
        try:
            said = json.loads(head.value)
        except ValueError:
            said = None
        if not isinstance(said, dict) or "batch" not in said:
            raise KafkaError(f"the record at offset {head.offset} about query {query_id} is no decision of kafkaraw")
        if "format" not in said:
            return _of_first_format(query_id, said, head.offset)
        if said["format"] != _FORMAT:
            raise KafkaError(
                f"the decision at offset {head.offset} about query {query_id} has format {said['format']}, and this "
                f"version of kafkaraw reads format {_FORMAT}: use the version that wrote it"
            )
        parts = {record.key: record.value for record in records[:-1]}
        slots = said["slots"]
        for number in range(1, said["parts"] + 1):
            value = parts.get(part_key(query_id, number))
            if value is None:
                raise KafkaError(f"part {number} of the decision at offset {head.offset} is missing")
            slots += json.loads(value)["slots"]
        prefix = said["prefix"]
        decoded = (_decode(slot, transactional_id(prefix, query_id, number)) for number, slot in enumerate(slots))
        skipped, resolved = said.get("skipped", False), said.get("resolved", False)
        return cls(query_id, said["batch"], tuple(decoded), skipped, resolved, head.offset)


def transactional_id(prefix: str, query_id: str, slot: int) -> str:
    """Return the transactional id of a slot."""
    return f"{prefix}-{query_id}-{slot}"


def driver_transactional_id(prefix: str, query_id: str) -> str:
    """Return the transactional id with which drivers write decisions; never that of a slot."""
    return f"{prefix}-{query_id}-driver"


def marker_key(query_id: str, slot: int) -> bytes:
    """Return the key of the markers of a slot."""
    return f"{query_id}/{slot}".encode()


def marker_value(batch_id: int) -> bytes:
    """Return a marker: its transaction belongs to this batch."""
    return b"%d" % batch_id


def part_key(query_id: str, number: int) -> bytes:
    """Return the key of a part record."""
    return f"{query_id}#{number}".encode()


def is_part(key: bytes) -> bool:
    """Return whether a record with this key is a part record."""
    return b"#" in key


def is_of_decision(key: bytes) -> bool:
    """Return whether a record with this key belongs to a decision; the others are markers."""
    return b"/" not in key


def _json(said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()


def _common_prefix(decision: Decision) -> str:
    """Return the prefix of the transactional ids; an id is stored in full only if it has another prefix."""
    for number, slot in enumerate(decision.slots):
        if slot.transaction is not None:
            return slot.transaction.transactional_id.removesuffix(f"-{decision.query_id}-{number}")
    return ""


def _encode(slot: SlotDecision, name: str) -> list[object]:
    rows = [] if slot.rows is None else [slot.rows.records_count, f"{slot.rows.checksum:x}"]
    if slot.transaction is None:
        return [None, *rows]
    own_name, producer_id, epoch, bumps = slot.transaction
    named = [] if own_name == name else [own_name]  # an earlier attempt had another transactionalIdPrefix
    return [[producer_id, epoch, int(bumps), *named], *rows]


def _decode(slot: list[object], name: str) -> SlotDecision:
    producer, *rows = slot
    transaction = None
    if isinstance(producer, list):
        producer_id, epoch, bumps, *named = producer
        transaction = PreparedTransaction(named[0] if named else name, producer_id, epoch, bool(bumps))
    if not rows:
        return SlotDecision(transaction, None)
    count, checksum = rows
    return SlotDecision(transaction, RowSum(int(str(count)), int(str(checksum), 16)))


def _of_first_format(query_id: str, said: dict[str, object], offset: int) -> Decision:
    """Read a decision of a version that stored neither row counts nor checksums, and used no transaction."""
    transactions, batch_id = said.get("transactions"), said["batch"]
    if not isinstance(transactions, list) or not isinstance(batch_id, int):
        raise KafkaError(f"the decision at offset {offset} names no list of transactions, or no batch: {said!r:.200}")
    slots = (SlotDecision(None if each is None else PreparedTransaction(*each), None) for each in transactions)
    return Decision(query_id, batch_id, tuple(slots), offset=offset)
