"""Many kinds of senders, each with the settings that make its way to the brokers a narrow one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket
from tests.simulation.clients import persist, settle
from tests.simulation.climate import PARTITIONS, TOPIC
from tests.simulation.world import World


@dataclass(frozen=True)
class Sender:
    """A kind of sender.

    Attributes:
        settings: of its producer; those that are not given are drawn.
        weak: what is acknowledged to it may be lost.
        repeating: it may write a record twice.
        unordered: its records may stand in another order than that of sending.
        in_turn: the first ones of its repeats may not.
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
    "impatient": Sender({**_MANY, "delivery_timeout_ms": 250, "request_timeout_ms": 150}),
    "at most once": Sender({"retries": 0, **_PLAIN}, unordered=True),
    "plain, many in flight": Sender({**_MANY, **_PLAIN}, repeating=True, unordered=True),
    "plain, one in flight": Sender(
        {**_PLAIN, "max_in_flight_requests_per_connection": 1}, repeating=True, in_turn=True
    ),
    "acks=1": Sender({"acks": 1, **_MANY, **_PLAIN}, weak=True, repeating=True, unordered=True),
    "acks=0": Sender({"acks": 0, **_PLAIN}, weak=True, repeating=True, unordered=True),
}
AT_A_TIME = 4
BURSTS = 14


def draw(rng: random.Random) -> list[str]:
    """The senders of one life."""
    return rng.sample(list(SENDERS), AT_A_TIME)


async def send_in_bursts(world: World, name: str) -> None:
    """A sender's life: many records at once, then a rest; see what becomes of each, close."""
    sender, history = SENDERS[name], world.history
    for flag in ("weak", "repeating", "unordered", "in_turn"):
        if getattr(sender, flag):
            getattr(history, flag).add(name)
    if world.climate.repeats and not sender.settings.get("enable_idempotence", True):
        history.repeating.add(name)
    producer, rng = world.producer(name, **sender.settings), world.rng(name)
    tickets: list[tuple[bytes, Ticket]] = []
    for _ in range(BURSTS):
        size = rng.choice([0, 0, 40, 250])
        for _ in range(rng.randrange(1, 9)):
            value = b"%s-%d-%s" % (name.encode(), len(tickets), b"." * rng.randint(0, size))
            send = partial(producer.send, TOPIC, value, partition=rng.randrange(PARTITIONS))
            ticket = await persist(world, producer, send)
            history.sent[name].append(value)
            tickets.append((value, ticket))
        await asyncio.sleep(rng.choice([0, 0.001, rng.uniform(0, 0.3)]))
        if rng.random() < 0.1:
            timeout = rng.uniform(0.01, 2)
            with suppress(KafkaError):
                await world.call(f"{name}: flush", producer.flush(timeout), timeout)
    await settle(world, name, producer, tickets)
