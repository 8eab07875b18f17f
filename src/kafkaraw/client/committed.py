"""Committed positions of consumer groups, and prepared transactions: values that users give and get."""

from __future__ import annotations

from kafkaraw.light_classes import NamedTuple


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


class PreparedTransaction(NamedTuple):
    """A transaction whose records are all acknowledged, and which waits for somebody to end it.

    It can be sent to another process, and ended there by `Admin.end_transaction`. Until then it is open: its
    `transaction_timeout_ms` goes on, and readers of committed records wait for it.

    Attributes:
        transactional_id: whose.
        producer_id: of the producer that wrote.
        producer_epoch: of that producer; a successor has a later one.
        bumps_epochs: it is one of the second generation (KIP-890).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    bumps_epochs: bool
