"""`MirrorRun`: one flow with everything beside the copying: its topics, offsets, checkpoints, groups and heartbeats.

Start at `MirrorRun.run`.
"""

from __future__ import annotations

import asyncio
import logging

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.core.fetch.failures import name_of
from kafkaraw.mirror.clients import FlowClients
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.offset_service import OffsetService
from kafkaraw.mirror.policies import Topology
from kafkaraw.mirror.positions import PositionMissingError
from kafkaraw.mirror.recovery import restored_positions
from kafkaraw.mirror.settings import MirrorFlow
from kafkaraw.mirror.shared_flow import ROUND_S, SharedFlow, ShareRunner
from kafkaraw.mirror.topics import MirrorTopics

log: logging.Logger = logging.getLogger(__name__)


class MirrorRun:
    """Copies the topics of a flow, and translates the offsets of its groups.

    Args:
        flow: its settings.
        topology: of all flows.
        source_runtime: network, clock and randomness of clients of the source; the real ones when None.
        target_runtime: of clients of the target.
        runner: runs tasks that copy, as on a Spark cluster; None if this process copies.
        round_s: how long tasks of the runner copy until they report.

    Attributes:
        clients: of both clusters.
        offsets: the offset service.
        flow: what copies; None before `run`.
    """

    def __init__(
        self,
        flow: MirrorFlow,
        topology: Topology,
        *,
        source_runtime: Runtime | None = None,
        target_runtime: Runtime | None = None,
        runner: ShareRunner | None = None,
        round_s: float = ROUND_S,
    ) -> None:
        self.clients: FlowClients = FlowClients(flow.copy, source_runtime=source_runtime, target_runtime=target_runtime)
        clock = (target_runtime or system_runtime()).clock
        self.offsets: OffsetService = OffsetService(flow, self.clients, now_ms=clock.time_ms)
        self.flow: Flow | SharedFlow | None = None
        self._settings = flow
        self._topology = topology
        self._runtimes = (source_runtime, target_runtime)
        self._runner = runner
        self._round_s = round_s
        self._started = asyncio.Event()
        self._is_stopped = False

    def stop(self) -> None:
        """Have `run` commit what was copied, write what is known of offsets, and return."""
        self._is_stopped = True
        self._started.set()
        if self.flow is not None:
            self.flow.stop()

    async def run(self) -> None:
        """Copy until `stop` is called.

        Raises:
            KafkaError: a failure that does not pass; the message says what to do.
        """
        offsets = asyncio.create_task(self.offsets.run(started=self._started.set), name="offsets")
        offsets.add_done_callback(lambda _: self.stop())
        try:
            await self._copy()
        finally:
            offsets.cancel()
            await asyncio.gather(offsets, return_exceptions=True)
        if not offsets.cancelled() and (error := offsets.exception()) is not None:
            raise error

    async def _copy(self) -> None:
        async with (
            self.clients.admin(of_source=True) as source,
            self.clients.admin(of_source=False) as target,
        ):
            self.flow = self._flow(MirrorTopics(source, target, self._settings, self._topology))
            if self._is_stopped:
                return
            try:
                await self.flow.run()
            except PositionMissingError:
                if not await self._restore_positions(target):
                    raise
                await self.flow.run()

    async def _restore_positions(self, target: AsyncAdmin) -> bool:
        """Commit positions that the target has deleted; returns whether there were any that could be found."""
        await self._started.wait()  # the mappings are loaded
        found = await restored_positions(self._settings, self.clients, self.offsets.mappings)
        for each in found:
            log.warning(
                "%s: the position of %s has expired: the copy and its offset mapping show that it is copied up to "
                "offset %d",
                self._settings.name,
                name_of(each.source),
                each.offset - 1,
            )
        if found:
            offsets = {each.target: each.offset for each in found}
            await target.alter_group_offsets(self._settings.copy.group_id, offsets)
        return bool(found)

    def _flow(self, topics: MirrorTopics) -> Flow | SharedFlow:
        settings, on_copied, on_opened = self._settings.copy, self.offsets.on_copied, self.offsets.on_opened
        source, target = self._runtimes
        if self._runner is None:
            return Flow(
                settings,
                topics,
                on_copied,
                ready=self._started,
                on_opened=on_opened,
                source_runtime=source,
                target_runtime=target,
            )
        return SharedFlow(
            settings,
            topics,
            on_copied,
            self._runner,
            ready=self._started,
            on_opened=on_opened,
            round_s=self._round_s,
            source_runtime=source,
            target_runtime=target,
        )
