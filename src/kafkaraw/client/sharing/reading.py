"""`ShareReading`: acquires records from the leaders of the assigned partitions, and acknowledges them.

There is one share session with each leader, and one request in flight in each session: a ShareFetch, which carries the
acknowledgements that are due, or a ShareAcknowledge. Requests run in tasks of their own, so a call that times out loses
no records. Records are not acquired ahead of the application: their locks would run out while they wait. This module
must not know of heartbeats. Start at `ShareReading.take`, then `_exchange`.
Source: KIP-932; Kafka's ShareConsumeRequestManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kafkaraw.client.config import ShareConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.share_consumer_metrics import ShareCounters
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.sharing.batch import AcquiredBatch, Decoding
from kafkaraw.client.sharing.outcomes import CommitCall, Outcomes, PendingAcknowledgement
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.core.retry import Backoff
from kafkaraw.core.share.acknowledgements import AcknowledgedRange, AcknowledgeType, AcquiredRange, RecordsInHand
from kafkaraw.core.share.sessions import ShareFetchLimits, ShareSession, TopicIdPartition
from kafkaraw.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
    UsageError,
    copy_to_raise,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable
from kafkaraw.protocol.messages import share_acknowledge, share_fetch
from kafkaraw.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafkaraw.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkaraw.records import Batch, TopicPartition

log: logging.Logger = logging.getLogger(__name__)

_SHARE_FETCH: Final = 78
_RENEWAL_FROM_VERSION: Final = 2
_ACQUIRE_MODES: Final = {"batch_optimized": 0, "record_limit": 1}
_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class _Link:
    """The share session with one broker, and what is to be said in it.

    Attributes:
        node_id: the broker.
        session: the session.
        pending: acknowledgements to send.
        sent: acknowledgements in the request in flight.
        refused: acknowledgements that the broker could not store, to send again.
        again_at_s: `refused` are not sent before this time of the loop.
        task: the request in flight; None for none.
        retry_at_s: no ShareFetch before this time of the loop.
        failures: requests that failed in a row.
        turn: when it was asked for records last, as a number that grows with each request.
    """

    __slots__ = (
        "again_at_s",
        "failures",
        "node_id",
        "pending",
        "refused",
        "retry_at_s",
        "sent",
        "session",
        "task",
        "turn",
    )

    def __init__(self, node_id: int, session: ShareSession) -> None:
        self.node_id: int = node_id
        self.session: ShareSession = session
        self.pending: list[PendingAcknowledgement] = []
        self.sent: list[PendingAcknowledgement] = []
        self.refused: list[PendingAcknowledgement] = []
        self.again_at_s: float = 0.0
        self.task: asyncio.Task[None] | None = None
        self.retry_at_s: float = 0.0
        self.failures: int = 0
        self.turn: int = 0


@dataclass(frozen=True, slots=True)
class _Acquired:
    """A batch and where it was acquired.

    Attributes:
        batch: the records.
        partition: their partition.
        link: the broker.
        incarnation: the session.
    """

    batch: AcquiredBatch
    partition: TopicIdPartition
    link: _Link
    incarnation: int

    @property
    def is_lost(self) -> bool:
        """Whether the session has ended: the broker has released the records."""
        return self.incarnation != self.link.session.incarnation


class ShareReading:
    """The share sessions of a consumer, and its records.

    Args:
        engine: connections and metadata.
        config: the consumer's settings.
        member_id: the member in whose name it reads.
        decoding: what happens to each record.

    Attributes:
        assignment: the partitions to read, by topic id; to be set by the membership.
        outcomes: what became of acknowledgements.
        counters: what is counted.
        lock_timeout_ms: how long acquired records stay locked, as a broker has said last; None before that.
        can_renew: whether the brokers that were asked so far can renew locks (KIP-1222).
        wakeup: is set when a call that waits has to look again.
        check: raises the error of the member; to be set by the consumer.
        is_ending: whether the consumer is being closed: nothing more is acquired.
    """

    def __init__(self, engine: Engine, config: ShareConsumerConfig, member_id: str, decoding: Decoding) -> None:
        self.assignment: Mapping[Uuid, tuple[int, ...]] = {}
        self.counters: ShareCounters = ShareCounters()
        self.outcomes: Outcomes = Outcomes(self.counters)
        self.lock_timeout_ms: int | None = None
        self.can_renew: bool = True
        self.wakeup: asyncio.Event = asyncio.Event()
        self.check: Callable[[], None] = lambda: None
        self.is_ending: bool = False
        self._engine = engine
        self._config = config
        self._member_id = member_id
        self._decoding = decoding
        self._limits = ShareFetchLimits(
            config.fetch_min_bytes,
            config.fetch_max_wait_ms,
            config.fetch_max_bytes,
            config.max_poll_records,
            _ACQUIRE_MODES[config.share_acquire_mode],
        )
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._links: dict[int, _Link] = {}
        self._buffer: deque[_Acquired] = deque()
        self._in_hand: list[_Acquired] = []
        self._turns = 0  # number of ShareFetch requests
        self._refreshing: asyncio.Task[None] | None = None
        self._problem: BaseException | None = None
        self._is_interrupted = False

    # -- records

    @property
    def locked(self) -> list[RecordsInHand]:
        """The records that the application has got, that are not settled, and that the broker has not released."""
        return [each.batch.in_hand for each in self._in_hand if not each.is_lost]

    @property
    def lost(self) -> list[RecordsInHand]:
        """The records that the application has got and that the broker has released."""
        return [each.batch.in_hand for each in self._in_hand if each.is_lost]

    def interrupt(self) -> None:
        """Have the call of `take` that waits, or the next one, return at once."""
        self._is_interrupted = True
        self.wakeup.set()

    async def take(self, deadline: Deadline, records_max: int | None = None) -> list[AcquiredBatch]:
        """Return acquired records, at most one batch of each partition; none if none arrive in time.

        Args:
            deadline: of the call.
            records_max: number of records to acquire, instead of `max_poll_records`; 0 sends acknowledgements only.

        Raises:
            KafkaError: a partition cannot be read, or the brokers have no share groups.
        """
        wanted = self._config.max_poll_records if records_max is None else records_max
        while not (self._engine.closed or self.is_ending):
            self.check()
            self._raise_problem()
            taken = self._from_buffer(wanted)
            if taken:
                self._in_hand += taken
                self.counters.records += sum(each.batch.offsets_count for each in taken)
                self.flush()
                return [each.batch for each in taken]
            self.wakeup.clear()
            if wanted:
                self._pump(wanted)
            else:
                self.flush()
            if deadline.expired or self._is_interrupted:
                self._is_interrupted = False
                self._raise_problem()
                return []
            await self.wait(deadline)
        return []

    async def wait(self, deadline: Deadline) -> None:
        """Wait until something has changed, or a broker may be asked again."""
        now_s = asyncio.get_running_loop().time()
        retries = [link.retry_at_s - now_s for link in self._links.values() if link.retry_at_s > now_s]
        try:
            async with asyncio.timeout(deadline.at_most(min(retries, default=deadline.remaining))):
                await self.wakeup.wait()
        except TimeoutError:
            pass

    def _from_buffer(self, records_max: int) -> list[_Acquired]:
        now_s = asyncio.get_running_loop().time()
        left, taken = records_max, dict[TopicPartition, _Acquired]()
        while self._buffer and left > 0:
            first = self._buffer[0]
            if first.is_lost or now_s >= first.batch.expires_s:
                self._buffer.popleft()  # the broker has released them
                continue
            if first.batch.in_hand.topic_partition in taken:
                break
            taken[first.batch.in_hand.topic_partition] = self._buffer.popleft()
            left -= first.batch.offsets_count
        return list(taken.values())

    # -- acknowledgements

    def accept(self, returned_below: Mapping[RecordsInHand, int], *, in_doubt: bool = False) -> None:
        """Accept records in hand: all, or of some batches only those below an offset.

        Args:
            returned_below: the offset, of batches that the application has got in part.
            in_doubt: accept nothing of the other batches.
        """
        for each in self._in_hand:
            in_hand = each.batch.in_hand
            below = returned_below.get(in_hand)
            if below is None and in_doubt:
                self._enqueue(each, in_hand.take())
            elif below is None:
                self._enqueue(each, in_hand.accept_all())
            else:
                in_hand.settle(AcknowledgeType.ACCEPT, below=below)
                self._enqueue(each, in_hand.take(below=below))
        self._in_hand = [each for each in self._in_hand if each.batch.in_hand in returned_below]

    def collect(self, returned_below: Mapping[RecordsInHand, int]) -> None:
        """Queue the acknowledgements that the application has made; the rest stays in hand.

        Acknowledgements of records that the broker has released are queued, too: their outcome is an error.
        """
        for each in self._in_hand:
            in_hand = each.batch.in_hand
            self._enqueue(each, in_hand.take(below=returned_below.get(in_hand)))
        self._in_hand = [each for each in self._in_hand if not each.batch.in_hand.is_settled]

    def drop_lost(self, returned_below: Mapping[RecordsInHand, int]) -> None:
        """Forget the records of sessions that have ended, except those that the application gets later."""
        for each in self._in_hand:
            if each.is_lost and each.batch.in_hand not in returned_below:
                each.batch.in_hand.released()
        self._in_hand = [each for each in self._in_hand if not each.batch.in_hand.is_settled]

    def has(self, in_hand: RecordsInHand) -> bool:
        """Return whether records are in hand: acquired by this consumer, and neither settled nor released."""
        return any(each.batch.in_hand is in_hand for each in self._in_hand)

    def hand_of(self, topic_partition: TopicPartition, offset: int) -> RecordsInHand:
        """Return the batch in hand that has a record.

        Raises:
            UsageError: the record is not in hand.
        """
        for each in sorted(self._in_hand, key=lambda each: each.is_lost):  # those that are locked still, first
            in_hand = each.batch.in_hand
            if in_hand.topic_partition == topic_partition and in_hand.holds(offset):
                return in_hand
        topic, partition = topic_partition
        raise UsageError(
            f"acknowledge: offset {offset} of {topic}-{partition} is not in hand: this consumer has not acquired it, "
            f"its acknowledgement was sent already, or the broker has released it"
        )

    async def renewed(self, deadline: Deadline) -> None:
        """Send the renewals, and wait for the answers."""
        while any(in_hand.is_renewing for in_hand in self.locked) and not deadline.expired:
            self.wakeup.clear()
            self.flush()
            await self.wait(deadline)
            self._raise_problem()

    def expect(self, call: CommitCall) -> None:
        """Have a commit wait for everything that no broker has answered yet, also of earlier calls."""
        for link in self._links.values():
            for pending in (*link.sent, *link.refused, *link.pending):
                pending.calls.append(call)
                call.expect(pending)

    def flush(self) -> None:
        """Send the queued acknowledgements in all sessions without a request in flight."""
        for link in self._links.values():
            if (link.pending or self._may_repeat(link)) and link.task is None:
                self._send(link, None)

    def _enqueue(self, acquired: _Acquired, ranges: list[AcknowledgedRange]) -> None:
        if ranges:
            deadline_s = asyncio.get_running_loop().time() + self._config.default_api_timeout_ms / 1000
            acquired.link.pending.append(
                PendingAcknowledgement(
                    acquired.partition, acquired.batch.in_hand, ranges, acquired.incarnation, deadline_s
                )
            )

    def _may_repeat(self, link: _Link) -> bool:
        """Whether acknowledgements that the broker could not store are to be sent again now."""
        return bool(link.refused) and asyncio.get_running_loop().time() >= link.again_at_s

    def _repeat(self, link: _Link, pending: PendingAcknowledgement) -> None:
        """Send an acknowledgement again after a wait: the broker could not store it, and holds the lock still."""
        loop = asyncio.get_running_loop()
        delay_s = self._backoff.delay_ms(pending.tries, self._engine.runtime.rng) / 1000
        pending.tries += 1
        link.refused.append(pending)
        link.again_at_s = loop.time() + delay_s
        loop.call_at(link.again_at_s, self.flush)

    # -- requests

    def _pump(self, records_max: int) -> None:
        """Send a ShareFetch to each leader without a request in flight, and the other acknowledgements."""
        wanted = self._by_leader()
        for node_id in wanted:
            if node_id not in self._links:
                session = ShareSession(self._config.group_id, self._member_id, self._limits)
                self._links[node_id] = _Link(node_id, session)
        now_s = asyncio.get_running_loop().time()
        free = [
            link
            for node_id in wanted
            if (link := self._links[node_id]).task is None and (link.retry_at_s <= now_s or link.pending)
        ]
        if self._limits.acquire_mode and free:  # one at a time, so that no more are acquired than the limit
            is_busy = any(link.task is not None for link in self._links.values())
            free = [] if is_busy else [min(free, key=lambda link: link.turn)]  # the one that was asked the longest ago
        for link in free:
            self._turns += 1
            link.turn = self._turns
            self._send(link, wanted[link.node_id], records_max)
        self.flush()

    def _by_leader(self) -> dict[int, list[TopicIdPartition]]:
        cluster, unknown = self._engine.cluster, False
        wanted: dict[int, list[TopicIdPartition]] = {}
        for topic_id, numbers in self.assignment.items():
            name = cluster.name_of(topic_id)
            for number in numbers:
                leader = None if name is None else cluster.leader_of(TopicPartition(name, number))
                if leader is None or leader not in cluster.brokers:
                    unknown = True
                else:
                    wanted.setdefault(leader, []).append((topic_id, number))
        if unknown:
            self.refresh()
        return wanted

    def refresh(self) -> None:
        """Refresh the metadata, unless that is under way."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(), name="share consumer metadata")

    async def _refresh(self) -> None:
        try:
            await self._engine.refresh(())
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)
        except KafkaError as error:
            log.info("the metadata could not be refreshed: %s", error)
            if not self._engine.is_started:
                self._problem = error
        finally:
            self._refreshing = None
            self.wakeup.set()

    def _send(self, link: _Link, wanted: list[TopicIdPartition] | None, records_max: int = 0) -> None:
        """Send a ShareFetch, or a ShareAcknowledge if nothing is wanted, with the acknowledgements that are due."""
        session, due = link.session, list[PendingAcknowledgement]()
        if self._may_repeat(link):
            link.pending, link.refused = [*link.refused, *link.pending], []
        for pending in link.pending:
            if pending.incarnation == session.incarnation:
                due.append(pending)
            else:
                self.outcomes.ended(pending, _released(link.node_id))
        link.pending = []
        if wanted is None and not due:
            return
        if wanted is not None and not {pending.partition for pending in due} <= {*wanted}:
            wanted = None  # first the acknowledgements of partitions that leave the session
        ranges: dict[TopicIdPartition, list[AcknowledgedRange]] = {}
        for pending in due:
            ranges.setdefault(pending.partition, []).extend(pending.ranges)
        for each in ranges.values():
            each.sort()
        request = session.acknowledge(ranges) if wanted is None else session.fetch(wanted, ranges, records_max)
        link.sent = due
        work = self._exchange(link, request, due)
        link.task = asyncio.get_running_loop().create_task(work, name=f"share session with broker {link.node_id}")

    async def _exchange(
        self, link: _Link, request: ShareFetchRequest | ShareAcknowledgeRequest, due: list[PendingAcknowledgement]
    ) -> None:
        error: KafkaError | None = None
        try:
            timeout = self._config.answer_timeout_ms / 1000
            connection = await self._engine.connection(link.node_id, timeout=timeout, lane="fetch")
            self.can_renew = connection.version_for(_SHARE_FETCH) >= _RENEWAL_FROM_VERSION
            if request.is_renew_ack and not self.can_renew:
                raise UnsupportedVersionError("RENEW needs a broker with KIP-1222: Apache Kafka 4.2 or later")
            began_s = asyncio.get_running_loop().time()
            if isinstance(request, ShareFetchRequest):
                error = self._on_response(link, await connection.request(request, timeout=timeout), due, began_s)
            else:
                error = self._on_response(link, await connection.request(request, timeout=timeout), due, began_s)
            # If it were closed as idle, the session would end, and the broker would release what is being processed.
            held = (each for each in (*self._buffer, *self._in_hand) if each.link is link and not each.is_lost)
            connection.is_held = any(held)
        except KafkaError as problem:
            error = problem
        except asyncio.CancelledError:
            self._end(due, KafkaTimeoutError(f"closed before broker {link.node_id} has answered"))
            raise
        except Exception as fault:  # noqa: BLE001 - a fault in this program: the call that waits raises it
            self._problem = fault
            self._end(due, KafkaError(f"the response could not be processed: {fault!r}"))
        finally:
            link.task, link.sent = None, []
            self.wakeup.set()
        if error is not None:
            self._on_failure(link, error, due)
        if link.pending or self._may_repeat(link):
            self._send(link, None)

    def _on_failure(self, link: _Link, error: KafkaError, due: list[PendingAcknowledgement]) -> None:
        """The session has ended: what was acquired in it is released."""
        link.session.reset()
        self.counters.fetch_failed()
        self._end(due, error)
        delay_ms = self._backoff.delay_ms(link.failures, self._engine.runtime.rng)
        link.failures += 1
        link.retry_at_s = asyncio.get_running_loop().time() + delay_ms / 1000
        if isinstance(error, UnsupportedVersionError) or (
            isinstance(error, BrokerError) and not is_retriable(error.code)
        ):
            self._problem = error
        else:
            log.info("share session with broker %d: %s; it begins again", link.node_id, error)
        if not isinstance(error, BrokerError):
            self.refresh()

    def _on_response(
        self,
        link: _Link,
        response: ShareFetchResponse | ShareAcknowledgeResponse,
        due: list[PendingAcknowledgement],
        began_s: float,
    ) -> KafkaError | None:
        """Take over what a broker has answered; return the error that ends the session."""
        code = response.error_code
        if code:
            about = f"group {self._config.group_id!r}, broker {link.node_id}"
            if response.error_message:
                about += f": {response.error_message}"
            return error_for(code, about, resource=self._config.group_id, operation="READ")
        link.session.succeeded()
        link.failures = 0
        if response.acquisition_lock_timeout_ms:
            self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        self._engine.cluster.add_brokers(
            [BrokerNode(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        )
        codes: dict[TopicIdPartition, tuple[int, str | None]] = {}
        for topic in response.responses:
            for data in topic.partitions:
                partition = topic.topic_id, data.partition_index
                if isinstance(data, share_fetch.PartitionData):
                    codes[partition] = data.acknowledge_error_code, data.acknowledge_error_message
                    self._on_partition(link, partition, data, began_s)
                else:
                    codes[partition] = data.error_code, data.error_message
                    self._check_leader(partition, data)
        if isinstance(response, ShareFetchResponse):
            self._count(response, asyncio.get_running_loop().time() - began_s)
        for pending in due:
            answer = codes.get(pending.partition)
            if answer is not None and began_s < pending.deadline_s and _can_be_repeated(answer[0]):
                self._repeat(link, pending)
            else:
                self.outcomes.ended(pending, self._error_of(pending, answer))
        return None

    def _count(self, response: ShareFetchResponse, seconds: float) -> None:
        parts = [data for topic in response.responses for data in topic.partitions]
        records = sum(each.last_offset - each.first_offset + 1 for data in parts for each in data.acquired_records)
        size = sum(len(data.records) for data in parts if isinstance(data.records, memoryview))
        self.counters.fetched(records, size, seconds, response.throttle_time_ms)

    def _end(self, due: Iterable[PendingAcknowledgement], error: KafkaError) -> None:
        """The broker has not taken these acknowledgements."""
        for pending in due:
            self.outcomes.ended(pending, error)

    def _error_of(self, pending: PendingAcknowledgement, answer: tuple[int, str | None] | None) -> KafkaError | None:
        topic, number = pending.in_hand.topic_partition
        what = f"acknowledging records of {topic}-{number}"
        if answer is None:
            return KafkaError(f"{what}: the broker's response does not have the partition")
        code, message = answer
        if not code:
            return None
        if code == ErrorCode.INVALID_RECORD_STATE:
            locked = f" ({self.lock_timeout_ms} ms)" if self.lock_timeout_ms else ""
            what += f": the acquisition lock{locked} has expired, or another acknowledgement came first"
        return error_for(code, f"{what}: {message}" if message else what, resource=topic, operation="READ")

    def _on_partition(
        self, link: _Link, partition: TopicIdPartition, data: share_fetch.PartitionData, began_s: float
    ) -> None:
        if data.error_code:
            # Such a response comes at once: without a pause, requests would follow each other as fast as they can.
            link.retry_at_s = asyncio.get_running_loop().time() + self._config.retry_backoff_ms / 1000
            self._check_leader(partition, data)
            return
        name = self._engine.cluster.name_of(partition[0])
        if name is None or not data.acquired_records or not isinstance(data.records, memoryview):
            return
        acquired = sorted(AcquiredRange(*_values(each)) for each in data.acquired_records)
        topic_partition = TopicPartition(name, partition[1])
        batch = Batch(
            name, partition[1], data.records, start_offset=acquired[0].first_offset, check_crcs=self._config.check_crcs
        )
        expires_s = float("inf") if self.lock_timeout_ms is None else began_s + self.lock_timeout_ms / 1000
        expires_s = max(expires_s, asyncio.get_running_loop().time() + 1)
        made = AcquiredBatch(batch, RecordsInHand(topic_partition, acquired), self._decoding, expires_s)
        self._buffer.append(_Acquired(made, partition, link, link.session.incarnation))

    def _check_leader(
        self, partition: TopicIdPartition, data: share_fetch.PartitionData | share_acknowledge.PartitionData
    ) -> None:
        """Take note that a partition cannot be read: its leader has moved, or the application has to know."""
        code, name = data.error_code, self._engine.cluster.name_of(partition[0])
        if not code:
            return
        leader = data.current_leader
        if name is not None and leader.leader_epoch > 0 and leader.leader_id >= 0:
            self._engine.cluster.update_leader(
                TopicPartition(name, partition[1]), leader.leader_id, leader.leader_epoch
            )
        if code in _LEADER_MOVED or is_retriable(code):
            self.refresh()
        elif isinstance(data, share_fetch.PartitionData):
            what = f"{name}-{partition[1]}: {data.error_message or 'cannot be read'}"
            self._problem = error_for(code, what, resource=name or "", operation="READ")

    # -- the end

    async def close_sessions(self, deadline: Deadline) -> None:
        """Send the last acknowledgements, and close every session: brokers release all other records."""
        busy = [link.task for link in self._links.values() if link.task is not None]
        if busy:
            _, late = await asyncio.wait(busy, timeout=deadline.remaining)
            await _end_tasks(late)  # an answer that came later would belong to the next session
        await asyncio.gather(*(self._close(link, deadline) for link in self._links.values()))
        self._in_hand.clear()
        self._buffer.clear()

    async def _close(self, link: _Link, deadline: Deadline) -> None:
        due, link.pending, link.refused = [*link.refused, *link.pending], [], []
        session = link.session
        lost = [pending for pending in due if pending.incarnation != session.incarnation]
        due = [pending for pending in due if pending.incarnation == session.incarnation]
        for pending in lost:
            self.outcomes.ended(pending, _released(link.node_id))
        if not session.is_open:
            return
        ranges: dict[TopicIdPartition, list[AcknowledgedRange]] = {}
        for pending in due:
            ranges.setdefault(pending.partition, []).extend(pending.ranges)
        for each in ranges.values():
            each.sort()
        error: KafkaError | None = None
        try:
            connection = await self._engine.connection(link.node_id, timeout=deadline.remaining, lane="fetch")
            request = session.acknowledge(ranges, closes=True)
            response = await connection.request(request, timeout=deadline.remaining)
            error = self._on_response(link, response, due, float("inf"))
        except KafkaError as problem:
            error = problem
        if error is not None:
            log.info("closing the share session with broker %d: %s", link.node_id, error)
            self._end(due, error)
        session.reset()

    async def close(self) -> None:
        """End every task."""
        tasks = [link.task for link in self._links.values() if link.task is not None]
        tasks += [] if self._refreshing is None else [self._refreshing]
        await _end_tasks(tasks)

    # -- errors

    def fail(self, error: KafkaError) -> None:
        """Have the call that waits, or the next one, raise an error."""
        self._problem = error
        self.wakeup.set()

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if isinstance(problem, KafkaError):
            raise with_principal(problem, self._config)
        if problem is not None:
            raise copy_to_raise(problem)


async def _end_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _released(node_id: int) -> KafkaError:
    return error_for(
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        f"the share session with broker {node_id} has ended before the acknowledgement was sent: the broker has "
        f"released the records, and they are delivered again",
    )


def _can_be_repeated(code: int) -> bool:
    """Whether the same acknowledgement may succeed later; not if the leader has moved, which has released the lock."""
    return is_retriable(code) and code not in _LEADER_MOVED


def _values(acquired: share_fetch.AcquiredRecords) -> Iterable[int]:
    return acquired.first_offset, acquired.last_offset, acquired.delivery_count
