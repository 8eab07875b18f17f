"""Declarations against the schemas in Apache Kafka's jars: every property of every field, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import (
    VERSION_MAX,
    ArrayOf,
    FieldSpec,
    Kind,
    Spec,
    StructOf,
    VersionRange,
    header_of,
    spec_of,
)
from kafkaraw.protocol.types import ZERO_UUID, Primitive
from tests.protocol.oracle.apache import AHEAD, NEW, OLD, schemas, why_no_oracle
from tests.protocol.oracle.apache_json import camel
from tests.protocol.oracle.test_bytes import data_classes

# The first test on a machine waits until Maven has fetched the jars.
pytestmark = [
    pytest.mark.skipif(why_no_oracle() is not None, reason=why_no_oracle() or ""),
    pytest.mark.timeout(600),
]

NONE = VersionRange(0, -1)
# Schemas without a declaration, and why.
NOT_DECLARED = {
    "RequestHeader": "written by hand in frames.py, because its client id is never compact",
    "ResponseHeader": "written by hand in frames.py",
    "ProducerSnapshot": "written by hand in core/log/producer_snapshot.py: a file, and its checksum covers the rest",
}
# What is allowed to differ: (message, field path, property) -> reason.
DIFFERENCES: dict[tuple[str, str, str], str] = {}


def cut(versions: VersionRange, bounds: VersionRange) -> VersionRange:
    low, high = max(versions.min, bounds.min), min(versions.max, bounds.max)
    return VersionRange(low, high) if low <= high else NONE


def schema_versions(schema: dict[str, Any], key: str, bounds: VersionRange) -> VersionRange:
    return cut(VersionRange.parse(schema.get(key) or "none"), bounds)


def schema_default(schema: dict[str, Any]) -> object:
    """A field's default in the form of our declarations."""
    kind, default = schema["type"], schema.get("default")
    if default == "null":
        return None
    if kind.startswith("[]") or not kind[0].islower():
        return ()
    if kind == "string":
        return default or ""
    if kind == "bool":
        return str(default).lower() == "true"
    if kind in ("bytes", "records", "uuid"):
        return {"bytes": b"", "records": None, "uuid": ZERO_UUID}[kind]
    if kind == "float64":
        return float(default or 0)
    return int(str(default or "0"), 0)


def kind_name(kind: Kind) -> str:
    if isinstance(kind, ArrayOf):
        return "[]" + kind_name(kind.element)
    return kind.name if isinstance(kind, Primitive) else "struct"


def schema_kind(kind: str) -> str:
    if kind.startswith("[]"):
        return "[]" + schema_kind(kind[2:])
    return kind if kind[0].islower() else "struct"


class Comparison:
    """Collects what differs between one declaration and one schema, within a range of versions."""

    def __init__(self, spec: Spec, schema: dict[str, Any], bounds: VersionRange) -> None:
        self.spec = spec
        self.bounds = bounds
        self.common = {common["name"]: common for common in schema.get("commonStructs", ())}
        self.differences: list[str] = []
        self.expect(
            "", "flexible", cut(spec.header.flexible, bounds), schema_versions(schema, "flexibleVersions", bounds)
        )
        self.structure(spec, schema["fields"], "")

    def expect(self, path: str, what: str, ours: object, apaches: object) -> None:
        if ours != apaches and (self.spec.name, path, what) not in DIFFERENCES:
            self.differences.append(f"{self.spec.name} {path} {what}: declared {ours}, Apache {apaches}")

    def structure(self, spec: Spec, schema_fields: list[dict[str, Any]], path: str) -> None:
        ours = {camel(field.name): field for field in spec.fields if cut(field.versions, self.bounds) != NONE}
        apaches = {
            schema["name"][0].lower() + schema["name"][1:]: schema
            for schema in schema_fields
            if self.versions(schema) != NONE
        }
        self.expect(path, "fields in order", list(ours), list(apaches))
        for name in ours.keys() & apaches.keys():
            self.field(ours[name], apaches[name], f"{path}.{name}".lstrip("."))

    def versions(self, schema: dict[str, Any]) -> VersionRange:
        return schema_versions(schema, "versions" if "versions" in schema else "taggedVersions", self.bounds)

    def field(self, field: FieldSpec, schema: dict[str, Any], path: str) -> None:
        versions = self.versions(schema)
        self.expect(path, "versions", cut(field.versions, self.bounds), versions)
        self.expect(path, "type", kind_name(field.kind), schema_kind(schema["type"]))
        if schema["type"] != "records":
            nullable = cut(schema_versions(schema, "nullableVersions", self.bounds), versions)
            self.expect(path, "nullable", cut(cut(field.nullable, self.bounds), versions), nullable)
        self.expect(path, "default", field.default, schema_default(schema))
        self.expect(path, "tag", field.tag, schema.get("tag"))
        if field.tag is not None:
            self.expect(
                path, "tagged", cut(field.tagged, self.bounds), schema_versions(schema, "taggedVersions", self.bounds)
            )
        self.expect(path, "ignorable", field.ignorable, bool(schema.get("ignorable")))
        inner = field.kind.element if isinstance(field.kind, ArrayOf) else field.kind
        if isinstance(inner, StructOf):
            nested = schema.get("fields") or self.common[schema["type"].removeprefix("[]")]["fields"]
            self.structure(spec_of(inner.cls), nested, path)


def declared() -> dict[str, type[object]]:
    messages = [cls for api in API_TABLE for cls in (api.request, api.response)]
    return {cls.__name__: cls for cls in [*messages, *data_classes()]}


def test_every_message_of_kafka_is_declared_as_apache_has_it() -> None:
    ours = declared()
    differences = []
    for name, schema in schemas(NEW).items():
        if schema["validVersions"] == "none" or name in NOT_DECLARED:
            continue
        spec = spec_of(ours[name])
        valid = VersionRange.parse(schema["validVersions"])
        last = min(spec.header.versions.max, AHEAD.get(name, VERSION_MAX) - 1)
        stays = VersionRange(spec.header.removed.max + 1, last)
        if valid != stays:
            differences.append(f"{name} versions: declared {stays}, Apache {valid}")
        differences += Comparison(spec, schema, valid).differences
    assert not differences, "\n".join(differences)


def test_the_versions_that_were_removed_are_as_the_last_release_had_them() -> None:
    differences, compared = [], 0
    for name, cls in declared().items():
        spec = spec_of(cls)
        if spec.header.removed == NONE:
            continue
        schema = schemas(OLD)[name]
        valid = VersionRange.parse(schema["validVersions"])
        if spec.header.removed.min != valid.min:
            differences.append(f"{name} removed: declared {spec.header.removed}, Apache begins at {valid.min}")
        # Of these only what later versions renamed or relaxed may differ: ignorable belongs to the field as a whole.
        found = Comparison(spec, schema, spec.header.removed).differences
        differences += [difference for difference in found if " ignorable: " not in difference]
        compared += 1
    assert compared > 30
    assert not differences, "\n".join(differences)


def test_nothing_is_declared_that_apache_does_not_have() -> None:
    known = schemas(NEW).keys() | schemas(OLD).keys()
    assert declared().keys() <= known


def test_every_exception_to_the_comparison_is_still_needed() -> None:
    assert NOT_DECLARED.keys() <= schemas(NEW).keys()
    assert all(header_of(declared()[message]) for message, _, _ in DIFFERENCES)
    assert VERSION_MAX == 32_767
