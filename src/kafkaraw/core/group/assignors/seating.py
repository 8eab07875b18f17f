"""The order of members: static ones by their name, then the others by member id, so that a restart changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from kafkaraw.core.group.assignors.interface import Members
from kafkaraw.core.group.java_order import text_order


def seating_order(members: Members, chosen: Iterable[str] | None = None) -> list[str]:
    """Member ids in order; those of `chosen`, or all."""

    def key(member_id: str) -> tuple[bool, bytes]:
        name = members[member_id].group_instance_id
        return (True, text_order(member_id)) if name is None else (False, text_order(name))

    return sorted(members if chosen is None else chosen, key=key)
