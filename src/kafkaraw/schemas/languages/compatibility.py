"""Compare a new version of a schema with earlier ones, under a compatibility level.

Confluent's order and messages (`SchemaValidatorBuilder`, `AbstractSchemaRegistry.isCompatibleWithPrevious`): the latest
earlier version first, and only that one unless the level is transitive; the first incompatible version ends the
comparison. Must not do I/O. Start at `check`.

A subject with 1,000 versions under BACKWARD_TRANSITIVE compares each new version with all of them. `_Comparisons`
remembers which versions the latest one can read (or be read by), so that only fields which differ from the latest
version are compared with the older ones: fields of a record are compatible or not independently of each other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from kafkaraw.schemas.languages.avro import AvroSchema, avro_incompatibilities
from kafkaraw.schemas.languages.avro.nodes import Enum, Field, Record
from kafkaraw.schemas.languages.parsed import Incompatibility, ParsedSchema
from kafkaraw.schemas.model import CompatibilityLevel

_SHOWN_CHARACTERS_MAX: Final = 10 * 1024
_REMEMBERED_MAX: Final = 64
_DIFFERENT_TYPE: Final = "Incompatible because of different schema type"
_NEW, _OLD = "new", "old"


def incompatibilities(
    reader: ParsedSchema, writer: ParsedSchema, *, lenient: bool = False
) -> tuple[Incompatibility, ...]:
    """Return why the reader cannot read what the writer writes; nothing if it can.

    Args:
        reader: the schema that data is read with.
        writer: the schema that data was written with; of the same language.
        lenient: Confluent's compatibility policy LENIENT, which changes the rules of JSON Schema only.

    Raises:
        ValueError: the languages differ.
    """
    if reader.schema_type is not writer.schema_type:
        raise ValueError(
            f"reader and writer must be of one language, not {reader.schema_type} and {writer.schema_type}"
        )
    return reader.incompatibilities(writer, lenient=lenient)


def check(
    new: ParsedSchema,
    earlier: Sequence[ParsedSchema],
    level: CompatibilityLevel,
    *,
    versions: Sequence[int] | None = None,
    lenient: bool = False,
) -> tuple[str, ...]:
    """Return why a new version is not compatible with earlier ones, as in Confluent's verbose answers.

    Args:
        new: the new version.
        earlier: the earlier versions, the oldest first.
        level: the compatibility level of the subject.
        versions: the version numbers of `earlier`, for the messages.
        lenient: see `incompatibilities`.

    Returns:
        Nothing if it is compatible. Otherwise the violated rules, then `{oldSchemaVersion: ...}` and
        `{oldSchema: ...}`, and `{validateFields: 'false', compatibility: ...}` at the end.
    """
    if level is CompatibilityLevel.NONE or not earlier:
        return ()
    comparisons = _Comparisons(new, earlier[-1], level, lenient=lenient)
    count = len(earlier) if level.value.endswith("_TRANSITIVE") else 1
    for index in range(len(earlier) - 1, len(earlier) - 1 - count, -1):
        messages = comparisons.compare(earlier[index])
        if messages:
            if messages[0] != _DIFFERENT_TYPE:
                messages += _about(earlier[index], None if versions is None else versions[index])
            return (*messages, f"{{validateFields: 'false', compatibility: '{level.value}'}}")
    comparisons.remember()
    return ()


def _about(existing: ParsedSchema, version: int | None) -> list[str]:
    text = existing.canonical_text
    shown = f"'{text}'" if len(text) <= _SHOWN_CHARACTERS_MAX else f"<truncated> '{text[:_SHOWN_CHARACTERS_MAX]}...'"
    return [*([] if version is None else [f"{{oldSchemaVersion: {version}}}"]), f"{{oldSchema: {shown}}}"]


class _Comparisons:
    """Compares one new version with earlier ones, in the directions of the level."""

    def __init__(self, new: ParsedSchema, latest: ParsedSchema, level: CompatibilityLevel, *, lenient: bool) -> None:
        self._new = new
        self._lenient = lenient
        self._forward = level.value.startswith(("FORWARD", "FULL"))
        self._backward = level.value.startswith(("BACKWARD", "FULL"))
        self._compared: set[bytes] = set()
        self._changes = _changes(new, latest)
        identity = latest.identity if isinstance(latest, AvroSchema) else b""
        self._readable = _READABLE.get(identity) if self._changes and self._backward else frozenset()
        self._readers = _READERS.get(identity) if self._changes and self._forward else frozenset()

    def compare(self, existing: ParsedSchema) -> list[str]:
        """Return the messages about one earlier version, with "new" and "old" in them."""
        new = self._new
        if new.schema_type is not existing.schema_type:
            return [_DIFFERENT_TYPE]
        messages: list[str] = []
        if self._forward:
            messages += [one.message(_OLD, _NEW) for one in self._existing_reads(existing)]
        if self._backward:
            messages += [one.message(_NEW, _OLD) for one in self._new_reads(existing)]
        if not messages and isinstance(existing, AvroSchema):
            self._compared.add(existing.identity)
        return messages

    def remember(self) -> None:
        """Keep that the new version is compatible with all that were compared, for the version after it."""
        if isinstance(self._new, AvroSchema):
            if self._backward:
                _READABLE.put(self._new.identity, frozenset(self._compared))
            if self._forward:
                _READERS.put(self._new.identity, frozenset(self._compared))

    def _new_reads(self, existing: ParsedSchema) -> Sequence[Incompatibility]:
        new, changes = self._new, self._changes
        if not isinstance(new, AvroSchema) or not isinstance(existing, AvroSchema):
            return incompatibilities(new, existing, lenient=self._lenient)
        if changes and existing.identity in self._readable:
            return avro_incompatibilities(new.root, existing.root, changes.of_new) if changes.of_new else ()
        return avro_incompatibilities(new.root, existing.root)

    def _existing_reads(self, existing: ParsedSchema) -> Sequence[Incompatibility]:
        new, changes = self._new, self._changes
        if not isinstance(new, AvroSchema) or not isinstance(existing, AvroSchema):
            return incompatibilities(existing, new, lenient=self._lenient)
        if changes and existing.identity in self._readers and isinstance(existing.root, Record):
            fields = changes.of_reader(existing.root)
            return avro_incompatibilities(existing.root, new.root, fields) if fields else ()
        return avro_incompatibilities(existing.root, new.root)


class _Changes:
    """The fields of a new version that differ from the latest one.

    Args:
        new: the new version's record.
        latest: the latest version's record.
    """

    def __init__(self, new: Record, latest: Record) -> None:
        before = {field.name: _signature(field) for field in latest.fields}
        after = {field.name: _signature(field) for field in new.fields}
        changed = {name for name in before.keys() | after.keys() if not _is_same(before.get(name), after.get(name))}
        self.of_new = [field for field in new.fields if field.name in changed]
        self._names = changed

    def of_reader(self, reader: Record) -> list[Field]:
        """Return the fields of an older reader that may find something else in the new version than in the latest."""
        found = [reader.by_name[name] for name in self._names if name in reader.by_name]
        found += [field for field in reader.aliased if field.name not in self._names]
        return sorted(found, key=lambda field: field.position)


def _changes(new: ParsedSchema, latest: ParsedSchema) -> _Changes | None:
    if not isinstance(new, AvroSchema) or not isinstance(latest, AvroSchema):
        return None
    one, other = new.root, latest.root
    if not isinstance(one, Record) or not isinstance(other, Record):
        return None
    if (one.full_name, one.aliases) != (other.full_name, other.aliases):
        return None
    return _Changes(one, other)


_Signature = tuple[bytes | None, tuple[str, ...], bool]


def _signature(field: Field) -> _Signature:
    has_default = field.has_default or (isinstance(field.type, Enum) and field.type.default is not None)
    return field.type.key, field.aliases, has_default


def _is_same(before: _Signature | None, after: _Signature | None) -> bool:
    return before is not None and before == after and before[0] is not None


class _Remembered:
    """A bounded map from the identity of a schema to those of the schemas that it is compatible with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[bytes, frozenset[bytes]] = OrderedDict()

    def get(self, identity: bytes) -> frozenset[bytes]:
        with self._lock:
            return self._found.get(identity, frozenset())

    def put(self, identity: bytes, compatible: frozenset[bytes]) -> None:
        with self._lock:
            self._found[identity] = compatible
            self._found.move_to_end(identity)
            if len(self._found) > _REMEMBERED_MAX:
                self._found.popitem(last=False)


_READABLE: Final = _Remembered()
_READERS: Final = _Remembered()
