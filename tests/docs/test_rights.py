"""The table of rights in docs/security.md is the one that the broker acts on."""

from __future__ import annotations

from docs.generate_rights import BEGIN, END, PAGE, table, with_table


def test_the_table_of_rights_is_up_to_date():
    page = PAGE.read_text()
    assert BEGIN + table() + END in page, "run `python -m docs.generate_rights`"
    assert with_table(page) == page
