"""Committed offsets of consumer groups, and prepared transactions: arguments and results of public methods."""

from __future__ import annotations

from kafkaraw.core.fetch.offsets import OffsetAndMetadata as OffsetAndMetadata
from kafkaraw.light_classes import NamedTuple


class GroupMetadata(NamedTuple):
    """Identifies a group, and the member that commits (KIP-447).

    Attributes:
        group_id: the group.
        generation_id: the generation or member epoch; -1 without a member.
        member_id: the member's id; empty without a member.
        group_instance_id: the `group.instance.id` of a static member.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class PreparedTransaction(NamedTuple):
    """A transaction whose records are all acknowledged, and which has to be committed or aborted.

    It can be sent to another process, and ended there by `Admin.end_transaction`. Until then it is open: its
    `transaction_timeout_ms` keeps running, and `read_committed` consumers wait for it.

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
