"""Compare two versions of a Protobuf schema: the rules and messages of Confluent's registry.

Source: `io.confluent.kafka.schemaregistry.protobuf.diff` (8.x). Only incompatible differences are kept; `COMPATIBLE`
lists the others. Messages of imported files are compared where a field uses them, unless both versions reference the
same version of the same subject. Must not do I/O. Start at `compare_protobuf`.

Messages refer to each other in long chains, so comparing is not recursive: a comparison is a generator that asks for
the differences of two messages by yielding them (as for JSON schemas).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final, TypeAlias, TypeVar

from kafkaraw.light_classes import dataclass, field
from kafkaraw.schemas.languages.java_order import in_hash_order
from kafkaraw.schemas.languages.parsed import Incompatibility
from kafkaraw.schemas.languages.protobuf.elements import SCALARS, Enum, Field, File, Message, OneOf, resolved_name

COMPATIBLE: Final = frozenset(
    [
        "MESSAGE_ADDED",
        "MESSAGE_MOVED",
        "ENUM_ADDED",
        "ENUM_REMOVED",
        "ENUM_CONST_ADDED",
        "ENUM_CONST_CHANGED",
        "ENUM_CONST_REMOVED",
        "FIELD_ADDED",
        "FIELD_REMOVED",
        "FIELD_NAME_CHANGED",
        "FIELD_STRING_OR_BYTES_LABEL_CHANGED",
        "ONEOF_ADDED",
        "ONEOF_REMOVED",
        "ONEOF_FIELD_ADDED",
        "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
    ]
)
_Kind = TypeVar("_Kind", Message, Enum)
DIFFERENCES_MAX: Final = 2_000

_TEMPLATES: Final = {
    "PACKAGE_CHANGED": "The package at '{}' in the %s schema does not match the package in the %s schema",
    "MESSAGE_REMOVED": "The %s schema is missing a MESSAGE type at path '{}' in the %s schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{}' in the %s schema does not match the %s schema",
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{}' in the %s schema does not match its kind in the %s schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{}' in the %s schema does not match its type in the %s schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{}' in the %s schema does not match its label in the %s schema"
    ),
    "REQUIRED_FIELD_ADDED": "A required field  at path '{}' in the %s schema is missing in the %s schema",
    "REQUIRED_FIELD_REMOVED": "The %s schema is missing a required field at path: '{}' in the %s schema",
    "ONEOF_FIELD_REMOVED": "The %s schema is missing a oneof field at path '{}' in the %s schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{}' in the %s schema are outside a oneof in the %s schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{}' in the %s schema is outside an existing oneof in the %s schema"
    ),
}
_SCALAR_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed"),
    **dict.fromkeys(("string", "bytes"), "text"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}


OWN: Final = ("", -1)
"""The origin of the types of a schema itself."""


class ComparisonError(Exception):
    """Two schemas cannot be compared within the limits; the registry reports the text as an incompatibility."""


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A message or enum with where it is from.

    Attributes:
        package: the package of its file.
        origin: subject and version of the reference with its file; empty for the schema itself, None for other files.
        element: the message or enum.
    """

    package: str
    origin: tuple[str, int] | None
    element: Message | Enum


