"""Exceptions, split by what the caller can do about them.

    KafkaError
    +-- RetriableError               try again: the same call may succeed later
    |   +-- NetworkError             nothing usable at the other end, or it went away (names the stage)
    |   +-- KafkaTimeoutError        a deadline passed (also a built-in TimeoutError)
    |   +-- BufferFullError          `send_nowait` found no room
    |   +-- StaleMetadataError       a broker, a leader or a topic's metadata is not known (yet)
    +-- UnknownTopicError            the topic or partition does not exist: create it, or fix its name
    +-- DeliveryError                records were not acknowledged; says which, and whether they may be written
    |   +-- DeliveryTimeoutError     ... in time (also a KafkaTimeoutError)
    +-- TransactionError             a transaction cannot go on
    |   +-- TransactionAbortableError  ... abort it; the next one may succeed
    |   +-- ProducerFencedError      ... ever: another producer took over its transactional id; make a new one, or stop
    +-- GroupError                   membership of a consumer group
    |   +-- CommitFailedError        offsets were not committed: the group has moved on without this member
    |   +-- RebalanceInProgressError offsets were not committed: call poll() first, so that the rebalance can end
    |   +-- MaxPollExceededError     the consumer stayed away for too long and left; the next poll() joins again
    |   +-- FencedInstanceIdError    another member has taken over the static name; make a new one, or stop
    +-- HandlerError                 a worker's handler failed for good, and there is no dead-letter topic
    +-- LogTruncationError           a partition no longer has records that were read from it
    +-- WakeupError                  `wakeup()` of the consumer was called: the call ended early, and lost nothing
    +-- AuthenticationError          re-authenticate: the credentials were refused
    +-- UsageError                   fix the call: wrong argument, state or setting
    |   +-- ConfigError              a setting or option is unknown, missing or out of range
    |   +-- RecordTooLargeError      one record exceeds a size limit
    |   +-- ConcurrentUseError       another thread or task uses the consumer at the moment
    |   +-- ForkedError              the object belongs to the parent process
    |   +-- ClosedError              the object was closed
    +-- InternalError                a fault in kafkaraw itself: report it, with its cause
    +-- ProtocolError                give up on this connection: the bytes make no sense
    |   +-- UnsupportedVersionError  the peer and this call share no version of an API
    |   +-- CorruptBatchError        a record batch is damaged
    |   +-- BatchTooLargeError       a record batch is larger, decompressed, than allowed
    +-- BrokerError                  a broker answered with an error code; see `code`, `name`, `retriable`
        +-- RetriableBrokerError     also a RetriableError
        +-- AuthorizationError       an ACL forbids it; says to whom, and what it would take
            +-- TopicAuthorizationError, GroupAuthorizationError, ClusterAuthorizationError,
                TransactionalIdAuthorizationError, DelegationTokenAuthorizationError

Broker codes stay data: `protocol.error_codes.error_for(code)` builds the one class that fits. A message says what
happened, at which stage, with which broker and values, and what to try.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from kafkaraw.core.producer.events import Unacknowledged


E = TypeVar("E", bound=BaseException)


def cause_of(raised: BaseException, error: BaseException) -> BaseException | None:
    """Return what to raise an error `from` that explains another one, or is that one.

    An error that is raised from itself is its own cause, so that whoever follows the causes never ends.
    """
    return error.__cause__ if raised is error else error


def copy_to_raise(error: E) -> E:
    """Return a copy of an error that several calls raise, so that each call raises an object of its own.

    Python adds the frames of every `raise` to the exception's traceback and may set its context, so an object that is
    raised again grows, keeps the frames of its callers alive, and shows each of them the others' lines.

    Args:
        error: the error to raise; it stays as it is.

    Returns:
        an error of the same type, with the same arguments, attributes, notes, cause, context and traceback so far.
        The error itself if it cannot be copied: its class is none of this package's, and its constructor raises.
    """
    kind = type(error)
    try:
        if isinstance(error, KafkaError):
            twin = kind.__new__(kind, *error.args)  # __init__ may take other arguments
            twin.args = error.args
        else:
            twin = copy.copy(error)
    except Exception:  # noqa: BLE001 - the constructor of a foreign class may raise anything
        return error
    twin.__dict__.update(error.__dict__)
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            attribute = f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name
            if hasattr(error, attribute):
                setattr(twin, attribute, getattr(error, attribute))
    if hasattr(error, "__notes__"):
        twin.__notes__ = list(error.__notes__)
    twin.__cause__, twin.__context__ = error.__cause__, error.__context__
    twin.__suppress_context__ = error.__suppress_context__
    return twin.with_traceback(error.__traceback__)


class Stage(StrEnum):
    """The step of reaching a broker at which something failed, in the order in which the steps happen."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "TLS"
    SASL = "SASL"
    API_VERSIONS = "API versions"
    METADATA = "metadata"
    REQUEST = "request"


