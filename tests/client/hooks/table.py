"""What the harness combines: hooks, operations, outcomes, and what is expected of an operation inside a hook.

A hook is a point at which a client runs code of its user. `place` says where a blocking client runs it: on the thread
of the call, on the clients' loop thread, or on either. An operation is a call that the code makes there. The rule,
`expectation`, is the one of docs/decisions/0026: an operation that waits is refused on the loop thread, and everything
else is allowed. What an operation that is allowed may raise depends on the state of its client (`EXPECTED_ERRORS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Final

from kafkaraw.errors import (
    ClosedError,
    CommitFailedError,
    DeliveryError,
    KafkaError,
    RebalanceInProgressError,
    TransactionAbortableError,
    UsageError,
)


class Role(Enum):
    """Which client."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Place(Enum):
    """Where a blocking client runs a hook."""

    CALLER = "the thread of the call"
    LOOP = "the clients' loop thread"
    EITHER = "any thread"


class End(Enum):
    """How a hook ends."""

    RETURNS = "returns"
    EXCEPTION = "ValueError"
    INTERRUPT = "KeyboardInterrupt"
    EXIT = "SystemExit"

    def come(self) -> None:
        """End the hook that way."""
        match self:
            case End.EXCEPTION:
                raise ValueError("the hook's own")
            case End.INTERRUPT:
                raise KeyboardInterrupt("the hook's own")
            case End.EXIT:
                raise SystemExit("the hook's own")
            case End.RETURNS:
                return


class Expectation(Enum):
    """What becomes of an operation in a hook."""

    ALLOWED = "it returns, or raises what the state of its client explains"
    REFUSED = "UsageError, because it would wait for its own thread"
    EITHER = "one or the other"


@dataclass(frozen=True)
class Hook:
    """A point at which a client runs code of its user."""

    name: str
    role: Role
    place: Place


@dataclass(frozen=True)
class Operation:
    """A call of a client.

    Attributes:
        waits: it needs the clients' loop; None when that depends on what is in hand.
        transactional: it makes sense for a producer with a `transactional_id` only.
    """

    name: str
    role: Role
    waits: bool | None = True
    transactional: bool = False


P, C = Role.PRODUCER, Role.CONSUMER

HOOKS: Final = {
    hook.name: hook
    for hook in (
        Hook("delivery callback", P, Place.LOOP),
        Hook("on_acknowledgement", P, Place.LOOP),
        Hook("on_send", P, Place.CALLER),
        Hook("partitioner", P, Place.CALLER),
        Hook("key serializer", P, Place.CALLER),
        Hook("value serializer", P, Place.CALLER),
        Hook("log handler", P, Place.EITHER),
        Hook("__del__", P, Place.EITHER),
        Hook("signal handler", P, Place.CALLER),
        Hook("on_consume", C, Place.CALLER),
        Hook("deserializer", C, Place.CALLER),
        Hook("on_commit", C, Place.LOOP),
        Hook("commit callback", C, Place.LOOP),
        Hook("on_assigned", C, Place.CALLER),
        Hook("on_revoked", C, Place.CALLER),
        Hook("signal handler of a consumer", C, Place.CALLER),
    )
}

OPERATIONS: Final = {
    operation.name: operation
    for operation in (
        Operation("send", P, waits=None),
        Operation("send_nowait", P, waits=False),
        Operation("send_arrow", P, waits=None),
        Operation("result", P, waits=None),
        Operation("flush", P),
        Operation("begin_transaction", P, transactional=True),
        Operation("commit_transaction", P, transactional=True),
        Operation("abort_transaction", P, transactional=True),
        Operation("send_offsets", P, transactional=True),
        Operation("close producer", P),
        Operation("poll", C, waits=None),
        Operation("next", C, waits=None),
        Operation("batches", C, waits=None),
        Operation("poll_arrow", C, waits=None),
        Operation("seek", C),
        Operation("pause", C),
        Operation("subscribe", C),
        Operation("unsubscribe", C),
        Operation("assign", C),
        Operation("commit", C),
        Operation("commit_nowait", C),
        Operation("close consumer", C),
    )
}

ENDED: Final = (ClosedError,)
EXPECTED_ERRORS: Final[dict[str, tuple[type[KafkaError], ...]]] = {
    "send": (UsageError, TransactionAbortableError, ClosedError),  # a transaction that is being ended takes no records
    "send_nowait": (UsageError, TransactionAbortableError, ClosedError),
    "send_arrow": (UsageError, TransactionAbortableError, ClosedError),
    "result": (DeliveryError, KafkaError),  # what became of the record
    "flush": (DeliveryError, ClosedError),
    "begin_transaction": (UsageError, TransactionAbortableError, ClosedError),
    "commit_transaction": (UsageError, TransactionAbortableError, ClosedError),
    "abort_transaction": (UsageError, ClosedError),
    "send_offsets": (UsageError, TransactionAbortableError, ClosedError),
    "close producer": (DeliveryError,),
    "poll": (UsageError, ClosedError),  # in a rebalance listener, or without an assignment
    "next": (UsageError, ClosedError, StopIteration, StopAsyncIteration),
    "batches": (UsageError, ClosedError, StopIteration, StopAsyncIteration),
    "poll_arrow": (UsageError, ClosedError),
    "seek": (UsageError, ClosedError),  # the partition is not assigned
    "pause": (UsageError, ClosedError),
    "subscribe": (ClosedError,),
    "unsubscribe": (ClosedError,),
    "assign": (UsageError, ClosedError),  # there is a subscription
    "commit": (CommitFailedError, RebalanceInProgressError, ClosedError),
    "commit_nowait": (ClosedError,),
    "close consumer": (),
}
"""What an operation may raise in the states to which a case brings its client."""


@dataclass(frozen=True)
class Case:
    """One combination.

    Attributes:
        blocking: on `Producer` and `Consumer`; else on `AsyncProducer` and `AsyncConsumer`.
        refused: the broker refuses a record, so that there is a failure to report.
        transactional: the producer makes transactions.
    """

    blocking: bool
    hook: str
    operation: str
    end: End
    refused: bool
    transactional: bool

    def __str__(self) -> str:
        parts = ["blocking" if self.blocking else "async", self.hook, self.operation, self.end.value]
        return "/".join([*parts, *(["refused"] * self.refused), *(["transactional"] * self.transactional)])

    def needs(self, role: Role) -> bool:
        """Whether there is such a client in it."""
        return role in (HOOKS[self.hook].role, OPERATIONS[self.operation].role)


def expectation(case: Case, *, on_loop_thread: bool) -> Expectation:
    """What becomes of the operation, where the hook was really run."""
    if not case.blocking or not on_loop_thread:
        return Expectation.ALLOWED
    waits = OPERATIONS[case.operation].waits
    if waits is None:
        return Expectation.EITHER
    return Expectation.REFUSED if waits else Expectation.ALLOWED


def every_case() -> list[Case]:
    """All cases, in an order in which neighbours differ in their ends only."""
    return [
        Case(blocking, hook.name, operation.name, end, refused, transactional)
        for blocking, hook, operation in product((True, False), HOOKS.values(), OPERATIONS.values())
        for end, refused, transactional in product(End, (False, True), (False, True))
        if P in (hook.role, operation.role) or not (refused or transactional)
        if transactional or not operation.transactional
    ]
