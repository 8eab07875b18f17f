"""Rendering: kcat's tokens and escapes, nulls, bytes that are no text, and the JSON envelope."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.cli.formats import JsonRenderer, TextRenderer, parse_format, unescape
from kafkaraw.cli.inputs import json_message
from kafkaraw.cli.serdes import showing
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import Batch, encode_batch

ROWS = [
    (1_700_000_000_000, b"k", b"value", [("a", b"1"), ("b", None)]),
    (1_700_000_000_001, None, None, None),
    (1_700_000_000_002, b"", b"", None),
]


def batch_of(rows: list[tuple[int, bytes | None, bytes | None, object]] = ROWS) -> Batch:
    return Batch("t%", 2, memoryview(encode_batch(rows, base_offset=7)), start_offset=0)  # type: ignore[arg-type]


def text(form: str, rows: list[tuple[int, bytes | None, bytes | None, object]] = ROWS, **more: object) -> bytes:
    return TextRenderer(parse_format(form), **more).render(batch_of(rows))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (r"\n\t\r\\", b"\n\t\r\\"),
        (r"\x41\x0aB", b"A\nB"),
        (r"\0\033[\101", b"\0\x1b[e"),  # a number that begins with 0 is octal, another one decimal
        (r"\q\x", b"qx"),
        ("é\\", b"\xc3\xa9\\"),
    ],
)
def test_escapes_are_those_of_kcat(given: str, meant: bytes):
    assert unescape(given) == meant


def test_a_byte_has_at_most_255():
    with pytest.raises(UsageError, match=r"\\300 is 300"):
        unescape(r"\300")


def test_each_token_shows_its_field():
    rows = [ROWS[0]]
    assert text("%t [%p] %o %T %k %K %s %S %h 100%%\\n", rows) == (
        b"t% [2] 7 1700000000000 k 1 value 5 a=1,b=NULL 100%\n"
    )
    assert text("%R%s", rows) == b"\0\0\0\5value"


def test_an_unknown_token_is_reported_with_the_known_ones():
    with pytest.raises(UsageError, match=r"unknown token '%x'; known are %s \(value\)"):
        parse_format("%s %x")
    with pytest.raises(UsageError, match="unknown token '%'"):
        parse_format("half %")


@pytest.mark.parametrize("form", ["%s\\n", "%k=%s\\n", "%o %k %s\\n", "%K %S %k %s\\n", "%T\\n", "x\\n", "%t%p\\n"])
def test_null_is_empty_or_the_null_marker_in_every_format(form: str):
    """The fast ways of plain formats and the long one agree."""
    for null in (b"", b"NULL"):
        fast = text(form, null=null)
        slow = text(form + "%h", [(*row[:3], None) for row in ROWS], null=null)
        assert fast == slow
    assert text("%s|", null=b"NULL") == b"value|NULL||"
    assert text("%k,%s|", null=b"NULL") == b"k,value|NULL,NULL|,|"


@given(
    st.lists(
        st.tuples(st.just(1), st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=5), st.none()),
        min_size=1,
        max_size=6,
    )
)
def test_bytes_are_written_unchanged(rows: list[tuple[int, bytes | None, bytes | None, object]]):
    assert text("%k%s", rows) == b"".join((key or b"") + (value or b"") for _, key, value, _ in rows)
    assert text("%s;", rows) == b"".join((value or b"") + b";" for _, _, value, _ in rows)


def test_no_records_write_nothing():
    for renderer in (TextRenderer(parse_format("%s\\n")), TextRenderer(parse_format("%o\\n")), JsonRenderer()):
        assert renderer.render(batch_of().starting_at(10)) == (b"", 0)


def test_the_envelope_is_that_of_kcat():
    lines = JsonRenderer().render(batch_of())[0].decode().splitlines()
    assert lines[0] == (
        '{"topic":"t%","partition":2,"offset":7,"tstype":"create","ts":1700000000000,'
        '"headers":["a","1","b",null],"key":"k","payload":"value"}'
    )
    assert json.loads(lines[1])["payload"] is None and json.loads(lines[2])["payload"] == ""


def test_bytes_that_are_no_text_are_base64_in_json():
    row = (1, b"\xff", b"\xfe\n", [("h", b"\xfd"), ("ok", b"\n")])
    found = json.loads(JsonRenderer().render(batch_of([row]))[0])
    assert found["key_base64"] == "/w==" and found["payload_base64"] == "/go="
    assert found["headers"] == ["h", {"base64": "/Q=="}, "ok", "\n"]
    assert "key" not in found and "payload" not in found


@given(
    key=st.none() | st.binary(max_size=8),
    value=st.none() | st.binary(max_size=8),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3),
)
def test_json_that_is_written_is_read_as_the_same_message(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
):
    headers = [(name.encode("utf-8", "ignore").decode(), each) for name, each in headers]
    line = JsonRenderer(b"").render(batch_of([(5, key, value, headers)]))[0]
    message = json_message(line)
    assert message is not None
    assert (message.key, message.value, message.headers or [], message.timestamp_ms) == (key, value, headers, 5)


def test_converted_values_are_json_values():
    _, long = showing(("value=long",))
    _, embedded = showing(("value=json",))
    found = JsonRenderer(value=long).render(batch_of([(1, b"k", (7).to_bytes(8), None)]))[0]
    assert b'"key":"k","payload":7}' in found
    found = JsonRenderer(value=embedded).render(batch_of([(1, None, b'{"a":\n [1]}', None)]))[0]
    assert b'"payload":{"a":[1]}}' in found


def test_a_value_that_cannot_be_converted_is_reported_with_its_offset():
    key, value = showing(("long",))
    with pytest.raises(KafkaError, match=r"value of t% \[2\] at offset 7 is not long.*5 bytes: 76 61 6c 75 65.*=hex"):
        TextRenderer(parse_format("%s\\n"), value=value).render(batch_of())
    assert text("%k|", [ROWS[1]], key=key, null=b"-") == b"-|"
