"""`Monitor`: snapshots of a cluster, and what follows from them, in one object for consoles.

It asks only when `refresh` is called, and remembers what rates and trends need. Start at `Monitor.refresh`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.monitoring.collector import TIMEOUT_S, Collector
from kafkaraw.monitoring.snapshot import ALL_PARTS, Part
from kafkaraw.monitoring.status import ClusterStatus
from kafkaraw.monitoring.timeline import Timeline

if TYPE_CHECKING:
    from kafkaraw.client.admin import AsyncAdmin
    from kafkaraw.net.clock import Clock

LOOKUP_ROUNDS: Final = 2
"""Rounds of lookups in one refresh: ListOffsets requests by timestamp, for at most 200 partitions each."""


class Monitor:
    """Tells what a cluster does. It must not be used by two tasks at once.

    Args:
        admin: the client; it stays the caller's, who closes it. A small `request_timeout_ms`, such as 10,000, lets
            other brokers answer sooner when one does not.
        topics: names of topics, with * and ?; empty for all.
        groups: names of groups, with * and ?; empty for all.
        clock: of the times in snapshots; the system's when None. Lags in seconds compare it with the timestamps of
            records.
    """

    def __init__(
        self,
        admin: AsyncAdmin,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._collector = Collector(admin, topics=topics, groups=groups, clock=clock)
        self._timeline = Timeline()
        self._status: ClusterStatus | None = None

    @property
    def status(self) -> ClusterStatus | None:
        """The result of the last `refresh` that did not fail; None before the first one."""
        return self._status

    async def refresh(
        self,
        parts: Collection[Part] = ALL_PARTS,
        *,
        focus: Sequence[str] = (),
        lookup_rounds: int = LOOKUP_ROUNDS,
        timeout_s: float = TIMEOUT_S,
    ) -> ClusterStatus:
        """Ask the cluster, and return what is known then.

        Rates need two snapshots. The lag in seconds of records that are older than the first snapshot needs lookups by
        timestamp: after a start it is an estimate, which each refresh makes better.

        Args:
            parts: what to ask for besides brokers, topics and ends; other parts stay as they were.
            focus: groups whose members are asked for in any case.
            lookup_rounds: rounds of lookups; 0 for none.
            timeout_s: of the whole, in seconds.

        Raises:
            KafkaError: the cluster cannot be reached, or refuses the client. The last status stays.
        """
        snapshot = await self._collector.collect(parts, focus=focus, timeout_s=timeout_s)
        self._timeline.add(snapshot)
        for _ in range(lookup_rounds if Part.GROUPS in parts else 0):
            asked = self._timeline.lookups()
            if not asked:
                break
            self._timeline.found(asked, await self._collector.look_up(asked, timeout_s=timeout_s))
        status = self._timeline.status()
        assert status is not None
        self._status = status
        return status
