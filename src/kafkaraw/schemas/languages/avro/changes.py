"""What a new version of an Avro record changes, compared with the version before it. Must not do I/O."""

from __future__ import annotations

from kafkaraw.schemas.languages.avro.nodes import Enum, Field, Node, Record


class AvroChanges:
    """The fields of a new version that differ from the latest one.

    Args:
        new: the new version's record.
        latest: the latest version's record.
    """

    def __init__(self, new: Record, latest: Record) -> None:
        self._new = new
        before = {field.name: _signature(field) for field in latest.fields}
        after = {field.name: _signature(field) for field in new.fields}
        changed = {name for name in before.keys() | after.keys() if not _is_same(before.get(name), after.get(name))}
        self._of_new = [field for field in new.fields if field.name in changed]
        self._names = changed

    def of_reader(self, reader: Record) -> list[Field]:
        """Return the reader's fields to compare.

        They are those of the new version that differ from the latest one, or those of an older version that may find
        something else in the new version than in the latest one.
        """
        if reader is self._new:
            return self._of_new
        found = [reader.by_name[name] for name in self._names if name in reader.by_name]
        found += [field for field in reader.aliased if field.name not in self._names]
        return sorted(found, key=lambda field: field.position)


def avro_changes(new: Node, latest: Node) -> AvroChanges | None:
    """Return the changes between two records of the same name; None for other types."""
    if not isinstance(new, Record) or not isinstance(latest, Record):
        return None
    if (new.full_name, new.aliases) != (latest.full_name, latest.aliases):
        return None
    return AvroChanges(new, latest)


_Signature = tuple[bytes | None, tuple[str, ...], bool]


def _signature(field: Field) -> _Signature:
    has_default = field.has_default or (isinstance(field.type, Enum) and field.type.default is not None)
    return field.type.key, field.aliases, has_default


def _is_same(before: _Signature | None, after: _Signature | None) -> bool:
    return before is not None and before == after and before[0] is not None
