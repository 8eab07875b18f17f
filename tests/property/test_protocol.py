"""Messages under all inputs: what goes in comes out, no bytes do harm, and no claimed length costs memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import (
    decode_message,
    decode_request,
    decode_request_header,
    decode_response,
    encode_message,
)
from kafkaraw.protocol.annotate import Node, annotate_message
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, Spec, StructOf, header_of, spec_of
from kafkaraw.protocol.describe import embedded_messages, embedded_modules
from kafkaraw.protocol.types import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    Primitive,
    Uuid,
    decode_uvarint,
    encode_uvarint,
)
from tests.protocol.message_values import random_message
from tests.rotation import rotating
from tests.simulation import seeds

MESSAGES = [cls for api in API_TABLE for cls in (api.request, api.response)]
EMBEDDED = [cls for module in embedded_modules() for cls in embedded_messages(module)]
VERSIONED = [
    (cls, version)
    for cls in (*MESSAGES, *EMBEDDED)
    for version in range(header_of(cls).versions.min, header_of(cls).versions.max + 1)
]
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

CLAIM = 2_000_000_000
CLAIM_BYTES_MAX = 1 << 20


@cache
def values_of(kind: Kind, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    """Every value that a field of this kind can have."""
    if isinstance(kind, StructOf):
        return structures_of(spec_of(kind.cls), version, flexible)
    if isinstance(kind, ArrayOf):
        return st.lists(values_of(kind.element, version, flexible), max_size=3)
    if kind is STRING:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("x" * 200)
    if kind in (BYTES, RECORDS):
        return st.binary(max_size=20) | st.just(b"y" * 200)
    return numbers_of(kind)


def numbers_of(kind: Primitive) -> st.SearchStrategy[Any]:
    if kind is BOOLEAN:
        return st.booleans()
    if kind is UUID:
        return st.binary(min_size=16, max_size=16).map(Uuid)
    if kind is FLOAT64:
        return st.floats(allow_nan=False)
    bits = kind.size * 8
    return (
        st.integers(0, 2**bits - 1)
        if kind.name.startswith("u")
        else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def structures_of(spec: Spec, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    """Every value that a structure can have in one version, with unknown tags where it may have some."""
    fields = {
        field.name: field_of(field, version, flexible) for field in spec.fields if field.versions.includes(version)
    }
    absent = {field.name: st.just(default_of(field)) for field in spec.fields if not field.versions.includes(version)}
    if flexible:
        known = {field.tag for field in spec.fields}
        tags = st.integers(0, 2**31 - 1).filter(lambda tag: tag not in known)
        unknown = st.none() | st.dictionaries(tags, st.binary(max_size=10), min_size=1, max_size=2)
        fields["unknown_tagged_fields"] = unknown
    return st.builds(spec.cls, **fields, **absent)


def field_of(field: FieldSpec, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    values = values_of(field.kind, version, flexible)
    return st.none() | values if field.nullable.includes(version) else values


def default_of(field: FieldSpec) -> object:
    if field.default is not None and isinstance(field.kind, ArrayOf):
        return []
    if field.default is not None and isinstance(field.kind, StructOf):
        return field.kind.cls()
    return field.default


@st.composite
def messages(draw: st.DrawFn) -> tuple[Any, int]:
    cls, version = draw(st.sampled_from(VERSIONED))
    spec = spec_of(cls)
    return draw(structures_of(spec, version, spec.header.flexible.includes(version))), version


@UNHURRIED
@given(messages())
def test_every_value_comes_back(drawn: tuple[Any, int]):
    message, version = drawn
    encoded = encode_message(message, version)
    decoded = decode_message(type(message), version, encoded)
    assert decoded == message
    assert encode_message(decoded, version) == encoded


@UNHURRIED
@given(messages())
def test_the_walk_reads_every_byte_that_the_codec_wrote(drawn: tuple[Any, int]):
    message, version = drawn
    encoded = encode_message(message, version)
    root, error = annotate_message(type(message), version, memoryview(encoded))
    assert error is None
    assert root.end == len(encoded)
    assert_children_lie_in_order(root)


def assert_children_lie_in_order(node: Node) -> None:
    at = node.start
    for child in node.children:
        assert at <= child.start <= child.end <= node.end
        at = child.end
        assert_children_lie_in_order(child)


@UNHURRIED
@given(messages(), st.data())
def test_damaged_bytes_give_a_value_or_an_error_with_its_place(drawn: tuple[Any, int], data: st.DataObject):
    message, version = drawn
    damaged = bytearray(encode_message(message, version))
    at = data.draw(st.integers(0, len(damaged)))
    damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    try_to_decode(type(message), version, bytes(damaged))


@UNHURRIED
@given(st.sampled_from(VERSIONED), st.binary(max_size=200))
def test_any_bytes_give_a_value_or_an_error_with_its_place(versioned: tuple[type[object], int], data: bytes):
    try_to_decode(*versioned, data)


@given(st.binary(max_size=100))
def test_any_bytes_as_a_request_give_a_value_or_a_protocol_error(data: bytes):
    try:
        header, at = decode_request_header(data)
        assert 8 <= at <= len(data)
        decoded, _ = decode_request(data)
        assert decoded == header
    except ProtocolError:
        pass


@UNHURRIED
@given(st.sampled_from(API_TABLE), st.integers(-1, 30), st.binary(max_size=100))
def test_any_bytes_as_a_response_give_a_value_or_a_protocol_error(api: Any, version: int, data: bytes):
    try:
        header, message = decode_response(data, api.key, version)
        assert isinstance(message, api.response)
        assert header.correlation_id == struct.unpack_from(">i", data)[0]
    except ProtocolError:
        pass


def try_to_decode(cls: type[object], version: int, data: bytes) -> None:
    """Decode, and hold the fast decoder and the slow walk against each other."""
    root, error = annotate_message(cls, version, memoryview(data))
    try:
        message = decode_message(cls, version, data)
    except ProtocolError as refused:
        assert "cannot be decoded" not in str(refused)
        assert 0 <= refused.offset <= len(data)
        assert error is not None or root.end < len(data)
    else:
        assert error is None
        assert root.end == len(data)
        # Foreign bytes may be in a form that Kafka does not write, but the value must survive.
        written = encode_message(message, version)
        assert encode_message(decode_message(cls, version, written), version) == written


def claims_in(node: Node, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Every place where a length or a count stands, and what claims two thousand million there: start, end, bytes."""
    if node.kind == "tag section":
        yield node.start, decode_uvarint(data, node.start)[1], encode_uvarint(CLAIM)
    elif node.kind in ("tagged field", "unknown tagged field"):
        at = decode_uvarint(data, node.start)[1]
        yield at, decode_uvarint(data, at)[1], encode_uvarint(CLAIM)
    elif node.kind.startswith("compact "):
        yield node.start, decode_uvarint(data, node.start)[1], encode_uvarint(CLAIM + 1)
    elif node.kind == "string":
        yield node.start, node.start + 2, struct.pack(">h", 32_767)
    elif node.kind in ("bytes", "records") or node.kind.startswith("array of "):
        yield node.start, node.start + 4, struct.pack(">i", CLAIM)
    for child in node.children[:2]:
        yield from claims_in(child, data)
    for child in node.children[2:]:
        if not child.name.startswith("["):  # further elements of an array have nothing new
            yield from claims_in(child, data)


