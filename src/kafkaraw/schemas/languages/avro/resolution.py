"""Which data a reader's Avro schema can read: the rules of Apache Avro's `SchemaCompatibility` (1.12).

The messages are those of Confluent's registry (`io.confluent.kafka.schemaregistry.avro.Difference`). Results are
remembered per pair of types, the identical types of Java being the identical objects here, so that a type which is
compared twice reports the first path both times, as in Java. Must not do I/O. Start at `avro_incompatibilities`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kafkaraw.schemas.languages.avro.nodes import Container, Enum, Field, Fixed, Named, Node, Record, Union
from kafkaraw.schemas.languages.limits import DEPTH_MAX
from kafkaraw.schemas.languages.parsed import Incompatibility

_PROMOTIONS: Final = {
    "long": frozenset(("int",)),
    "float": frozenset(("int", "long")),
    "double": frozenset(("int", "long", "float")),
    "bytes": frozenset(("string",)),
    "string": frozenset(("bytes",)),
}
PAIRS_MAX: Final = 100_000
"""Of types that one comparison looks at; unions of many branches multiply."""

STEPS_MAX: Final = 2_000_000
"""Of one comparison: pairs that it looks at, each as often as it meets them. About two seconds."""

STEPS_PER_INCOMPATIBILITY: Final = 10
"""An incompatibility costs as much time as 10 pairs, and is kept with its text until the comparison ends."""

FOUND_MAX: Final = 2_000
"""Incompatibilities of one pair of types; types that contain each other repeat those of their parts."""

_Found = tuple[Incompatibility, ...]
_Location = tuple[Any, ...]
_IN_PROGRESS: Final[_Found] = ()


class ComparisonError(Exception):
    """Two schemas cannot be compared; the registry reports the text as an incompatibility."""


def avro_incompatibilities(reader: Node, writer: Node, fields: Iterable[Field] | None = None) -> _Found:
    """Return why the reader cannot read what the writer writes; nothing if it can.

    Args:
        reader: the reader's type.
        writer: the writer's type.
        fields: of two records, compare these fields of the reader only; all of them without.
    """
    try:
        comparison = _Comparison()
        if fields is not None and isinstance(reader, Record) and isinstance(writer, Record):
            return comparison.fields_of(reader, writer, fields)
        return comparison.compare(reader, writer, (), 0)
    except ComparisonError as error:
        return (
            Incompatibility("UNEXPECTED_EXCEPTION", "", f"Unexpected exception during compatibility check: {error}"),
        )


class _Comparison:
    def __init__(self) -> None:
        self._results: dict[tuple[int, int], _Found] = {}
        self._steps = 0

    def compare(self, reader: Node, writer: Node, location: _Location, depth: int) -> _Found:
        if reader.key is not None and reader.key == writer.key:
            return ()
        self._count(1)
        pair = (id(reader), id(writer))
        result = self._results.get(pair)
        if result is not None:
            return result
        if depth > DEPTH_MAX or len(self._results) > PAIRS_MAX:
            raise ComparisonError(
                f"the schemas need more than {DEPTH_MAX} levels or {PAIRS_MAX} pairs of types to be compared"
            )
        self._results[pair] = _IN_PROGRESS  # compatible unless proven incompatible
        result = self._results[pair] = self._compare(reader, writer, location, depth)
        self._count(len(result) * STEPS_PER_INCOMPATIBILITY)
        return result

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > STEPS_MAX:
            raise ComparisonError(f"the schemas need more than {STEPS_MAX} steps to be compared")

    def _compare(self, reader: Node, writer: Node, location: _Location, depth: int) -> _Found:
        if reader.kind != writer.kind:
            return self._compare_kinds(reader, writer, location, depth)
        if isinstance(reader, Container) and isinstance(writer, Container):
            part = "items" if reader.kind == "array" else "values"
            return self.compare(reader.items, writer.items, (*location, part), depth + 1)
        if isinstance(reader, Union) and isinstance(writer, Union):
            found: list[Incompatibility] = []
            for index, branch in enumerate(writer.branches):
                if self.compare(reader, branch, (), depth + 1):
                    found.append(_missing_branch(branch, (*location, index)))
            return tuple(found)
        if isinstance(reader, Record) and isinstance(writer, Record):
            return _names(reader, writer, location) + self._fields(writer, reader.fields, location, depth)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return _names(reader, writer, location) + _symbols(reader, writer, location)
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return _names(reader, writer, location) + _sizes(reader, writer, location)
        return ()

    def _compare_kinds(self, reader: Node, writer: Node, location: _Location, depth: int) -> _Found:
        if isinstance(writer, Union):
            found: list[Incompatibility] = []
            for index, branch in enumerate(writer.branches):
                found += self.compare(reader, branch, (*location, index), depth + 1)
            return tuple(found)
        if isinstance(reader, Union):
            if any(not self.compare(branch, writer, (), depth + 1) for branch in reader.branches):
                return ()
            return (_missing_branch(writer, location),)
        if writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return ()
        path = _path(location)
        return (
            _incompatibility(
                "TYPE_MISMATCH",
                path,
                f"The type (path '{path}') of a field in the %s schema does not match with the %s schema",
                f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}",
            ),
        )

    def fields_of(self, reader: Record, writer: Record, fields: Iterable[Field]) -> _Found:
        """Compare some fields of the outermost records, whose names the caller has compared."""
        self._results[(id(reader), id(writer))] = _IN_PROGRESS
        return self._fields(writer, fields, (), 0)

    def _fields(self, writer: Record, fields: Iterable[Field], location: _Location, depth: int) -> _Found:
        found: list[Incompatibility] = []
        for field in fields:
            written = _written_field(field, writer)
            if written is not None:
                if field.type.key is None or field.type.key != written.type.key:
                    where = (*location, "fields", field.position, "type")
                    found += self.compare(field.type, written.type, where, depth + 1)
            elif not field.has_default:
                where = (*location, "fields", field.position)
                if isinstance(field.type, Enum) and field.type.default is not None:
                    # Java compares the enum with the whole record of the writer.
                    found += self.compare(field.type, writer, (*where, "type"), depth + 1)
                else:
                    found.append(_missing_default(field, where))
            if len(found) > FOUND_MAX:
                raise ComparisonError(f"the schemas have more than {FOUND_MAX} incompatibilities")
        return tuple(found)


def _written_field(field: Field, writer: Record) -> Field | None:
    if not field.aliases:
        return writer.by_name.get(field.name)
    found = [writer.by_name[name] for name in (field.name, *field.aliases) if name in writer.by_name]
    if len(found) > 1:
        raise ComparisonError(
            f"Reader record field {field.name} matches multiple fields in writer record schema {writer.full_name}"
        )
    return found[0] if found else None


def _names(reader: Named, writer: Named, location: _Location) -> _Found:
    if reader.name == writer.name or writer.full_name in reader.alias_names:
        return ()
    path = _path((*location, "name"))
    return (
        _incompatibility(
            "NAME_MISMATCH",
            path,
            f"The name of the schema has changed (path '{path}')",
            f"expected: {writer.full_name}",
        ),
    )


def _symbols(reader: Enum, writer: Enum, location: _Location) -> _Found:
    missing = sorted(set(writer.symbols).difference(reader.symbols))
    if not missing or reader.default is not None:
        return ()
    path = _path((*location, "symbols"))
    info = f"[{', '.join(missing)}]"
    return (
        _incompatibility(
            "MISSING_ENUM_SYMBOLS",
            path,
            f"The %s schema is missing enum symbols '{info}' at path '{path}' in the %s schema",
            info,
        ),
    )


def _sizes(reader: Fixed, writer: Fixed, location: _Location) -> _Found:
    if reader.size == writer.size:
        return ()
    path = _path((*location, "size"))
    return (
        _incompatibility(
            "FIXED_SIZE_MISMATCH",
            path,
            f"The size of FIXED type field at path '{path}' in the %s schema does not match with the %s schema",
            f"expected: {writer.size}, found: {reader.size}",
        ),
    )


def _missing_branch(writer: Node, location: _Location) -> Incompatibility:
    path = _path(location)
    return _incompatibility(
        "MISSING_UNION_BRANCH",
        path,
        f"The %s schema is missing a type inside a union field at path '{path}' in the %s schema",
        f"reader union lacking writer type: {writer.kind.upper()}",
    )


def _missing_default(field: Field, location: _Location) -> Incompatibility:
    path = _path(location)
    return _incompatibility(
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        path,
        f"The field '{field.name}' at path '{path}' in the %s schema has no default value and is missing in the %s "
        "schema",
        field.name,
    )


def _incompatibility(rule: str, path: str, description: str, info: str) -> Incompatibility:
    return Incompatibility(rule, path, f"{{errorType:'{rule}', description:'{description}', additionalInfo:'{info}'}}")


def _path(location: _Location) -> str:
    return "/" + "/".join(map(str, location))
