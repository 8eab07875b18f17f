"""Compare a new version of a schema with earlier ones, under a compatibility level.

Confluent's order and messages (`SchemaValidatorBuilder`, `AbstractSchemaRegistry.isCompatibleWithPrevious`): the latest
earlier version first, and only that one unless the level is transitive; the first incompatible version ends the
comparison. Must not do I/O. Start at `check`.

A subject with 1,000 versions under BACKWARD_TRANSITIVE compares each new version with all of them. `_Comparisons`
remembers which versions the latest one can read (or be read by), so that only parts which differ from the latest
version are compared with the older ones: fields are compatible or not independently of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from kafkaraw.schemas.cache import Cache
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
        self._changes = new.changes_since(latest) if new.schema_type is latest.schema_type else None
        known = self._changes is not None
        of_latest = (latest.identity, lenient)
        self._readable = (_READABLE.get(of_latest) if known and self._backward else None) or frozenset()
        self._readers = (_READERS.get(of_latest) if known and self._forward else None) or frozenset()

    def compare(self, existing: ParsedSchema) -> list[str]:
        """Return the messages about one earlier version, with "new" and "old" in them."""
        new, identity = self._new, existing.identity
        if new.schema_type is not existing.schema_type:
            return [_DIFFERENT_TYPE]
        messages: list[str] = []
        if self._forward:
            changes = self._changes if identity in self._readers else None
            found = existing.incompatibilities(new, lenient=self._lenient, changes=changes)
            messages += [one.message(_OLD, _NEW) for one in found]
        if self._backward:
            changes = self._changes if identity in self._readable else None
            found = new.incompatibilities(existing, lenient=self._lenient, changes=changes)
            messages += [one.message(_NEW, _OLD) for one in found]
        if not messages:
            self._compared.add(identity)
        return messages

    def remember(self) -> None:
        """Keep that the new version is compatible with all that were compared, for the version after it."""
        key = (self._new.identity, self._lenient)
        if self._backward:
            _READABLE.put(key, frozenset(self._compared))
        if self._forward:
            _READERS.put(key, frozenset(self._compared))


_Identity: TypeAlias = tuple[bytes, bool]
_READABLE: Final[Cache[_Identity, frozenset[bytes]]] = Cache(_REMEMBERED_MAX)
_READERS: Final[Cache[_Identity, frozenset[bytes]]] = Cache(_REMEMBERED_MAX)
