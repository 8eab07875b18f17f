"""Reading messages: delimiters and lengths wherever the pieces end, keys, nulls, JSON."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaraw.cli.inputs import Lines, Message, json_message, length_prefixed, lines, messages_of
from kafkaraw.errors import UsageError


class Pieces:
    """A stream that gives what it was given, piece by piece."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces]

    def read1(self, size: int = -1, /) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@example([b";;;"])
@given(st.lists(st.binary(min_size=1, max_size=6).map(lambda text: text.replace(b"a", b";;")), max_size=8))
def test_messages_may_span_pieces_of_input(pieces: list[bytes]):
    found = [line for piece in lines(Pieces(*pieces), b";;", 1000) for line in piece]
    expected = b"".join(pieces).split(b";;")
    assert found == (expected if expected[-1] else expected[:-1])


@given(st.lists(st.none() | st.binary(max_size=5), max_size=5), st.integers(1, 9))
def test_lengths_may_span_pieces_of_input(values: list[bytes | None], step: int):
    data = b"".join(b"\xff" * 4 if each is None else len(each).to_bytes(4) + each for each in values)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert [each for piece in length_prefixed(Pieces(*pieces), 5) for each in piece] == values


def test_invalid_input_is_reported_with_its_position():
    with pytest.raises(UsageError, match="11 bytes without the delimiter b';'"):
        list(lines(Pieces(b"a;" + b"x" * 11), b";", 10))
    with pytest.raises(UsageError, match="length at byte 6 of the input is 1751477356"):
        list(length_prefixed(Pieces(b"\0\0\0\2okhello"), 10))
    with pytest.raises(UsageError, match="ends within the message that begins at byte 6"):
        list(length_prefixed(Pieces(b"\0\0\0\2ok\0\0\0\3no"), 10))


@pytest.mark.parametrize(
    ("how", "line", "meant"),
    [
        (Lines(), b"a:b", Message(b"a:b")),
        (Lines(), b"", Message(b"")),
        (Lines(key_delimiter=b":"), b"a:b:c", Message(b"b:c", b"a")),
        (Lines(key_delimiter=b":"), b"none", Message(b"none")),
        (Lines(key_delimiter=b":", key=b"k"), b"none", Message(b"none", b"k")),
        (Lines(key_delimiter=b":", key=b"k"), b":v", Message(b"v", b"")),
        (Lines(key_delimiter=b":", empty_is_null=True), b":", Message(None, None)),
        (Lines(key_delimiter=b":"), b"a:", Message(b"", b"a")),
        (Lines(key_delimiter=b":", null_marker=b"NULL"), b"NULL:NULL", Message(None, None)),
        (Lines(convert_value=bytes.upper, key_delimiter=b":", convert_key=bytes.title), b"a:b", Message(b"B", b"A")),
        (Lines(empty_is_null=True, convert_value=bytes.upper), b"", Message(None)),
    ],
)
def test_a_line_becomes_a_message(how: Lines, line: bytes, meant: Message):
    assert how.message(line) == meant


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (b'{"payload": "v"}', Message(b"v")),
        (b'{"value": "v", "key": "k", "ts": 5}', Message(b"v", b"k", None, 5)),
        (b'{"payload": null, "topic": "t", "partition": 1, "offset": 3, "tstype": "create"}', Message(None)),
        (b'{"payload": {"a": [1, "\xc3\xa9"]}}', Message('{"a":[1,"é"]}'.encode())),
        (b'{"payload": 7}', Message(b"7")),
        (b'{"payload_base64": "AP8=", "key_base64": ""}', Message(b"\0\xff", b"")),
        (b'{"payload": "v", "headers": ["a", "1", "b", null]}', Message(b"v", None, [("a", b"1"), ("b", None)])),
        (b'{"payload": "v", "headers": {"a": {"base64": "/w=="}}}', Message(b"v", None, [("a", b"\xff")])),
        (b"  ", None),
    ],
)
def test_json_becomes_a_message(line: bytes, meant: Message | None):
    assert json_message(line) == meant


@pytest.mark.parametrize(
    "line",
    [b"[1]", b"{", b"{}", b'{"payload": 1, "kee": 2}', b'{"payload": 1, "ts": "now"}', b'{"payload_base64": "A"}',
     b'{"payload": 1, "headers": ["a"]}', b'{"payload": 1, "headers": [1, "a"]}'],
)  # fmt: skip
def test_invalid_json_messages_are_reported_by_number(line: bytes):
    made = messages_of([[b'{"payload": "first"}', line]], json_message)
    assert next(made) == [Message(b"first")]  # what stands before it is sent
    with pytest.raises(UsageError, match="message 2 of the input, "):
        next(made)
