"""The message language: a class with annotations is the description of a message in all its versions.

    @request(api_key=19, versions="2-7", flexible="5+")
    class CreateTopicsRequest(Request["CreateTopicsResponse"]):
        topics: list[CreatableTopic]
        timeout_ms: int32 = 60_000
        validate_only: boolean = field(versions="1+", default=False)

The decorators turn the class into a slotted, keyword-only dataclass and keep their arguments; `spec_of(cls)` reads
the annotations on first use. The base class of a request names the class of its response, for type checkers.
Everything else derives from the spec: codecs (`compile`), explanations (`annotate`), documentation. This module must
not encode or decode anything.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, dataclass_transform

from kafkaraw.light_classes import MISSING, Field, NamedTuple, dataclass, fields
from kafkaraw.light_classes import field as dataclass_field
from kafkaraw.protocol.types import PLAIN_ANNOTATIONS, Primitive

T = TypeVar("T")
Q_co = TypeVar("Q_co", covariant=True)
R_co = TypeVar("R_co", bound="Response", covariant=True)
VERSION_MAX = 32_767
UNKNOWN_TAGGED_FIELDS = "unknown_tagged_fields"


class VersionRange(NamedTuple):
    """An inclusive range of versions; `min > max` means none."""

    min: int
    max: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read Kafka's notation: `3`, `2-7`, `5+`, `none`.

        Raises:
            ValueError: the text has none of these forms.
        """
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def includes(self, version: int) -> bool:
        """Whether `version` lies in the range."""
        return self.min <= version <= self.max

    def __str__(self) -> str:
        if self.min > self.max:
            return "none"
        if self.max == VERSION_MAX:
            return f"{self.min}+"
        return f"{self.min}" if self.min == self.max else f"{self.min}-{self.max}"


NO_VERSIONS = VersionRange(0, -1)


class Direction(StrEnum):
    """The kind of a message; a `DATA` structure is the content of a bytes field or a record."""

    REQUEST = "request"
    RESPONSE = "response"
    DATA = "data"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array with elements of one kind."""

    element: Kind


@dataclass(frozen=True, slots=True)
class StructOf:
    """A nested structure."""

    cls: type[object]


Kind: TypeAlias = Primitive | ArrayOf | StructOf


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a structure.

    Attributes:
        versions: versions that have the field.
        nullable: versions in which its value may be null on the wire.
        tag, tagged: its tag, and the versions in which it is sent as a tagged field.
        ignorable: the encoder may leave the field out silently if the chosen version does not have it.
        default: value when it is absent; None for null. Lists and structures default to new empty ones.
    """

    name: str
    kind: Kind
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    ignorable: bool
    default: object

    def is_tagged(self, version: int) -> bool:
        """Return whether it is sent as a tagged field in `version`."""
        return self.tag is not None and self.tagged.includes(version)


@dataclass(frozen=True, slots=True)
class Header:
    """The arguments of a decorator, before the annotations are read."""

    direction: Direction
    versions: VersionRange
    flexible: VersionRange
    api_key: int  # of data in a coordinator's topic: the record type
    removed: VersionRange
    unstable: VersionRange

    @property
    def offered(self) -> VersionRange:
        """The versions that brokers of Kafka 4.3 offer: neither removed nor unstable ones."""
        low = max(self.versions.min, self.removed.max + 1)
        high = self.unstable.min - 1 if self.unstable.max >= self.unstable.min else self.versions.max
        return VersionRange(low, high) if low <= high else NO_VERSIONS


@dataclass(frozen=True, slots=True)
class Spec:
    """The parsed declaration of a class, the input of the compiler and of all other readers of declarations."""

    cls: type[object]
    header: Header
    fields: tuple[FieldSpec, ...]

    @property
    def name(self) -> str:
        """The class's name, which is Kafka's."""
        return self.cls.__name__


class Response:
    """Base class of the responses. It has no fields: type checkers recognise a response by it."""

    __slots__ = ()


class Request(Generic[R_co]):
    """Base class of the requests; its argument is the class of the response.

    So a caller that sends a `Request[R]` gets an `R`, and a handler that takes one must return an `R`.
    """

    __slots__ = ()

    @classmethod
    def exchange(cls) -> tuple[type[Self], type[R_co]]:
        """Return the class of the request, and that of its response.

        Raises:
            TypeError: the declaration of the request does not name its response.
        """
        for base in getattr(cls, "__orig_bases__", ()):
            if typing.get_origin(base) is Request:
                (response,) = typing.get_args(base)
                # It is declared below its request, so that the request names it as a string.
                return cls, getattr(sys.modules[cls.__module__], response.__forward_arg__)
        raise TypeError(f'{cls.__name__} does not name its response: declare it as Request["...Response"]')


class RequestClass(Protocol[Q_co, R_co]):
    """A class of requests, with the types of its instances and of their responses: `type[Q]` has the first one only."""

    def exchange(self) -> tuple[type[Q_co], type[R_co]]:
        """Return the class of the request, and that of its response."""
        ...


_FIELD_KEY = "kafkaraw"
_HEADERS: dict[type[object], Header] = {}
_SPECS: dict[type[object], Spec] = {}


@dataclass(frozen=True, slots=True)
class _FieldOptions:
    versions: str
    nullable: str | None
    tag: int | None
    tagged: str | None
    ignorable: bool


