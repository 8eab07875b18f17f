"""`ClientInstances`: which metrics a node asks of each client, and whether a push is accepted.

One object per node, as in Kafka: a client sends its pushes to the node that it has asked. An instance is forgotten when
its connection ends, or when the client has not asked for three push intervals. Pure: time is an argument.

Source: org.apache.kafka.server.{ClientMetricsManager, metrics.ClientMetricsInstance} of Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.client_metrics import (
    ALL_METRICS,
    INTERVAL_MS_DEFAULT,
    Subscription,
    parse_subscription,
)
from kafkaraw.broker.configs.dynamic_configs import DynamicConfigs
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records.compression import CODECS

ACCEPTED_CODECS: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: the preferred one first."""
INSTANCES_MAX: Final = 16_384
IDLE_MS_MIN: Final = 60_000
NEVER_MS: Final = -(2**62)
_logger = logging.getLogger("kafkaraw.broker")
_RESERVED: Final = frozenset((ZERO_UUID, Uuid(bytes(15) + b"\x01")))


@dataclass(slots=True)
class ClientInstance:
    """One client, as a node knows it.

    Attributes:
        attributes: what patterns are matched with, by their names in subscriptions.
        subscription_id: identifies the metrics and the interval.
        subscriptions_version: the version of all subscriptions from which this was made.
        metrics: prefixes of the requested metrics.
        interval_ms: the push interval.
        got_ms: the last time that it asked for its subscription.
        pushed_ms: the last time that it pushed.
        is_terminating: whether its last push was for good.
        last_error: the error of its last request.
        idle_until_ms: when it is forgotten if it does not ask again.
        connection: the connection that it has used last.
    """

    attributes: Mapping[str, str | None]
    subscription_id: int
    subscriptions_version: int
    metrics: tuple[str, ...]
    interval_ms: int
    got_ms: int = NEVER_MS
    pushed_ms: int = NEVER_MS
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    idle_until_ms: int = 0
    connection: str = ""

    def take_get(self, now_ms: int) -> bool:
        """Return whether it may ask for its subscription now; if so, remember the time."""
        if now_ms - max(self.got_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.got_ms = now_ms
        return True

    def take_push(self, now_ms: int) -> bool:
        """Return whether it may push now; if so, remember the time.

        A push directly after the request for the subscription is early by the jitter of clients, and is accepted.
        """
        if self.got_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class ClientInstances:
    """The clients of one node that push metrics, or have asked whether to.

    Args:
        configs: the subscriptions of the cluster.
        new_id: creates a random id.
        push_bytes_max: the largest push.
    """

    def __init__(self, configs: DynamicConfigs, new_id: Callable[[], Uuid], push_bytes_max: int) -> None:
        self.push_bytes_max = push_bytes_max
        self._configs = configs
        self._new_id = new_id
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._connections: dict[str, Uuid] = {}
        self._subscriptions: tuple[int, list[Subscription]] = (-1, [])

    def subscribe(
        self, instance_id: Uuid, connection: str, attributes: Mapping[str, str | None], now_ms: int
    ) -> tuple[Uuid, ClientInstance]:
        """Return what a client has to push.

        Args:
            instance_id: the id of the client; zero for a new one.
            connection: identifies the connection.
            attributes: of the client, by the names that patterns use.
            now_ms: now, in milliseconds since 1970.

        Raises:
            ApiError: THROTTLING_QUOTA_EXCEEDED, before the push interval is over.
        """
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, connection, attributes, now_ms)
        if not instance.take_get(now_ms) and instance.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")
        instance.last_error = ErrorCode.NONE
        return instance_id, instance

    def push(
        self,
        instance_id: Uuid,
        connection: str,
        attributes: Mapping[str, str | None],
        now_ms: int,
        *,
        subscription_id: int,
        codec_id: int,
        size_bytes: int,
        terminating: bool,
    ) -> ClientInstance:
        """Accept a push, and return its client.

        Args:
            instance_id: the id of the client.
            connection: identifies the connection.
            attributes: of the client.
            now_ms: now, in milliseconds since 1970.
            subscription_id: the subscription that the client follows.
            codec_id: the codec of its metrics.
            size_bytes: their size, compressed.
            terminating: whether it is the last push.

        Raises:
            ApiError: INVALID_REQUEST (no id, or after the last push), THROTTLING_QUOTA_EXCEEDED (before the push
                interval is over), UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE or TELEMETRY_TOO_LARGE.
        """
        if instance_id in _RESERVED:
            raise ApiError(ErrorCode.INVALID_REQUEST, "")
        instance = self._instance(instance_id, connection, attributes, now_ms)
        was_terminating, instance.is_terminating = instance.is_terminating, terminating
        if was_terminating:
            code = ErrorCode.INVALID_REQUEST
        elif not instance.take_push(now_ms) and not terminating:
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription_id:
            code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif not 0 <= codec_id < len(CODECS):
            code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif size_bytes > self.push_bytes_max:
            code = ErrorCode.TELEMETRY_TOO_LARGE
        else:
            code = ErrorCode.NONE
        instance.last_error = code
        if code is not ErrorCode.NONE:
            raise ApiError(code, "")
        return instance

    def disconnected(self, connection: str) -> None:
        """Forget the client of a connection that has ended."""
        instance_id = self._connections.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _instance(
        self, instance_id: Uuid, connection: str, attributes: Mapping[str, str | None], now_ms: int
    ) -> ClientInstance:
        instance = self._instances.get(instance_id)
        version, subscriptions = self._current()
        if instance is None or instance.idle_until_ms < now_ms:
            named = {**attributes, "client_instance_id": str(instance_id)}
            instance = self._made(instance_id, connection, named, version, subscriptions)
        elif instance.subscriptions_version != version:
            instance = self._made(instance_id, connection, instance.attributes, version, subscriptions)
        instance.idle_until_ms = now_ms + max(IDLE_MS_MIN, 3 * instance.interval_ms)
        self._instances.move_to_end(instance_id)
        return instance

    def _made(
        self,
        instance_id: Uuid,
        connection: str,
        attributes: Mapping[str, str | None],
        version: int,
        subscriptions: list[Subscription],
    ) -> ClientInstance:
        matching = [one for one in subscriptions if one.matches(attributes)]
        metrics = frozenset[str]().union(*(one.metrics for one in matching))
        if ALL_METRICS in metrics:
            metrics = frozenset((ALL_METRICS,))
        names = tuple(sorted(metrics))
        interval_ms = min([INTERVAL_MS_DEFAULT, *(one.interval_ms for one in matching)])  # as in Kafka, never longer
        made = ClientInstance(
            attributes,
            _subscription_id(names, interval_ms, instance_id),
            version,
            names,
            interval_ms,
            connection=connection,
        )
        self._instances[instance_id] = made
        self._connections[connection] = instance_id
        if len(self._instances) > INSTANCES_MAX:
            _, oldest = self._instances.popitem(last=False)
            self._connections.pop(oldest.connection, None)
        return made

    def _current(self) -> tuple[int, list[Subscription]]:
        """Return the subscriptions, with the version of their configurations."""
        kind = ConfigResourceType.CLIENT_METRICS
        version = self._configs.versions[kind]
        if self._subscriptions[0] != version:
            found = (_subscription(name, self._configs.of(kind, name)) for name in self._configs.names(kind))
            self._subscriptions = (version, [one for one in found if one is not None])
        return self._subscriptions


def _subscription(name: str, configs: Mapping[str, str]) -> Subscription | None:
    """Return a subscription; None if Apache Kafka has stored a pattern that RE2 does not have."""
    try:
        return parse_subscription(configs)
    except ValueError as error:
        _logger.warning("the subscription %r to client metrics is ignored: %s is not a pattern of RE2", name, error)
        return None


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: Uuid) -> int:
    """Return an id that changes with the metrics, the interval, and the client."""
    from crc32c import crc32c  # only for clients that ask: the import takes 25 ms

    checksum = crc32c(f"{','.join(metrics)}{interval_ms}".encode())
    for at in range(0, len(instance_id), 4):
        checksum ^= int.from_bytes(instance_id[at : at + 4], "big")
    return int.from_bytes(checksum.to_bytes(4, "big"), "big", signed=True)
