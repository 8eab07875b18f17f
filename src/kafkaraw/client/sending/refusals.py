"""What a producer says that takes no more records, and of those that it gives up when it is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from kafkaraw.core.producer.report import Unacknowledged
from kafkaraw.errors import DeliveryTimeoutError, KafkaError

CLOSED: Final = "the producer is closed; make a new one"


def raising(kind: type[KafkaError], message: str) -> Callable[[], NoReturn]:
    """What to call instead of taking a record."""

    def refuse() -> NoReturn:
        raise kind(message)

    return refuse


def closed_before(entry: Unacknowledged) -> KafkaError:
    """The error of records that were not acknowledged in time for the end."""
    message = f"{entry}: the producer was closed before a broker acknowledged them"
    return DeliveryTimeoutError(message, unacknowledged=(entry,))
