"""One run of a worker in a share group: it acquires records, acknowledges each of them, and renews their locks.

A record is acquired when a slot is free for it, because its lock runs from then on: no record waits behind a slow one
of this worker while another worker is idle. `share_schedule.py` decides what the group hears; `processing.py` runs the
records. Start at `ShareService._poll`.
Source: KIP-932, KIP-1222.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.client.admin import AsyncAdmin, ConfigResource
from kafkaraw.client.config import AdminConfig
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.settings import settings_of
from kafkaraw.client.share_consumer import Acquired, AsyncShareConsumer, Holding, holding_of
from kafkaraw.client.sharing.batch import AcquiredBatch, Refused
from kafkaraw.errors import BrokerError, KafkaError, MaxPollExceededError, UnsupportedVersionError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.records import TopicPartition
from kafkaraw.worker.metrics import WorkerStatus
from kafkaraw.worker.processing import Processing
from kafkaraw.worker.schedule import WorkItem
from kafkaraw.worker.sending import Sender
from kafkaraw.worker.service import POLL_S, Service
from kafkaraw.worker.share_schedule import ShareSchedule

if TYPE_CHECKING:
    from kafkaraw.client.runtime import Runtime
    from kafkaraw.worker.settings import WorkerConfig

log: logging.Logger = logging.getLogger("kafkaraw.worker")

_LIMIT: Final = "share.delivery.count.limit"
_RENEWS: Final = "share.renew.acknowledge.enable"


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the worker has to know of the configuration of its share group.

    Attributes:
        deliveries: how often a record is delivered; Kafka's default when the broker does not tell.
        renews: whether members may renew locks.
    """

    deliveries: int = 5
    renews: bool = True


