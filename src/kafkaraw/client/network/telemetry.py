"""`TelemetrySender`: asks a broker which metrics this client has to push, and pushes them (KIP-714).

The engine makes it, and imports this module, when a connection leads to a broker that takes metrics: in most clusters
none does. It asks one broker as long as that can be reached, over the connection that the client has to it already;
`core/telemetry/reporter.py` decides when. No failure here ends or delays a call of the application: it is logged, and
the next push waits, or there is none. Start at `TelemetrySender.begin`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.client_metrics import MetricsSource
from kafkaraw.client.metrics.pushed import PushedValues
from kafkaraw.core.telemetry import otlp
from kafkaraw.core.telemetry.reporter import (
    REACTIONS,
    AskForSubscription,
    Closed,
    CloseRequested,
    Event,
    Push,
    PushAnswered,
    RequestFailed,
    SubscriptionAnswered,
    TelemetryReporter,
)
from kafkaraw.errors import ClosedError, KafkaError, RetriableError, UnsupportedVersionError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import error_name
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkaraw.records.compression import CODECS

if TYPE_CHECKING:
    from kafkaraw.client.network.connection import Connection
    from kafkaraw.client.network.engine import Engine

log: logging.Logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 1.0
"""The last push of a client takes no longer."""


class TelemetrySender:
    """Pushes the metrics of one client. Used on its loop.

    Args:
        engine: of the client.
        source: the metrics.
    """

    def __init__(self, engine: Engine, source: MetricsSource) -> None:
        self._engine = engine
        self._source = source
        self._reporter = TelemetryReporter(engine.runtime.rng)
        self._loop = asyncio.get_running_loop()
        self._node_id: int | None = None  # the broker that was asked last
        self._timer: asyncio.TimerHandle | None = None
        self._request: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # set once the id of the client is known, or will not be
        self._began_ms = engine.runtime.clock.time_ms() - self._loop.time() * 1000
        self._pushed = PushedValues(self._now_ms())

    def begin(self) -> None:
        """Ask for the subscription."""
        self._advance()

    async def client_instance_id(self, deadline: Deadline) -> Uuid:
        """Return the id that the cluster has given this client, and wait for it.

        Raises:
            KafkaTimeoutError: no broker has answered in time.
            UnsupportedVersionError: a broker has refused to answer, so this client asks no more.
            ClosedError: the client was closed.
        """
        await deadline.wait(self._settled.wait(), "client_instance_id: asking the cluster for it")
        if self._reporter.subscription is None:
            if self._engine.closed:
                raise ClosedError("the client is closed; make a new one")
            raise UnsupportedVersionError(
                f"client_instance_id: broker {self._node_id} does not give this client one; "
                f"the log of {log.name} has the reason"
            )
        return self._reporter.subscription.client_instance_id

    async def close(self, timeout: float) -> None:
        """Push once more, if metrics are requested and a connection is open.

        Args:
            timeout: seconds; more than `CLOSE_TIMEOUT_S` counts as that, and 0 pushes nothing.
        """
        if self._request is not None:
            self._request.cancel()
        try:
            if timeout > 0:
                self._take(CloseRequested())
                if self._request is not None and not self._request.done():
                    await asyncio.wait([self._request], timeout=min(timeout, CLOSE_TIMEOUT_S))
        finally:
            if self._request is not None:
                self._request.cancel()
            self._take(Closed())
            self._settled.set()

    # -- inside

    def _now_ms(self) -> int:
        """The time since 1970, by a clock that does not jump."""
        return round(self._began_ms + self._loop.time() * 1000)

    def _take(self, event: Event) -> None:
        self._reporter.receive(event, self._loop.time() * 1000)
        if self._reporter.subscription is not None or self._reporter.ended_by is not None:
            self._settled.set()
        self._advance()

    def _advance(self) -> None:
        """Begin what is due, and wait for what comes next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._reporter.tick(self._loop.time() * 1000)
        for action in self._reporter.actions():
            self._request = self._loop.create_task(self._carry_out(action), name="telemetry")
        deadline_ms = self._reporter.deadline_ms()
        if deadline_ms is not None:
            self._timer = self._loop.call_at(deadline_ms / 1000, self._wake, deadline_ms)

    def _wake(self, deadline_ms: float) -> None:
        # The loop's clock, turned into milliseconds, may be a rounding error short of the deadline that it has reached.
        self._timer = None
        self._reporter.tick(max(self._loop.time() * 1000, deadline_ms))
        self._advance()

    async def _carry_out(self, action: AskForSubscription | Push) -> None:
        try:
            if isinstance(action, Push):
                event: Event = await self._push(action)
            else:
                event = await self._ask(action)
        except KafkaError as error:
            log.debug("broker %s takes no metrics now: %s", self._node_id, error)
            self._node_id = None
            event = RequestFailed(isinstance(error, RetriableError))
        except Exception:
            log.warning("the metrics of this client cannot be pushed; it tries no more", exc_info=True)
            event = RequestFailed(is_retriable=False)
        self._take(event)

    async def _ask(self, action: AskForSubscription) -> Event:
        connection = await self._connection()
        request = GetTelemetrySubscriptionsRequest(client_instance_id=action.client_instance_id)
        response = await connection.request(request, timeout=self._engine.config.request_timeout_ms / 1000)
        if response.error_code:
            self._refused("GetTelemetrySubscriptions", response.error_code)
        elif self._reporter.subscription is None:
            log.info("this client is %s for the metrics of the cluster", response.client_instance_id)
        return SubscriptionAnswered(response)

    async def _push(self, action: Push) -> Event:
        if not otlp.is_installed():
            log.info(
                "the cluster asks for metrics of this client, and the package protobuf is missing: "
                "pip install 'kafkaraw[metrics]', or set enable_metrics_push=False"
            )
            return RequestFailed(is_retriable=False)
        connection = self._open_connection() if action.is_terminating else await self._connection()
        if connection is None:
            return RequestFailed(is_retriable=True)
        subscription, before = action.subscription, self._pushed
        values = PushedValues.read(self._source.metrics(), self._now_ms())
        labels = {name: value for name, value in self._source.labels().items() if value}
        data = otlp.write_metrics(
            values.points(self._source.kind, before, subscription), labels, before.at_ms, values.at_ms
        )
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=action.is_terminating,
            compression_type=subscription.codec_id,
            metrics=bytes(CODECS[subscription.codec_id].compress(data, None)),
        )
        self._pushed = values  # without a response, the broker may have taken them
        response = await connection.request(request, timeout=self._engine.config.request_timeout_ms / 1000)
        if response.error_code:
            self._pushed = before
            self._refused("PushTelemetry", response.error_code)
        return PushAnswered(response.error_code)

    def _refused(self, api: str, error_code: int) -> None:
        level, ends = (
            (logging.DEBUG, "") if error_code in REACTIONS else (logging.WARNING, "; it pushes no more metrics")
        )
        log.log(
            level, "broker %s answers %s of this client with %s%s", self._node_id, api, error_name(error_code), ends
        )

    def _open_connection(self) -> Connection | None:
        """The connection to the broker that was asked last, or to another one that takes metrics, if one is open."""
        nodes = [] if self._node_id is None else [self._node_id]
        for node_id in (*nodes, *self._engine.cluster.brokers):
            connection = self._engine.open_connection(node_id)
            if connection is not None and connection.takes_metrics:
                self._node_id = node_id
                return connection
        return None

    async def _connection(self) -> Connection:
        """The open connection, or a new one to any broker.

        Raises:
            KafkaError: the broker cannot be reached.
        """
        connection = self._open_connection()
        if connection is None:
            self._node_id = self._engine.any_node()
            timeout = self._engine.config.request_timeout_ms / 1000
            connection = await self._engine.connection(self._node_id, timeout=timeout)
        return connection
