"""docs/glossary.md has each term of the project with its source, and the pages use these terms and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")}
    - {ROOT / "CHANGELOG.md", ROOT / "docs" / "security.md"}
)
TERMS = """
committed offset, position, revoke, assign, lose, join, leave, rejoin, fenced, unjoined, rebalance listener, heartbeat,
long poll, purgatory, log divergence, truncation, sticky partitioner, partition load stats, buffer pool, waiters,
backpressure, batch split, sender loop, wakeup, pending metadata lookup, pending offset lookup, fetch state,
fetch schedule, adaptive fetch size, pending commit, commit queue, ACL, permission, authorized operations, authenticate,
login module, regex, pattern, unknown topic
"""
WORDS_FOR_OTHER_TERMS = {
    r"stored positions?": "committed offsets",
    r"(?:errand|standing|agenda|appetite)s?": "pending lookup, fetch state, fetch schedule, adaptive fetch size",
    r"gives? up partitions|(?:give|gives|giving|given) partitions up": "revoke",
    r"(?:say|says|said) goodbye|thrown out": "leave, fenced",
    r"regular expressions?": "regex, pattern",
    r"in good order": "gracefully",
    r"whoever|somebody|everybody": "name the client, the member, the caller",
    r"passed over|passes over|heard of|is told": "ignored, reported",
}


def rows() -> list[list[str]]:
    """The cells of each term: names, meaning, source."""
    tables = re.findall(r"^\| (?!term \||-)(.*) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return [row.split(" | ") for row in tables if not row.startswith("--")]


def test_every_term_has_a_meaning_and_a_source() -> None:
    assert len(rows()) > 60
    assert [row for row in rows() if len(row) != 3 or not all(cell.strip() for cell in row)] == []


def test_every_term_is_in_the_glossary_once() -> None:
    names = [name for row in rows() for name in row[0].split(", ")]
    assert sorted(set(re.split(r",\s+", TERMS.strip())) - set(names)) == []
    assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_terms_of_the_glossary(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = []
    for pattern, term in WORDS_FOR_OTHER_TERMS.items():
        found += [f"{match[0]!r}: use {term}" for match in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE)]
    assert found == []
