"""Keys and values that are not text: by the names of Java's serializers, and by kcat's pack strings."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from kafkaraw.cli.serdes import reading, showing
from kafkaraw.errors import UsageError

UUID_TEXT = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("name", "shown", "sent"),
    [
        ("string", "é".encode(), "é".encode()),
        ("json", b'{"a":[1,2]}', b'{"a":[1,2]}'),
        ("short", b"-2", struct.pack(">h", -2)),
        ("integer", b"70000", struct.pack(">i", 70000)),
        ("int", b"-1", b"\xff" * 4),
        ("long", b"1700000000000", struct.pack(">q", 1_700_000_000_000)),
        ("float", b"0.5", struct.pack(">f", 0.5)),
        ("double", b"0.1", struct.pack(">d", 0.1)),
        ("boolean", b"true", b"\x01"),
        ("uuid", str(UUID(UUID_TEXT)).encode(), UUID_TEXT.encode()),
        ("hex", b"00ff", b"\x00\xff"),
        ("base64", b"AP8=", b"\x00\xff"),
    ],
)
def test_each_serde_reads_what_it_shows(name: str, shown: bytes, sent: bytes):
    to_text, to_bytes = showing((name,))[1], reading((name,))[1]
    assert to_text is not None and to_bytes is not None
    assert to_bytes(shown) == sent
    assert to_text.convert(sent) == shown


@pytest.mark.parametrize(
    ("name", "text"),
    [("long", b"1.5"), ("short", b"40000"), ("boolean", b"yes"), ("hex", b"0g"), ("base64", b"A"), ("json", b"{"),
     ("uuid", b"1"), ("string", b"\xff"), ("float", b"1e99")],
)  # fmt: skip
def test_text_that_does_not_fit_is_refused(name: str, text: bytes):
    to_bytes = reading((name,))[0]
    assert to_bytes is not None
    with pytest.raises(ValueError, match=r"."):
        to_bytes(text)


def test_key_and_value_may_differ_and_bytes_is_as_it_is():
    key, value = showing(("key=long", "value=hex"))
    assert (key and key.name, value and value.name) == ("long", "hex")
    assert showing(("long", "value=bytes"))[1] is None
    assert reading(("key=hex",))[1] is None


@pytest.mark.parametrize(
    ("form", "data", "shown"),
    [
        (">h i$", struct.pack(">hi", -2, 9), b"-2 9"),
        ("<I", struct.pack("<I", 7) + b"more", b"7"),
        ("bBcs", b"\xff\x01xyz", b"-11xyz"),
        ("q Q$", struct.pack(">qQ", -1, 1), b"-1 1"),
    ],
)
def test_pack_strings_are_those_of_kcat(form: str, data: bytes, shown: bytes):
    to_text = showing((form,))[1]
    assert to_text is not None and to_text.convert(data) == shown


@pytest.mark.parametrize(("form", "data"), [("i", b"abc"), ("b$", b"ab"), ("c", b"")])
def test_bytes_that_do_not_fit_a_pack_string_are_refused(form: str, data: bytes):
    to_text = showing((form,))[1]
    assert to_text is not None
    with pytest.raises((ValueError, struct.error)):
        to_text.convert(data)


@pytest.mark.parametrize("texts", [("lnog",), ("value=avro",), ("headers=long",), ("",)])
def test_an_unknown_serde_is_reported_with_the_known_ones(texts: tuple[str, ...]):
    for read in (showing, reading):
        with pytest.raises(UsageError, match=r"known are bytes, string|must be key=NAME"):
            read(texts)
