"""The batches of a producer that are not acknowledged or failed yet, and the report of each outcome.

The outcome of each batch is reported once, and its memory is released once, when no code reads it any more: a batch
that fails while it is in flight keeps its memory until its request has ended. `machine.py` makes the decisions. Start
at `Ledger.fail`.
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
    """The batches that are queued or in flight, oldest first.

    Args:
        delivery_timeout_ms: the maximum age of a batch; for the error message.
        tell: called with the actions that report an outcome or release memory.
    """

    def __init__(self, delivery_timeout_ms: int, tell: Callable[[Action], None]) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._tell = tell
        self._by_age: deque[Shipment] = deque()

    def add(self, shipment: Shipment) -> None:
        """Add a new batch."""
        self._by_age.append(shipment)

    def replace(self, shipment: Shipment, parts: Sequence[Shipment]) -> None:
        """Replace a split batch with its parts, which share its memory; each part has an outcome of its own."""
        shipment.settled = True
        at = self._by_age.index(shipment)
        for part in reversed(parts):
            self._by_age.insert(at, part)

    # ---- outcomes

    def acknowledge(self, shipment: Shipment, outcome: PartitionOutcome) -> None:
        """Report that a batch is written; its request has ended."""
        if not shipment.settled:
            shipment.settled = True
            self._tell(Acknowledge(shipment.batch, outcome.base_offset, outcome.log_append_time_ms))
        self._tell(Release(shipment.batch))

    def fail(self, shipment: Shipment, error: KafkaError) -> None:
        """Fail a batch, unless it has an outcome. In flight, it keeps its memory until the request has ended."""
        if not shipment.settled:
            shipment.settled = True
            self._tell(Fail(shipment.batch, error, shipment.report()))
        if not shipment.in_flight:
            self._tell(Release(shipment.batch))

    def expire(self, now_ms: int, last_error: KafkaError | None) -> None:
        """Fail the batches whose delivery timeout has passed; `last_error` is the probable cause."""
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
        """Return when the delivery timeout of the oldest batch passes; None without batches."""
        by_age = self._by_age
        while by_age and by_age[0].settled:
            by_age.popleft()
        return by_age[0].expires_ms if by_age else None

    def unsettled(self) -> Iterator[Shipment]:
        """Return the batches without an outcome, oldest first."""
        return (shipment for shipment in self._by_age if not shipment.settled)

    def queued(self) -> Iterator[Shipment]:
        """Return the batches without an outcome that are not in flight."""
        return (shipment for shipment in self.unsettled() if not shipment.in_flight)

    def unsettled_batches(self) -> list[SealedBatch]:
        """Return the batches without an outcome, as `SealedBatch`."""
        return [shipment.batch for shipment in self.unsettled()]

    def report(self) -> list[Unacknowledged]:
        """Return the records that are neither acknowledged nor failed, one entry per partition."""
        return summarise([shipment.report() for shipment in self.unsettled()])

    def _forget_settled(self) -> None:
        while self._by_age and self._by_age[0].settled:
            self._by_age.popleft()
