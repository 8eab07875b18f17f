"""What a row of the tables says, and what its call has at hand: one face of the clients, and places to connect to.

A call is written once for both faces. It is a coroutine function that is given a `Desk`; what a client's method returns
is awaited if the asyncio face gave it. Start at `Mistake` and `Desk`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from click.testing import CliRunner

from kafkaraw import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    KafkaError,
    Producer,
    Ticket,
    TopicPartition,
)
from kafkaraw.cli import main

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
FILLED = TopicPartition("filled", 0)
PASSWORD = "opensesame-4711"
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "ada"}

Act = Callable[[Any], object]
"""Does something with a client."""


class CommandError(Exception):
    """A command ended with an exit code that is not 0; the text is what it printed."""


@dataclass(frozen=True)
class Places:
    """Addresses to connect to, and files; a row names them as `<name>`."""

    plain: str
    sasl: str
    tls: str
    sasl_tls: str
    other_name: str
    closed: str
    silent: str
    web: str
    alert: str
    controller: str
    authority: str
    stranger: str
    folder: Path


@dataclass(frozen=True)
class Mistake:
    """A call that is wrong, and what a user must be told.

    Attributes:
        what: names the row.
        call: makes the mistake.
        error: the exact class of the exception.
        stage: where it failed, a part of the message.
        value: what was wrong, a part of the message.
        remedy: what to do, a part of the message.
        seconds: the longest time to the answer.
        faces: which faces are tried.
    """

    what: str
    call: Callable[[Desk], Awaitable[object]]
    error: type[BaseException]
    stage: str
    value: str
    remedy: str
    seconds: float = 2.0
    faces: tuple[str, ...] = ("asyncio", "blocking")


class Desk:
    """One face of the clients.

    Args:
        face: "asyncio" or "blocking".
        places: where to connect to.
    """

    def __init__(self, face: str, places: Places) -> None:
        self.places = places
        asynchronous = face == "asyncio"
        self.Producer: Callable[..., Any] = AsyncProducer if asynchronous else Producer
        self.Consumer: Callable[..., Any] = AsyncConsumer if asynchronous else Consumer
        self.Admin: Callable[..., Any] = AsyncAdmin if asynchronous else Admin

    async def of(self, result: object) -> Any:
        """What a method gives: awaited on the asyncio face."""
        if inspect.isawaitable(result) and not isinstance(result, Ticket):
            return await result
        return result

    async def outcome(self, ticket: Ticket) -> object:
        """What became of a record."""
        return await ticket if self.Producer is AsyncProducer else ticket.result(10)

    async def first(self, records: Any) -> object:
        """The first of an iteration."""
        if hasattr(records, "__aiter__"):
            async for record in records:
                return record
        return next(iter(records))

    async def make(self, kind: Callable[..., Any], act: Act, settings: dict[str, object]) -> object:
        """Make a client, do something with it, close it; `<name>` in a setting is a place."""
        given = {"bootstrap_servers": "<plain>", **settings}
        named = {name: self.named(value) if isinstance(value, str) else value for name, value in given.items()}
        client = kind(**named)
        try:
            return await self.of(act(client))
        finally:
            with contextlib.suppress(KafkaError):
                await self.of(client.close())

    def named(self, text: str) -> str:
        """Put places in."""
        for name, place in vars(self.places).items():
            text = text.replace(f"<{name}>", str(place))
        return text

    def produce(self, act: Act, **settings: object) -> Coroutine[object, None, object]:
        """Do something with a producer."""
        return self.make(self.Producer, act, settings)

    def consume(self, act: Act, **settings: object) -> Coroutine[object, None, object]:
        """Do something with a consumer without a group."""
        return self.make(self.Consumer, act, settings)

    def member(self, act: Act, **settings: object) -> Coroutine[object, None, object]:
        """Do something with a consumer of a group."""
        return self.make(self.Consumer, act, {"group_id": "g", **settings})

    def administer(self, act: Act, **settings: object) -> Coroutine[object, None, object]:
        """Do something with an admin client."""
        return self.make(self.Admin, act, settings)

    def read(self, act: Act, **settings: object) -> Coroutine[object, None, object]:
        """Do something with a consumer that partition 0 of the topic `t` is assigned to."""
        return self.make(
            self.Consumer, lambda consumer: self.steps(consumer.assign([T0]), lambda: act(consumer)), settings
        )

    def transact(self, act: Act, **settings: object) -> Coroutine[object, None, object]:
        """Do something with a transactional producer after `init_transactions`."""
        given = {"transactional_id": "tx", **settings}
        return self.make(self.Producer, lambda p: self.steps(p.init_transactions(), lambda: act(p)), given)

    async def steps(self, first: object, *others: Callable[[], object]) -> object:
        """Do one thing after the other; gives what the last one gives."""
        result = await self.of(first)
        for other in others:
            result = await self.of(other())
        return result

    async def command(self, *arguments: str, given: bytes = b"") -> NoReturn:
        """Run `kafkaraw`, which must fail.

        Raises:
            CommandError: with what it printed.
        """
        result = CliRunner().invoke(main, [self.named(argument) for argument in arguments], input=given)
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code, result.output
        raise CommandError(result.output)


def drive(work: Coroutine[object, None, object]) -> object:
    """Run a call on the blocking face: nothing in it awaits anything."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call of the blocking face must not suspend")


async def constructed(make: Callable[[], object]) -> object:
    """Make a client, which must fail."""
    return make()
