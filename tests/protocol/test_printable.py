"""Text from the wire in a log line: it stays one line, and tells a terminal nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, Grüße 日本", "plain text, Grüße 日本"),
        ("", ""),
        ("a\nERROR forged", "a\\nERROR forged"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\u2028b\u202e", "a\\u2028b\\u202e"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_cannot_be_printed_is_written_as_python_writes_it(text: str, shown: str):
    assert printable(text) == shown


@given(st.text())
def test_the_text_can_always_be_printed(text: str):
    assert printable(text).isprintable() or not text


def test_a_brokers_own_words_in_an_error_stay_one_line():
    assert str(error_for(ErrorCode.INVALID_REQUEST, "no\r\nWARN forged")).startswith(
        "INVALID_REQUEST (42): no\\r\\nWARN forged"
    )
