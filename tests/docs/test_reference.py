"""The pages in docs/reference are those that the declarations give."""

from __future__ import annotations

import re

import pytest

from docs.generate_reference import REFERENCE, pages
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.describe import embedded_modules

REMEDY = "run `python -m docs.generate_reference`"
PAGES = pages()


def test_there_is_a_page_for_every_api_and_every_embedded_group():
    assert len(PAGES) == len(API_TABLE) + len(embedded_modules()) + 1
    assert {path.name for path in REFERENCE.glob("*.md")} == set(PAGES), REMEDY


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_up_to_date(name: str):
    assert REFERENCE.joinpath(name).read_text() == PAGES[name], REMEDY


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_link_leads_somewhere(name: str):
    for page, anchor in re.findall(r"\]\(([\w.]*)(?:#(\w+))?\)", PAGES[name]):
        target = PAGES[page or name]
        assert not anchor or re.search(rf"^#+ {anchor}$", target, re.M | re.I)


def test_every_table_row_has_as_many_cells_as_its_head():
    for name, page in PAGES.items():
        for table in re.findall(r"(?:^\|.*\n)+", page, re.M):
            widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(widths) == 1, (name, table)
