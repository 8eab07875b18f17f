"""`Reading`: the requests by which a consumer finds leaders and positions and fetches records, and waiting for them.

Where each partition stands, what to fetch next and what an answer means is decided in `core/fetch`; how to reach a
broker in `engine`. What is left here is to start requests, to wait, and to hand batches over. Requests run in tasks of
their own, so a call that times out loses nothing. Start at `more` and `take`. Groups and commits are not known here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import TypeVar

from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.deserializers import conversion_of
from kafkaraw.client.fetching.cursor import Conversion, RecordCursor
from kafkaraw.client.fetching.fetches import Fetches
from kafkaraw.client.fetching.interception import interception_of
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp, look_up_once
from kafkaraw.client.metrics.consumer_metrics import FetchCounters
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.metadata import UNKNOWN_TOPIC_GRACE_S
from kafkaraw.client.network.security import with_principal
from kafkaraw.client.wakeups import Wakeups
from kafkaraw.core.fetch.cutting import Cut
from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.positions import PartitionPosition, Standing, Start
from kafkaraw.core.fetch.reset import parse_reset_policy
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ClosedError, KafkaError, UsageError, copy_to_raise
from kafkaraw.records import Batch, TopicPartition, keep_freed_memory

log = logging.getLogger(__name__)

T = TypeVar("T")


class Reading:
    """What a consumer reads: where it stands, what is under way, and what has come.

    Args:
        engine: the way to the cluster.
        config: the consumer's settings.

    Attributes:
        fetcher: decides; positions are read and changed there.
        cursor: the batch that is being read record by record.
        interception: the user's interceptors; None without any.
        committed_only: whether records of open and aborted transactions are left out.
        is_waiting: whether a call of the user waits for something to come.
        is_over: somebody closes the consumer, or has: nothing is given any more.
        wakeups: how other threads end calls that wait.
        turn: what has to be done before anything is given, as for a group; says whether it is done by the deadline.
    """

    def __init__(self, engine: Engine, config: ConsumerConfig) -> None:
        self._engine = engine
        self._config = config
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        policy = parse_reset_policy(config.auto_offset_reset)
        self.fetcher = Fetcher(
            lambda: policy.timestamp_at(engine.runtime.clock.time_ms()),
            backoff,
            engine.runtime.rng,
            replica_age_max_ms=config.metadata_max_age_ms,
        )
        self.cursor = RecordCursor(self.fetcher.paused)
        self.is_waiting = False
        self.is_over = False
        self.wakeups = Wakeups(self._call_home)
        self.turn: Callable[[Deadline], Awaitable[bool]] | None = None
        self.committed_only = config.isolation_level == "read_committed"
        self._errand: asyncio.Task[None] | None = None
        self._refresh: set[str] = set()
        self._no_start: KafkaError | None = None
        self._failure: BaseException | None = None
        self._news = asyncio.Event()
        self._wants_records = False  # somebody waits, and has nothing in hand
        self._counters = FetchCounters()
        self._fetches = Fetches(engine, self.fetcher, config, self._counters, self._fetch_ended, self._program_failed)
        self._conversion = conversion_of(config.key_deserializer, config.value_deserializer)
        self.interception = interception_of(config.interceptors)
        self._make_batch = Batch if self.interception is None else self.interception.batch
        keep_freed_memory()

    # -- what to read

    def assign(
        self, partitions: Iterable[TopicPartition], starts: Mapping[TopicPartition, Start] | None = None
    ) -> None:
        """Read exactly these from now on; those that were read before keep their positions.

        Args:
            partitions: what to read.
            starts: where those begin that are new and have a start.
        """
        wanted = list(partitions)
        for gone in set(self.fetcher.assignment) - set(wanted):
            self.cursor.drop(gone)
        self.fetcher.assign(wanted, starts)
        if self._config.group_id is None:
            self.moved()  # without a group nothing asks for it, and it would name every partition ever read
        self.wake()

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Go on at an offset; the record before it was written in that leader epoch.

        Raises:
            UsageError: the partition is not assigned.
        """
        self._jump([topic_partition])
        self.fetcher.seek(topic_partition, offset, leader_epoch)

    def seek_to(self, topic_partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go on where a timestamp is, in all of them.

        Raises:
            UsageError: one is not assigned; then none has moved.
        """
        chosen = list(topic_partitions)
        self._jump(chosen)
        for topic_partition in chosen:
            self.fetcher.seek_to(topic_partition, timestamp)

    def pause(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Give nothing of these until they are resumed; what has come of them stays.

        Raises:
            UsageError: one is not assigned; then none is paused.
        """
        chosen = list(topic_partitions)
        for topic_partition in chosen:
            self.fetcher.position(topic_partition)
        for topic_partition in chosen:
            self.fetcher.pause(topic_partition)
        self.cursor.set_aside()

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Go on with these.

        Raises:
            UsageError: one is not assigned; then none goes on.
        """
        chosen = list(topic_partitions)
        for topic_partition in chosen:
            self.fetcher.position(topic_partition)
        for topic_partition in chosen:
            self.fetcher.resume(topic_partition)
        self.wake()

    def position_of(self, topic_partition: TopicPartition) -> int | None:
        """The offset of the next record to be given; None when it has to be looked up first.

        Raises:
            UsageError: the partition is not assigned.
        """
        position = self.fetcher.position(topic_partition)
        within = self.cursor.position_in(topic_partition)
        if within is not None:
            return within
        return position.offset if position.standing is Standing.READY else None

    def starts(
        self, before: Mapping[TopicPartition, int] | None = None, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Start]:
        """Where the next record to be given is, with the epoch before it, of all partitions where that is known.

        Args:
            before: offsets behind which no start is to be.
            only: look at no others than these; those that are not assigned are left out.
        """
        positions, limits = self.fetcher.positions(only), before or {}
        offsets = self._offsets(positions)
        return {
            of: Start(start := min(offset, limits.get(of, offset)), position.epoch_before(start))
            for of, position in positions
            if (offset := offsets.get(of)) is not None
        }

    def moved(self) -> dict[TopicPartition, None]:
        """The partitions of which `starts` may tell something else than when this was asked last."""
        moved = self.fetcher.moved()
        moved.update(dict.fromkeys(self.cursor.moved()))
        return moved

    def _offsets(self, positions: Iterable[tuple[TopicPartition, PartitionPosition]]) -> dict[TopicPartition, int]:
        """`position_of` of these partitions, where it is known."""
        in_hand = self.cursor.positions()
        return {
            of: in_hand.get(of, position.offset)
            for of, position in positions
            if position.standing is Standing.READY or of in in_hand
        }

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and the end, as of the last answer; None when either is unknown.

        Raises:
            UsageError: the partition is not assigned.
        """
        position = self.fetcher.position(topic_partition)
        return _distance(self.position_of(topic_partition), self._end_of(position))

    def _end_of(self, position: PartitionPosition) -> int:
        return position.last_stable_offset if self.committed_only else position.high_watermark

    def metrics(self) -> dict[str, float | dict[str, int]]:
        """What was counted about fetching, and the lag of every partition of which it is known."""
        positions = self.fetcher.positions()
        offsets = self._offsets(positions)
        known = [(position, offsets.get(of)) for of, position in positions]
        lags = {p.topic_partition: _distance(offset, self._end_of(p)) for p, offset in known}
        leads = {p.topic_partition: _distance(p.log_start_offset, offset) for p, offset in known}
        return self._counters.as_dict(_known(lags), _known(leads))

    async def position(self, topic_partition: TopicPartition, deadline: Deadline) -> int:
        """The offset of the next record to be given.

        Raises:
            UsageError: the partition is not assigned.
            KafkaTimeoutError: the offset is not known in time.
        """
        while True:
            self.check_usable()
            offset = self.position_of(topic_partition)
            if offset is not None:
                return offset
            await self._progress(deadline)
            if deadline.expired:
                raise deadline.error(f"looking up the position of {topic_partition.topic}-{topic_partition.partition}")

    # -- waiting

    def limit(self, max_records: int | None) -> int | None:
        """Most records of one call; `max_poll_records` when the call does not say.

        Raises:
            UsageError: less than one.
        """
        limit = self._config.max_poll_records if max_records is None else max_records
        given: object = limit
        if given is not None and (not isinstance(given, int) or given < 1):
            raise UsageError(f"max_records={limit!r}: must be a whole number, at least 1")
        return limit

    def take_at_once(self, convert: Conversion[T], limit: int | None, size_bytes: int | None = None) -> T | None:
        """As `take`, if that need not wait; None, or nothing, if it may have to."""
        self.check_usable()
        if self.turn is not None or self.is_over or self.wakeups.is_wanted:
            return None
        return self.cursor.take_converted(convert, limit, size_bytes)

    async def take(
        self, convert: Conversion[T], limit: int | None, timeout: float | None, size_bytes: int | None = None
    ) -> T:
        """What is in hand, or what comes in time, converted; see `RecordCursor.take_converted` and `more`.

        Raises:
            WakeupError: as `more`.
        """
        self.check_usable()
        return await self.wakeups.interruptible(self._take(convert, limit, timeout, size_bytes))

    async def _take(
        self, convert: Conversion[T], limit: int | None, timeout: float | None, size_bytes: int | None
    ) -> T:
        deadline = self._engine.deadline(timeout)
        if not await self._is_ready(deadline):
            return convert([])[0]
        taken = self.cursor.take_converted(convert, limit, size_bytes)
        while not taken and await self._more(deadline):  # again, when the group called before they were taken
            taken = self.cursor.take_converted(convert, limit, size_bytes)
        return taken

    async def more(self, timeout: float | None) -> bool:
        """Wait for records, and put what there is under the cursor; to be called when nothing is left there.

        Returns:
            whether there is anything; False when nothing came in time.

        Raises:
            KafkaError: what cannot be mended by trying again, or has not been for long.
            WakeupError: `wakeup` was called; what is in hand stays there.
        """
        return await self.wakeups.interruptible(self._more(self._engine.deadline(timeout)))

    async def _more(self, deadline: Deadline) -> bool:
        self._engine.check_loop()
        while True:
            self.check_usable()
            if not await self._is_ready(deadline):
                return False
            if self.turn is None and not self.fetcher.assignment:
                raise UsageError("nothing is assigned to this consumer: call assign() first")
            if self.cursor.holds_records:  # they were in hand already, and the turn came first
                return True
            cuts = self.fetcher.take()
            if cuts:
                await self._send_next(cuts)
                self._put(cuts)
                return True
            await self._progress(deadline, fetch=True)
            if deadline.expired and not self.fetcher.has_records and not self.cursor.holds_records:
                return False

    async def _is_ready(self, deadline: Deadline) -> bool:
        self._check_goes_on()
        if self.turn is None:
            self.leave_home()
            return True
        ready = await self.turn(deadline)
        self._check_goes_on()  # somebody else may have begun to close meanwhile
        return ready

    async def more_unless_closed(self, timeout: float | None) -> bool:
        """As `more`, for iterations: they end when the consumer is closed while they wait."""
        try:
            return await self.more(timeout)
        except ClosedError:
            return False

    def wake(self) -> None:
        """Have whoever waits look again."""
        self._news.set()

    def leave_home(self) -> None:
        """Give what is in hand, unless the next call is to raise `WakeupError`."""
        self.cursor.called_home = self.wakeups.is_wanted  # no call in between: `wakeup` on another thread is not missed

    def wakeup(self) -> None:
        """End the calls that wait, or else the next one that reads; on any thread. Nothing is lost."""
        self.wakeups.wake()
        self._call_home()

    def _call_home(self) -> None:
        """Have the next call come to `more`, though there are records in hand."""
        self.cursor.called_home = True

    def end(self) -> None:
        """Give nothing any more: what is given up now, and perhaps committed, must not be processed after that."""
        self.is_over = True
        self.cursor.called_home = True
        self.wake()

    def _check_goes_on(self) -> None:
        if self.is_over:
            raise ClosedError("the consumer is closed; make a new one")

    def check_usable(self) -> None:
        """Refuse a consumer that is closed, or belongs to a parent process.

        Raises:
            ClosedError: it is closed.
            ForkedError: this is a child process.
        """
        if self._engine.closed:
            raise ClosedError("the consumer is closed; make a new one")
        self._engine.check_not_forked()

    async def close(self, deadline: Deadline | None = None) -> None:
        """End every request; the engine is closed, too, by the deadline if there is one."""
        self.end()
        await self._fetches.close()
        if self._errand:
            self._errand.cancel()
            await asyncio.gather(self._errand, return_exceptions=True)
        await (self._engine.close() if deadline is None else self._engine.close(deadline.remaining))
        if self.interception is not None:
            self.interception.close()
        self.wake()

    # -- inside: waiting

    async def _send_next(self, cuts: list[Cut]) -> None:
        """Let the next fetch go out before these records are handed over; should nobody take them, they come again."""
        self._pump()
        if self._fetches.are_out:
            return
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.fetcher.give_back(cuts)
            raise

    def _hand_over(self) -> None:
        """Give what came to who waits for it, the next fetch first: it is out before they have even woken up."""
        cuts = self.fetcher.take()
        if cuts:
            self._wants_records = False
            self._pump()
            self._put(cuts)

    def _put(self, cuts: list[Cut]) -> None:
        self._counters.records += sum(piece.records_count for piece in cuts)
        self.cursor.put(self._batch(piece) for piece in cuts)

    async def _progress(self, deadline: Deadline, *, fetch: bool = False) -> None:
        """Start what can be started, and wait until something has changed or may be tried again."""
        now_ms = self._now_ms()
        self._raise_problem(now_ms)
        self._news.clear()
        self._pump(fetch=fetch)
        retry_at_ms = self.fetcher.retry_at_ms(now_ms)
        pause = deadline.remaining if retry_at_ms is None else deadline.at_most((retry_at_ms - now_ms) / 1000)
        self.is_waiting, self._wants_records = True, fetch
        try:
            async with asyncio.timeout(pause):
                await self._news.wait()
        except TimeoutError:
            pass
        finally:
            self.is_waiting = self._wants_records = False

    def _raise_problem(self, now_ms: int) -> None:
        """Raise what the user must hear of."""
        if self._failure is not None:
            raise copy_to_raise(self._failure)
        problem, self._no_start = self._no_start, None
        problem = problem or self.fetcher.problem(
            now_ms,
            patience_ms=self._config.default_api_timeout_ms,
            unknown_patience_ms=round(UNKNOWN_TOPIC_GRACE_S * 1000),
        )
        if problem is not None:
            raise with_principal(problem, self._config)

    # -- inside: starting requests

    def _pump(self, *, fetch: bool = True) -> None:
        """Start every request that is due and not under way."""
        now_ms = self._now_ms()
        if self._errand is None and (self._refresh or self.fetcher.has_errand(self._engine.cluster, now_ms)):
            self._errand = self._start(self._run_errand(), "consumer errand")
        if not fetch:
            return
        for plan in self.fetcher.plan(self._engine.cluster, now_ms, self._fetches.busy_nodes()):
            self._fetches.begin(plan)

    async def _run_errand(self) -> None:
        """Find the cluster, leaders and positions, as far as they are missing; one round."""
        try:
            await self._engine.start()
        except KafkaError as error:
            self._no_start = error
        else:
            await self._find_out()
        finally:
            self._errand = None
            self._news.set()

    async def _find_out(self) -> None:
        try:
            await self._find_leaders()
            await self._find_positions()
        except KafkaError as error:
            log.info("looking for leaders and positions failed: %s", error)
            self.fetcher.errand_failed(error, self._engine.cluster, self._now_ms())

    async def _find_leaders(self) -> None:
        missing = self.fetcher.without_leader(self._engine.cluster, self._now_ms())
        topics, self._refresh = self._refresh | missing | self.fetcher.behind(self._engine.cluster), set()
        if not topics:
            return
        await self._engine.refresh(topics)
        missing = self.fetcher.without_leader(self._engine.cluster, self._now_ms())
        if missing and self._config.allow_auto_create_topics:
            await self._engine.refresh(missing, allow_auto_create=True)
        self.fetcher.still_without_leader(topics, self._engine.cluster, self._now_ms())
        self.fetcher.still_behind(self._engine.cluster)

    async def _find_positions(self) -> None:
        searches = self.fetcher.searches(self._now_ms())
        if not searches:
            return
        timestamps = {topic_partition: timestamp for topic_partition, (timestamp, _) in searches.items()}
        outcomes = await look_up_once(
            self._engine, timestamps, deadline=self._engine.deadline(None), committed_only=self.committed_only
        )
        for topic_partition, outcome in outcomes.items():
            _, generation = searches[topic_partition]
            if isinstance(outcome, OffsetAndTimestamp):
                self.fetcher.found(topic_partition, generation, outcome.offset, outcome.leader_epoch)
            else:
                self.fetcher.search_failed(topic_partition, generation, outcome, self._now_ms())
                self._refresh.add(topic_partition.topic)

    def _fetch_ended(self, refresh: set[str], came: bool) -> None:
        self._refresh |= refresh
        if came and self._wants_records:
            self._hand_over()
        self._news.set()

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An error that is none of Kafka's is a fault in this program: the next call raises it."""
        if not task.cancelled() and task.exception() is not None:
            self._program_failed(task.exception())

    def _program_failed(self, error: BaseException | None) -> None:
        self._failure = error
        self._news.set()

    # -- inside: small things

    def _jump(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Check that all may jump, before any does."""
        self.check_usable()
        for topic_partition in topic_partitions:
            self.fetcher.position(topic_partition)
        for topic_partition in topic_partitions:
            self.cursor.drop(topic_partition)
        self.wake()

    def _batch(self, piece: Cut) -> Batch:
        return self._make_batch(
            piece.topic_partition.topic,
            piece.topic_partition.partition,
            piece.wires,
            start_offset=piece.start_offset,
            check_crcs=self._config.check_crcs,
            convert=self._conversion,
        )

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def _distance(begin: int | None, end: int | None) -> int | None:
    """How many offsets lie between two of them; None when either is not known."""
    return None if begin is None or end is None or min(begin, end) < 0 else max(0, end - begin)


def _known(offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {of: offset for of, offset in offsets.items() if offset is not None}