class KafkaError(Exception):
    """Root of every exception that this package raises on purpose.

    Attributes:
        failures: what failed, when the call was about several things: each with its own error. Not kept in a pickle.
    """

    failures: Mapping[object, KafkaError] = MappingProxyType({})


class RetriableError(KafkaError):
    """The same call may succeed later. Clients retry by themselves until their timeouts; call again after a pause."""


class InternalError(KafkaError):
    """A fault in kafkaraw itself. Report it with its cause; close the client and create a new one."""


class NetworkError(RetriableError):
    """A broker cannot be reached, or the connection to it was lost.

    Check the address and that the broker runs; `kafkaraw doctor -b HOST:PORT` names what is wrong at the stage.

    Args:
        message: what happened, with which address, and what to try.
        stage: the step that failed.
    """

    def __init__(self, message: str, *, stage: Stage) -> None:
        super().__init__(message)
        self.stage = stage

    def __reduce__(self) -> tuple[object, ...]:
        return (_network_error, (type(self), str(self), self.stage))


def _network_error(kind: type[NetworkError], message: str, stage: Stage) -> NetworkError:
    return kind(message, stage=stage)


class KafkaTimeoutError(RetriableError, TimeoutError):
    """A deadline passed before the work was done.

    The broker may still do what was requested. Call again, or give the call or its setting a longer timeout.
    """


class DeliveryError(KafkaError):
    """Records were not acknowledged by any broker.

    `unacknowledged` says which, and whether they may be written. Send those again that are not; sending one that may be
    written can duplicate it.

    Args:
        message: how many records of which partitions, why, and what to try.
        unacknowledged: the same as values, one entry per partition.
    """

    def __init__(self, message: str, *, unacknowledged: Sequence[Unacknowledged] = ()) -> None:
        super().__init__(message)
        self.unacknowledged: tuple[Unacknowledged, ...] = tuple(unacknowledged)

    def __reduce__(self) -> tuple[object, ...]:
        return (_delivery_error, (type(self), str(self), self.unacknowledged))


def _delivery_error(kind: type[DeliveryError], message: str, entries: Sequence[Unacknowledged]) -> DeliveryError:
    return kind(message, unacknowledged=entries)


class DeliveryTimeoutError(DeliveryError, KafkaTimeoutError):
    """Records were not acknowledged within the timeout of the call, or within `delivery_timeout_ms`.

    Send them again as for `DeliveryError`; if it happens often, raise `delivery_timeout_ms` or look at the brokers.
    """


class TransactionError(KafkaError):
    """A transaction cannot go on. Close the producer and create a new one, unless a subclass says otherwise."""


class TransactionAbortableError(TransactionError):
    """A record or commit of the transaction failed: abort the transaction. The producer can then begin the next one."""


class ProducerFencedError(TransactionError):
    """Another producer has taken over the transactional id.

    This producer is unusable: close it. If two instances of a service share the id, give each its own.
    """


class GroupError(KafkaError):
    """An error about this consumer's membership in its group; its subclasses say what to do."""


class CommitFailedError(GroupError):
    """The consumer left the group, or the partition was revoked, before the commit was sent. Nothing was committed.

    The new owner of the partitions reads the records again. Continue with `poll()`; if it happens often, process fewer
    records between calls (`max_poll_records`), or raise `max_poll_interval_ms`.
    """


