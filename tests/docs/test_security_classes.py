"""The tables of docs/security.md: each class of failure, and each threat, has tests that exist.

A test of a class says by its name which class it is about; a threat names attacks of the fuzzing harness.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fuzz.live.broker_attacks import ATTACKS
from tests.fuzz.live.hostile_broker import MISCHIEFS

ROOT = Path(__file__).parents[2]
NUMBERED = re.compile(r"(?:CVE-\d{4}-\d+|KIP-\d+|commit [0-9a-f]{8,})")
CLASSES_MIN = 14
THREATS_MIN = 14


class Row(NamedTuple):
    there: str
    here: str
    tests: list[str]


def rows(name: str = "classes") -> list[Row]:
    text = (ROOT / "docs" / "security.md").read_text()
    table = text.partition(f"<!-- {name}:")[2].partition(f"<!-- end of {name} -->")[0]
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()[3:] if line]
    return [Row(there, here, re.findall(r"`(tests/[^`]+)`", tests)) for there, here, tests in cells]


@functools.cache
def functions(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"^\s*(?:async )?def (\w+)", (ROOT / path).read_text(), re.MULTILINE))


def test_the_tables_are_there() -> None:
    assert len(rows()) >= CLASSES_MIN
    assert len(rows("threats")) >= THREATS_MIN


def test_the_attacks_that_threats_name_exist() -> None:
    named = {
        (kind, attack)
        for row in rows("threats")
        for kind, attacks in re.findall(r"\b([AB]): ([a-z, -]+)", row.here)
        for attack in attacks.split(", ")
        if attack != "all of them"
    }
    unknown = {(kind, attack) for kind, attack in named if attack not in (ATTACKS if kind == "A" else MISCHIEFS)}
    assert len(named) > THREATS_MIN / 2
    assert not unknown


@pytest.mark.parametrize("row", [*rows(), *rows("threats")], ids=lambda row: row.there[:40])
def test_each_class_has_tests_and_they_exist(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), path
        assert not name or name in functions(path), test


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.there[:40])
def test_a_test_is_named_after_each_class(row: Row) -> None:
    numbers = [re.sub(r"\W", "_", number.removeprefix("commit ")).lower() for number in NUMBERED.findall(row.there)]
    if numbers:
        assert any(number.removeprefix("cve_") in test for test in row.tests for number in numbers), row.there
