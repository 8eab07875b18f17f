"""What must hold after a case, whatever its hook did: the ledger of the case against the log. Start at `audit`.

- A record is in the log once if its ticket says so, and not at all if its ticket says that it failed; without a ticket,
  once at the most.
- What no flush, commit, close or callback has told of is in the log.
- Of a transaction that was committed, everything that was acknowledged is read; of an aborted one, nothing; of any
  other, all or nothing. No transaction hangs.
- A consumer is given every record before its committed offset, and none twice unless it was told to go back.
- The operation in the hook was allowed or refused by the rule, and every other call ended as its client's state
  explains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kafkaraw import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from kafkaraw.errors import ClosedError, UsageError
from tests.client.hooks.table import EXPECTED_ERRORS, Case, End, Expectation, expectation
from tests.client.hooks.world import (
    PARTITIONS,
    SOURCE,
    SOURCE_BATCH,
    SOURCE_RECORDS,
    SOURCES,
    TOPIC,
    Call,
    Sent,
    World,
    failed,
    is_the_hooks_own,
)

MOVES = {"seek", "assign", "unsubscribe", "subscribe", "close consumer"}
"""Operations after which a consumer may go on at another position."""
LIMIT_BYTES = 1_000
NOT_ALWAYS_CALLED = {"log handler", "__del__", "signal handler", "signal handler of a consumer"}


def prepare(servers: str) -> None:
    """Make the topics, and fill the one that is read."""
    with Admin(bootstrap_servers=servers) as admin:
        limit = {"max.message.bytes": str(LIMIT_BYTES)}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs=limit), NewTopic(SOURCE, PARTITIONS)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(SOURCE_RECORDS):
            for partition in SOURCES:
                producer.send(SOURCE, b"%d" % number, partition=partition.partition)
            if number % SOURCE_BATCH == SOURCE_BATCH - 1:
                producer.flush()


@dataclass(frozen=True)
class Log:
    """What is in the log.

    Attributes:
        written: how often each value is there.
        committed: the values that are read with `read_committed`.
        hangs: a transaction is open.
    """

    written: Counter[bytes]
    committed: set[bytes]
    hangs: bool


class LogReader:
    """Reads what has come since it was asked last.

    Args:
        servers: of the broker.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._at: dict[str, dict[TopicPartition, int]] = {"read_uncommitted": {}, "read_committed": {}}

    def read(self) -> Log:
        """Read it; nothing is left open."""
        (written, ends), (committed, stable_ends) = map(self._read, self._at)
        return Log(Counter(written), set(committed), ends != stable_ends)

    def _read(self, level: str) -> tuple[list[bytes], dict[TopicPartition, int]]:
        values: list[bytes] = []
        with Consumer(bootstrap_servers=self._servers, isolation_level=level, auto_offset_reset="earliest") as reader:
            reader.assign(reader.partitions_for(TOPIC))
            for partition, offset in self._at[level].items():
                reader.seek(partition, offset)
            ends = reader.end_offsets(reader.assignment())
            while any(reader.position(partition) < end for partition, end in ends.items()):
                for batch in reader.poll(1).values():
                    values += [record.value or b"" for record in batch]
        self._at[level] = ends
        return values, ends

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group in the source topic."""
        with Consumer(bootstrap_servers=self._servers, group_id=group) as reader:
            return {of: at.offset for of, at in reader.committed(SOURCES).items() if at is not None}


def audit(world: World, log: Log, committed_offsets: dict[TopicPartition, int]) -> list[str]:
    """What does not hold."""
    ledger, case = world.ledger, world.case
    findings = list(ledger.findings)
    if not world.fired and case.hook not in NOT_ALWAYS_CALLED:
        findings.append("the hook was not called")
    findings += [problem for call in ledger.calls if (problem := problem_of(call, world))]
    findings += records(ledger.sent, log.written, transactional=case.transactional)
    if case.transactional:
        findings += transactions(ledger.sent, ledger.ended, log.committed)
        if log.hangs:
            findings.append("in this or another case of its group a transaction hangs")
    findings += reading(world, committed_offsets)
    findings += going_on(world)
    return findings


def problem_of(call: Call, world: World) -> str | None:
    """What is wrong with how a call ended, if anything."""
    case, error = world.case, call.error
    if not call.over:
        return f"{call} (never ended)"
    if call.in_hook:
        expected = expectation(case, on_loop_thread=call.on_loop_thread)
        is_refusal = isinstance(error, UsageError) and "loop" in str(error)
        if expected is Expectation.REFUSED:
            return None if is_refusal else f"{call}, not refused"
        if error is None or (expected is Expectation.EITHER and is_refusal):
            return None
        if isinstance(error, UsageError) and "in the middle" in str(error):
            return None
        if breaks(case) and isinstance(error, KafkaError):
            return None
        return None if isinstance(error, EXPECTED_ERRORS[case.operation]) else f"{call}, not expected"
    if error is None or is_the_hooks_own(error, case) or isinstance(error, StopIteration | StopAsyncIteration):
        return None
    if not isinstance(error, KafkaError):
        return f"{call}, no error of Kafka's"
    closes = "close" in case.operation
    if isinstance(error, ClosedError) and not closes and not breaks(case):
        return f"{call}, though nothing was closed"
    return None


def breaks(case: Case) -> bool:
    """Whether the hook may break its client: a log handler that raises is in the middle of whatever is logged."""
    return case.hook == "log handler" and case.end is not End.RETURNS


def records(sent: list[Sent], written: Counter[bytes], *, transactional: bool) -> Iterator[str]:
    """Tickets against the log."""
    for each in sent:
        for value in each.values:
            times = written[value]
            if times > 1:
                yield f"{value!r} is in the log {times} times"
            if each.ticket is None:
                continue
            if not each.ticket.done:
                yield f"the ticket of {value!r} is pending after close()"
            elif failed(each.ticket):
                if times:
                    error = each.ticket.exception()
                    if "may" not in str(error) and "unknown" not in str(error):
                        yield f"{value!r} is in the log though its ticket failed: {error}"
                if not each.known and not transactional:
                    yield f"nobody was told that {value!r} failed"
            elif not times:
                yield f"{value!r} is acknowledged and not in the log"


def transactions(sent: list[Sent], ended: dict[int, str], committed: set[bytes]) -> Iterator[str]:
    """Transactions are whole."""
    numbers = {each.ended_in for each in sent if each.began_in == each.ended_in}
    for number in sorted(numbers):
        mine = [each for each in sent if each.began_in == each.ended_in == number and each.ticket is not None]
        read = {value: value in committed for each in mine if not failed(each.ticket) for value in each.values}
        how = ended.get(number)
        if how == "commit" and not all(read.values()):
            yield f"transaction {number} was committed without {[value for value, there in read.items() if not there]}"
        if how == "commit" and any(failed(each.ticket) for each in mine):
            yield f"transaction {number} was committed though a record of it failed"
        if how == "abort" and any(read.values()):
            yield f"transaction {number} was aborted, and is read"
        if how is None and len(set(read.values())) > 1:
            yield f"of transaction {number} a part is read: {read}"


def reading(world: World, committed: dict[TopicPartition, int]) -> Iterator[str]:
    """What was given against what was committed, and in which order."""
    given: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for partition, begin, end in world.ledger.given:
        given[partition].append((begin, end))
    moved = {call.name for call in world.ledger.calls if call.in_hook} & MOVES
    for partition, offset in committed.items():
        offsets = {at for begin, end in given[partition] for at in range(begin, end)}
        missing = [at for at in range(offset) if at not in offsets]
        if missing:
            yield f"{partition} is committed at {offset}, and {missing} were never given"
    for partition, spans in given.items():
        expected = 0
        for begin, end in sorted(spans):  # a call that a hook interrupted gives its records after the hook's
            if begin != expected and not moved:
                yield f"{partition}: {begin} was given where {expected} comes next"
            expected = end


def going_on(world: World) -> Iterator[str]:
    """Clients that nothing has closed or broken work as before."""
    case = world.case
    if world.producer is not None and not breaks(case) and case.operation != "close producer" and not world.goes_on:
        yield "the producer takes no more records"
