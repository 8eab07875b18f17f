"""The table of docs/security.md: each class of failure has a test that exists and says which class it is about."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
NUMBERED = re.compile(r"(?:CVE-\d{4}-\d+|KIP-\d+|commit [0-9a-f]{8,})")
CLASSES_MIN = 14


class Row(NamedTuple):
    there: str
    here: str
    tests: list[str]


def rows() -> list[Row]:
    text = (ROOT / "docs" / "security.md").read_text()
    table = text.partition("<!-- classes:")[2].partition("<!-- end of classes -->")[0]
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()[3:] if line]
    return [Row(there, here, re.findall(r"`(tests/[^`]+)`", tests)) for there, here, tests in cells]


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_is_there() -> None:
    assert len(rows()) >= CLASSES_MIN


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.there[:40])
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