def field(
    *,
    versions: str = "0+",
    default: object = MISSING,
    default_factory: object = MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    secret: bool = False,
) -> Any:  # noqa: ANN401 -- a field specifier stands for a value of any type
    """Describe a field of a message (a field specifier in the sense of `dataclass_transform`).

    Args:
        versions: versions of the message that have the field.
        default: value when it is not given, and when a version does not have it.
        default_factory: the same for lists.
        nullable: versions in which it may be null; by default all, if the annotation allows None.
        tag: its tag number.
        tagged: versions in which it is a tagged field; by default all that have it.
        ignorable: it is no error to leave it out if the version does not have it.
        secret: it is left out of the message's `repr`, and so of logs and errors.
    """
    options = _FieldOptions(versions, nullable, tag, tagged, ignorable)
    make: Any = dataclass_field
    return make(default=default, default_factory=default_factory, metadata={_FIELD_KEY: options}, repr=not secret)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def request(
    *, api_key: int, versions: str, flexible: str = "none", removed: str = "none", unstable: str = "none"
) -> Callable[[type[T]], type[T]]:
    """Declare a request.

    Args:
        api_key: number of the API.
        versions: every version that is known, old and new.
        flexible: versions with compact lengths and tagged fields (KIP-482).
        removed: versions that Kafka 4.0 removed (KIP-896); declared, never offered.
        unstable: versions that no release has enabled; declared, never offered.
    """
    return _declare(Direction.REQUEST, versions, flexible, api_key, removed, unstable)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def response(
    *, api_key: int, versions: str, flexible: str = "none", removed: str = "none", unstable: str = "none"
) -> Callable[[type[T]], type[T]]:
    """Declare a response; arguments as for `request`."""
    return _declare(Direction.RESPONSE, versions, flexible, api_key, removed, unstable)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def data(*, versions: str, flexible: str = "none", record_type: int = -1) -> Callable[[type[T]], type[T]]:
    """Declare a structure that travels inside a bytes field or a record, with a version of its own.

    Args:
        versions: every version that is known.
        flexible: versions with compact lengths and tagged fields.
        record_type: in a coordinator's topic, the int16 that the key begins with; it pairs a key with its value.
    """
    return _declare(Direction.DATA, versions, flexible, record_type, "none", "none")


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a structure nested in messages; its version is the message's."""
    return _declare(Direction.STRUCT, "0+", "none", -1, "none", "none")(cls)


def _declare(
    direction: Direction, versions: str, flexible: str, api_key: int, removed: str, unstable: str
) -> Callable[[type[T]], type[T]]:
    parse = VersionRange.parse
    header = Header(direction, parse(versions), parse(flexible), api_key, parse(removed), parse(unstable))

    def decorate(cls: type[T]) -> type[T]:
        # Unknown tagged fields are kept so that decoding and encoding again loses nothing.
        cls.__annotations__[UNKNOWN_TAGGED_FIELDS] = "dict[int, bytes] | None"
        setattr(cls, UNKNOWN_TAGGED_FIELDS, dataclass_field(default=None, repr=False))
        declared = dataclass(slots=True, kw_only=True)(cls)
        _HEADERS[declared] = header
        return declared

    return decorate


def header_of(cls: type[object]) -> Header:
    """Return the arguments of the decorator of `cls`.

    Raises:
        TypeError: `cls` is not declared as a message or structure.
    """
    try:
        return _HEADERS[cls]
    except KeyError:
        raise TypeError(f"{cls!r} is not a declared message: use @request, @response, @data or @struct") from None


def declared_classes() -> list[type[object]]:
    """Every class declared so far, in the order of declaration; modules not yet imported are missing."""
    return list(_HEADERS)


def spec_of(cls: type[object]) -> Spec:
    """Read the declaration of `cls`.

    Raises:
        TypeError: `cls` is not declared, or an annotation is not a type of the protocol.
    """
    spec = _SPECS.get(cls)
    if spec is None:
        spec = _SPECS[cls] = _read_spec(cls)
    return spec


def _read_spec(cls: type[object]) -> Spec:
    header = header_of(cls)
    hints = typing.get_type_hints(cls, include_extras=True)
    specs = tuple(
        _field_spec(cls, declared, hints[declared.name])
        for declared in fields(typing.cast("type[Any]", cls))
        if declared.name != UNKNOWN_TAGGED_FIELDS
    )
    return Spec(cls, header, specs)


def _field_spec(cls: type[object], declared: Field[Any], hint: object) -> FieldSpec:
    options: _FieldOptions = declared.metadata.get(_FIELD_KEY) or _FieldOptions("0+", None, None, None, False)
    inner, may_be_none = _strip_none(hint)
    kind = _kind(cls, declared.name, inner)
    versions = VersionRange.parse(options.versions)
    nullable = VersionRange.parse(options.nullable) if options.nullable else versions if may_be_none else NO_VERSIONS
    tagged = VersionRange.parse(options.tagged) if options.tagged else versions
    default = declared.default
    if default is MISSING:
        default = kind.zero if isinstance(kind, Primitive) else ()
    return FieldSpec(declared.name, kind, versions, nullable, options.tag, tagged, options.ignorable, default)


def _strip_none(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
        if len(arms) == 1:
            return arms[0], True
    return hint, False


def _kind(cls: type[object], name: str, hint: object) -> Kind:
    if typing.get_origin(hint) is typing.Annotated:
        for note in typing.get_args(hint)[1:]:
            if isinstance(note, Primitive):
                return note
    if typing.get_origin(hint) is list:
        return ArrayOf(_kind(cls, name, typing.get_args(hint)[0]))
    if hint in PLAIN_ANNOTATIONS:
        return PLAIN_ANNOTATIONS[hint]
    if isinstance(hint, type) and hint in _HEADERS:
        return StructOf(hint)
    raise TypeError(f"{cls.__name__}.{name}: {hint!r} is not a type of the protocol")