class Members:
    """The fields of a message by their numbers, and their oneofs.

    Args:
        version: the schema of the message.
        message: the message.
        scope: its full name.
    """

    def __init__(self, version: Version, message: Message, scope: str) -> None:
        self.fields: dict[int, Field] = {one.number: one for one in message.all_fields}
        self.oneofs: dict[str, OneOf] = {oneof.name: oneof for oneof in message.oneofs}
        self.oneof_of: dict[int, str] = {one.number: oneof.name for oneof in message.oneofs for one in oneof.fields}
        self.keys: frozenset[tuple[int, object]] = frozenset(
            (number, version.key_of(one, self.oneof_of.get(number), scope)) for number, one in self.fields.items()
        )

    def oneofs_without_survivors(self, after: Members) -> set[str]:
        """Return the oneofs that are gone together with all of their fields."""
        return {
            name
            for name, oneof in self.oneofs.items()
            if name not in after.oneofs and not any(one.number in after.fields for one in oneof.fields)
        }


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a schema: its file, and the types of the file and its imports by their full names."""

    file: File
    types: Mapping[str, TypeInfo]
    members: dict[int, Members] = field(default_factory=dict)
    top_level: dict[str, Message] = field(default_factory=dict)

    def message(self, name: str) -> Message | None:
        """Return the top-level message with a name."""
        if not self.top_level:
            self.top_level.update(_by_name(self.file.types, Message))
        return self.top_level.get(name)

    def members_of(self, message: Message, scope: str) -> Members:
        """Return the fields of a message, which is found under the given full name."""
        found = self.members.get(id(message))
        if found is None:
            found = self.members[id(message)] = Members(self, message, scope)
        return found

    def compared_type(self, type_: str, scope: str) -> tuple[str, str]:
        """Return a field's type as it is to be compared, and whether it is a scalar, a map or a message."""
        if type_ in SCALARS:
            return type_, "scalar"
        if type_.startswith("map<"):
            return type_, "map"
        full = resolved_name(type_, scope, self.types)
        element = self.types[full].element if full is not None else None
        if isinstance(element, Enum):
            return "int32", "scalar"  # an enum is compatible with the same types as a number
        if isinstance(element, Message) and element.is_map_entry:
            types = {one.name: one.type for one in element.fields}
            return f"map<{types.get('key', 'string')}, {types.get('value', 'string')}>", "map"
        return type_, "message"

    def key_of(self, one: Field, oneof: str | None, scope: str) -> object:
        """Return what is equal for fields that are compatible at first sight; a new object for other fields."""
        type_, kind = self.compared_type(one.type, scope)
        if kind == "message":
            full = resolved_name(type_, scope, self.types)
            info = None if full is None else self.types[full]
            if full is None or info is None or info.origin != OWN:
                return object()
            type_ = _local_name(full, info.package)
        elif kind == "map" and _map_types(type_)[1] not in SCALARS:
            return object()
        return one.label, kind, type_, one.name, oneof


_Difference: TypeAlias = tuple[str, tuple[str, ...]]
_Found: TypeAlias = list[_Difference]
_Names: TypeAlias = tuple[str, str]  # the full name of a message in each version
_Steps: TypeAlias = Generator[_Names, _Found, _Found]


@dataclass(frozen=True, slots=True)
class MessageChanges:
    """What differs in a message, or in a file, from the version before.

    Attributes:
        numbers: of the fields that differ.
        is_whole: whether the message is new or gone, or fields of oneofs differ, so that everything is compared.
        inside: the messages inside it, by their names, in which something differs.
    """

    numbers: frozenset[int]
    is_whole: bool
    inside: Mapping[str, MessageChanges]


def message_changes(before: Version, after: Version) -> MessageChanges:
    """Return what differs between two versions of one package without imports."""
    package = after.file.package or ""
    return MessageChanges(frozenset(), False, _changes(before, after, before.file.types, after.file.types, package))


def _changes(
    before: Version, after: Version, types: list[Message | Enum], types_after: list[Message | Enum], scope: str
) -> dict[str, MessageChanges]:
    found: dict[str, MessageChanges] = {}
    messages, messages_after = _by_name(types, Message), _by_name(types_after, Message)
    for name in messages.keys() | messages_after.keys():
        one, other = messages.get(name), messages_after.get(name)
        if one is None or other is None:
            found[name] = MessageChanges(frozenset(), True, {})
            continue
        full = f"{scope}.{name}" if scope else name
        members, members_after = before.members_of(one, full), after.members_of(other, full)
        numbers = frozenset(number for number, _ in members.keys ^ members_after.keys)
        in_oneof = any(number in members.oneof_of or number in members_after.oneof_of for number in numbers)
        inside = _changes(before, after, one.types, other.types, full)
        if numbers or inside:
            found[name] = MessageChanges(numbers, in_oneof, inside)
    return found


