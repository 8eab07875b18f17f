"""The names of what must hold: Jepsen's, of its Kafka checker, and those of calls and answers. See `audit`."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Invariant(StrEnum):
    """What must hold; the value names its violation."""

    UNSETTLED = "unsettled"
    """Whoever sent a record is told what became of it."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """One offset of a partition never shows two values, to whoever reads it, whenever."""
    LOST_WRITE = "lost write"
    """Whoever has read past an acknowledged record has read it."""
    UNSEEN = "unseen"
    """An acknowledged record is read in the end, by all who read to the end."""
    DUPLICATE = "duplicate"
    """No value is at two offsets (with idempotence)."""
    SEND_SKIP = "send skip"
    """One producer's values stand in each partition in the order of sending (with idempotence)."""
    DENIED_WRITE = "denied write"
    """A record that its producer calls not written is nowhere."""
    OVERTAKEN = "overtaken"
    """What is sent again goes before what is sent to the same partition for the first time."""
    REWRITTEN = "rewritten"
    """The same sequence numbers always stand for the same bytes."""
    POLL_SKIP = "poll skip"
    """A consumer's offsets do not jump over records, also when it goes on where it said that it stood."""
    NONMONOTONIC_POLL = "nonmonotonic poll"
    """A consumer's offsets do not go back."""
    ABORTED_READ = "aborted read"
    """Whoever reads committed records only never sees one of an aborted transaction (G1a)."""
    TORN_TRANSACTION = "torn transaction"
    """Of a transaction, everything is read or nothing; of a committed one, everything."""
    TORN_POSITION = "torn position"
    """The positions of a group are those of the last transaction with positions that is seen."""
    ZOMBIE = "zombie"
    """A producer whose place another one has taken commits nothing any more."""
    TWO_OWNERS = "two owners"
    """No partition is owned by two members in the same generation, or epoch."""
    UNOWNED = "unowned"
    """Once nobody comes or goes any more, every partition has one owner within a bounded time."""
    STRAY = "stray"
    """A member is given records of partitions only that it has."""
    UNPROCESSED = "unprocessed"
    """A group processes every record at least once."""
    PROCESSED_AGAIN = "processed again"
    """What was committed before a member got a partition, it does not process again: exactly once, if all give back."""
    POSITION_TOO_FAR = "position too far"
    """A group's position is never behind a record that nobody has processed."""
    POSITION_WENT_BACK = "position went back"
    """A group's position does not go back unless somebody asks for that."""
    SEEK_MISSED = "seek missed"
    """Whoever seeks is given the first record from there on."""
    GHOST = "ghost"
    """Whoever has left its group sends no heartbeats, and does not join by itself."""
    SKIPPED_OTHER_ROWS = "skipped other rows"
    """A task of the exactly-once sink that repeats a batch skips exactly the rows that are committed in its slot."""
    SEVERAL_DECISIONS = "several decisions"
    """All committed transactions of a micro-batch stand in one decision."""
    LEFT_OPEN = "left open"
    """After a committed micro-batch, no transaction with the query's prefix is open."""
    GAVE_UP_WHILE_ADVANCING = "gave up while advancing"
    """A read task ends if its position advances, within the task's patience each time."""
    CLOSE_OVERDUE = "close overdue"
    """`close(timeout)` returns within the timeout plus a stated bound."""
    OVERDUE = "overdue"
    """A call ends by its deadline."""
    ANSWERED_TWICE = "answered twice"
    """A request gets one answer, after those of the requests before it on its connection."""
    EPOCH_WENT_BACK = "epoch went back"
    """What a client believes of a partition's leader is never replaced by something older."""
    STUCK = "stuck"
    """Once nothing is wrong any more, everything works again."""
    LEFT_OVER = "left over"
    """When all clients are closed, no promise, task, timer or byte of memory is left."""


class Violation(NamedTuple):
    """An invariant that did not hold, and where."""

    invariant: Invariant
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"
