"""Names as other tools want them, derived from those of the declarations."""

from __future__ import annotations

import re


def snake_case(name: str) -> str:
    """Return the name of a class in lower case, with underscores between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
