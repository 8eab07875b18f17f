"""A small world in virtual time: brokers, clients made for it, and a history of what the clients saw.

What goes wrong in it is in `trouble`, what clients do in `clients`, whole lives in `lives`.
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
from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.sasl.oauthbearer import unsecured_token
from kafkaraw.errors import KafkaError, KafkaTimeoutError
from kafkaraw.net import Network
from kafkaraw.testing.audit import Call, History
from kafkaraw.testing.virtual import Simulation
from tests.simulation.brokers import OneBroker, SeveralBrokers, bootstrap
from tests.simulation.climate import PASSWORD, TOPIC, USER, Climate
from tests.simulation.shipments import watch_shipments

T = TypeVar("T")
HANG_S = 30.0
"""A call that is so late never ends."""


class World:
    """Brokers in a climate, and the history of their clients.

    Attributes:
        faults: what went wrong, and when; printed when a seed fails.
        ends: where the reading ends, once the writing is over.
        over: nothing more is to go wrong.
        stale_tokens: tokens that are handed out now have expired long ago.
        covered: how often things happened for which lives are made.
        topics: what clients write to and read.
    """

    def __init__(self, simulation: Simulation, climate: Climate) -> None:
        self.simulation = simulation
        self.climate = climate
        self.history = History()
        brokers = OneBroker if climate.nodes == 1 else SeveralBrokers
        self.brokers = brokers(simulation, climate, self.rng("brokers"))
        self.faults: list[str] = []
        self.ends: dict = {}
        self.over = False
        self.stale_tokens = False
        self.covered: Counter[str] = Counter()
        self.topics = [TOPIC]

    def rng(self, name: str) -> random.Random:
        """Randomness for one purpose: what is drawn for another one does not disturb it."""
        return random.Random(f"{name} {self.simulation.seed}")

    @property
    def now_s(self) -> float:
        return self.simulation.loop.time()

    def note(self, what: str) -> None:
        self.faults.append(f"{self.now_s:.3f} {what}")

    async def call(self, name: str, work: Awaitable[T], timeout: float) -> T:
        """Wait for something that must end in time."""
        return await self._wait_for(Call(name, self.now_s, timeout), work)

    async def close(self, name: str, work: Awaitable[T], timeout: float) -> T:
        """Wait for a client that is closed with a timeout."""
        return await self._wait_for(Call(f"{name}: close", self.now_s, timeout, is_close=True), work)

    async def _wait_for(self, call: Call, work: Awaitable[T]) -> T:
        self.history.calls.append(call)
        try:
            async with asyncio.timeout(call.timeout_s + HANG_S):  # in the task that asks: who reads makes a difference
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
        self._watch_beliefs(name, producer._core._engine.cluster)
        watch_shipments(name, producer._core.sender._outbox, self.history, self.covered, self.simulation.loop.time)
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
        self._watch_beliefs(name, consumer._engine.cluster)
        return consumer

    def admin(self, name: str) -> AsyncAdmin:
        return AsyncAdmin(**self._common(name))

    def _watch_beliefs(self, name: str, view: ClusterView) -> None:
        """Write down which leader epochs a client comes to believe in."""
        seen, update, update_leader = self.history.leader_epochs[name], view.update, view.update_leader

        def note() -> None:
            for tp in view.partitions_of(TOPIC) or ():
                seen.append((tp, view.topic_id_of(TOPIC), view.leader_epoch_of(tp)))

        def noted_update(*args: object, **kwargs: object) -> None:
            update(*args, **kwargs)
            note()

        def noted_update_leader(*args: object) -> bool:
            news = update_leader(*args)
            note()
            return news

        view.update, view.update_leader = noted_update, noted_update_leader

    def _common(self, name: str) -> dict[str, object]:
        found: dict[str, object] = {
            "bootstrap_servers": bootstrap(self.brokers.ids),
            "client_id": name,
            "request_timeout_ms": 400,
            "socket_connection_setup_timeout_ms": 300,
            "socket_connection_setup_timeout_max_ms": 600,
            "connections_max_idle_ms": self.climate.client_idle_ms,
            "metadata_max_age_ms": self.climate.metadata_max_age_ms,
            "runtime": self.runtime(name, self.simulation.network),
        }
        if self.climate.login is not None:
            found |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": self.climate.login}
        if self.climate.login == "PLAIN":
            found |= {"sasl_username": USER, "sasl_password": PASSWORD}
        if self.climate.login == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = self._token
        return found

    def runtime(self, name: str, network: Network) -> Runtime:
        """The surroundings of a client."""
        return Runtime(network, self.simulation.clock, self.rng(f"runtime of {name}"))

    async def _token(self) -> str:
        now_s = self.simulation.clock.time_ms() / 1000
        return unsecured_token(USER, now_s - 7200 * self.stale_tokens, self.climate.token_lifetime_s)
