"""Writes the table of APIs and rights in docs/security.md from the broker's own table.

    python -m docs.generate_rights

A test compares the page with what this gives.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kafkaraw.broker.handlers.guards.table import RULES, Right
from kafkaraw.protocol.acl_codes import ResourceType

PAGE: Final = Path(__file__).with_name("security.md")
BEGIN: Final = "<!-- rights: written by docs/generate_rights.py -->\n"
END: Final = "<!-- end of rights -->\n"
_WORDS: Final = {ResourceType.TRANSACTIONAL_ID: "transactional id"}


def table() -> str:
    """One row for each API."""
    rows = ["| API | rights | |", "|---|---|---|"]
    for api, rule in sorted(RULES.items()):
        rows.append(f"| {api} | {', '.join(map(_right, rule.rights)) or 'none'} | {rule.note} |")
    return "\n".join(rows) + "\n"


def _right(right: Right) -> str:
    on = _WORDS.get(right.resource_type, right.resource_type.name.lower())
    return f"{right.operation.name} {on}" + (f" ({right.when})" if right.when else "")


def with_table(page: str) -> str:
    """The page, with the table as it should be."""
    return re.sub(f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})", lambda _: table(), page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
