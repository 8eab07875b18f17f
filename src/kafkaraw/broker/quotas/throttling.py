"""`Throttling`: measures the usage of each client of one node, and returns the throttle time.

Usage is only measured for clients that have a quota.
Source: kafka.server.{ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager},
kafka.network.ConnectionQuotas; KIP-13, KIP-124, KIP-219, KIP-599, KIP-612.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.quotas.rates import TokenBucket, WindowedRate, Windows
from kafkaraw.broker.quotas.table import Bound, QuotaKey, QuotaTable
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.net import Clock
from kafkaraw.protocol.error_codes import ErrorCode

IDLE_MS: Final = 3_600_000
"""Idle time after which the measurements of a client are removed."""
_USER: Final = "User:"
_EXCEEDED: Final = "The throttling quota has been exceeded."

_Name = TypeVar("_Name", bound=Hashable)
_Count = TypeVar("_Count", WindowedRate, TokenBucket)
_Counted = tuple[QuotaKey, str | None, str | None]


class Client(NamedTuple):
    """A client: its principal as Kafka writes it, and its client id."""

    principal: str
    client_id: str | None


class Throttling:
    """The counts of one node.

    Args:
        table: the quotas.
        clock: what the rates are measured by.
        windows: over which time.
        mutation_windows: the same for changes of topics.
    """

    def __init__(self, table: QuotaTable, clock: Clock, windows: Windows, mutation_windows: Windows) -> None:
        self.table = table
        self._clock = clock
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._rates: dict[_Counted, WindowedRate] = {}
        self._buckets: dict[_Counted, TokenBucket] = {}
        self._connections: dict[str, WindowedRate] = {}

    @property
    def active(self) -> bool:
        """Whether there is any quota."""
        return bool(self.table)

    def record(self, key: QuotaKey, client: Client, amount: float) -> int:
        """Record the usage of a client; return the throttle time in milliseconds."""
        bound = self._bound(key, client)
        if bound is None:
            return 0
        now_ms = self._clock.time_ms()
        rate = self._rate(key, bound, now_ms)
        rate.record(amount, now_ms)
        delay_ms = rate.delay_ms(bound.value, now_ms)
        # Time spent on requests is bounded softly: for a window at a time.
        return min(delay_ms, self._windows.size_ms) if key is QuotaKey.REQUEST else delay_ms

    def take_back(self, key: QuotaKey, client: Client, amount: float) -> None:
        """Undo a recorded usage that did not take place."""
        bound = self._bound(key, client)
        if bound is not None:
            now_ms = self._clock.time_ms()
            self._rate(key, bound, now_ms).record(-amount, now_ms)

    def largest_fetch_bytes(self, client: Client) -> float:
        """Return the size above which a Fetch response would always be throttled."""
        bound = self._bound(QuotaKey.FETCH, client)
        whole_windows_s = (self._windows.number - 1) * self._windows.size_ms / 1000
        return float("inf") if bound is None else bound.value * whole_windows_s

    def mutations(self, client: Client, *, strict: bool) -> MutationQuota:
        """Return the quota on changes of topics for one request.

        Args:
            client: the client that sent the request.
            strict: refuse changes above the quota, with an error that clients of newer versions understand.
        """
        bound = self._bound(QuotaKey.MUTATION, client)
        if bound is None:
            return MutationQuota(None, 1.0, self._clock, strict)
        now_ms = self._clock.time_ms()
        counted = (QuotaKey.MUTATION, bound.user, bound.client_id)
        if counted not in self._buckets:
            self._drop_idle(now_ms)
            self._buckets[counted] = TokenBucket(self._mutation_windows, now_ms, bound.value)
        return MutationQuota(self._buckets[counted], bound.value, self._clock, strict)

    def connection_delay_ms(self, address: str) -> int:
        """Count a new connection; return for how long it is kept waiting before it is closed, 0 to accept it."""
        bound = self.table.connection_rate(address)
        if bound is None:
            return 0
        now_ms = self._clock.time_ms()
        if address not in self._connections:
            self._drop_idle(now_ms)
        rate = self._connections.setdefault(address, WindowedRate(self._windows, now_ms))
        rate.record(1, now_ms)
        delay_ms = min(rate.delay_ms(bound, now_ms), self._windows.size_ms)
        if delay_ms:
            rate.record(-1, now_ms)
        return delay_ms

    def _bound(self, key: QuotaKey, client: Client) -> Bound | None:
        if not self.active:
            return None
        return self.table.bound(key, client.principal.removeprefix(_USER), client.client_id or "")

    def _rate(self, key: QuotaKey, bound: Bound, now_ms: int) -> WindowedRate:
        counted = (key, bound.user, bound.client_id)
        if counted not in self._rates:
            self._drop_idle(now_ms)
            self._rates[counted] = WindowedRate(self._windows, now_ms)
        return self._rates[counted]

    def _drop_idle(self, now_ms: int) -> None:
        self._rates = _in_use(self._rates, now_ms)
        self._buckets = _in_use(self._buckets, now_ms)
        self._connections = _in_use(self._connections, now_ms)


def _in_use(counts: Mapping[_Name, _Count], now_ms: int) -> dict[_Name, _Count]:
    return {name: count for name, count in counts.items() if now_ms - count.last_ms <= IDLE_MS}


@dataclass(slots=True)
class MutationQuota:
    """The remaining quota on changes of topics for one request.

    Attributes:
        throttle_ms: the throttle time.
    """

    _bucket: TokenBucket | None
    _bound: float
    _clock: Clock
    _strict: bool
    throttle_ms: int = 0

    def record(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises:
            ApiError: the client has exceeded its quota.
        """
        if self._bucket is None:
            return
        now_ms = self._clock.time_ms()
        owed_ms = self._bucket.delay_ms(self._bound, now_ms)
        if self._strict and owed_ms:
            self.throttle_ms = owed_ms
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, _EXCEEDED)
        self._bucket.record(partitions, self._bound, now_ms)
        if not self._strict:
            self.throttle_ms = self._bucket.delay_ms(self._bound, now_ms)
