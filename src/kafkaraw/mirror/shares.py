"""A share of a flow: what one of several processes copies in one round, and what it reports to the driver.

The driver of a flow divides the partitions among its tasks (`topics_of_shares`), and each task copies its share for
some seconds (`copy_share`): it runs a `Flow` like any other process, with a transactional id of its own, whose producer
id and epoch the driver has given it. It reports offsets, metrics, and why it has ended. Everything here can be pickled.
Must not decide who owns the flow: `claims.py` does. Start at `copy_share`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.mirror.copy_session import FlowPart
from kafkaraw.mirror.flow import Flow, RefusedError
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, FlowSettings
from kafkaraw.mirror.positions import PositionMissingError
from kafkaraw.mirror.refusals import Refusal
from kafkaraw.mirror.sessions import is_lasting, is_passing
from kafkaraw.records import TopicPartition

NAMED_MAX: Final = 5
"""Partitions that a message names."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a task copies in one round.

    Attributes:
        settings: of the flow, with the number of the worker.
        topics: with the partitions of this share.
        part: what the driver says about the ownership of the flow.
        seconds: how long the round lasts.
    """

    settings: FlowSettings
    topics: tuple[CopiedTopic, ...]
    part: FlowPart
    seconds: float

    @property
    def name(self) -> str:
        """For messages: the task and its partitions."""
        names = [
            f"{topic.source}-{number}" for topic in self.topics for number in sorted(topic.partitions or frozenset())
        ]
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        return f"task {self.settings.worker} ({', '.join(names[:NAMED_MAX])}{more})"


@dataclass(frozen=True, slots=True)
class ShareProblem:
    """Why a task did not copy to the end of its round.

    Attributes:
        text: the stage, the task with its partitions, where it ran, and the error.
        is_lasting: whether the error stays the same however often the task is run again.
        passes: whether it is known to pass.
        lacks_position: whether a copy has records, and the target has no position.
    """

    text: str
    is_lasting: bool
    passes: bool
    lacks_position: bool = False


@dataclass(frozen=True, slots=True)
class ShareReport:
    """What a task has done in one round.

    Attributes:
        copied: what was committed, in the order of the offsets of each partition.
        metrics: of this round, by partition of the source.
        problem: None if the task has copied until the end of the round, or partitions were refused.
        refusals: partitions that a cluster has refused; the task has ended because of them.
    """

    copied: tuple[CopiedBatch, ...] = ()
    metrics: Mapping[TopicPartition, Mapping[str, float]] = field(default_factory=dict)
    problem: ShareProblem | None = None
    refusals: tuple[Refusal, ...] = ()


def topics_of_shares(
    topics: Iterable[CopiedTopic], partitions: Mapping[str, Iterable[TopicPartition]], count: int
) -> list[tuple[CopiedTopic, ...]]:
    """Divide partitions evenly, those of each topic among as many tasks as possible.

    Args:
        topics: what is copied.
        partitions: those of the source, by topic.
        count: tasks, at most.

    Returns:
        The topics of each task, which has at least one partition.
    """
    wanted = [(topic, of.partition) for topic in topics for of in partitions.get(topic.source, ())]
    shares: list[tuple[CopiedTopic, ...]] = []
    for number in range(min(count, len(wanted))):
        chosen: dict[str, tuple[CopiedTopic, set[int]]] = {}
        for topic, partition in wanted[number::count]:
            chosen.setdefault(topic.source, (topic, set()))[1].add(partition)
        shares.append(tuple(topic._replace(partitions=frozenset(numbers)) for topic, numbers in chosen.values()))
    return shares


async def copy_share(
    share: Share,
    where: str,
    *,
    source_runtime: Runtime | None = None,
    target_runtime: Runtime | None = None,
) -> ShareReport:
    """Copy a share until its round is over; failures are reported, not raised.

    Args:
        share: what to copy.
        where: the process, for messages, as "executor worker-3".
        source_runtime: network, clock and randomness of clients of the source; the real ones when None.
        target_runtime: of clients of the target.
    """
    copied: list[CopiedBatch] = []
    flow = Flow(
        share.settings,
        _TheseTopics(share.topics),
        copied.extend,
        source_runtime=source_runtime,
        target_runtime=target_runtime,
        part=share.part,
    )
    ending = asyncio.get_running_loop().call_later(share.seconds, flow.stop)
    problem: ShareProblem | None = None
    refusals: tuple[Refusal, ...] = ()
    try:
        await flow.run()
    except RefusedError as error:
        refusals = tuple(each._replace(text=f"{each.text} ({share.name} on {where})") for each in error.refusals)
    except KafkaError as error:
        problem = ShareProblem(
            f"copying: {share.name} on {where}: {error}",
            is_lasting(error),
            is_passing(error),
            isinstance(error, PositionMissingError),
        )
    finally:
        ending.cancel()
    return ShareReport(tuple(merged(copied)), flow.metrics(), problem, refusals)


class _TheseTopics:
    """Plans the topics of a share: the driver has looked at both clusters."""

    def __init__(self, topics: Sequence[CopiedTopic]) -> None:
        self._topics = topics

    async def refresh(self) -> Sequence[CopiedTopic]:
        return self._topics


def merged(batches: Iterable[CopiedBatch]) -> list[CopiedBatch]:
    """Join batches that follow each other on both sides, so that a report is small."""
    found: list[CopiedBatch] = []
    last_of: dict[TopicPartition, int] = {}
    for batch in batches:
        at = last_of.get(batch.source)
        if at is not None and _continues(found[at], batch):
            found[at] = _joined(found[at], batch)
        else:
            last_of[batch.source] = len(found)
            found.append(batch)
    return found


def _continues(before: CopiedBatch, batch: CopiedBatch) -> bool:
    return (
        bool(before.runs and batch.runs)
        and (before.target, before.target_id) == (batch.target, batch.target_id)
        and before.source_offsets.stop == batch.source_offsets.start
        and before.target_base_offset >= 0
        and before.target_base_offset + before.records_count == batch.target_base_offset
    )


def _joined(before: CopiedBatch, batch: CopiedBatch) -> CopiedBatch:
    (*runs, last), (first, *more) = before.runs, batch.runs
    middle = (range(last.start, first.stop),) if last.stop == first.start else (last, first)
    offsets = range(before.source_offsets.start, batch.source_offsets.stop)
    return replace(before, source_offsets=offsets, runs=(*runs, *middle, *more))
