"""The mirrors of a console: those with a configuration, and what others have written into a cluster.

Start at `ConfiguredMirror` and `found_mirrors`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.cli.mirror_options import clients_of, read_mirror

if TYPE_CHECKING:
    from kafkaraw.client.admin.client import AsyncAdmin
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.console.providers import FoundMirrors
    from kafkaraw.mirror.status import FlowStatus
    from kafkaraw.mirror.translation import GroupPlan

ANSWER_S: Final = 15.0
_TOPICS_MAX: Final = 50
_POSITIONS: Final = "kafkaraw-mirror."
_CHECKPOINTS: Final = ".checkpoints.internal"


class ConfiguredMirror:
    """A mirror with its configuration.

    Args:
        path: of `mirror.properties`, `mirror.yml`, or a file for MirrorMaker.

    Raises:
        click.UsageError: it is not valid.
    """

    def __init__(self, path: Path) -> None:
        self._settings = read_mirror(path)
        self.option: str = f"-m {path}"

    @property
    def flows(self) -> Sequence[str]:
        """The names of its flows."""
        return [each.name for each in self._settings.flows]

    async def status(self) -> Sequence[FlowStatus]:
        """Return the state of each flow.

        Raises:
            KafkaTimeoutError: a cluster does not answer.
        """
        from kafkaraw.mirror.status import flow_status

        flows = self._settings.flows
        async with _deadline():
            return await asyncio.gather(*(flow_status(each, self._settings, clients_of(each)) for each in flows))

    async def plan(
        self, flow: str, groups: Sequence[str], *, back: bool, by_timestamp: bool
    ) -> tuple[str, str, GroupPlan]:
        """Return the aliases that groups leave and go to, and their offsets on the other side.

        Raises:
            ConfigError: there is no such flow.
            KafkaTimeoutError: a cluster does not answer.
        """
        from kafkaraw.mirror.translation import GroupTranslator

        chosen = self._settings.flow(flow)
        reverse = self._settings.reverse_of(chosen)
        translator = GroupTranslator(chosen, clients_of(chosen), reverse, back=back, by_timestamp=by_timestamp)
        async with _deadline(2):
            return translator.origin_alias, translator.destination_alias, await translator.plan(groups)


@contextlib.asynccontextmanager
async def _deadline(times: int = 1) -> AsyncIterator[None]:
    """End work after `ANSWER_S` with an error of this package."""
    from kafkaraw.errors import KafkaTimeoutError

    seconds = times * ANSWER_S
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise KafkaTimeoutError(f"the clusters of the mirror gave no answer within {seconds:g} s") from error


async def found_mirrors(
    admin: AsyncAdmin, consumer: Callable[[], AsyncConsumer], topics: Iterable[str]
) -> FoundMirrors:
    """Return what mirrors, also MirrorMaker, have written into a cluster.

    Args:
        admin: of the cluster.
        consumer: makes consumers that only look.
        topics: of the cluster.
    """
    from kafkaraw.console.providers import FoundMirrors
    from kafkaraw.errors import KafkaError, ProtocolError
    from kafkaraw.mirror.checkpoints import Checkpoint, Heartbeat
    from kafkaraw.mirror.clients import compacted_records, newest
    from kafkaraw.mirror.policies import ReplicationPolicy

    policy = ReplicationPolicy()
    heartbeats: dict[tuple[str, str], int] = {}
    checkpoints: dict[str, list[tuple[str, str, int, int, int]]] = {}
    unread = []
    beating = [each for each in topics if policy.is_heartbeats_topic(each)]
    translating = [each for each in topics if each.endswith(_CHECKPOINTS)]
    for topic in (*beating[:_TOPICS_MAX], *translating[:_TOPICS_MAX]):
        try:
            async with asyncio.timeout(ANSWER_S), consumer() as reader:
                records = newest(await compacted_records(reader, topic))
        except (KafkaError, TimeoutError) as error:
            unread.append(f"{topic}: {str(error)[:300] or f'not read within {ANSWER_S:g} s'}")
            continue
        for key, value in records.items():
            try:
                if topic.endswith(_CHECKPOINTS):
                    one = Checkpoint.of_record(key, value)
                    row = (one.group_id, *one.target, one.upstream_offset, one.downstream_offset)
                    checkpoints.setdefault(topic.removesuffix(_CHECKPOINTS), []).append(row)
                else:
                    beat = Heartbeat.of_record(key, value)
                    flow = beat.source_alias, beat.target_alias
                    heartbeats[flow] = max(heartbeats.get(flow, 0), beat.timestamp_ms)
            except ProtocolError:
                continue
    return FoundMirrors(heartbeats, checkpoints, await _positions(admin), unread)


async def _positions(admin: AsyncAdmin) -> dict[str, list[tuple[str, int, int]]]:
    groups = [each.group_id for each in await admin.list_groups() if each.group_id.startswith(_POSITIONS)]
    found = await admin.list_group_offsets(groups) if groups else {}
    return {
        name.removeprefix(_POSITIONS): sorted((*partition, each.offset) for partition, each in offsets.items())
        for name, offsets in found.items()
    }
