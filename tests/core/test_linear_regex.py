"""RE2 matches in linear time, refuses what Kafka refuses, and its memory is bounded."""

from __future__ import annotations

import sys
import time

import pytest

from kafkaraw.core.linear_regex import PATTERN_LENGTH_MAX, InvalidRegexError, compile_linear
from kafkaraw.errors import ConfigError


@pytest.mark.parametrize("pattern", ["(.|.)*,", "(a+)+b", "(a|aa)+b", "(.*)*b", "(?:a?){60}b"])
def test_matching_takes_linear_time(pattern: str):
    """Python's `re` needs 2 ** 249 steps for these."""
    began = time.process_time()
    assert compile_linear(pattern).fullmatch("a" * 249) is None
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", r"missing \)"),
        ("(?=t)", "invalid perl operator"),
        ("a{1001}", "invalid repetition size"),
        (r"\pL{900}", "too large"),
        ("a" * (PATTERN_LENGTH_MAX + 1), f"{PATTERN_LENGTH_MAX + 1} characters, the limit is {PATTERN_LENGTH_MAX}"),
        ("t\ud800", "surrogate"),
    ],
)
def test_invalid_patterns_are_refused_with_the_reason(pattern: str, why: str):
    with pytest.raises(InvalidRegexError, match=why):
        compile_linear(pattern)


def test_a_missing_google_re2_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ConfigError, match="pip install google-re2"):
        compile_linear("a")
