"""Every batch of a producer until its sender has been told, and what its sender was told: written, or given up.

Each sender is told once per batch, and the memory of a batch is given back once, when nothing reads it any more: a
batch that is given up while it is in flight keeps its memory until it lands. No decisions; those are `machine.py`'s.
Start at `Ledger.fail`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from kafkaraw.core.producer.events import Acknowledge, Action, Fail, PartitionOutcome, Release
from kafkaraw.core.producer.partition import Shipment
from kafkaraw.core.producer.report import Unacknowledged, summarise
from kafkaraw.errors import DeliveryTimeoutError, KafkaError
from kafkaraw.records import SealedBatch


class Ledger:
    """The batches under way, oldest first.

    Args:
        delivery_timeout_ms: how old a batch may become; for the words of the error.
        tell: takes what is to be told or given back.
    """

    def __init__(self, delivery_timeout_ms: int, tell: Callable[[Action], None]) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._tell = tell
        self._by_age: deque[Shipment] = deque()

    def add(self, shipment: Shipment) -> None:
        """Take a new batch in."""
        self._by_age.append(shipment)

    def replace(self, shipment: Shipment, parts: Sequence[Shipment]) -> None:
        """Put the parts of a batch that was split in its place; its memory is theirs, its sender hears of each."""
        shipment.settled = True
        at = self._by_age.index(shipment)
        for part in reversed(parts):
            self._by_age.insert(at, part)

    # ---- what senders are told

    def acknowledge(self, shipment: Shipment, outcome: PartitionOutcome) -> None:
        """A batch that has landed is written."""
        if not shipment.settled:
            shipment.settled = True
            self._tell(Acknowledge(shipment.batch, outcome.base_offset, outcome.log_append_time_ms))
        self._tell(Release(shipment.batch))

    def fail(self, shipment: Shipment, error: KafkaError) -> None:
        """Give a batch up, if that has not been done before; what is in flight keeps its memory until it lands."""
        if not shipment.settled:
            shipment.settled = True
            self._tell(Fail(shipment.batch, error, shipment.report()))
        if not shipment.in_flight:
            self._tell(Release(shipment.batch))

    def expire(self, now_ms: int, last_error: KafkaError | None) -> None:
        """Give up what is too old; `last_error` is what may have kept it."""
        self._forget_settled()
        while self._by_age and self._by_age[0].expires_ms <= now_ms:
            shipment = self._by_age.popleft()
            if not shipment.settled:
                self.fail(shipment, self._too_late(shipment, last_error))

    def _too_late(self, shipment: Shipment, last_error: KafkaError | None) -> KafkaError:
        causes = dict.fromkeys(str(error) for error in (shipment.last_error, last_error) if error is not None)
        why = f"; last seen: {'; '.join(causes)}" if causes else ""
        entry = shipment.report()
        text = f"{entry}: not acknowledged within delivery_timeout_ms={self._delivery_timeout_ms}{why}"
        return DeliveryTimeoutError(text, unacknowledged=(entry,))

    # ---- questions

    @property
    def expires_ms(self) -> int | None:
        """When the oldest batch is too old; None when there is none."""
        by_age = self._by_age
        while by_age and by_age[0].settled:
            by_age.popleft()
        return by_age[0].expires_ms if by_age else None

    def unsettled(self) -> Iterator[Shipment]:
        """The batches whose senders have not been told anything yet, oldest first."""
        return (shipment for shipment in self._by_age if not shipment.settled)

    def queued(self) -> Iterator[Shipment]:
        """Those of them that are not in flight."""
        return (shipment for shipment in self.unsettled() if not shipment.in_flight)

    def unsettled_batches(self) -> list[SealedBatch]:
        """The batches alone."""
        return [shipment.batch for shipment in self.unsettled()]

    def report(self) -> list[Unacknowledged]:
        """Which records are neither acknowledged nor failed, one entry per partition."""
        return summarise([shipment.report() for shipment in self.unsettled()])

    def _forget_settled(self) -> None:
        while self._by_age and self._by_age[0].settled:
            self._by_age.popleft()
