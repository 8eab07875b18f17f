"""The table of Java's Admin methods has all of ours; `tests/interop/test_admin.py` compares it with Java's class."""

from __future__ import annotations

import re
from pathlib import Path

from kafkaraw import Admin

PAGE = Path(__file__).parents[2] / "docs" / "java-admin.md"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (yes|no) \| (.*)\|$")
CODE = re.compile(r"`(\w+)`")
CONSTRUCTORS = {"from_properties"}


def rows() -> dict[str, tuple[str, str, str]]:
    found = [match.groups() for match in map(ROW.match, PAGE.read_text().splitlines()) if match]
    assert len({java for java, *_ in found}) == len(found)
    return {java: (ours, embedded, note) for java, ours, embedded, note in found}


def test_every_method_of_ours_exists_and_is_in_the_table() -> None:
    named = {name for ours, *_ in rows().values() for name in CODE.findall(ours)}
    existing = {name for name in vars(Admin) if not name.startswith("_")}
    assert named <= existing
    assert existing - named == {"describe_api_versions", "end_transaction", "list_open_transactions"}


def test_a_method_that_is_missing_has_a_note() -> None:
    assert [java for java, (ours, _, note) in rows().items() if ours == "-" and not note.strip()] == []