def representative_versions(cls: type[object]) -> set[int]:
    """The newest version of each of the two forms of lengths: of one of them, except in a soak."""
    header = header_of(cls)
    newest = [header.versions.max]
    if header.versions.min < header.flexible.min <= header.versions.max:
        newest.append(header.flexible.min - 1)
    return set(newest if seeds.with_soak else [newest[len(cls.__name__) % len(newest)]])


def peak_of(cls: type[object], version: int, hostile: bytes) -> int:
    """The bytes that refusing a message takes, at the most."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError) as caught:
            decode_message(cls, version, hostile)
        annotate_message(cls, version, memoryview(hostile))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.offset <= len(hostile)
    return peak


@pytest.mark.parametrize("cls", rotating([*MESSAGES, *EMBEDDED], 92), ids=lambda cls: cls.__name__)
def test_a_claim_of_two_thousand_million_allocates_next_to_nothing(cls: type[object]):
    for version in representative_versions(cls):
        data = encode_message(random_message(cls, version, random.Random(5)), version)
        decode_message(cls, version, data)  # compiles the decoder, whose memory does not count
        root, error = annotate_message(cls, version, memoryview(data))
        assert error is None
        for start, end, claim in claims_in(root, data):
            hostile = data[:start] + claim + data[end:]
            # Other threads' memory is counted, too: when it is too much, it is measured again.
            peaks = (peak_of(cls, version, hostile) for _ in range(5))
            assert any(peak < CLAIM_BYTES_MAX for peak in peaks), (version, start)