class ShareService(Service):
    """One run of a worker in a share group.

    Args:
        config: its settings.
        consumer: acquires records and acknowledges them, in explicit mode; closed at the end.
        producer: sends results, retries and dead letters; closed at the end.
        runtime: clock and randomness.
        client_settings: of the client that asks for the configuration of the group.

    Attributes:
        consumer: as given.
        schedule: which records may run, and what the group hears of them.
    """

    def __init__(
        self,
        config: WorkerConfig,
        consumer: AsyncShareConsumer,
        producer: AsyncProducer,
        runtime: Runtime,
        client_settings: Mapping[str, Any],
    ) -> None:
        self.consumer: AsyncShareConsumer = consumer
        self.schedule: ShareSchedule = ShareSchedule(config.settings.concurrency, config.settings.queued_records_max)
        self._holding: Holding = holding_of(consumer)
        self._sender = Sender(producer)
        processing = Processing(
            config.group_id,
            config.by_topic,
            config.ordering,
            self.schedule,
            self._sender,
            runtime,
            self._fail,
            self._holding.interrupt,
        )
        super().__init__(config, producer, self.schedule, processing, runtime)
        self._runtime = runtime
        self._client_settings = client_settings
        self._limits = GroupLimits()
        self._partitions = 0
        consumer.set_acknowledgement_commit_callback(self._answered)

    # -- its life

    async def _begin(self) -> None:
        settings = {name: value for name, value in self._client_settings.items() if name in settings_of(AdminConfig)}
        async with AsyncAdmin(runtime=self._runtime, **settings) as admin:
            self._limits = await limits_of(admin, self._config.group_id)
        self.consumer.subscribe(self._config.by_topic)
        self._start(self._poll(), "worker: polls")

    async def _settle(self) -> None:
        """Nothing to do: closing the consumer sends the last acknowledgements, and releases all other records."""

    # -- records

    async def _poll(self) -> None:
        while not self._is_over:
            try:
                now_s = asyncio.get_running_loop().time()
                self._keep_locks(now_s)
                release_s = self.schedule.release_at_s()
                wait_s = POLL_S if release_s is None else min(POLL_S, max(release_s - now_s, 0))
                self._take(await self._holding.acquire(self.schedule.wanted(now_s), wait_s))
                self._polled()
            except MaxPollExceededError as error:
                log.warning("group %r: %s", self._config.group_id, error)
            except Exception as error:  # noqa: BLE001 - the end of the worker, whatever it is
                if not await self._poll_failed(error):
                    return

    def _take(self, acquired: Acquired) -> None:
        """Take over new records, and drop those that the brokers have released."""
        if self._holding.lock_timeout_ms is not None:
            self.schedule.lock_s = self._holding.lock_timeout_ms / 1000
        self.schedule.can_renew = self._limits.renews and self._holding.can_renew
        if self._holding.partitions_count != self._partitions:
            self._partitions = self._holding.partitions_count
            log.info("group %r: assigned %d partitions of the share group", self._config.group_id, self._partitions)
        for in_hand in acquired.lost:
            self._drop(self.schedule.lose(in_hand), "the share session has ended")
        for batch in acquired.batches:
            self._deliver(batch)
        self.processing.start_ready()

    def _deliver(self, batch: AcquiredBatch) -> None:
        for part in batch.decoded(notes_gaps=True):
            if isinstance(part, Refused):
                log.error("group %r: damaged records are rejected: %s", self._config.group_id, part.error)
                continue
            items = [
                self.processing.item(part.topic_partition, record, deliveries=record.delivery_count - 1)
                for record in part
            ]
            for item, record in zip(items, part, strict=True):
                item.deliveries_left = max(self._limits.deliveries - record.delivery_count, 0)
            self.schedule.deliver(items, part.in_hand, batch.expires_s)

    # -- locks

    def _keep_locks(self, now_s: float) -> None:
        """Release what is due, and keep the locks of unfinished records."""
        self.schedule.release_due(now_s)
        self.schedule.renew(now_s)
        for item in self.schedule.ending(now_s):
            log.warning(
                "group %r: the lock of the record %s is about to expire, and cannot be renewed: the record is "
                "delivered again while handler %r runs; raise share.record.lock.duration.ms of the group",
                self._config.group_id,
                item,
                item.handler.name,
            )

    def _answered(self, offsets: Mapping[TopicPartition, list[int]], error: KafkaError | None) -> None:
        """The broker has answered to acknowledgements."""
        for partition, numbers in offsets.items():
            lost = self.schedule.answered(partition, numbers, is_stored=error is None)
            if error is not None:
                log.warning("group %r: %s; the records are delivered again", self._config.group_id, error)
            self._drop(lost, "the lock could not be renewed")

    def _drop(self, items: Iterable[WorkItem], why: str) -> None:
        dropped = list(items)
        for item in dropped:
            log.warning("group %r: %s: the record %s is delivered again", self._config.group_id, why, item)
        self.processing.drop(dropped)

    # -- what it reports

    def status(self) -> WorkerStatus:
        """Return its numbers; call it on its event loop."""
        schedule = self.schedule
        return WorkerStatus(
            self._config.group_id,
            self._problems(),
            schedule.is_stopping,
            self._partitions,
            0,
            schedule.running,
            schedule.queued,
            schedule.accepted + schedule.rejected,
            {spec.name: metrics for spec, metrics in self.processing.metrics.items()},
            schedule.held,
            schedule.renewals,
            schedule.late,
        )

    @property
    def _is_failing(self) -> bool:
        return bool(self._sender.failing)


async def limits_of(admin: AsyncAdmin, group_id: str) -> GroupLimits:
    """Return the limits of a share group; the defaults of Kafka if the brokers do not tell them.

    Raises:
        KafkaError: no broker can be reached.
    """
    try:
        group = ConfigResource(ConfigResourceType.GROUP, group_id)
        found = (await admin.describe_configs([group], names=[_LIMIT, _RENEWS]))[group]
        renews = found[_RENEWS].value != "false" if _RENEWS in found else True
        if _LIMIT in found:
            return GroupLimits(int(found[_LIMIT].value or 5), renews)
        # Before Kafka 4.3, only the broker has the limit.
        node = (await admin.describe_cluster()).brokers[0].node_id
        broker = ConfigResource(ConfigResourceType.BROKER, str(node))
        name = f"group.{_LIMIT}"
        of_broker = (await admin.describe_configs([broker], names=[name]))[broker]
        return GroupLimits(int(of_broker[name].value or 5) if name in of_broker else 5, renews)
    except (BrokerError, UnsupportedVersionError) as error:
        log.warning(
            "group %r: the brokers do not tell how often they deliver a record, so the worker expects Kafka's default, "
            "5 times; it needs the permission DescribeConfigs of the group: %s",
            group_id,
            error,
        )
        return GroupLimits()