class RebalanceInProgressError(GroupError, RetriableError):
    """Offsets were not committed because the group is rebalancing. Call `poll()`, then commit again."""


class MaxPollExceededError(GroupError):
    """The application did not call `poll()` for `max_poll_interval_ms`, so the consumer left its group.

    The next `poll()` joins again. Process fewer records between calls, or raise the setting.
    """


class FencedInstanceIdError(GroupError):
    """Another consumer with the same `group_instance_id` has taken over.

    This consumer is unusable: close it, and give each instance an id of its own.
    """


class BufferFullError(RetriableError):
    """The buffer memory of the producer is full, and `send_nowait` does not wait.

    Send again after a pause, use `send`, which waits for up to `max_block_ms`, or raise `buffer_memory`.
    """


class StaleMetadataError(RetriableError):
    """A broker, a leader or a topic's metadata is not known; a metadata refresh may find it.

    Call again; before `send_nowait` to a new topic, call `partitions_for`, which fetches its metadata.
    """


class UnknownTopicError(KafkaError):
    """A topic or partition does not exist: create it, or fix its name.

    The client has asked for a few seconds, because a new topic reaches the brokers one after another. Java's
    `UnknownTopicOrPartitionException`, which is retriable there.
    """


class AuthenticationError(KafkaError):
    """The broker refused the credentials. Correct them; the same ones will be refused again."""


class UsageError(KafkaError):
    """The call is wrong and will stay wrong: fix an argument, the order of calls, or a setting."""


class ConfigError(UsageError, ValueError):
    """A setting or option is unknown, missing, or outside its limits. The message names it and what to give instead."""


class RecordTooLargeError(UsageError):
    """One record is larger than a size limit allows.

    Send a smaller one, or raise `max_request_size` or `buffer_memory`, and the topic's `max.message.bytes`.
    """


class LogTruncationError(KafkaError):
    """A partition no longer has records that were read from it: a leader without them was elected (KIP-320).

    With `auto_offset_reset`, the consumer continues at the point of divergence; without it, `seek()` to an offset.
    """


class SerializationError(UsageError):
    """A serializer refused a key or a value; the cause is its own error. The record was not sent: correct it."""


class DeserializationError(KafkaError):
    """A deserializer refused a key or a value; the cause is its own error.

    During iteration over a consumer the position stays at the record: `seek()` to `offset + 1` to skip it. A batch that
    `poll()` returned is behind the position already.

    Args:
        message: what happened.
        topic: of the record.
        partition: of the record.
        offset: of the record; `seek()` to the next one to go on without it.
    """

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class HandlerError(KafkaError):
    """A worker stops at a record that its handler cannot handle, and that has no place to go; the cause says why.

    Args:
        message: what failed, and what to do.
        topic: of the record.
        partition: of the record.
        offset: of the record, which is not committed.
    """

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (_handler_error, (str(self), self.topic, self.partition, self.offset))


def _handler_error(message: str, topic: str, partition: int, offset: int) -> HandlerError:
    return HandlerError(message, topic=topic, partition=partition, offset=offset)


class WakeupError(KafkaError):
    """`wakeup()` of the consumer was called: the call that waited ended early, and lost nothing."""


class ConcurrentUseError(UsageError):
    """Another thread or task is using the consumer. Use one consumer per thread, or a lock.

    Java's `ConcurrentModificationException`. Only `wakeup()` may be called from other threads.
    """


class ForkedError(UsageError):
    """The object belongs to the parent process. Create a new one after the fork."""


class ClosedError(UsageError):
    """The object was closed. Create a new one."""


class ProtocolError(KafkaError):
    """Bytes that do not follow the protocol, or a value that cannot be put into bytes.

    Args:
        message: what is wrong.
        path: the field, as in `topics[3].partitions[0].leader_id`; empty when it is not about one field.
        offset: the byte offset in the frame (without its size prefix); -1 when it is not about one byte.
    """

    def __init__(self, message: str, *, path: str = "", offset: int = -1) -> None:
        where = (f"{path}: " if path else "") + (f"at byte {offset}: " if offset >= 0 else "")
        super().__init__(where + message)
        self.message = message
        self.path = path
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (_protocol_error, (type(self), self.message, self.path, self.offset))


