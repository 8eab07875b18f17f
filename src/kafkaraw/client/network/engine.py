"""The engine below producer, consumer and admin client: connections, metadata, and requests to brokers.

The engine finds the cluster, keeps its metadata, owns the connections, and sends each request to the right broker. It
decides nothing about records, positions or transactions. It does not retry requests, because only the caller knows
whether a retry is safe. Start at `Engine.request`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkaraw.client.config import Address, ClientConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.forking import call_after_fork, keep_unfinalized
from kafkaraw.client.metrics.client_metrics import ClientMetrics, MetricsSource
from kafkaraw.client.network.bootstrap import first_to_answer, may_pass
from kafkaraw.client.network.connection import CLOSE_TIMEOUT_S, Connection
from kafkaraw.client.network.metadata import Metadata, in_turns
from kafkaraw.client.network.pool import ConnectionPool, Lane
from kafkaraw.client.network.security import network_for
from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.core.cluster import NO_EPOCH, ClusterView
from kafkaraw.errors import (
    ClosedError,
    ForkedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    Stage,
    StaleMetadataError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.net import Clock, Network
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.protocol.metadata_frames import METADATA_KEY, DecodedMetadata, LargeMetadata, read_in_steps

if TYPE_CHECKING:
    from random import Random

    from kafkaraw.client.network.telemetry import TelemetrySender
    from kafkaraw.protocol import Uuid

log: logging.Logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

_AUTO_CREATION_FROM_VERSION = 4
_RELIABLE_EPOCHS_FROM_VERSION = 9  # older brokers may name an epoch that has passed (KAFKA-9212)

# A request, or what makes one for a connection: the fields of some APIs depend on the version that was negotiated.
Ask: TypeAlias = Request[R] | Callable[[Connection], Request[R]]


class Engine:
    """Finds the cluster and sends requests to its brokers.

    Args:
        config: the settings of the client.
        network: dials brokers; the real network when None.
        clock: wall clock; the real one when None.
        rng: source of jitter; the operating system's when None.
        entropy: source of unpredictable bytes; the operating system's when None.

    Attributes:
        cluster: what is known about brokers, topics and leaders.
        runtime: network, clock and rng, as chosen.
        source: the metrics that are pushed to brokers; a producer or a consumer sets its own.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        real = system_runtime()
        self.config = config
        self.runtime: Runtime = Runtime(
            network or network_for(config), clock or real.clock, rng or real.rng, entropy or real.entropy
        )
        self.cluster: ClusterView = ClusterView()
        self._pool = ConnectionPool(config, self.runtime, self._connected)
        self.source: MetricsSource = MetricsSource("admin.client", self._pool.metrics.as_dict, dict)
        self._telemetry: TelemetrySender | None = None
        self._metadata = Metadata(self.cluster, self._ask_metadata, config, self.runtime)
        self._start_lock = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._forked = False
        call_after_fork(self, Engine._after_fork_in_child)

    @classmethod
    def on(cls, config: ClientConfig, runtime: Runtime | None) -> Engine:
        """Make an engine on a given runtime; the real one when None."""
        if runtime is None:
            return cls(config)
        if not isinstance(runtime, Runtime):
            raise UsageError(
                f"runtime={runtime!r} is not a kafkaraw.client.runtime.Runtime; leave it out outside of tests"
            )
        return cls(config, network=runtime.network, clock=runtime.clock, rng=runtime.rng, entropy=runtime.entropy)

    # -- life

    async def start(self, timeout: float | None = None) -> None:
        """Find the cluster; does nothing when that is done already.

        Every bootstrap server is tried once, so a wrong address is an error at once and not after the timeout; unless
        `bootstrap_timeout_ms` says to go on.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no server led to the cluster; each is named with the stage at which it failed and the cause.
            ClosedError: the engine was closed.
        """
        self._check_open()
        self.check_not_forked()
        self.check_loop()
        if self._keeper is not None:
            return
        self._loop = asyncio.get_running_loop()
        deadline = self.deadline(timeout)
        await deadline.wait(self._start_lock.acquire(), "starting the client")
        try:
            # The client may be closed during each of the waits; then no later `close` would cancel the keeper task.
            self._check_open()
            if self._keeper is None:
                await self._find_cluster(deadline)
                self._check_open()
                self._keeper = asyncio.create_task(self._metadata.keep_fresh(), name="metadata keeper")
        finally:
            self._start_lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the client is closed; make a new one")

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Close all connections; pending requests fail. May be called twice. If it is cancelled, nothing stays open.

        Args:
            timeout: seconds, as for `Connection.close`.
        """
        deadline = Deadline(timeout)
        self._closed = True
        try:
            if self._telemetry is not None:
                await self._telemetry.close(timeout)
        finally:
            try:
                if self._keeper is not None:
                    self._keeper.cancel()
                    await asyncio.gather(self._keeper, return_exceptions=True)
                await self._metadata.close()
            finally:
                await self._pool.close(deadline.remaining)

    @property
    def is_started(self) -> bool:
        """Whether the cluster was found."""
        return self._keeper is not None

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    @property
    def metrics(self) -> ClientMetrics:
        """What is counted about each broker."""
        return self._pool.metrics

    def check_loop(self) -> None:
        """Refuse a call on another event loop than the one on which the client was started.

        Raises:
            UsageError: it runs on another one.
        """
        loop = asyncio.get_running_loop()
        if (self._loop or loop) is not loop:
            raise UsageError("the client was started on another event loop; make one for each loop")

    def check_not_forked(self) -> None:
        """Refuse to go on in a child process.

        Raises:
            ForkedError: this is one: connections and tasks belong to the parent.
        """
        if self._forked:
            raise ForkedError("this client belongs to the parent process; make a new one after the fork")

    def deadline(self, timeout: float | None) -> Deadline:
        """The deadline of a call that was given `timeout` seconds; None is `default_api_timeout_ms`."""
        return Deadline(self.config.default_api_timeout_ms / 1000 if timeout is None else timeout)

    # -- requests

    async def request(
        self, node_id: int, message: Ask[R], *, timeout: float, lane: Lane = "main", version_max: int | None = None
    ) -> R:
        """Send a request to one broker and wait for the response.

        Args:
            node_id: the broker.
            message: the request, or a function that makes it for the connection.
            timeout: seconds for all of it, connecting included.
            lane: "fetch" for requests that the broker may hold back.
            version_max: do not use a later version than this, as when the topic's id is not known.

        Raises:
            StaleMetadataError: no such broker is known.
            NetworkError: it cannot be reached, or the connection was lost on the way.
            KafkaTimeoutError: no response in time.
        """
        deadline = Deadline(timeout)
        connection = await self._connect(node_id, lane, deadline)
        request = message if isinstance(message, Request) else message(connection)
        version = None
        if version_max is not None:
            version = min(version_max, connection.version_for(api_of(request).key))
        return await connection.request(request, version=version, timeout=deadline.remaining)

    def open_connection(self, node_id: int, lane: Lane = "main") -> Connection | None:
        """The connection to a broker if it is open, and leads to where the broker is now."""
        broker = self.cluster.brokers.get(node_id)
        return None if broker is None or self._forked else self._pool.opened(broker, lane)

    async def connection(self, node_id: int, *, timeout: float, lane: Lane = "main") -> Connection:
        """The connection to a broker, opened if need be; raises as `request` does."""
        return await self._connect(node_id, lane, Deadline(timeout))

    def any_node(self) -> int:
        """The id of a known broker: a connected one if there is one."""
        return self._by_preference()[0]

    async def request_any(self, message: Ask[R], *, timeout: float) -> R:
        """Send a request to any broker; the next one is asked when one cannot be reached.

        When no known broker can, the bootstrap servers are tried again: the cluster may have moved (KIP-899).

        Raises:
            KafkaError: no broker gave a response.
        """
        deadline = Deadline(timeout)
        await self.start(deadline.remaining)
        for node_id in self._by_preference():
            try:
                return await self.request(node_id, message, timeout=self._one_try(deadline))
            except (NetworkError, KafkaTimeoutError, StaleMetadataError, ProtocolError) as error:
                log.info("broker %d did not answer: %s", node_id, error)
        await self._bootstrap(deadline)
        return await self.request(self._by_preference()[0], message, timeout=self._one_try(deadline))

    async def request_controller(self, message: Ask[R], *, timeout: float) -> R:
        """Send a request to the controller, or to any broker when none is known; raises as `request`."""
        deadline = Deadline(timeout)
        await self.start(deadline.remaining)
        controller = self.cluster.controller_id
        if controller not in self.cluster.brokers:
            return await self.request_any(message, timeout=deadline.remaining)
        return await self.request(controller, message, timeout=self._one_try(deadline))

    # -- metrics that are pushed

    async def client_instance_id(self, timeout: float | None) -> Uuid:
        """Return the id that the cluster has given this client for its metrics (KIP-714).

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: `enable_metrics_push` is false.
            UnsupportedVersionError: the brokers take no metrics of clients.
            KafkaTimeoutError: no broker has answered in time.
        """
        if not self.config.enable_metrics_push:
            raise UsageError("client_instance_id: brokers give one to clients with enable_metrics_push=True only")
        deadline = self.deadline(timeout)
        await self.start(deadline.remaining)
        if self._telemetry is None:
            connection = await self.connection(self.any_node(), timeout=deadline.remaining)
            if self._telemetry is None:
                raise UnsupportedVersionError(
                    f"client_instance_id: {connection.peer} takes no metrics of clients (KIP-714); Apache Kafka does "
                    f"from 3.7 on, if metric.reporters of the broker names a reporter that receives them"
                )
        return await self._telemetry.client_instance_id(deadline)

    def _connected(self, connection: Connection) -> None:
        """Begin to push metrics when a broker takes them; most clusters do not ask for any."""
        if self._telemetry is not None or self._closed or not self.config.enable_metrics_push:
            return
        if connection.takes_metrics:
            from kafkaraw.client.network.telemetry import TelemetrySender  # only in clusters that ask for metrics

            self._telemetry = TelemetrySender(self, self.source)
            self._telemetry.begin()

    # -- metadata

    async def refresh(
        self, topics: Iterable[str] | None, *, timeout: float | None = None, allow_auto_create: bool = False
    ) -> None:
        """Ask a broker for fresh metadata. One request is in flight at a time; calls meanwhile share the next one.

        Args:
            topics: names; None is every topic of the cluster; what is not named may be refreshed, too.
            timeout: seconds; None is `default_api_timeout_ms`.
            allow_auto_create: the broker may create what does not exist.

        Raises:
            KafkaError: no broker gave an answer. That a topic does not exist is not an error here:
                see `cluster.error_of`.
        """
        deadline = self.deadline(timeout)
        await self.start(deadline.remaining)
        await self._metadata.refresh(topics, deadline=deadline, allow_auto_create=allow_auto_create)

    async def refresh_brokers(self, *, timeout: float | None = None) -> None:
        """Ask a broker which brokers run, and which one is the controller; topics stay as they are known.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker gave an answer.
        """
        deadline = self.deadline(timeout)
        await self.start(deadline.remaining)
        await self._metadata.refresh_brokers(deadline=deadline)

    async def wait_for_topics(
        self, topics: Iterable[str], timeout: float | None = None, *, allow_auto_create: bool | None = None
    ) -> None:
        """Wait until each topic is known and has a leader; returns at once when that is so already.

        Args:
            topics: names.
            timeout: seconds; None is `default_api_timeout_ms`.
            allow_auto_create: the broker may create what does not exist; None is `allow_auto_create_topics`.

        Raises:
            UnknownTopicError: a topic does not exist and was not created within a few seconds.
            BrokerError: a name is not allowed, or this client may not see it.
            KafkaTimeoutError: no leader in time.
        """
        deadline = self.deadline(timeout)
        await self.start(deadline.remaining)
        allowed = self.config.allow_auto_create_topics if allow_auto_create is None else allow_auto_create
        await self._metadata.wait_for(list(topics), deadline=deadline, allow_auto_create=allowed)

    def use_topics(self, topics: Iterable[str]) -> None:
        """Keep what is known about these topics fresh; see `Metadata.use`."""
        self._metadata.use(topics)

    # -- inside

    def _after_fork_in_child(self) -> None:
        self._forked = True
        keep_unfinalized(self)

    def _one_try(self, deadline: Deadline) -> float:
        return deadline.at_most(self.config.request_timeout_ms / 1000)

    async def _connect(self, node_id: int, lane: Lane, deadline: Deadline) -> Connection:
        await self.start(deadline.remaining)
        node = self.cluster.brokers.get(node_id)
        if node is None:
            known = ", ".join(str(node_id) for node_id in sorted(self.cluster.brokers))
            raise StaleMetadataError(f"broker {node_id} is not in the cluster's metadata (which has {known})")
        return await self._pool.get(node, lane, deadline)

    def _by_preference(self) -> list[int]:
        """Known brokers in the order in which to try them: connected ones first, those that failed last, by chance."""
        nodes = sorted(self.cluster.brokers)
        self.runtime.rng.shuffle(nodes)
        rank = {
            node_id: 0 if self._pool.is_connected(node_id) else 2 if self._pool.rests(broker) else 1
            for node_id, broker in self.cluster.brokers.items()
        }
        return sorted(nodes, key=rank.__getitem__)

    async def _ask_metadata(self, request: MetadataRequest, timeout: float) -> DecodedMetadata:
        version = 0

        def for_version(connection: Connection) -> LargeMetadata:
            nonlocal version
            version = connection.version_for(METADATA_KEY)
            if version < _AUTO_CREATION_FROM_VERSION:  # the request has no field to disable auto-creation
                request.allow_auto_topic_creation = True
            return LargeMetadata(request)

        async def ask(timeout: float) -> DecodedMetadata:
            return await in_turns(
                read_in_steps(await self.request_any(for_version, timeout=timeout), self.cluster.encoded)
            )

        deadline = Deadline(timeout)
        found = await ask(timeout)
        if found.response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:  # KIP-1102: the brokers are no longer ours
            log.info("the cluster asks for a new start from the bootstrap servers")
            await self._bootstrap(deadline)
            found = await ask(deadline.remaining)
        if version < _RELIABLE_EPOCHS_FROM_VERSION:
            for partition in (partition for topic in found.response.topics for partition in topic.partitions):
                partition.leader_epoch = NO_EPOCH
        return found

    async def _find_cluster(self, deadline: Deadline) -> None:
        """Look for it for `bootstrap_timeout_ms`, and say so: what is wrong may be the address."""
        patience = Deadline(deadline.at_most(self.config.bootstrap_timeout_ms / 1000))
        problem: KafkaError | None = None
        while True:
            try:
                return await self._bootstrap(deadline)
            except KafkaError as error:
                if not may_pass(error):
                    raise
                if patience.expired:  # which may have cut the last round short
                    raise problem or error from None
                if problem is None:
                    log.warning("no broker yet, trying for %g s more: %s", round(patience.remaining, 1), error)
                problem = error
            await patience.sleep(self.config.retry_backoff_ms / 1000)

    async def _bootstrap(self, deadline: Deadline) -> None:
        address, connection, response = await first_to_answer(
            self.config.bootstrap_servers, self._try_server, deadline, discard=lambda found: found[1].abort()
        )
        self.cluster.update(response, int(asyncio.get_running_loop().time() * 1000))
        log.info("found cluster %r of %d brokers", self.cluster.cluster_id, len(self.cluster.brokers))
        # A server that is advertised under the address that was dialled needs no second connection.
        node_id = self.cluster.node_at(address.host, address.port)
        if node_id is None or self._pool.is_connected(node_id):
            await connection.close()
        else:
            self._pool.adopt(self.cluster.brokers[node_id], connection)

    async def _try_server(self, address: Address) -> tuple[Address, Connection, MetadataResponse]:
        """Ask one bootstrap server who the cluster is."""
        connection = await self._pool.dial_server(address)
        try:
            timeout = self.config.request_timeout_ms / 1000
            response = await connection.request(MetadataRequest(topics=[]), timeout=timeout)
            if response.error_code:
                raise error_for(response.error_code, f"metadata from {address}")
            if not response.brokers:
                raise NetworkError(f"{address} knows no brokers (yet); is it starting up?", stage=Stage.METADATA)
        except BaseException:
            connection.abort()
            raise
        return address, connection, response
