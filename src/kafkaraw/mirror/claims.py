"""`Claim`: one driver owns a flow, and the processes that copy shares of it can write only while it does.

Theory of operation. Each of these processes has a transactional id of its own, so a later run with another number of
them, or with one process, would not fence the earlier ones by taking over its own ids. And a process that fences by
itself could come back after another driver has fenced it. So only drivers fence, in this order:

    driver, at its start:        take over id 0; read the claim, which names the last id n; take over the ids 1 to n
    driver, before each round:   take over the ids of its tasks; commit its claim with id 0; start the tasks
    a task:                      writes with the producer epoch that it was given, and never takes over an id

The claim is an offset of the flow's group, committed in a transaction of id 0. If a driver could commit its claim
before a round, it took over the ids of its tasks before any later owner took over id 0. The later owner then reads this
claim, or a newer one, and fences these ids after that. So no task of an earlier owner can write once a later owner
copies.
One process that copies the whole flow (`Flow`) is an owner, too: its id is 0.

Tasks do not share an epoch: a task that Spark runs a second time must not copy (`spark/mirroring.py`).

With at-least-once delivery, records are written outside of transactions, and positions in one of their own
(`copying.AtLeastOnce`): an earlier owner may write records again, and cannot commit positions. Start at `Claim.take`.
Source: KIP-98, KIP-360, KIP-447.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer, core_of
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.producer.events import ProducerIdentity
from kafkaraw.light_classes import replace
from kafkaraw.mirror.clients import owner_of
from kafkaraw.mirror.copying import settle_group
from kafkaraw.mirror.interfaces import FlowSettings
from kafkaraw.mirror.positions import Position, RunIds, positions_of
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.records import TopicPartition


class Claim:
    """The ownership of a flow, for a driver.

    Args:
        settings: of the flow; `claim` is set, and its topic exists.
        runs: with the id of this driver.
        target: a consumer of the target, with the flow's group.
        target_runtime: of clients of the target; the real one when None.
    """

    def __init__(
        self, settings: FlowSettings, runs: RunIds, target: AsyncConsumer, target_runtime: Runtime | None = None
    ) -> None:
        assert settings.claim is not None
        self._key: TopicPartition = settings.claim
        self._settings = settings
        self._runs = runs
        self._target = target
        self._runtime = target_runtime
        self._owner: AsyncProducer | None = None
        self._workers: list[AsyncProducer] = []
        self._count = 0

    async def open(self, *, again: bool = False) -> None:
        """Fence earlier owners and their tasks.

        Args:
            again: this driver has owned the flow before, and looks first whether another process owns it now.

        Raises:
            FlowTakenOverError: another process owns the flow since this one has begun.
            KafkaError: the target refuses, or does not answer.
        """
        if again:
            await self._read()
        self._owner = owner_of(self._settings, self._runtime)
        await self._owner.init_transactions()
        await settle_group(self._owner, self._settings.group_id, self._key)
        self._count = await self._read()
        if self._count:
            async with AsyncAdmin(runtime=self._runtime, **dict[str, Any](self._settings.target)) as admin:
                await admin.fence_producers(self._settings.transactional_ids(self._count))

    async def take(self, count: int) -> list[ProducerIdentity]:
        """Fence the tasks of the last round, and commit the claim.

        Args:
            count: tasks of the next round.

        Returns:
            The identity of the producer of each task.

        Raises:
            ProducerFencedError: another process has taken over the flow.
            FlowTakenOverError: the same, and it has committed positions.
            KafkaError: the target refuses, or does not answer.
        """
        assert self._owner is not None
        while len(self._workers) < count:
            named = replace(self._settings, worker=len(self._workers) + 1)
            self._workers.append(owner_of(named, self._runtime))
        # All of them: a round with fewer tasks must fence the others, too.
        found = await asyncio.gather(*(core_of(each).transactions.fence(None) for each in self._workers))
        self._count = max(self._count, count)
        await self._owner.begin_transaction()
        await self._owner.send_offsets_to_transaction({self._key: self._claimed(self._count)}, self._settings.group_id)
        await self._owner.commit_transaction()
        return list(found[:count])

    async def check(self, copies: Mapping[TopicPartition, TopicPartition]) -> None:
        """Check that no other process has committed positions since this one has begun.

        Args:
            copies: partitions of the target by partition of the source.

        Raises:
            FlowTakenOverError: one has.
            KafkaError: the target does not answer.
        """
        positions = positions_of(copies, await self._target.committed(copies.values()))
        self._runs.note_absent(copies.keys() - positions.keys())
        self._runs.check(positions, self._settings.name)

    async def close(self) -> None:
        """Close the producers."""
        owner = [] if self._owner is None else [self._owner]
        await asyncio.gather(*(each.close() for each in (*owner, *self._workers)))

    async def _read(self) -> int:
        """Return the number of workers of the last claim."""
        found = positions_of({self._key: self._key}, await self._target.committed([self._key]))
        if not found:
            self._runs.note_absent([self._key])
            return 0
        self._runs.check(found, self._settings.name)
        return found[self._key].offset

    def _claimed(self, count: int) -> OffsetAndMetadata:
        return OffsetAndMetadata(count, Position(count, -1, ZERO_UUID, ZERO_UUID, self._runs.own).metadata)
