"""What filters match, and that the bytes they need never leave out a record that matches."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.console.filters import Candidate, parse_filter
from kafkaraw.console.searching import _with_needed
from kafkaraw.console.shown import parsed
from kafkaraw.errors import UsageError

NONE: frozenset[str] = frozenset()
ORDER = {
    "user": {"id": 7, "name": "Ada"},
    "tags": ["new", "gift"],
    "paid": True,
    "price": 9.5,
    "a b": None,
    "n": {"id": 8},
}


def candidate(value: object, key: bytes | None = b"k-1", headers: Any = (("source", b"web"),)) -> Candidate:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Candidate(key, data, headers, lambda: parsed(data))


def matches(text: str, value: object = ORDER, masks: frozenset[str] = NONE, **more: Any) -> bool:
    record = candidate(value, **more)
    return all(term.matches(record) for term in parse_filter(text, masks))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$.user.id = 7", True),
        ("$.user.id=7", True),
        ("$.user.id = 7.0", True),
        ('$.user.id = "7"', False),
        ("$.user.id != 8", True),
        ("$.user.none != 8", False),
        ("$.user.id > 6", True),
        ("$.user.id >= 8", False),
        ("$.user.id < x", False),
        ("$.user.name = Ada", True),
        ('$.user.name = "Ada"', True),
        ("$.user.name ~ d", True),
        ("$.tags[0] = new", True),
        ("$.tags[*] = gift", True),
        ("$.tags[2] = gift", False),
        ("$.paid = true", True),
        ("$.paid = 1", False),
        ("$.price > 9", True),
        ('$["a b"] = null', True),
        ("$.user.id = 7 AND $.n.id = 8", True),
        ("$.user.id = 7 AND $.n.id = 9", False),
        ("Ada", True),
        ("k-1", True),
        ("web", True),
        ("source", True),
        ("nothing", False),
        ("key = k-1", True),
        ("key:k", True),
        ("key != k-1", False),
        ("value: Ada", True),
        ("header.source = web", True),
        ("header.source:w", True),
        ("header.other = web", False),
        ('"AND"', False),
        ("$ ~ gift", True),
    ],
)
def test_a_filter_matches(text: str, expected: bool) -> None:
    assert matches(text) is expected


@pytest.mark.parametrize(
    "text", ["$.user.id", "$..id = 7", "$.a[x] = 7", "$.a ? 7", "x" * 2_001, " AND ".join("a" * 21)]
)
def test_a_filter_that_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text, NONE)


@pytest.mark.parametrize("text", ["$.password = x", "$.a.Password ~ x", "header.password = x", "$ = {}"])
def test_masked_fields_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text, frozenset({"password"}))


def test_plain_text_does_not_find_what_is_masked() -> None:
    masks, value = frozenset({"password"}), {"password": "hunter2", "user": "ada"}
    assert not matches("hunter2", value, masks)
    assert not matches("value: hunter", value, masks)
    assert not matches("$ ~ hunter", value, masks)
    assert not matches("hunter2", b'{"password": "hunter2', masks)
    assert not matches("hunter2", value, masks, headers=(("password", b"hunter2"),))
    assert matches("ada", value, masks)


FRAMED = b"\x00\x00\x00\x00\x07\x0ehunter2"
PACKED = b"\x82\xa8password\xa7hunter2\xa4user\xa3ada"


@pytest.mark.parametrize(
    "value", [FRAMED, PACKED, b"\x0a\x07hunter2", b"\xff hunter2", json.dumps('{"password": "hunter2"}')]
)
@pytest.mark.parametrize("text", ["hunter2", "value: hunter2", "value = hunter2", "$ ~ hunter2"])
def test_no_format_lets_a_search_find_what_is_masked(text: str, value: str | bytes) -> None:
    data = value if isinstance(value, bytes) else value.encode()
    assert not matches(text, data, frozenset({"password"}))
    assert not matches(text.replace("value", "key"), b"", frozenset({"password"}), key=data)
    assert not matches(text, b"", frozenset({"password"}), headers=(("h", data),))


@pytest.mark.parametrize(
    "text",
    [
        '$[*] = "hunter2"',
        "$[*] ~ hunter",
        "$.login[*] = hunter2",
        "$[*][*] = hunter2",
        "$.note ~ hunter2",
        "$.inner ~ hunter2",
    ],
)
def test_a_path_does_not_reach_what_is_masked(text: str) -> None:
    value = {
        "password": "hunter2",
        "login": {"password": "hunter2"},
        "note": "password: hunter2",
        "inner": json.dumps({"password": "hunter2"}),
    }
    assert matches(text, value)
    assert not matches(text, value, frozenset({"password"}))


def test_what_differs_from_a_masked_field_is_not_told() -> None:
    masks = frozenset({"password"})
    for guess in ("hunter2", "other"):
        assert matches(f"$[*] != {guess}", {"password": "hunter2"}, masks)


@pytest.mark.parametrize(
    "value", [b"", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000, b'{"user":' * 300 + b"1" + b"}" * 300]
)
def test_values_that_do_not_decode_match_no_path(value: bytes) -> None:
    assert not matches("$.user.id = 7", value)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é", 'q"']), inner, max_size=3)
    ),
    max_leaves=6,
)


NUMBERS = st.integers(-3, 30) | st.sampled_from([0.5, 7.0, 1e3, 12.5])


@given(
    value=VALUES | NUMBERS,
    wanted=VALUES | NUMBERS,
    is_ascii=st.booleans(),
    form=st.sampled_from(["{}", "{}e0", "{}.0"]),
)
def test_needed_bytes_leave_out_no_record_that_matches(value: Any, wanted: Any, is_ascii: bool, form: str) -> None:
    text = json.dumps({"a": {"é": value, "b": value}, "b": wanted, "é": wanted}, ensure_ascii=is_ascii)
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        text = re.sub(r"(\d+)(?=[,}\]])", lambda found: form.format(found[1]), text)
    written = text.encode()
    literal, other = json.dumps(wanted), json.dumps(value)
    filters = [
        f"{path} {sign} {each}"
        for path in ("$.é", "$.b", "$.a.b")
        for sign in ("=", "<", ">=")
        for each in (literal, other)
    ]
    for filter_text in (*filters, "$.a.é ~ a", "$.a[*] ~ a", f"$.a.b != {literal}"):
        if len(filter_text) > 2_000:
            continue
        (term,) = parse_filter(filter_text, NONE)
        batch = pa.record_batch({"value": pa.array([written, None], pa.binary())})
        kept = _with_needed(batch, term, has_registry=False)
        record = Candidate(None, written, (), lambda: parsed(written))
        assert kept.num_rows == 1 or not term.matches(record), filter_text
