"""The elements of a `.proto` file, as it is written: what `reading` makes of a text and `writing` makes a text of.

Types are names as the file has them, not resolved. `declared_types` lists the types with their full names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from kafkaraw.light_classes import dataclass, field

NUMBER_MAX: Final = (1 << 29) - 1
"""The largest number of a field, which ranges write as `max`."""
SCALARS: Final = frozenset(
    [
        "bool",
        "bytes",
        "double",
        "float",
        "fixed32",
        "fixed64",
        "int32",
        "int64",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
        "string",
        "uint32",
        "uint64",
    ]
)

Range: TypeAlias = int | str | tuple[int, int]
"""A number, a name, or the first and the last number of a range."""


@dataclass(slots=True)
class Literal:
    """A value of an option that is not a string: `kind` is BOOLEAN, NUMBER or ENUM."""

    kind: str
    text: str


OptionValue: TypeAlias = Any
"""A string, a Literal, an Option (for `(a).b = 1`), a dictionary or a list of such values."""


@dataclass(slots=True)
class Option:
    """An option. `is_extension` tells `(name)` from `name`."""

    name: str
    value: OptionValue
    is_extension: bool = False


@dataclass(slots=True)
class Field:
    """A field. `type` is a name, or `map<K, V>`."""

    label: str | None
    type: str
    name: str
    number: int
    options: list[Option] = field(default_factory=list)
    default: str | None = None
    json_name: str | None = None

    @property
    def map_types(self) -> tuple[str, str] | None:
        """The types of keys and values, if the field is a map."""
        if not self.type.startswith("map<"):
            return None
        key, _, value = self.type[4:-1].partition(", ")
        return key, value


@dataclass(slots=True)
class Group:
    """A group of proto2: a field and the message that it holds."""

    label: str | None
    number: int
    message: Message


@dataclass(slots=True)
class OneOf:
    """A oneof."""

    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extensions:
    """Numbers that a message leaves to extensions."""

    ranges: list[Range]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    """Fields that extend another message."""

    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


@dataclass(slots=True)
class EnumValue:
    """A constant of an enum."""

    name: str
    number: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Enum:
    """An enum."""

    name: str
    values: list[EnumValue] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[list[Range]] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A message."""

    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[list[Range]] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)

    @property
    def is_map_entry(self) -> bool:
        """Whether the message is the entry of a map, as descriptors write maps."""
        return any(
            one.name == "map_entry" and isinstance(one.value, Literal) and one.value.text == "true"
            for one in self.options
        )

    @property
    def all_fields(self) -> list[Field]:
        """The fields, with those of oneofs."""
        return [*self.fields, *(one for oneof in self.oneofs for one in oneof.fields)]


@dataclass(slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    """A service."""

    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class File:
    """A `.proto` file. `syntax` is None if the text does not say it, which means proto2."""

    syntax: str | None = None
    edition: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def all_imports(self) -> list[str]:
        """Names of all imported files."""
        return [*self.imports, *self.public_imports, *self.weak_imports]


def declared_types(file: File) -> Iterator[tuple[str, Message | Enum]]:
    """Yield the full name and the element of every message and enum of a file."""
    waiting: list[tuple[str, Message | Enum]] = [(_joined(file.package, one.name), one) for one in file.types]
    while waiting:
        name, one = waiting.pop()
        yield name, one
        if isinstance(one, Message):
            waiting += [(f"{name}.{inner.name}", inner) for inner in one.types]
            groups = [*one.groups, *(group for oneof in one.oneofs for group in oneof.groups)]
            waiting += [(f"{name}.{group.message.name}", group.message) for group in groups]


def _joined(package: str | None, name: str) -> str:
    return f"{package}.{name}" if package else name


def resolved_name(name: str, scope: str, known: Any) -> str | None:  # noqa: ANN401 - anything with `in`
    """Return the full name of a type that is used inside a scope, or None if there is no such type.

    Args:
        name: the name as it is written; with a dot in front it is a full name.
        scope: full name of the message, or the package, in which it is used.
        known: the full names that there are.
    """
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    while scope:
        full = f"{scope}.{name}"
        if full in known:
            return full
        scope = scope.rpartition(".")[0]
    return name if name in known else None
