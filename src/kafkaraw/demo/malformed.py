"""Records broken on purpose, to show that the dead-letter topic works.

Each is a real flight, damaged in one of several ways that occur in practice. They have a fixed order and fixed
places: two runs with the same numbers produce the same records. A header names the damage; only the balance sheet
reads it, never the pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from kafkaraw.demo.flights import OutgoingRecord

MALFORMED_HEADER = "malformed"


def _cut(value: bytes) -> bytes | None:
    return value[: len(value) // 2]


def _wrong_type(value: bytes) -> bytes | None:
    return _changed(value, dep_delay="quite late")


def _missing_field(value: bytes) -> bytes | None:
    fields = json.loads(value)
    del fields["origin"]
    return json.dumps(fields).encode()


def _not_utf8(value: bytes) -> bytes | None:
    return value.replace(b'"origin":"', b'"origin":"\xff\xfe', 1)


def _empty(value: bytes) -> bytes | None:
    return b""


def _null(value: bytes) -> bytes | None:
    return None


def _not_an_object(value: bytes) -> bytes | None:
    return json.dumps(list(json.loads(value).values())).encode()


def _impossible_time(value: bytes) -> bytes | None:
    return _changed(value, scheduled_departure="2013-02-30T25:61:00Z")


def _changed(value: bytes, **fields: object) -> bytes:
    return json.dumps(json.loads(value) | fields).encode()


KINDS: dict[str, Callable[[bytes], bytes | None]] = {
    "cut": _cut,
    "wrong-type": _wrong_type,
    "missing-field": _missing_field,
    "not-utf-8": _not_utf8,
    "empty": _empty,
    "null": _null,
    "not-an-object": _not_an_object,
    "impossible-time": _impossible_time,
}


def damaged(record: OutgoingRecord, kind: str) -> OutgoingRecord:
    """Return a broken copy of a record, with a header that names the damage."""
    assert record.value is not None
    marked = [*record.headers, (MALFORMED_HEADER, kind.encode())]
    return record._replace(value=KINDS[kind](record.value), headers=marked)


def mixed_in(records: Iterable[OutgoingRecord], records_count: int, malformed_count: int) -> Iterator[OutgoingRecord]:
    """Yield the records with broken copies spread evenly among them, of each kind in turn.

    Args:
        records: the real records; every one stays unchanged.
        records_count: number of real records, at least 1.
        malformed_count: number of broken ones to add, each after the record of which it is a copy.
    """
    kinds = tuple(KINDS)
    added = 0
    for index, record in enumerate(records):
        yield record
        # Number i comes after record (i + 1) * count / (malformed + 1), so neither the first nor the last is broken.
        while added < malformed_count and (added + 1) * records_count // (malformed_count + 1) <= index:
            yield damaged(record, kinds[added % len(kinds)])
            added += 1
