"""Describe declared messages for users: rows of fields, versions in words, and the grammar of Kafka's documentation.

The command line, the reference pages and the inspector use this module. The texts themselves are in the declarations:
module and class docstrings, and their `Attributes` sections. This module must not print, and must not encode or
decode. Start at `messages_named` and `field_rows`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import embedded
from kafkaraw.protocol.annotate import kind_name
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE, Api
from kafkaraw.protocol.declare import (
    NO_VERSIONS,
    ArrayOf,
    Direction,
    FieldSpec,
    Kind,
    Spec,
    StructOf,
    VersionRange,
    declared_classes,
    header_of,
    spec_of,
)
from kafkaraw.protocol.types import BOOLEAN, Primitive

GRAMMAR_INDENT: Final = "  "

_DOCS: dict[type[object], dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field as shown to users.

    Attributes:
        depth: how deep it is nested; 0 for a field of the message itself.
        type: wire type; with `compact` if the requested version is flexible.
        versions: versions that have the field.
        nullable: versions in which it may be null; empty for none.
        tag: its tag number if it is sent as a tagged field, else None.
        default: value when it is absent; empty if it is the type's zero or an empty structure.
        meaning: its text in the declaration.
    """

    depth: int
    name: str
    type: str
    versions: str
    nullable: str
    tag: int | None
    default: str
    meaning: str


def field_docs(cls: type[object]) -> dict[str, str]:
    """Return the texts of a declaration's fields: the `Attributes` section of its docstring."""
    docs = _DOCS.get(cls)
    if docs is None:
        docs = _DOCS[cls] = _read_docs(cls)
    return docs


def _read_docs(cls: type[object]) -> dict[str, str]:
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    docs: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        match = re.match(r"    (\w+): (.*)", line)
        if match:
            name = match[1]
            docs[name] = match[2]
        elif name and line.strip():
            docs[name] += " " + line.strip()
    return {name: text.rstrip(".") for name, text in docs.items()}


def summary_of(cls: type[object]) -> str:
    """Return the first line of a declaration's docstring."""
    return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]


def prose_of(cls: type[object]) -> list[str]:
    """Return the paragraphs of a declaration's docstring, without its `Attributes`."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[0]
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def purpose_of(api: Api) -> str:
    """Return the purpose of an API, in one line."""
    module_doc = sys.modules[api.request.__module__].__doc__ or ""
    return module_doc.partition("\n")[0].partition(": ")[2].rstrip(".")


def embedded_modules() -> dict[str, str]:
    """Return the groups of structures inside bytes fields and records: module name, and its description."""
    names = sorted(module.name for module in pkgutil.iter_modules(embedded.__path__))
    return {name: (_embedded(name) or "").partition("\n")[0] for name in names}


def _embedded(name: str) -> str | None:
    return importlib.import_module(f"{embedded.__name__}.{name}").__doc__


def embedded_messages(module: str) -> list[type[object]]:
    """Return the structures of one such group that have their own versions, in the order of their declaration."""
    _embedded(module)
    return [
        cls
        for cls in declared_classes()
        if cls.__module__ == f"{embedded.__name__}.{module}" and header_of(cls).direction is Direction.DATA
    ]


def messages_named(name: str) -> list[type[object]]:
    """Find messages by the name or key of an API, by their own name, or by the name of an embedded structure.

    Args:
        name: upper or lower case; the name of an API selects its request and its response.

    Raises:
        UsageError: no message has that name; suggests the nearest names.
    """
    known = _messages_by_name()
    found = known.get(name.strip().lower().replace("_", "").replace("-", ""))
    if found is not None:
        return [*found]
    if name.strip().isdigit():
        raise UsageError(f"there is no API {name}; keys go from {min(API_BY_KEY)} to {max(API_BY_KEY)}")
    near = [_display_name(close) for close in difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)]
    suggestion = f"did you mean {' or '.join(near)}?" if near else "`kafkaraw protocol list` shows all names"
    raise UsageError(f"there is no API, message or structure {name!r}: {suggestion}")


@cache
def _messages_by_name() -> dict[str, tuple[type[object], ...]]:
    known: dict[str, tuple[type[object], ...]] = {}
    for api in API_TABLE:
        known[str(api.key)] = known[api.name.lower()] = (api.request, api.response)
        known[api.name.lower() + "request"] = (api.request,)
        known[api.name.lower() + "response"] = (api.response,)
    for module in embedded_modules():
        known.update((cls.__name__.lower(), (cls,)) for cls in embedded_messages(module))
    return known


def _display_name(key: str) -> str:
    found = _messages_by_name()[key]
    return found[0].__name__.removesuffix("Request") if len(found) > 1 else found[0].__name__


def latest_version(cls: type[object]) -> int:
    """Return the newest version that brokers offer; if brokers offer none, the newest declared."""
    header = header_of(cls)
    api = API_BY_KEY.get(header.api_key)
    if header.direction is Direction.DATA or api is None:
        return header.versions.max
    return api.supported.max if api.supported != NO_VERSIONS and api.supported.max >= 0 else header.versions.max


def versions_in_words(cls: type[object]) -> str:
    """Every fact about the versions of a message, in one line."""
    header = header_of(cls)
    words = [f"declared {header.versions}"]
    if header.direction is not Direction.DATA:
        offered = API_BY_KEY[header.api_key].supported
        words.append(f"offered by Kafka 4.3: {offered if offered.max >= offered.min else 'none'}")
    if header.removed != NO_VERSIONS:
        words.append(f"removed in Kafka 4.0: {header.removed}")
    if header.unstable != NO_VERSIONS:
        words.append(f"unstable: {header.unstable}")
    words.append(f"flexible: {header.flexible}")
    return "; ".join(words)


def fields_at(spec: Spec, version: int | None) -> Iterator[FieldSpec]:
    """Return the fields of a structure in the order of the wire, tagged ones last; None for those of all versions."""
    if version is None:
        yield from spec.fields
        return
    here = [field for field in spec.fields if field.versions.includes(version)]
    yield from (field for field in here if not field.is_tagged(version))
    yield from sorted((field for field in here if field.is_tagged(version)), key=lambda field: field.tag or 0)


def field_rows(cls: type[object], version: int | None = None, *, nested: bool = True) -> list[FieldRow]:
    """Describe the fields of a message or structure.

    Args:
        cls: a declared class.
        version: which version's fields; None for those of all versions.
        nested: whether the fields of nested structures follow, one deeper.
    """
    spec = spec_of(cls)
    flexible = version is not None and spec.header.flexible.includes(version)
    return list(_rows(spec, version, flexible, 0, nested))


def _rows(spec: Spec, version: int | None, flexible: bool, depth: int, nested: bool) -> Iterator[FieldRow]:
    docs = field_docs(spec.cls)
    for field in fields_at(spec, version):
        inner = _structure_within(field.kind)
        yield FieldRow(
            depth=depth,
            name=field.name,
            type=type_name(field.kind, flexible),
            versions=str(field.versions),
            nullable=_range_or_nothing(field.nullable) if version is None or field.nullable.includes(version) else "",
            tag=field.tag if version is None or field.is_tagged(version) else None,
            default=default_text(field),
            meaning=docs.get(field.name) or (summary_of(inner).rstrip(".") if inner else ""),
        )
        if nested and inner is not None:
            yield from _rows(spec_of(inner), version, flexible, depth + 1, nested)


def structures_within(cls: type[object]) -> list[type[object]]:
    """Return the structures nested in a message at any depth, each once, in the order of their first use."""
    found: dict[type[object], None] = {}
    for field in spec_of(cls).fields:
        inner = _structure_within(field.kind)
        if inner is not None:
            found.update(dict.fromkeys([inner, *structures_within(inner)]))
    return list(found)


def _structure_within(kind: Kind) -> type[object] | None:
    if isinstance(kind, ArrayOf):
        return _structure_within(kind.element)
    return kind.cls if isinstance(kind, StructOf) else None


def type_name(kind: Kind, flexible: bool) -> str:
    """A type in words, as `compact string` or `array of int32`."""
    has_length = isinstance(kind, ArrayOf) or (isinstance(kind, Primitive) and not kind.size)
    return f"compact {kind_name(kind)}" if flexible and has_length else kind_name(kind)


def default_text(field: FieldSpec) -> str:
    """Return a default that differs from the type's zero, or null; else an empty text."""
    if field.default is None:
        return "null"
    if not isinstance(field.kind, Primitive) or field.default == field.kind.zero:
        return ""
    return str(field.default).lower() if field.kind is BOOLEAN else str(field.default)


