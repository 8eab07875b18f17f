"""Java's regular expressions for topic names, held against Java's own."""

from __future__ import annotations

import time

import pytest

from kafkaraw.spark.options.java_regex import UntranslatableError, translate

NAMES = [
    "abc", "ABC", "aBc", "a.b", "a-b", "a_b", "ab", "aa", "AA", "aab", "xy", "xxy", "ax-12", "foo.bar", "foo", "bar",
    "Foo", "events", "events.v1", "events.v2-eu", "events-17", "orders_2024", "orders", "z", "0", "9", "12", "_", "-",
    ".", "__consumer_offsets", "a1b2", "A.B-C_9", "x" * 20,
]  # fmt: skip

PATTERNS = [
    r"a.*", r".*", r"abc|foo", r"[a-z]+", r"[^a-z]+", r"[a-z&&[^x]]+", r"[a-z&&[def]x]*", r"[[a-c][x-z]]+",
    r"[a-c[x-z]0-9]+", r"[^[a-c]x]+", r"[a-z&&[aeiou]&&[^e]]+", r"\Qa.b\E", r"\Qfoo.\Ebar", r"[\Qa-\E]+", r"(?i)abc",
    r"(?i)a[b-c]+", r"(?i)[^a]bc", r"a(?i)BC", r"(?i:A)bc", r"(?i)a(?-i)bc", r"(?i)abc|foo", r"((?i)FOO|bar).*",
    r"\p{Alpha}+", r"\p{Lower}+", r"\p{Upper}+", r"\P{Upper}+", r"\p{L}+", r"\pL+\pN*", r"\p{Alnum}+",
    r"\p{Punct}+", r"[\p{L}&&[^a]]+", r"\p{XDigit}+", r"\p{javaLowerCase}+", r"\d+", r"\D+", r"\w+", r"\W+", r"\s*",
    r"\S+", r"[\w&&[^\d]]+", r"[\d.]+", r"[^\d]+", r"\h?abc", r"x{2,}+y", r"x++", r"x*+y", r"(?>a|ab)c", r"(a)\1b?",
    r"(?<n>a)\k<n>b?", r"(?:foo|bar)$", r"^events.*$", r"\Aevents\b.*\z", r"events(?=\.).*", r"(?!events).*",
    r".*(?<=-eu)", r"(?<!x)y|xxy", r"events\.v\d(-\w{2})?", r"\x61bc", r"\u0061b\u0063", r"\x{61}bc", r"\0141bc",
    r"[\x61-\x63]+", r"a\-b", r"a\.b", r"[a-]+b", r"[-a]+b", r"[.]+", r"a{2}b?", r"()abc", r"", r"\tabc", r"abc\Z",
    r"(?s).*c", r"(?U)abc", r"[a&&]", r"[&a]+", r"a|", r"[\]a]+", r"[a\]]+",
]  # fmt: skip


def test_the_same_topics_match_as_in_java(spark):
    pattern_class = spark._jvm.java.util.regex.Pattern
    different = []
    for pattern in PATTERNS:
        compiled = pattern_class.compile(pattern)
        java = [name for name in NAMES if compiled.matcher(name).matches()]
        ours = [name for name in NAMES if translate(pattern).fullmatch(name)]
        if ours != java:
            different.append((pattern, java, ours))
    assert different == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[a-z", "a class is not closed"),
        ("(a", "a group is not closed"),
        ("a)", "a group is closed that was not opened"),
        ("a\\", "ends with a backslash"),
        ("[z-a]", "a range in a class makes no sense"),
        (r"\p{Klingon}", "the class"),
        (r"\y", r"\\y is not known"),
        ("*a", "nothing to repeat"),
        ("a(?i)b|c", "put them at its beginning"),
        ("(?x)a b", "the flag 'x'"),
        ("(?#note)a", "of a kind that is not known"),
        ("a{,5}", "begins a repetition"),
        ("a{2", "begins a repetition"),
    ],
)
def test_patterns_that_cannot_be_translated_are_refused_with_the_reason(pattern, why):
    with pytest.raises(UntranslatableError, match=why):
        translate(pattern)


@pytest.mark.parametrize("pattern", ["(.|.)*,", "(a+)+,", r"(\w|\p{Alpha})*,"])
def test_patterns_without_lookaround_are_matched_in_linear_time(pattern):
    """Anybody who may create a topic chooses the names that a query's pattern is matched with."""
    began = time.process_time()
    assert translate(pattern).fullmatch("a" * 249) is None
    assert time.process_time() - began < 0.2
