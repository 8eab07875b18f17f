"""The acknowledgements in a ShareFetch or ShareAcknowledge: checked, and passed to the share partitions.

Source: kafka.server.KafkaApis.{validateAcknowledgementBatches, handleAcknowledgements}; KIP-932, KIP-1222.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.shares.sessions import Part, SessionKey
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.share.record_states import AcknowledgeType
from kafkaraw.core.share.share_partition import Acknowledgement
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode

RENEW_SINCE: Final = 2
"""The version of ShareFetch and ShareAcknowledge that can renew locks."""

Outcomes = Mapping[Part, ApiError | None]
"""The outcome of each partition's acknowledgements."""


class SentBatch(Protocol):
    """A batch of acknowledgements in a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def acknowledge(
    state: BrokerState,
    member: SessionKey,
    sent: Mapping[Part, Sequence[SentBatch]],
    done: Callable[[Outcomes], None],
    *,
    unreadable: Container[Uuid],
    renews: bool,
) -> None:
    """Apply the acknowledgements of a member.

    Args:
        state: the node's state.
        member: the member.
        sent: its acknowledgements by partition.
        done: called with the outcome of each partition; as in Kafka, a request without any acknowledgement gets those
            of invalid partitions only.
        unreadable: the topics that the member may not read.
        renews: the request says that it renews locks.
    """
    outcomes: dict[Part, ApiError | None] = {}
    some = any(sent.values())

    def note(part: Part, error: ApiError | None) -> None:
        outcomes[part] = error
        if len(outcomes) == len(sent):
            done({key: each for key, each in outcomes.items() if some or each is not None})

    if not sent:
        done(outcomes)
    for part, batches in sent.items():
        try:
            if part[0] in unreadable:
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
            _check_topic(state, part)
            checked = _checked(batches, renews=renews)
        except ApiError as error:
            note(part, error)
            continue
        if not checked:
            note(part, None)
            continue
        key = ShareKey(member.group_id, *part)
        state.share_partitions.acknowledge(key, member.member_id, checked, partial(note, part))


def _check_topic(state: BrokerState, part: Part) -> None:
    topic = state.catalog.topic_by_id(part[0])
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "")
    if part[1] >= topic.partitions_count:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")


def _checked(batches: Sequence[SentBatch], *, renews: bool) -> list[Acknowledgement]:
    """Return the acknowledgements of a partition.

    Raises:
        ApiError: INVALID_REQUEST, without a text, as from Kafka.
    """
    found: list[Acknowledgement] = []
    previous = -1
    highest = AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT
    for batch in batches:
        types, count = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        invalid = count <= 0 or batch.first_offset < previous or not types or (len(types) > 1 and len(types) != count)
        if invalid or any(not 0 <= kind <= highest for kind in types):
            raise ApiError(ErrorCode.INVALID_REQUEST, "")
        previous = batch.last_offset
        found.append(Acknowledgement(batch.first_offset, batch.last_offset, [AcknowledgeType(kind) for kind in types]))
    return found
