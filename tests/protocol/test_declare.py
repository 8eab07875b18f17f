"""The message language: what a declaration says is what the spec holds."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.declare import NO_VERSIONS, ArrayOf, StructOf, VersionRange, field, request, spec_of, struct
from kafkaraw.protocol.types import INT32, STRING, int32, string


@struct
class Part:
    size: int32
    note: string | None = field(versions="2+", default=None, nullable="3+")


@request(api_key=999, versions="1-4", flexible="3+")
class Sample:
    parts: list[Part]
    limit: int32 = field(versions="2+", default=7, tag=1, tagged="3+", ignorable=True)


@request(api_key=998, versions="0")
class Wrong:
    what: dict[str, int]


def test_a_declaration_is_read_into_a_spec() -> None:
    spec = spec_of(Sample)
    parts, limit = spec.fields
    assert parts.kind == ArrayOf(StructOf(Part))
    assert (limit.kind, limit.default, limit.tag, limit.ignorable) == (INT32, 7, 1, True)
    assert [limit.is_tagged(version) for version in (2, 3, 4)] == [False, True, True]
    size, note = spec_of(Part).fields
    assert (size.kind, note.kind) == (INT32, STRING)
    assert [note.nullable.includes(version) for version in (2, 3)] == [False, True]
    assert (spec.header.api_key, spec.header.versions) == (999, VersionRange(1, 4))


def test_messages_take_keywords_only_and_compare_by_value() -> None:
    assert Sample(parts=[]) == Sample(parts=[], limit=7)
    with pytest.raises(TypeError):
        Sample([])
    with pytest.raises(AttributeError):
        Sample(parts=[]).limmit = 3


def test_an_annotation_outside_the_protocol_is_named() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.what: dict"):
        spec_of(Wrong)


def test_an_undeclared_class_is_refused() -> None:
    with pytest.raises(TypeError, match="not a declared message"):
        spec_of(int)


@pytest.mark.parametrize(("text", "low", "high"), [("3", 3, 3), ("2-7", 2, 7), ("5+", 5, 32767)])
def test_version_ranges_are_written_as_kafka_writes_them(text: str, low: int, high: int) -> None:
    versions = VersionRange.parse(text)
    assert versions == (low, high)
    assert str(versions) == text
    assert not NO_VERSIONS.includes(0)
    assert str(NO_VERSIONS) == "none"
