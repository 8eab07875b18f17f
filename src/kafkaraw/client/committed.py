"""Committed positions of consumer groups, as values that users give and get."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """A position to commit.

    Attributes:
        offset: of the next record to read.
        metadata: a text of your own, kept with it.
        leader_epoch: of the record before it; -1 when unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """Who commits: a group, and which of its members (KIP-447).

    Attributes:
        group_id: the group.
        generation_id: the generation or member epoch; -1 for one who is no member.
        member_id: the member; empty for one who is none.
        group_instance_id: name of a static member.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
