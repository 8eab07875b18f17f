from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.java_properties import parse_java_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb = 2\nc:3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n   \n  a=#yes\r\nb=1\rc=2", {"a": "#yes", "b": "1", "c": "2"}),
        ("a=one, \\\n    two, \\\r\n  three\nb=1", {"a": "one, two, three", "b": "1"}),
        ("a=ends in a backslash \\\\\nb=1", {"a": "ends in a backslash \\", "b": "1"}),
        ("a\\ b\\:c\\=d=e=f:g", {"a b:c=d": "e=f:g"}),
        ("a=\\u00e9\\t\\n\\x", {"a": "é\t\nx"}),
        ("a\nb=\n=c", {"a": "", "b": "", "": "c"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=trailing  ", {"a": "trailing  "}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("a=cut \\", {"a": "cut "}),
    ],
)
def test_files_are_read_as_java_reads_them(text: str, pairs: dict[str, str]):
    assert parse_java_properties(text) == pairs


@given(st.text())
def test_any_text_is_read(text: str):
    assert isinstance(parse_java_properties(text), dict)
