"""What decisions about groups need of the world around them, and who asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.timers import Timers
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.error_codes import ErrorCode

Done = Callable[[ErrorCode], None]
Write = Callable[[Sequence[GroupRecord], Done], None]


class Caller(NamedTuple):
    """Who asks.

    Attributes:
        host: the client's address, as Kafka shows it.
        version: of the request.
        sees: whether it may know of a topic.
    """

    client_id: str
    host: str
    version: int
    sees: Callable[[str], bool] = lambda name: True


@dataclass(frozen=True, slots=True)
class Means:
    """The world around.

    Attributes:
        write: makes records durable; `done` is told NONE once they cannot be lost, or why they were not written.
        timers: what is to happen later.
        now_ms: wall clock, in milliseconds since 1970.
        new_id: gives a random UUID, as text.
        limits: the broker's settings.
        limits_of: the settings for one group.
    """

    write: Write
    timers: Timers
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    limits: Limits
    limits_of: Callable[[str], Limits]
