"""Kinds of senders: producers with settings that stress one limit, and the guarantees that each has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket
from tests.simulation.clients import CATCH_UP_S, persist, settle
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import World


@dataclass(frozen=True)
class Sender:
    """A kind of sender.

    Attributes:
        settings: settings of its producer; the others are drawn.
        weak: acknowledged records may be lost.
        repeating: a record may be written twice.
        unordered: records may be written in another order than that of sending.
        in_turn: the first copies of records are in the order of sending, though there may be more copies.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    weak: bool = False
    repeating: bool = False
    unordered: bool = False
    in_turn: bool = False


_PLAIN = {"enable_idempotence": False}
_MANY = {"max_in_flight_requests_per_connection": 5, "linger_ms": 0, "batch_size": 200, "buffer_memory": 1_000_000}

SENDERS = {
    "idempotent": Sender(),
    "many in flight": Sender(_MANY),
    "lingering": Sender({"linger_ms": 60}),
    "short of memory": Sender({"buffer_memory": 700, "delivery_timeout_ms": 4_000}),
    "small requests": Sender({"max_request_size": 700, "batch_size": 300}),
    "impatient": Sender({**_MANY, "delivery_timeout_ms": 500}),
    "at most once": Sender({"retries": 0, **_PLAIN}, unordered=True),
    "plain, many in flight": Sender({**_MANY, **_PLAIN}, repeating=True, unordered=True),
    "plain, one in flight": Sender(
        {**_PLAIN, "max_in_flight_requests_per_connection": 1}, repeating=True, in_turn=True
    ),
    "acks=1": Sender({"acks": 1, **_MANY, **_PLAIN}, weak=True, repeating=True, unordered=True),
    "acks=0": Sender({"acks": 0, **_PLAIN}, weak=True, repeating=True, unordered=True),
}
SENSITIVE_TO_REPEATS = ("impatient", "many in flight", "idempotent", "lingering")
AT_A_TIME = 4
BURSTS = 14


def draw(rng: random.Random) -> list[str]:
    """Draw the senders of one run."""
    drawn = rng.sample(list(SENDERS), AT_A_TIME)
    if rng.random() < 0.5 and "impatient" not in drawn:
        drawn[0] = "impatient"  # its epochs change while earlier requests may arrive again
    return drawn


class Bursts:
    """A sender that sends bursts of records with pauses; after the faults, its last records must be acknowledged."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self._rng = world.rng(name)
        self._producer = world.producer(name, **SENDERS[name].settings)
        self._tickets: list[tuple[bytes, Ticket]] = []
        for flag in ("weak", "repeating", "unordered", "in_turn"):
            if getattr(SENDERS[name], flag):
                getattr(world.history, flag).add(name)
        if world.environment.repeats_requests and not SENDERS[name].settings.get("enable_idempotence", True):
            world.history.repeating.add(name)

    async def run(self) -> None:
        """Send while faults are injected."""
        rng = self._rng
        for _ in range(BURSTS):
            size = rng.choice([0, 0, 40, 250])
            for _ in range(rng.randrange(1, 9)):
                await self._send(rng.randrange(PARTITIONS), b"." * rng.randint(0, size))
            await asyncio.sleep(rng.choice([0, 0.001, rng.uniform(0, 0.3)]))
            if rng.random() < 0.1:
                timeout = rng.uniform(0.01, 2)
                with suppress(KafkaError):
                    await self._world.call(f"{self._name}: flush", self._producer.flush(timeout), timeout)

    async def end(self) -> None:
        """After the faults, send until a record is acknowledged in each partition, then close."""
        for partition in range(PARTITIONS):
            give_up_s = self._world.now_s + CATCH_UP_S
            while (error := await self._try(partition)) is not None:
                if self._world.now_s > give_up_s:
                    self._world.history.stuck.append(f"{self._name} in partition {partition}: {error!r}")
                    break
        await settle(self._world, self._name, self._producer, self._tickets)

    async def _try(self, partition: int) -> BaseException | None:
        ticket = await self._send(partition, b"at last")
        with suppress(KafkaError):
            await ticket
        return ticket.exception()

    async def _send(self, partition: int, content: bytes) -> Ticket:
        value = b"%s-%d-%s" % (self._name.encode(), len(self._tickets), content)
        send = partial(self._producer.send, TOPIC, value, partition=partition)
        ticket = await persist(self._world, self._producer, send)
        self._world.history.sent[self._name].append(value)
        self._tickets.append((value, ticket))
        return ticket
