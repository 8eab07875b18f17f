"""How bytes become text: hostile input in bounded time, and masks that hold in every form."""

from __future__ import annotations

import asyncio
import json

import pytest

from kafkaraw.console.shown import FORMATS, MASK, Decoder, Shown, hex_dump, size_text, time_text, visible

MASKS = frozenset({"password"})


def shown(
    data: bytes | None, form: str = "auto", masks: frozenset[str] = frozenset(), *, is_whole: bool = False
) -> Shown:
    return asyncio.run(Decoder(form, masks, None).shown("t", "value", data, is_whole=is_whole))


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", "null"),
        (b"", "empty", ""),
        (b"plain", "text", "plain"),
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b"\xff\x00", "hex", "ff 00"),
        ("é\u202e".encode(), "text", "é\\u202e"),
        (b"a\x1b[31mb", "text", "a\\u001b[31mb"),
        (b'{"a": "\\ud800"}', "json", '{"a": "\\ud800"}'),
    ],
)
def test_bytes_are_shown(data: bytes | None, kind: str, text: str) -> None:
    found = shown(data)
    assert (found.kind, found.text) == (kind, text)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "data", [b"[" * 1_000_000, b'{"a":' * 100_000, b"9" * 1_000_000, b"x" * 9_000_000, b"\x00\x00\x00\x00\x01x"]
)
def test_huge_and_deep_values_are_shown_in_bounded_size(form: str, data: bytes) -> None:
    assert len(shown(data, form).text) <= 400
    assert len(shown(data, form, is_whole=True).text) <= 200_000


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "data",
    [
        b'{"password": "hunter2"}',
        b'[{"a": {"PassWord": ["hunter2"]}}]',
        b'{"password": "hunter2"',
        b"password=hunter2",
        b"<password>hunter2</password>",
        b'\xff{"password": "hunter2"}',
        b'\x00\x00\x00\x00\x01{"password": "hunter2"}',
        b"\x00\x00\x00\x00\x01\x0ehunter2",
        b"\x0a\x07hunter2",
        b"\x81\xa8password\xa7hunter2",
        b"\x81\xa8password\xa7hunter2 cut",
        b'"{\\"password\\": \\"hunter2\\"}"',
        b'{"inner": "{\\"password\\": \\"hunter2\\"}"}',
        b'{"note": "Password = hunter2"}',
    ],
)
def test_masked_fields_are_shown_in_no_form(form: str, data: bytes) -> None:
    for is_whole in (True, False):
        text = shown(data, form, MASKS, is_whole=is_whole).text
        assert "hunter2" not in text
        assert b"hunter2".hex(" ") not in text
        assert MASK in text


def test_large_values_are_parsed_on_their_own_page() -> None:
    data = b'{"a": "' + b"\xc3\xa9" * 50_000 + b'"}'
    found = shown(data)
    assert (found.kind, found.text[:9], found.is_cut) == ("json", '{"a": "éé', True)
    assert shown(data, is_whole=True).text.startswith('{\n  "a": "éé')
    assert shown(b'{"password": "hunter2", "a": "' + b"x" * 100_000 + b'"}', masks=MASKS).text.startswith(
        '{"password": "•'
    )
    assert shown(b"\xff" * 100_000).kind == "hex" and shown(b"\x91" * 100_000).kind == "hex"


def test_masked_headers_are_not_shown() -> None:
    decoder = Decoder("auto", MASKS, None)
    assert decoder.header("Password", b"hunter2").text == MASK
    for data in (b"\x00\x00\x00\x00\x01\x0ehunter2", b"\x0a\x07hunter2", b"\xffhunter2", b"password hunter2"):
        assert decoder.header("other", data).text == MASK
    assert decoder.header("other", b'{"password": "hunter2"}').text == json.dumps(
        {"password": MASK}, ensure_ascii=False
    )


def test_text_that_hides_or_reorders_is_escaped() -> None:
    assert visible("a\u200bb\u2066c\x07") == "a\\u200bb\\u2066c\\u0007"
    assert visible("日本 ✓ \n") == "日本 ✓ \n"


def test_numbers_have_units() -> None:
    assert [size_text(each) for each in (5, 1_500, 2_000_000, 3 * 10**15)] == ["5 B", "1.5 kB", "2.0 MB", "3,000 TB"]
    assert time_text(-1) == "none"
    assert time_text(10**18) == "1000000000000000000 ms"
    assert hex_dump(b"AB\x00") == "000000  41 42 00                                         AB."


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\x00\x0f\xff\xff" + b"\x80" * 0xFFFFF,
        b"\x91" * 1_000,
        b"\x91" * 100_000,
        b"\x81" * 300,
        b"\xdf\xff\xff\xff\xff",
        b"\xdc\xff\xff\xc0",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x81\x92\x01\x02\x03",
        b"\x81\xa2\xff\xfe\x01",
        b"\x91\xc7\x05\x01hello",
        b"\x91\xd7\xff" + b"\xff" * 8,
        b"\x91\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    ],
)
def test_message_pack_of_any_kind_is_shown_in_bounded_size(data: bytes) -> None:
    for form in ("auto", "msgpack"):
        assert len(shown(data, form).text) <= 400
        assert len(shown(data, form, is_whole=True).text) <= 200_000


def test_message_pack_is_found_by_itself() -> None:
    assert shown(b"\x81\xa1a\x01").kind == "msgpack"
    assert shown(b"\x81\xa1a\x01\x01").kind == "hex"
    assert shown(b"\x07", "msgpack").text == "7"