def compare_protobuf(
    original: Version, update: Version, only: MessageChanges | None = None
) -> tuple[Incompatibility, ...]:
    """Return why data of the original version may be read wrongly with the update; nothing if it never is.

    Args:
        original: the writer's version.
        update: the reader's version.
        only: compare only these parts; everything without.
    """
    if only is not None and _only_adds_or_removes(original, update, only):
        return ()
    try:
        found = differences(original, update, only=only)
    except ComparisonError as error:
        return (
            Incompatibility("UNEXPECTED_EXCEPTION", "", f"Unexpected exception during compatibility check: {error}"),
        )
    return tuple(
        Incompatibility(
            kind, path, f'{{errorType:"{kind}", description:"{_TEMPLATES.get(kind, "").replace("{}", path)}"}}'
        )
        for kind, path in found
    )


def _only_adds_or_removes(original: Version, update: Version, only: MessageChanges) -> bool:
    """Return whether the parts are fields that one of the versions lacks, outside of oneofs and not required.

    Such changes are compatible. A version is mostly compared with hundreds that have neither the field it adds nor
    the one it removes.
    """
    if only.is_whole or original.file.package != update.file.package:
        return False
    package = original.file.package or ""
    for name, changes in only.inside.items():
        one, other = original.message(name), update.message(name)
        if changes.is_whole or changes.inside or one is None or other is None:
            return False
        scope = _scope(package, (name,))
        before, after = original.members_of(one, scope), update.members_of(other, scope)
        for number in changes.numbers:
            removed, added = before.fields.get(number), after.fields.get(number)
            if removed is not None and added is not None:
                return False
            present = removed or added
            if present is not None and (
                present.label == "required" or number in before.oneof_of or number in after.oneof_of
            ):
                return False
    return True


def differences(
    original: Version, update: Version, *, keep_all: bool = False, only: MessageChanges | None = None
) -> list[tuple[str, str]]:
    """Return types and paths of the differences: the incompatible ones, or all.

    Raises:
        ComparisonError: there are too many.
    """
    found = _Comparison(original, update, keep_all=keep_all).run(only)
    return [(kind, "#/" + "/".join(path)) for kind, path in found]


