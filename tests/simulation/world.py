"""Brokers and clients in virtual time, and the history of what the clients observed.

The faults are in `faults`, the work of clients in `clients`, the scenarios in `scenarios`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar

from kafkaraw.client.admin import AsyncAdmin
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.share_consumer import AsyncShareConsumer
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, Stage
from kafkaraw.net import Link, LinkHandler, Network
from kafkaraw.testing.audit import Call, History
from kafkaraw.testing.memory_network import MemoryLink, MemoryNetwork
from kafkaraw.testing.virtual import Simulation
from tests.simulation.brokers import OneBroker, SeveralBrokers, bootstrap
from tests.simulation.disks import DiskAudit
from tests.simulation.environment import PASSWORD, TOPIC, USER, Environment
from tests.simulation.recorders import record_batches, record_leader_epochs

T = TypeVar("T")
HANG_S = 30.0
"""A call that exceeds its timeout by this is cancelled: it would never end."""


class ClientNetwork:
    """The network of one client, which can be disconnected while the client goes on; see `net.Network`."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._links: list[MemoryLink] = []
        self._connected = asyncio.Event()
        self._connected.set()

    async def dial(self, host: str, port: int, handler: LinkHandler, *, timeout: float, frame_size_max: int) -> Link:
        """See `Network.dial`."""
        try:
            async with asyncio.timeout(timeout):
                await self._connected.wait()
        except TimeoutError:
            raise NetworkError(f"cannot connect to {host}: no answer in time", stage=Stage.CONNECT) from None
        link = await self._network.dial(host, port, handler, timeout=timeout, frame_size_max=frame_size_max)
        self._links.append(link)
        return link

    def disconnect(self) -> None:
        """Lose everything that the client sends or should receive from now on."""
        self._connected.clear()
        for link in self._links:
            link.heard = link.other.heard = False
        self._links.clear()

    def kill(self) -> None:
        """Close all connections, as the system does for a killed process, and let the client dial none."""
        self._connected.clear()
        for link in self._links:
            link.abort()
        self._links.clear()

    def reconnect(self) -> None:
        """Let the client dial again; its old connections stay dead."""
        self._connected.set()


class World:
    """Brokers in an environment, their clients, and the history of the clients.

    Args:
        simulation: the clock, the network and the seed.
        environment: the settings of brokers and clients.
        name: of the cluster, if there are two of them.

    Attributes:
        faults: the faults with their times; printed when a seed fails.
        ends: the end offsets up to which readers must read; empty until all writes have ended.
        over: no more faults are injected.
        stale_tokens: tokens issued now have expired.
        covered: how often each event occurred.
        audit_disks: finds damage that brokers have not repaired, and torn batches that they serve.
        topics: the topics that clients write and read.
    """

    def __init__(self, simulation: Simulation, environment: Environment, name: str = "") -> None:
        self.simulation = simulation
        self._name = name
        self.environment = environment
        self.history = History()
        brokers = OneBroker if environment.nodes == 1 else SeveralBrokers
        self.brokers = brokers(simulation, environment, self.rng("brokers"))
        self.audit_disks = DiskAudit(self)
        self.faults: list[str] = []
        self.ends: dict = {}
        self.over = False
        self.stale_tokens = False
        self.covered: Counter[str] = Counter()
        self.topics = [TOPIC]

    def rng(self, name: str) -> random.Random:
        """Return the random numbers of one purpose, independent of those of others.

        The names are part of the seeds: a renamed purpose changes what every seed does.
        """
        return random.Random(f"{self._name}{name} {self.simulation.seed}")

    @property
    def now_s(self) -> float:
        return self.simulation.loop.time()

    def note(self, what: str) -> None:
        self.faults.append(f"{self.now_s:.3f} {what}")

    async def call(self, name: str, work: Awaitable[T], timeout: float) -> T:
        """Wait for a call that must end by its timeout."""
        return await self._wait_for(Call(name, self.now_s, timeout), work)

    async def close(self, name: str, work: Awaitable[T], timeout: float) -> T:
        """Wait for `close(timeout)` of a client."""
        return await self._wait_for(Call(f"{name}: close", self.now_s, timeout, is_close=True), work)

    async def _wait_for(self, call: Call, work: Awaitable[T]) -> T:
        self.history.calls.append(call)
        try:
            async with asyncio.timeout(call.timeout_s + HANG_S):  # in the caller's task: consumers know their task
                return await work
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise KafkaTimeoutError(f"{call.name} hangs") from None
        finally:
            call.ended_s = self.now_s

    # -- clients

    def producer(self, name: str, **settings: object) -> AsyncProducer:
        rng = self.rng(f"settings of {name}")
        drawn: dict[str, object] = {
            "linger_ms": rng.choice([0, 1, 5, 20]),
            "batch_size": rng.choice([200, 1000, 16384]),
            "buffer_memory": rng.choice([2000, 10_000, 1_000_000]),
            "compression_type": rng.choice(["none", "none", "gzip", "lz4"]),
            "max_in_flight_requests_per_connection": rng.choice([1, 2, 5]),
            "delivery_timeout_ms": rng.choice([600, 2_000, 30_000]),
            "retry_backoff_ms": rng.choice([5, 50]),
            "max_block_ms": 20_000,
        }
        producer = AsyncProducer(**{**self._common(name), **drawn, **settings})
        record_leader_epochs(name, producer._core._engine.cluster, self.history)
        record_batches(name, producer._core.sender._outbox, self.history, self.covered, self.simulation.loop.time)
        return producer

    def consumer(self, name: str, **settings: object) -> AsyncConsumer:
        rng = self.rng(f"settings of {name}")
        drawn: dict[str, object] = {
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": rng.choice([10, 100, 300]),
            "fetch_min_bytes": rng.choice([1, 1, 500]),
            "max_partition_fetch_bytes": rng.choice([300, 1_048_576]),
            "max_poll_records": rng.choice([None, 1, 7]),
        }
        consumer = AsyncConsumer(**{**self._common(name), **drawn, **settings})
        record_leader_epochs(name, consumer._engine.cluster, self.history)
        return consumer

    def share_consumer(self, name: str, **settings: object) -> AsyncShareConsumer:
        consumer = AsyncShareConsumer(**{**self._common(name), **settings})
        record_leader_epochs(name, consumer._engine.cluster, self.history)
        return consumer

    def admin(self, name: str) -> AsyncAdmin:
        return AsyncAdmin(**self._common(name))

    def _common(self, name: str) -> dict[str, object]:
        found: dict[str, object] = {
            "bootstrap_servers": bootstrap(self.brokers.ids),
            "client_id": name,
            "request_timeout_ms": 400,
            "socket_connection_setup_timeout_ms": 300,
            "socket_connection_setup_timeout_max_ms": 600,
            "connections_max_idle_ms": self.environment.client_idle_ms,
            "metadata_max_age_ms": self.environment.metadata_max_age_ms,
            "runtime": self.runtime(name, self.simulation.network),
        }
        if self.environment.sasl_mechanism is not None:
            found |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": self.environment.sasl_mechanism}
        if self.environment.sasl_mechanism == "PLAIN":
            found |= {"sasl_username": USER, "sasl_password": PASSWORD}
        if self.environment.sasl_mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = self._token
        return found

    def runtime(self, name: str, network: Network) -> Runtime:
        """Return the runtime of a client."""
        return Runtime(network, self.simulation.clock, self.rng(f"runtime of {name}"))

    async def _token(self) -> str:
        now_s = self.simulation.clock.time_ms() / 1000
        return unsecured_token(USER, now_s - 7200 * self.stale_tokens, self.environment.token_lifetime_s)
