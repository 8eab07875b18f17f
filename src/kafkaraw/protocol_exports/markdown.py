"""Describe the protocol as Markdown: a page for each API, one for each group of embedded structures, and an index.

The texts are those of the declarations. This module must not write files. Start at `markdown_pages`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.declare import ArrayOf, Direction, FieldSpec, Kind, StructOf, VersionRange, header_of, spec_of
from kafkaraw.protocol.describe import (
    embedded_messages,
    embedded_modules,
    field_rows,
    prose_of,
    purpose_of,
    structures_within,
    versions_in_words,
)
from kafkaraw.protocol.frames import request_header_version, response_header_version

COLUMNS: Final = ("field", "type", "versions", "null", "tag", "default", "meaning")
INTRODUCTION: Final = """\
Every message that this project can read and write, from the same declarations that its codecs are made of.

- "offered": versions that Apache Kafka 4.3 speaks; "declared": all that can be read, among them those that Kafka 4.0
  removed (KIP-896) and those that no release has enabled.
- "flexible" versions have compact lengths (a length n is stored as the unsigned varint n + 1, null as 0) and end every
  structure with a section of tagged fields (KIP-482). In other versions a string's length is an int16, every other
  length an int32, and null is -1.
- A field stands on the wire only in its "versions"; in those under "null" it may be null; one with a "tag" is sent in
  the tagged section, and only when it is not at its default. An empty default is zero, false or empty.
- `kafkaraw protocol show NAME --version N` shows one version alone, `kafkaraw wire decode` reads bytes.
"""


def markdown_pages(apis: Iterable[Api] = API_TABLE, notice: str = "") -> dict[str, str]:
    """Return the text of every page by its file name.

    Args:
        apis: the APIs that have pages; the embedded structures have pages if these are all APIs.
        notice: a line at the top of each page.
    """
    chosen = tuple(apis)
    groups = embedded_modules() if chosen == API_TABLE else {}
    made = {f"{api.module}.md": _api_page(api) for api in chosen}
    made |= {f"embedded_{module}.md": _embedded_page(module, summary) for module, summary in groups.items()}
    made["README.md"] = _index(chosen, groups)
    head = [notice, ""] if notice else []
    return {name: "\n".join([*head, *lines]) + "\n" for name, lines in made.items()}


def _index(apis: tuple[Api, ...], groups: dict[str, str]) -> Iterator[str]:
    yield from ("# Protocol reference", "", INTRODUCTION)
    yield from _table_head(("key", "API", "offered", "declared", "what for"))
    for api in apis:
        link = f"[{api.name}]({api.module}.md)"
        yield _row(str(api.key), link, _or_dash(api.supported), str(api.versions), _escaped(purpose_of(api)))
    if groups:
        yield from ("", "## Inside bytes fields and records", "")
    for module, summary in groups.items():
        names = ", ".join(cls.__name__ for cls in embedded_messages(module))
        yield f"- [{_escaped(summary)}](embedded_{module}.md) {names}"


def _api_page(api: Api) -> Iterator[str]:
    purpose = _escaped(purpose_of(api))
    yield from (f"# {api.name} (API key {api.key})", "", f"{purpose[0].upper()}{purpose[1:]}.", "")
    yield f"[All APIs](README.md) · request header {_request_headers(api)} · response header {_response_headers(api)}"
    described: set[type[object]] = set()
    for message in (api.request, api.response):
        yield from _message(message, described)


def _embedded_page(module: str, summary: str) -> Iterator[str]:
    yield from (f"# {module.replace('_', ' ').capitalize()}", "", _escaped(summary), "")
    yield "[All APIs](README.md)"
    described: set[type[object]] = set()
    for message in embedded_messages(module):
        yield from _message(message, described)


def _message(cls: type[object], described: set[type[object]]) -> Iterator[str]:
    """A message and the structures within it, but for those that the page has already."""
    yield from ("", f"## {cls.__name__}", "")
    for paragraph in prose_of(cls):
        yield from (_escaped(paragraph), "")
    yield f"Versions {versions_in_words(cls)}{_record_type(cls)}."
    yield from _fields(cls)
    for structure in structures_within(cls):
        if structure not in described:
            described.add(structure)
            yield from ("", f"### {structure.__name__}", "", *(_escaped(text) for text in prose_of(structure)))
            yield from _fields(structure)


def _fields(cls: type[object]) -> Iterator[str]:
    rows = field_rows(cls, nested=False)
    if not rows:
        yield from ("", "No fields.")
        return
    yield ""
    yield from _table_head(COLUMNS)
    for row, field in zip(rows, spec_of(cls).fields, strict=True):
        tag = "" if row.tag is None else str(row.tag)
        meaning = _escaped(row.meaning)
        yield _row(f"`{row.name}`", _linked(row.type, field), row.versions, row.nullable, tag, row.default, meaning)


def _linked(type_text: str, field: FieldSpec) -> str:
    name = _structure_name(field.kind)
    return type_text.replace(name, f"[{name}](#{name.lower()})") if name else type_text


def _structure_name(kind: Kind) -> str:
    if isinstance(kind, StructOf):
        return kind.cls.__name__
    return _structure_name(kind.element) if isinstance(kind, ArrayOf) else ""


def _record_type(cls: type[object]) -> str:
    header = header_of(cls)
    is_record = header.direction is Direction.DATA and header.api_key >= 0
    return f"; record type: {header.api_key}" if is_record else ""


def _request_headers(api: Api) -> str:
    return _by_version(api, request_header_version)


def _response_headers(api: Api) -> str:
    return _by_version(api, response_header_version)


def _by_version(api: Api, header_version: Callable[[int, int], int]) -> str:
    """Which header goes with which versions, as `v1, from version 9 v2`."""
    words: list[str] = []
    last = None
    for version in range(api.versions.min, api.versions.max + 1):
        number = header_version(api.key, version)
        if number != last:
            words.append(f"from version {version} v{number}" if words else f"v{number}")
        last = number
    return ", ".join(words)


def _table_head(columns: Iterable[str]) -> Iterator[str]:
    columns = list(columns)
    yield _row(*columns)
    yield _row(*("---" for _ in columns))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _or_dash(versions: VersionRange) -> str:
    return "-" if str(versions) == "none" else str(versions)


def _escaped(text: str) -> str:
    """Text in which Markdown finds nothing to format."""
    return re.sub(r"([|<*]|(?<!\w)_+)", lambda match: "".join("\\" + sign for sign in match[1]), text)
