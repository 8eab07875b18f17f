"""The states of a record in a share group with their transitions, and the acknowledgements that cause them. Pure.

The numbers are those of the protocol and of `__share_group_state`.
Source: KIP-932, KIP-1222; org.apache.kafka.server.share.fetch.RecordState, AcknowledgeType, ShareAcquireMode.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """The state of a record for one group.

    AVAILABLE: a member may acquire it. ACQUIRED: it is locked for a member. ACKNOWLEDGED: a member has accepted it.
    ARCHIVED: a member has rejected it, it was delivered too often, or it is no longer in the log.
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the group is done with the record."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


_S = RecordState
MAY_FOLLOW: Final[dict[RecordState, frozenset[RecordState]]] = {
    _S.AVAILABLE: frozenset({_S.ACQUIRED}),
    _S.ACQUIRED: frozenset({_S.AVAILABLE}),
    _S.ACKNOWLEDGED: frozenset({_S.ACQUIRED}),
    _S.ARCHIVED: frozenset({_S.AVAILABLE, _S.ACQUIRED}),
}
"""State -> the states that it may follow."""


class IllegalTransitionError(Exception):
    """A transition that is not in the table: an error in the share partition, never in a client."""


class AcknowledgeType(IntEnum):
    """What a member says about a record; GAP stands for an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


STATE_AFTER: Final[dict[AcknowledgeType, RecordState]] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""The state of a record after its acknowledgement; RENEW changes no state."""


class AcquireMode(IntEnum):
    """How the limit of a ShareFetch counts (KIP-1206).

    BATCH_OPTIMIZED: whole batches are acquired, with more records than the limit if necessary. RECORD_LIMIT: never more
    records than the limit.
    """

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1
