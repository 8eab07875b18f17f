"""Write the dissector for Wireshark: the schemas of the APIs as Lua tables, within the interpreter `dissector.lua`.

This module must not decide how bytes are read: the Lua code does. Start at `dissector`.

Source: https://www.wireshark.org/docs/wsdg_html_chunked/wsluarm_modules.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Final

from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.declare import NO_VERSIONS, ArrayOf, FieldSpec, Kind, StructOf, VersionRange, header_of, spec_of
from kafkaraw.protocol.describe import field_docs
from kafkaraw.protocol.error_codes import ERROR_TABLE, error_name

FILE: Final = "kafkaraw.lua"
NAMES: Final = "--@names@\n"
SCHEMAS: Final = "--@schemas@\n"
INDENT: Final = "  "


def dissector(apis: Iterable[Api]) -> dict[str, str]:
    """Return the dissector for some APIs: the text of one file, by its name."""
    text = resources.files(__package__).joinpath("dissector.lua").read_text(encoding="utf-8")
    names = [f"ERRORS[{code}] = {_quoted(error_name(code))}\n" for code in sorted(ERROR_TABLE)]
    names += [f"API_NAMES[{api.key}] = {_quoted(api.name)}\n" for api in API_TABLE]
    text = text.replace(NAMES, "".join(names))
    return {FILE: text.replace(SCHEMAS, "".join(map(_api, apis)))}


def _api(api: Api) -> str:
    known = _paths(api.response)
    request = "".join(_fields(api.request, INDENT, {}))
    clashes = {
        path: f"{api.module}.response.{path}"
        for path, kind in _paths(api.request).items()
        if known.get(path, kind) != kind
    }
    response = "".join(_fields(api.response, INDENT, clashes))
    flexible = header_of(api.request).flexible
    head = ", ".join((str(api.key), *map(_quoted, (api.name, api.module, str(api.versions), str(flexible)))))
    return f"api({head}, {{\n{request}}}, {{\n{response}}})\n"


def _paths(cls: type[object], prefix: str = "") -> dict[str, str]:
    """Return the type of each field of a message by its path, which is the name of its filter."""
    found: dict[str, str] = {}
    for field in spec_of(cls).fields:
        element = _element(field.kind)
        found[prefix + field.name] = _type(element)
        if isinstance(element, StructOf):
            found.update(_paths(element.cls, f"{prefix}{field.name}."))
    return found


def _fields(cls: type[object], indent: str, clashes: dict[str, str], prefix: str = "") -> Iterator[str]:
    docs = field_docs(cls)
    for field in spec_of(cls).fields:
        path = prefix + field.name
        element = _element(field.kind)
        words = [
            _quoted(field.name),
            _quoted("[]" * isinstance(field.kind, ArrayOf) + _type(element)),
            _quoted(str(field.versions)),
        ]
        words += [f"{name} = {text}" for name, text in _options(field, docs.get(field.name, ""))]
        if path in clashes:
            words.append(f"path = {_quoted(clashes[path])}")
        head = f"{indent}{{ {', '.join(words)}"
        if isinstance(element, StructOf):
            yield f"{head},\n"
            yield from _fields(element.cls, indent + INDENT, clashes, f"{path}.")
            yield f"{indent}}},\n"
        else:
            yield f"{head} }},\n"


def _options(field: FieldSpec, doc: str) -> Iterator[tuple[str, str]]:
    if field.nullable != NO_VERSIONS:
        yield "null", _quoted(str(field.nullable))
    if field.tag is not None:
        yield "tag", str(field.tag)
        yield "tagged", _quoted(str(_within(field.tagged, field.versions)))
    if doc:
        yield "doc", _quoted(doc)


def _within(inner: VersionRange, outer: VersionRange) -> VersionRange:
    return VersionRange(max(inner.min, outer.min), min(inner.max, outer.max))


def _element(kind: Kind) -> Kind:
    return kind.element if isinstance(kind, ArrayOf) else kind


def _type(kind: Kind) -> str:
    if isinstance(kind, StructOf):
        return "struct"
    assert not isinstance(kind, ArrayOf), "the protocol has no arrays of arrays"
    return kind.name


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