def _protocol_error(kind: type[ProtocolError], message: str, path: str, offset: int) -> ProtocolError:
    return kind(message, path=path, offset=offset)


class UnsupportedVersionError(ProtocolError):
    """Client and broker have no version of an API in common, or the version is not declared. Update the older one."""


class CorruptBatchError(ProtocolError):
    """A record batch is damaged: wrong checksum, wrong length, or undecodable content.

    `seek()` behind the batch to skip it, or restore the partition; `kafkaraw log dump` shows a segment with damage.
    """


class BatchTooLargeError(ProtocolError):
    """A record batch is larger, when decompressed, than the limit: it is refused before it fills the memory."""


class BrokerError(KafkaError):
    """A broker answered a request with an error code.

    Args:
        code: the code on the wire.
        name: Kafka's name for it, such as `NOT_LEADER_OR_FOLLOWER`.
        retriable: whether Kafka declares it retriable.
        message: what it means, with the values of this case.
    """

    def __init__(self, message: str, *, code: int, name: str, retriable: bool) -> None:
        super().__init__(f"{name} ({code}): {message}")
        self.message = message
        self.code = code
        self.name = name
        self.retriable = retriable

    def reworded(self, message: str) -> Self:
        """The same error in other words."""
        return type(self)(message, code=self.code, name=self.name, retriable=self.retriable)

    def __reduce__(self) -> tuple[object, ...]:
        return (_broker_error, (type(self), self.message, self.code, self.name, self.retriable))


def _broker_error(kind: type[BrokerError], message: str, code: int, name: str, retriable: bool) -> BrokerError:
    return kind(message, code=code, name=name, retriable=retriable)


class RetriableBrokerError(BrokerError, RetriableError):
    """A broker error that may go away: a leader moved, a replica is behind, a coordinator is loading. Call again."""


class AuthorizationError(BrokerError):
    """The broker's ACLs do not allow the principal this operation. Add an ACL, or authenticate as another principal.

    Attributes:
        resource_type: what is protected, such as "topic".
        resource_name: which one; empty when that is not known.
        operation: what would have to be allowed, such as "WRITE"; empty when that is not known.
        principal: who asked, such as "User:ada", as far as the client can know; the broker has the last word.
    """

    resource_type = "resource"

    def __init__(
        self,
        message: str,
        *,
        code: int,
        name: str,
        retriable: bool,
        resource_name: str = "",
        operation: str = "",
        principal: str = "",
    ) -> None:
        super().__init__(message, code=code, name=name, retriable=retriable)
        self.resource_name = resource_name
        self.operation = operation
        self.principal = principal

    def reworded(self, message: str) -> Self:
        """The same error in other words."""
        return self._maker()(message)

    def _maker(self) -> Callable[[str], Self]:
        return partial(
            type(self),
            code=self.code,
            name=self.name,
            retriable=self.retriable,
            resource_name=self.resource_name,
            operation=self.operation,
            principal=self.principal,
        )

    def asked_by(self, principal: str) -> Self:
        """The same error, naming who asked."""
        error = self.reworded(f"{self.message}; asked as {principal}")
        error.principal = principal
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return (self._maker(), (self.message,))


class TopicAuthorizationError(AuthorizationError):
    """The ACLs of a topic do not allow the operation; see `AuthorizationError`."""

    resource_type = "topic"


class GroupAuthorizationError(AuthorizationError):
    """The ACLs of a consumer group do not allow the operation; see `AuthorizationError`."""

    resource_type = "group"


class ClusterAuthorizationError(AuthorizationError):
    """The ACLs of the cluster do not allow the operation; see `AuthorizationError`."""

    resource_type = "cluster"


class TransactionalIdAuthorizationError(AuthorizationError):
    """The ACLs of a transactional id do not allow the operation; see `AuthorizationError`."""

    resource_type = "transactional id"


class DelegationTokenAuthorizationError(AuthorizationError):
    """The ACLs of a delegation token do not allow the operation; see `AuthorizationError`."""

    resource_type = "delegation token"
