"""The states of groups, members and transactional ids, as far as a conversation shows them.

The names are Kafka's: group states of `org.apache.kafka.coordinator.group.classic.ClassicGroupState`, member states of
the Java client (`AbstractCoordinator.MemberState`, and `MemberState` of KIP-848), states of transactional ids of
`TransactionState`. A broker knows more than its answers say, so a state here is the one that the last message implies.
Each rule is one row of a table: which API, and a function of the exchange. Pure. Start at `States`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, TypeAlias

from kafkaraw.inspect.exchanges import Exchange
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode, error_name

SUBJECTS_MAX: Final = 10_000
MEMBER_EPOCH_JOINS: Final = 0
LEFT: Final = "left"
FENCED_CODES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class Subject(Enum):
    """What has a state."""

    GROUP = "group"
    MEMBER = "member"
    TRANSACTION = "transactional id"


class Found(NamedTuple):
    """A state that a message implies.

    Attributes:
        subject: of what.
        name: of the group, member or transactional id.
        state: the state.
        details: what the message says about it, as `generation 3`.
        was: the name before, if the message gives another one.
    """

    subject: Subject
    name: str
    state: str
    details: str = ""
    was: str = ""


class Transition(NamedTuple):
    """A change of state.

    Attributes:
        subject: of what.
        name: of the group, member or transactional id.
        before: the state before; empty if it was not known.
        after: the state after.
        details: what the message says about it.
    """

    subject: Subject
    name: str
    before: str
    after: str
    details: str

    def __str__(self) -> str:
        before = f"{self.before} → " if self.before else ""
        details = f" ({self.details})" if self.details else ""
        return f"{self.subject.value} {self.name}: {before}{self.after}{details}"


class States:
    """Follows the states through the messages of a conversation, in the order of their times."""

    def __init__(self) -> None:
        self._states: dict[tuple[Subject, str], str] = {}

    def request(self, exchange: Exchange) -> list[Transition]:
        """Return the changes that a request implies."""
        return self._changed(exchange, REQUEST_RULES, exchange.request_body)

    def response(self, exchange: Exchange) -> list[Transition]:
        """Return the changes that an answer implies."""
        return self._changed(exchange, RESPONSE_RULES, exchange.response_body)

    def _changed(self, exchange: Exchange, rules: dict[str, Rule], body: object) -> list[Transition]:
        rule = rules.get(exchange.api.name) if exchange.api is not None else None
        if rule is None or body is None or exchange.request_body is None:
            return []
        return [change for found in rule(exchange, exchange.request_body, body) if (change := self._change(found))]

    def _change(self, found: Found) -> Transition | None:
        key = found.subject, found.name
        if found.was and found.was != found.name and (found.subject, found.was) in self._states:
            self._states[key] = self._states.pop((found.subject, found.was))
        before = self._states.get(key, "")
        if before == found.state or (key not in self._states and len(self._states) >= SUBJECTS_MAX):
            return None
        self._states[key] = found.state
        return Transition(found.subject, found.name, before, found.state, found.details)


Rule: TypeAlias = Callable[[Exchange, Any, Any], Iterator[Found]]
"""Takes an exchange, its request and the message in question; yields the states that this one implies."""


def _member_name(exchange: Exchange, member_id: str) -> str:
    return member_id or f"of client {exchange.client_id}"


def _join_asked(exchange: Exchange, request: Any, _: Any) -> Iterator[Found]:  # noqa: ANN401
    yield Found(Subject.MEMBER, _member_name(exchange, request.member_id), "PREPARING_REBALANCE", "joins")
    if request.member_id or exchange.version < 4:
        yield Found(Subject.GROUP, request.group_id, "PreparingRebalance")


def _join_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    before = _member_name(exchange, request.member_id)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        yield Found(Subject.MEMBER, answer.member_id, "UNJOINED", "has its member id, joins again", was=before)
    elif answer.error_code:
        yield from _failed(Subject.MEMBER, before, answer.error_code, "UNJOINED")
    else:
        role = "leader" if answer.leader == answer.member_id else "follower"
        details = f"{role} in generation {answer.generation_id}, {answer.protocol_name}"
        yield Found(Subject.MEMBER, answer.member_id, "COMPLETING_REBALANCE", details, was=before)
        yield Found(Subject.GROUP, request.group_id, "CompletingRebalance", f"generation {answer.generation_id}")


def _sync_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    if answer.error_code:
        yield from _failed(Subject.MEMBER, request.member_id, answer.error_code, "UNJOINED")
    else:
        yield Found(Subject.MEMBER, request.member_id, "STABLE", _assigned(bytes(answer.assignment)))
        yield Found(Subject.GROUP, request.group_id, "Stable", f"generation {request.generation_id}")


def _heartbeat_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
        yield Found(Subject.MEMBER, request.member_id, "PREPARING_REBALANCE", "a rebalance has begun")
    elif answer.error_code:
        yield from _failed(Subject.MEMBER, request.member_id, answer.error_code, "UNJOINED")


def _leave_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    if not answer.error_code:
        members = [member.member_id for member in request.members] or [request.member_id]
        for member_id in members:
            yield Found(Subject.MEMBER, member_id, LEFT)
        yield Found(Subject.GROUP, request.group_id, "PreparingRebalance", "a member has left")


def _consumer_asked(exchange: Exchange, request: Any, _: Any) -> Iterator[Found]:  # noqa: ANN401
    name = _member_name(exchange, request.member_id)
    if request.member_epoch == MEMBER_EPOCH_JOINS:
        yield Found(Subject.MEMBER, name, "JOINING")
    elif request.member_epoch < 0:
        yield Found(Subject.MEMBER, name, "LEAVING")
    elif getattr(request, "topic_partitions", None) is not None:
        owned = _count_partitions(request.topic_partitions)
        yield Found(Subject.MEMBER, name, "ACKNOWLEDGING", f"owns {owned} in epoch {request.member_epoch}")


def _consumer_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    before = _member_name(exchange, request.member_id)
    name = answer.member_id or before
    if answer.error_code:
        yield from _failed(Subject.MEMBER, name, answer.error_code, "FENCED")
    elif request.member_epoch < 0:
        yield Found(Subject.MEMBER, name, LEFT, was=before)
    elif answer.assignment is not None:
        assigned = _count_partitions(answer.assignment.topic_partitions)
        yield Found(
            Subject.MEMBER, name, "RECONCILING", f"{assigned} assigned in epoch {answer.member_epoch}", was=before
        )
    else:
        yield Found(Subject.MEMBER, name, "STABLE", f"epoch {answer.member_epoch}", was=before)


def _count_partitions(topics: Any) -> str:  # noqa: ANN401
    count = sum(len(topic.partitions) for topic in topics)
    return f"{count} partition{'' if count == 1 else 's'}"


def _identity(body: Any) -> str:  # noqa: ANN401
    return f"producer id {body.producer_id}, epoch {body.producer_epoch}"


def _producer_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    if request.transactional_id:
        if answer.error_code:
            yield from _failed(Subject.TRANSACTION, request.transactional_id, answer.error_code, "")
        else:
            yield Found(Subject.TRANSACTION, request.transactional_id, "EMPTY", _identity(answer))


def _added(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    names = [one.transactional_id for one in getattr(request, "transactions", ())]
    single = getattr(request, "transactional_id", "") or getattr(request, "v3_and_below_transactional_id", "")
    for name in filter(None, names or [single]):
        error = next(iter(exchange.errors), None)
        if error is not None:
            yield from _failed(Subject.TRANSACTION, name, error.code, "")
        else:
            yield Found(Subject.TRANSACTION, name, "ONGOING", f"by {exchange.name}")


def _end_asked(exchange: Exchange, request: Any, _: Any) -> Iterator[Found]:  # noqa: ANN401
    state = "PREPARE_COMMIT" if request.committed else "PREPARE_ABORT"
    yield Found(Subject.TRANSACTION, request.transactional_id, state)


def _end_answered(exchange: Exchange, request: Any, answer: Any) -> Iterator[Found]:  # noqa: ANN401
    name = request.transactional_id
    if answer.error_code:
        yield from _failed(Subject.TRANSACTION, name, answer.error_code, "")
    else:
        details = _identity(answer) if exchange.version >= 5 else ""
        state = "COMPLETE_COMMIT" if request.committed else "COMPLETE_ABORT"
        yield Found(Subject.TRANSACTION, name, state, details)


def _failed(subject: Subject, name: str, code: int, state: str) -> Iterator[Found]:
    if code in FENCED_CODES:
        yield Found(subject, name, "fenced", error_name(code))
    elif state:
        yield Found(subject, name, state, error_name(code))


def _assigned(assignment: bytes) -> str:
    from kafkaraw.errors import ProtocolError
    from kafkaraw.protocol import decode_message
    from kafkaraw.protocol.embedded.consumer_protocol import ConsumerProtocolAssignment

    if len(assignment) < 2:
        return "no partitions"
    try:
        found = decode_message(
            ConsumerProtocolAssignment, min(int.from_bytes(assignment[:2]), 3), assignment, 2, allow_trailing_bytes=True
        )
    except ProtocolError:
        return f"an assignment of {len(assignment)} bytes"
    return ", ".join(f"{one.topic} {one.partitions}" for one in found.assigned_partitions) or "no partitions"


REQUEST_RULES: Final[dict[str, Rule]] = {
    "JoinGroup": _join_asked,
    "ConsumerGroupHeartbeat": _consumer_asked,
    "ShareGroupHeartbeat": _consumer_asked,
    "EndTxn": _end_asked,
}
RESPONSE_RULES: Final[dict[str, Rule]] = {
    "JoinGroup": _join_answered,
    "SyncGroup": _sync_answered,
    "Heartbeat": _heartbeat_answered,
    "OffsetCommit": lambda exchange, request, answer: (
        found
        for error in exchange.errors[:1]
        for found in _failed(Subject.MEMBER, request.member_id, error.code, "")
        if request.member_id
    ),
    "LeaveGroup": _leave_answered,
    "ConsumerGroupHeartbeat": _consumer_answered,
    "ShareGroupHeartbeat": _consumer_answered,
    "InitProducerId": _producer_answered,
    "AddPartitionsToTxn": _added,
    "AddOffsetsToTxn": _added,
    "TxnOffsetCommit": _added,
    "Produce": _added,
    "EndTxn": _end_answered,
}
