"""A record of what the workers of one group did, for `audit_workers`.

    handlings           each call of a handler: by which worker, of which record, from when to when, and how it ended
    copies, letters     the records of the retry topic and the dead-letter topic in the end
    results             what handlers returned, as it is in the log in the end

All times are in seconds on one clock. The handlers record their calls themselves; the rest is read from the topics.
This module does not judge, and takes nothing from inside a worker or broker.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition
from kafkaraw.worker.settings import Ordering


class Source(NamedTuple):
    """Where a record was read: in a topic of its own, or a copy in the retry topic."""

    topic_partition: TopicPartition
    offset: int


class HandlingEnd(StrEnum):
    """How a call of a handler ended."""

    RETURNED = "returned"
    RAISED = "raised"
    CANCELLED = "cancelled"
    KILLED = "killed"
    """Its process was killed."""


@dataclass(eq=False)
class Handling:
    """One call of a handler.

    Attributes:
        worker: the worker.
        source: where the record was read.
        original: where the record was read first.
        key: its key.
        began_s: when the call began.
        ended_s: when it ended; None if it never did.
        end: how it ended; None if it never did.
    """

    worker: str
    source: Source
    original: Source
    key: bytes | None
    began_s: float
    ended_s: float | None = None
    end: HandlingEnd | None = None


class Copy(NamedTuple):
    """A copy of a record, in the retry topic or the dead-letter topic.

    Attributes:
        source: where it is.
        original: the record that was read first.
        attempts: how often the handler had been called.
        at_s: when it was made, rounded down to milliseconds.
    """

    source: Source
    original: Source
    attempts: int
    at_s: float


@dataclass
class WorkerHistory:
    """What the workers of one group did.

    Attributes:
        group: the group.
        concurrency: the maximum number of handlers at a time, by worker.
        ordering: which records run one after the other.
        is_transactional: results, copies, letters and offsets are committed in transactions.
        handlings: in the order in which they began.
        keys: the key of each record of the topic that is handled.
        copies: the records of the retry topic.
        letters: the records of the dead-letter topic.
        results: how often the result of each record is in the log.
        topic_ids: names of the topics, by the ids in requests.
        returns_result: whether the handler of a record returns a result, by its original place.
    """

    group: str
    ordering: Ordering
    is_transactional: bool
    concurrency: dict[str, int] = field(default_factory=dict)
    handlings: list[Handling] = field(default_factory=list)
    keys: dict[Source, bytes | None] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    letters: list[Copy] = field(default_factory=list)
    results: Counter[Source] = field(default_factory=Counter)
    topic_ids: dict[Uuid, str] = field(default_factory=dict)
    returns_result: dict[Source, bool] = field(default_factory=dict)
