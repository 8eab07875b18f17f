"""The share session between a member and one broker: which partitions it has, and its epoch. Pure.

The broker remembers the partitions of a session, so a ShareFetch names only changes and acknowledgements. Each request
carries the next epoch; after an error or a lost connection the session begins again, and the broker has released what
this member had acquired in it. Start at `ShareSession.fetch`.
Source: KIP-932; Kafka's ShareSessionHandler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from kafkaraw.core.share.acknowledgements import AcknowledgedRange
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages import share_acknowledge, share_fetch
from kafkaraw.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkaraw.protocol.messages.share_fetch import ShareFetchRequest

OPENING_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1

TopicIdPartition: TypeAlias = tuple[Uuid, int]
"""A partition by the id of its topic."""
Acknowledgements: TypeAlias = Mapping[TopicIdPartition, Sequence[AcknowledgedRange]]


@dataclass(frozen=True, slots=True)
class ShareFetchLimits:
    """What bounds a ShareFetch: sizes in bytes, the wait in milliseconds.

    Attributes:
        acquire_mode: 0 acquires whole batches, 1 never more than `max_records` records (KIP-1206).
    """

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    max_records: int = 500
    acquire_mode: int = 0


class ShareSession:
    """The session of one member with one broker.

    Args:
        group_id: the share group.
        member_id: the member.
        limits: of each ShareFetch.

    Attributes:
        incarnation: counts the sessions: what was acquired in an earlier one cannot be acknowledged any more.
        epoch: of the next request; 0 opens a session.
    """

    def __init__(self, group_id: str, member_id: str, limits: ShareFetchLimits) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._limits = limits
        self._partitions: dict[TopicIdPartition, None] = {}  # as the broker knows them
        self.incarnation: int = 1
        self.epoch: int = OPENING_EPOCH

    @property
    def is_open(self) -> bool:
        """Whether the broker has a session."""
        return self.epoch != OPENING_EPOCH

    def fetch(
        self, wanted: Collection[TopicIdPartition], acknowledged: Acknowledgements, records_max: int | None = None
    ) -> ShareFetchRequest:
        """Return a request for records of exactly these partitions, with acknowledgements of some of them.

        A request that renews locks acquires nothing, as KIP-1222 demands.

        Args:
            wanted: the partitions.
            acknowledged: the acknowledgements.
            records_max: number of records to acquire, instead of that of the limits.
        """
        limits = self._limits
        records_max = limits.max_records if records_max is None else records_max
        added = [partition for partition in wanted if partition not in self._partitions]
        forgotten = [partition for partition in self._partitions if partition not in set(wanted)]
        self._partitions = dict.fromkeys(wanted)
        renews = _renews(acknowledged)
        topics: dict[Uuid, list[share_fetch.FetchPartition]] = {}
        for topic_id, number in dict.fromkeys([*added, *acknowledged]):
            ranges = acknowledged.get((topic_id, number), ())
            batches = [
                share_fetch.AcknowledgementBatch(
                    first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=each.types
                )
                for each in ranges
            ]
            partition = share_fetch.FetchPartition(partition_index=number, acknowledgement_batches=batches)
            topics.setdefault(topic_id, []).append(partition)
        left: dict[Uuid, list[int]] = {}
        for topic_id, number in forgotten:
            left.setdefault(topic_id, []).append(number)
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=0 if renews else limits.max_wait_ms,
            min_bytes=0 if renews else limits.min_bytes,
            max_bytes=0 if renews else limits.max_bytes,
            max_records=0 if renews else records_max,
            batch_size=records_max,
            share_acquire_mode=limits.acquire_mode,
            is_renew_ack=renews,
            topics=[share_fetch.FetchTopic(topic_id=each, partitions=parts) for each, parts in topics.items()],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=each, partitions=numbers) for each, numbers in left.items()
            ],
        )

    def acknowledge(self, acknowledged: Acknowledgements, *, closes: bool = False) -> ShareAcknowledgeRequest:
        """Return a request with acknowledgements only; one that closes the session releases all other records."""
        topics: dict[Uuid, list[share_acknowledge.AcknowledgePartition]] = {}
        for (topic_id, number), ranges in acknowledged.items():
            batches = [
                share_acknowledge.AcknowledgementBatch(
                    first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=each.types
                )
                for each in ranges
            ]
            partition = share_acknowledge.AcknowledgePartition(partition_index=number, acknowledgement_batches=batches)
            topics.setdefault(topic_id, []).append(partition)
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if closes else self.epoch,
            is_renew_ack=_renews(acknowledged),
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=each, partitions=parts) for each, parts in topics.items()
            ],
        )

    def succeeded(self) -> None:
        """The broker has taken the request: the next one has the next epoch."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def reset(self) -> None:
        """Begin again: the session is closed, or the broker does not know it, or it is unknown what it knows."""
        self.epoch = OPENING_EPOCH
        self._partitions = {}
        self.incarnation += 1


def _renews(acknowledged: Acknowledgements) -> bool:
    return any(each.renews for ranges in acknowledged.values() for each in ranges)
