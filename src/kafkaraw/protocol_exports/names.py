"""Names as other tools want them, derived from those of the declarations."""

from __future__ import annotations

import re


def snake_case(name: str) -> str:
    """Return a name such as `DescribeGroupsRequest` as `describe_groups_request`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
