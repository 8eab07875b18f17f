"""Writes the table of APIs and permissions in docs/security.md from what the handlers of the broker register.

    python -m docs.generate_rights

A test compares the page with what this gives.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kafkaraw.broker.handlers.registration import REGISTERED, Permission, load_handlers
from kafkaraw.protocol.acl_codes import ResourceType

PAGE: Final = Path(__file__).with_name("security.md")
BEGIN: Final = "<!-- rights: written by docs/generate_rights.py -->\n"
END: Final = "<!-- end of rights -->\n"
_WORDS: Final = {ResourceType.TRANSACTIONAL_ID: "transactional id"}


def table() -> str:
    """One row for each API."""
    rows = ["| API | rights | |", "|---|---|---|"]
    for served in sorted((REGISTERED[key] for key in load_handlers()), key=lambda served: served.api.name):
        permissions = ", ".join(map(_permission, served.permissions)) or "none"
        rows.append(f"| {served.api.name} | {permissions} | {served.note} |")
    return "\n".join(rows) + "\n"


def _permission(permission: Permission) -> str:
    on = _WORDS.get(permission.resource_type, permission.resource_type.name.lower())
    return f"{permission.operation.name} {on}" + (f" ({permission.when})" if permission.when else "")


def with_table(page: str) -> str:
    """The page, with the table as it should be."""
    return re.sub(f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})", lambda _: table(), page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
