"""A record of what the members of one share group observed, for `audit_shares`.

    given           each record that an application got, with its delivery count
    answers         what the application has said about it, and the result that the client reported
    loads           when a leader has read the state of a share partition or lost it, after which counts may go back
    restarts        the offsets of the group before and after all brokers were restarted

All times are in seconds on one clock. The members record their calls themselves. What brokers sent is not here, but on
the wire. This module does not judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.errors import KafkaError
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition


class Given(NamedTuple):
    """One record that the application of a member got.

    Attributes:
        member: the member.
        topic_partition: the partition of the record.
        offset: its offset.
        value: its value.
        delivery_count: how often it was delivered, as the client said.
        at_s: when the call returned it.
    """

    member: str
    topic_partition: TopicPartition
    offset: int
    value: bytes | None
    delivery_count: int
    at_s: float


@dataclass(eq=False)
class Answer:
    """What an application has said about a record.

    Attributes:
        given: the record.
        kind: what became of it.
        at_s: when the application said so; in implicit mode, when it began the call that accepts the record.
        reported_s: when the client reported the result; None if it never did.
        error: the reported error; None for none.
        is_ambiguous: another answer of the member about the same record was open at the same time.
    """

    given: Given
    kind: AcknowledgeType
    at_s: float
    reported_s: float | None = None
    error: KafkaError | None = None
    is_ambiguous: bool = False


class Load(NamedTuple):
    """A leader has read the state of a share partition, or has lost the partition with what it had not stored."""

    at_s: float
    topic_partition: TopicPartition


class Restart(NamedTuple):
    """A restart of all brokers, without members: the offsets of the group in each partition before and after it.

    Attributes:
        at_s: when it began.
    """

    at_s: float
    before: Mapping[TopicPartition, object]
    after: Mapping[TopicPartition, object]


@dataclass
class ShareHistory:
    """What the members of one share group observed.

    Attributes:
        group: the group.
        delivery_count_limit: how often a record is delivered.
        lock_s: how long a record stays locked for a member.
        reads_committed: the group reads records of committed transactions only.
        given: the records that applications got, in the order in which they got them.
        answers: what the applications said, in the order in which they said it.
        ended: members that were killed: nothing is owed to their applications any more.
        loads: when the state of a share partition was read, or its leader has changed.
        restarts: restarts of all brokers.
        topic_ids: names of the topics, by their ids.
    """

    group: str
    delivery_count_limit: int
    lock_s: float
    reads_committed: bool
    given: list[Given] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    loads: list[Load] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    topic_ids: dict[Uuid, str] = field(default_factory=dict)