def _range_or_nothing(versions: VersionRange) -> str:
    return "" if versions == NO_VERSIONS else str(versions)


def grammar_of(cls: type[object], version: int) -> str:
    """Return the grammar of one version in the notation of Kafka's protocol documentation since 4.3.

    `[name]` is an array, `(name)` a compact one, `?` may be null, `name<tag: 0>` is a tagged field.
    Source: org.apache.kafka.common.protocol.Protocol.
    """
    spec = spec_of(cls)
    name = spec.name
    for direction in (Direction.REQUEST, Direction.RESPONSE):
        if spec.header.direction is direction:
            name = f"{name.removesuffix(direction.title())} {direction.title()}"
    flexible = spec.header.flexible.includes(version)
    return f"{name} (Version: {version}) => {_grammar(spec, version, flexible, GRAMMAR_INDENT)}"


def _grammar(spec: Spec, version: int, flexible: bool, indent: str) -> str:
    heads: list[str] = []
    rules: list[str] = []
    for field in fields_at(spec, version):
        tag = f"<tag: {field.tag}>" if field.is_tagged(version) else ""
        null = "?" if field.nullable.includes(version) else ""
        kind = field.kind
        array = f"({field.name})" if flexible else f"[{field.name}]"
        heads.append(f"{null}{array}{tag}" if isinstance(kind, ArrayOf) else field.name + tag)
        if isinstance(kind, ArrayOf):
            kind, null = kind.element, ""  # the array may be null, which the line above says
        inner = GRAMMAR_INDENT + indent
        if isinstance(kind, StructOf):
            right = null + _grammar(spec_of(kind.cls), version, flexible, inner)
        else:
            right = _terminal(kind, bool(null), flexible) + "\n"
        rules.append(f"{indent}{field.name}{tag} => {right}")
    return f"{{ {''.join(head + ' ' for head in heads)}}}\n" + "".join(rules)


def _terminal(kind: Kind, nullable: bool, flexible: bool) -> str:
    name = "BOOLEAN" if kind is BOOLEAN else kind_name(kind).upper()
    if isinstance(kind, Primitive) and kind.size:
        return name
    return f"{'COMPACT_' if flexible else ''}{'NULLABLE_' if nullable else ''}{name}"
