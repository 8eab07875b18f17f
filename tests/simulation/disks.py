"""Faults of the brokers' disks: power cuts in the middle of an operation, full, read-only and broken disks.

After each recovery the log directory must be free of damage (`kafkaraw.logs.verify`), and no broker may serve a batch
that is torn: `DiskAudit` records both. Start at `power_fails` and `disk_fails`; `faults` has their place in the table.
"""

from __future__ import annotations

import asyncio
import errno
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.errors import CorruptBatchError, KafkaTimeoutError
from kafkaraw.logs.verify import examine
from kafkaraw.records import iter_headers, verify_crc
from kafkaraw.testing.audit import Invariant, Violation
from kafkaraw.testing.simulated_disk import CHANGES
from tests.simulation.brokers import Down

if TYPE_CHECKING:
    from tests.simulation.world import World

CRASH_WITHIN: Final = 60
"""A power cut comes within this number of operations."""
WAIT_S: Final = 0.5
"""Time in which they must come; then the power is cut between two operations."""
STARTS_MAX: Final = 6
SYNC_TIMEOUT_S: Final = 20.0
REFUSALS: Final = (errno.ENOSPC, errno.EROFS, errno.EIO)


class DiskAudit:
    """Records damage that a broker should have repaired, and torn batches that it serves.

    Args:
        world: the brokers.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[Violation] = []

    def check_recovered(self, node: int) -> None:
        """Check the log directory of a node that has just started."""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch)
            self._world.brokers.disks[node].copy_to(path)
            for folder in sorted(path.iterdir()):
                if folder.is_dir() and not folder.name.endswith(("-delete", "-stray")):
                    self._world.covered["recovered a partition"] += 1
                    for finding in examine(folder).findings:
                        if finding.is_damage:
                            text = finding.text().replace(f"{path}/", "")
                            self._note(Invariant.DAMAGED_LOG, f"node {node} at {self._world.now_s:.3f} s: {text}")

    @contextmanager
    def of_served_batches(self) -> Iterator[None]:
        """In this context, check every batch that a broker reads for a client."""
        read = Partition.read

        def checked(partition, *args, **kwargs):
            content = read(partition, *args, **kwargs)
            if content is not None:
                self._check_batches(partition, content)
            return content

        Partition.read = checked  # type: ignore[method-assign]
        try:
            yield
        finally:
            Partition.read = read  # type: ignore[method-assign]

    def _check_batches(self, partition: Partition, content: memoryview) -> None:
        size = 0
        try:
            for header, batch in iter_headers(content):
                verify_crc(batch)
                size += header.size
        except CorruptBatchError as error:
            self._note(Invariant.TORN_BATCH, f"{partition.log.folder} on node {partition.node_id}: {error}")
            return
        if size != len(content):
            self._note(Invariant.TORN_BATCH, f"{partition.log.folder}: {len(content) - size} bytes are no batch")

    def _note(self, invariant: Invariant, what: str) -> None:
        self._world.note(f"{invariant}: {what}")
        self.violations.append(Violation(invariant, what))


@asynccontextmanager
async def power_fails(world: World, node: int) -> AsyncIterator[None]:
    """The power fails in the middle of an operation on the disk, and once more while the broker recovers."""
    rng = world.rng(f"power fails {world.now_s}")
    if not await _may_crash(world, node):
        yield
        return
    disk, crashed = world.brokers.disks[node], asyncio.Event()

    def on_crash(operation: str) -> None:
        world.covered[f"crash in {operation}"] += 1
        crashed.set()

    disk.on_crash = on_crash
    disk.crash_at(rng.randrange(1, CRASH_WITHIN))
    with suppress(TimeoutError):
        async with asyncio.timeout(WAIT_S):
            await crashed.wait()
    await world.brokers.take_down(node, Down.KILL)
    if not disk.is_crashed:
        disk.crash()
    disk.restart()
    try:
        yield
    finally:
        await start_again(world, node, rng)


async def _may_crash(world: World, node: int) -> bool:
    """Return whether a node may lose what it did not sync: it syncs each batch, or other replicas are in sync.

    As in Kafka, the last replica in sync stays in the ISR when its machine crashes, and may lead with what is left.
    """
    if node not in world.brokers.running:
        return False
    if world.environment.syncs_batches:
        return True
    if world.environment.nodes == 1:
        return False
    try:
        await world.brokers.cluster.wait_until_in_sync(SYNC_TIMEOUT_S)
    except KafkaTimeoutError:
        return False
    return len(world.brokers.running) == world.environment.nodes


async def start_again(world: World, node: int, rng: random.Random) -> None:
    """Start a node after a crash; the power may fail several times while it recovers."""
    disk = world.brokers.disks[node]
    for number in range(STARTS_MAX):
        if number < STARTS_MAX - 1 and rng.random() < 0.4:
            disk.crash_at(rng.randrange(1, CRASH_WITHIN))
        try:
            await world.brokers.bring_up(node)
        except OSError:
            world.covered["crash in a recovery" if disk.is_crashed else "a start failed"] += 1
            disk.restart()
            continue
        if not disk.is_crashed:
            break
        world.covered["crash in a recovery"] += 1
        await world.brokers.take_down(node, Down.KILL)
        disk.restart()
    disk.restart()
    if node in world.brokers.running:
        world.audit_disks.check_recovered(node)


@asynccontextmanager
async def disk_fails(world: World, node: int) -> AsyncIterator[None]:
    """One operation fails, or all of some kinds do; the node starts again when the disk works."""
    rng = world.rng(f"disk fails {world.now_s}")
    if not await _may_crash(world, node):  # after a failed sync, the machine starts again
        yield
        return
    disk, number = world.brokers.disks[node], rng.choice(REFUSALS)
    if rng.random() < 0.4:
        disk.fail_at(rng.randrange(1, CRASH_WITHIN), number)
    else:
        disk.refuse(number, *rng.sample((*CHANGES, "sync", "read", "sync_folder"), rng.randrange(1, 8)))
    try:
        yield
    finally:
        if world.brokers.has_failed(node):
            world.covered["a log directory failed"] += 1
            await world.brokers.take_down(node, rng.choice([Down.STOP, Down.KILL]))
        disk.restart()
        if node not in world.brokers.running:
            await world.brokers.bring_up(node)
            world.audit_disks.check_recovered(node)