class _Comparison:
    def __init__(self, original: Version, update: Version, *, keep_all: bool) -> None:
        self._original = original
        self._update = update
        self._keep_all = keep_all
        self._results: dict[_Names, _Found] = {}

    def run(self, only: MessageChanges | None) -> _Found:
        """Return all differences."""
        stack: list[tuple[_Names | None, _Steps]] = [(None, self._files(only))]
        answer: _Found | None = None
        while True:
            names, steps = stack[-1]
            try:
                asked = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                stack.pop()
                found: _Found = done.value
                if names is None:
                    return found
                answer = self._results[names] = found
                continue
            answer = self._results.get(asked)
            if answer is None:
                self._results[asked] = []  # compatible unless proven incompatible, if it is met inside itself
                stack.append((asked, self._imported(asked)))

    def _kept(self, kind: str, *path: str) -> _Found:
        return [(kind, path)] if self._keep_all or kind not in COMPATIBLE else []

    def _files(self, only: MessageChanges | None) -> _Steps:
        before, after = self._original.file, self._update.file
        found = self._kept("PACKAGE_CHANGED") if before.package != after.package else []
        return found + (
            yield from self._types(before.types, after.types, (), before.package or "", after.package or "", only)
        )

    def _imported(self, names: _Names) -> _Steps:
        """Compare messages of imported files, which fields use."""
        before, after = self._original.types[names[0]], self._update.types[names[1]]
        if not isinstance(before.element, Message) or not isinstance(after.element, Message):
            return []
        path = tuple(_local_name(names[0], before.package).split("."))
        return (yield from self._message(before.element, after.element, path, before.package, after.package, None))

    def _types(
        self,
        before: list[Message | Enum],
        after: list[Message | Enum],
        path: tuple[str, ...],
        package: str,
        package_after: str,
        only: MessageChanges | None,
    ) -> _Steps:
        messages, messages_after = _by_name(before, Message), _by_name(after, Message)
        order = {name: index for index, name in enumerate(messages)}
        order_after = {name: index for index, name in enumerate(messages_after)}
        found: _Found = []
        names = None if only is None else [name for name in only.inside if name in messages or name in messages_after]
        for name in in_hash_order([messages, messages_after], names):
            one, other = messages.get(name), messages_after.get(name)
            inner = (*path, name)
            inside = None if only is None or only.inside[name].is_whole else only.inside[name]
            if one is None or other is None:
                entry = (one or other).is_map_entry  # type: ignore[union-attr]
                found += [] if entry else self._kept("MESSAGE_REMOVED" if other is None else "MESSAGE_ADDED", *inner)
                continue
            found += yield from self._message(one, other, inner, package, package_after, inside)
            if order[name] != order_after[name]:
                found += self._kept("MESSAGE_MOVED", *inner)
            _check_count(found)
        if self._keep_all:  # changes of enums are all compatible
            found += self._enums(_by_name(before, Enum), _by_name(after, Enum), path)
        return found

    def _enums(self, before: dict[str, Enum], after: dict[str, Enum], path: tuple[str, ...]) -> _Found:
        found: _Found = []
        for name in in_hash_order([before, after]):
            inner = (*path, name)
            if name not in before or name not in after:
                found += self._kept("ENUM_REMOVED" if name in before else "ENUM_ADDED", *inner)
                continue
            one = {value.number: value.name for value in before[name].values}
            other = {value.number: value.name for value in after[name].values}
            for number in sorted(one.keys() | other.keys()):
                if one.get(number) != other.get(number):
                    change = "REMOVED" if number not in other else "ADDED" if number not in one else "CHANGED"
                    found += self._kept(f"ENUM_CONST_{change}", *inner, str(number))
        return found

    def _message(
        self,
        before: Message,
        after: Message,
        path: tuple[str, ...],
        package: str,
        package_after: str,
        only: MessageChanges | None,
    ) -> _Steps:
        scope, scope_after = _scope(package, path), _scope(package_after, path)
        members = self._original.members_of(before, scope)
        members_after = self._update.members_of(after, scope_after)
        if only is not None:
            numbers = only.numbers & (members.fields.keys() | members_after.fields.keys())
        else:
            numbers = frozenset(number for number, _ in members.keys ^ members_after.keys)
        in_oneof = any(number in members.oneof_of or number in members_after.oneof_of for number in numbers)
        whole = self._keep_all or in_oneof or (bool(numbers) and only is None)
        found = self._oneofs(members, members_after, after.oneofs, path) if whole else []
        deleted = members.oneofs_without_survivors(members_after) if numbers else set()
        for number in sorted(numbers):
            one, other = members.fields.get(number), members_after.fields.get(number)
            oneof, oneof_after = members.oneof_of.get(number), members_after.oneof_of.get(number)
            if other is None and one is not None:
                if oneof is None:
                    found += self._kept(f"{_required(one)}FIELD_REMOVED", *path, str(number))
                elif oneof not in deleted:
                    found += self._kept("ONEOF_FIELD_REMOVED", *path, oneof, str(number))
            elif one is None and other is not None:
                if oneof_after is None:
                    found += self._kept(f"{_required(other)}FIELD_ADDED", *path, str(number))
                else:
                    found += self._kept("ONEOF_FIELD_ADDED", *path, oneof_after, str(number))
            elif one is not None and other is not None:
                if oneof is not None and oneof_after is None:
                    found += self._kept("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", *path, str(number))
                inner = (*path, str(number)) if oneof_after is None else (*path, oneof_after, str(number))
                found += yield from self._field(one, other, inner, scope, scope_after)
            _check_count(found)
        return found + (yield from self._types(before.types, after.types, path, package, package_after, only))

    def _oneofs(self, before: Members, after: Members, oneofs: list[OneOf], path: tuple[str, ...]) -> _Found:
        found: _Found = []
        for oneof in oneofs:
            origins: set[str] = set()
            moved = 0
            for one in oneof.fields:
                if one.number in before.oneof_of:
                    origins.add(f"oneof:{before.oneof_of[one.number]}")
                elif one.number in before.fields:
                    origins.add(f"field:{one.number}")
                    moved += 1
            if len(origins) > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                found += self._kept(kind, *path, oneof.name)
        for name in sorted(before.oneofs.keys() ^ after.oneofs.keys()):
            found += self._kept("ONEOF_REMOVED" if name in before.oneofs else "ONEOF_ADDED", *path, name)
        return found

    def _field(self, before: Field, after: Field, path: tuple[str, ...], scope: str, scope_after: str) -> _Steps:
        found = self._kept("FIELD_NAME_CHANGED", *path) if before.name != after.name else []
        labels = (before.label, after.label)
        return found + (yield from self._field_types(before.type, after.type, labels, path, scope, scope_after))

    def _field_types(
        self,
        before: str,
        after: str,
        labels: tuple[str | None, str | None],
        path: tuple[str, ...],
        scope: str,
        scope_after: str,
    ) -> _Steps:
        before, kind = self._original.compared_type(before, scope)
        after, kind_after = self._update.compared_type(after, scope_after)
        if kind != kind_after:
            return self._kept("FIELD_KIND_CHANGED", *path)
        if kind == "scalar":
            return self._scalars(before, after, labels, path)
        if kind == "map":
            found: _Found = []
            for one, other in zip(_map_types(before), _map_types(after), strict=True):
                found += yield from self._field_types(one, other, (None, None), path, scope, scope_after)
            return found
        return (yield from self._messages(before, after, path, scope, scope_after))

    def _scalars(self, before: str, after: str, labels: tuple[str | None, str | None], path: tuple[str, ...]) -> _Found:
        kind = _SCALAR_KINDS[before]
        if kind != _SCALAR_KINDS[after]:
            return self._kept("FIELD_SCALAR_KIND_CHANGED", *path)
        if None in labels or labels[0] == labels[1]:
            return []
        return self._kept(f"FIELD_{'STRING_OR_BYTES' if kind == 'text' else 'NUMERIC'}_LABEL_CHANGED", *path)

    def _messages(self, before: str, after: str, path: tuple[str, ...], scope: str, scope_after: str) -> _Steps:
        full = resolved_name(before, scope, self._original.types)
        full_after = resolved_name(after, scope_after, self._update.types)
        if full is None or full_after is None:
            return self._kept("FIELD_NAMED_TYPE_CHANGED", *path) if before != after else []
        one, other = self._original.types[full], self._update.types[full_after]
        if _local_name(full, one.package) != _local_name(full_after, other.package):
            return self._kept("FIELD_NAMED_TYPE_CHANGED", *path)
        if one.origin is not None and one.origin == other.origin:
            return []
        inside = yield full, full_after
        if all(kind in COMPATIBLE for kind, _ in inside):
            return list(inside)
        return inside + self._kept("FIELD_NAMED_TYPE_CHANGED", *path)


def _check_count(found: _Found) -> None:
    """Stop before the differences double too often: those of a message count wherever a field uses it."""
    if len(found) > DIFFERENCES_MAX:
        raise ComparisonError(f"the schemas have more than {DIFFERENCES_MAX} differences")


def _by_name(types: list[Message | Enum], kind: type[_Kind]) -> dict[str, _Kind]:
    return {one.name: one for one in types if isinstance(one, kind)}


def _required(one: Field) -> str:
    return "REQUIRED_" if one.label == "required" else ""


def _scope(package: str, path: tuple[str, ...]) -> str:
    return ".".join((package, *path)) if package else ".".join(path)


def _local_name(full: str, package: str) -> str:
    return full.removeprefix(f"{package}.") if package else full


def _map_types(text: str) -> tuple[str, str]:
    key, _, value = text[4:-1].partition(", ")
    return key, value
