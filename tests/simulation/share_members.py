"""The members of a share group: each reads in its own way, and accepts, releases, rejects and renews records.

A member records into a `ShareHistory` which records its application got, what it said about each, and the results that
the client reported. Members pause, some past their locks; they are closed, in time or not, killed, and disconnected.
Start at `ShareMember`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress

from kafkaraw.client.share_consumer import AsyncShareConsumer
from kafkaraw.client.sharing.batch import ShareRecord
from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.errors import KafkaError, UsageError, WakeupError
from kafkaraw.records import TopicPartition
from kafkaraw.testing.share_history import Answer, Given, ShareHistory
from tests.simulation.environment import TOPIC
from tests.simulation.world import ClientNetwork, World

GROUP = "couriers"
CLOSE_S = 10.0
COMMIT_S = 5.0
COLUMNS = ("value", "offset", "partition", "topic", "delivery_count")
WEIGHTS = {
    AcknowledgeType.ACCEPT: 70,
    AcknowledgeType.RELEASE: 15,
    AcknowledgeType.REJECT: 5,
    AcknowledgeType.RENEW: 10,
}
"""How often an application says what; the order is part of the seeds."""
WITHOUT_RENEWALS = {kind: weight for kind, weight in WEIGHTS.items() if kind is not AcknowledgeType.RENEW}
OTHER_WEIGHTS = {kind: weight for kind, weight in WITHOUT_RENEWALS.items() if kind is not AcknowledgeType.ACCEPT}
EXCEPTIONS = 0.15
"""The share of records that are not accepted in implicit mode."""


class ApplicationError(Exception):
    """The application fails while it processes records."""


class ShareMember:
    """One share consumer, from its first call to its end.

    Args:
        world: the brokers and clients.
        shares: the history to extend.
        name: name of this consumer, unique among all members.
        is_calm: it does not pause, and accepts every record.

    Attributes:
        name: its name.
        network: its network, which can be disconnected.
    """

    def __init__(self, world: World, shares: ShareHistory, name: str, *, is_calm: bool) -> None:
        self.name = name
        self.network = ClientNetwork(world.simulation.network)
        self._world, self._shares, self._is_calm = world, shares, is_calm
        self._rng = rng = world.rng(name)
        self._is_explicit = rng.random() < 0.6
        methods = {
            "poll": self._by_polling,
            "batches": self._by_batches,
            "records": self._by_records,
            "arrow": self._by_arrow,
        }
        self._method = rng.choice(["poll", *methods])
        self._read = methods[self._method]
        self._weights = (
            WITHOUT_RENEWALS if self._method == "arrow" else WEIGHTS
        )  # poll_arrow does not return them again
        self._slow_s = 0.0 if is_calm else rng.choice([0, 0.01, 0.05, 0.2])
        self._pause_s = 0.0
        self._leaves = self._fails = self._is_killed = False
        self._close_s = CLOSE_S
        self._open: dict[tuple[TopicPartition, int], Given] = {}  # what the application has not said anything about
        self._pending: dict[tuple[TopicPartition, int], list[Answer]] = defaultdict(list)
        self._consumer = self._make()
        self._task = asyncio.create_task(self._run(), name=name)

    def _make(self) -> AsyncShareConsumer:
        rng = self._rng
        consumer = self._world.share_consumer(
            self.name,
            runtime=self._world.runtime(self.name, self.network),
            group_id=GROUP,
            share_acknowledgement_mode="explicit" if self._is_explicit else "implicit",
            share_acquire_mode=rng.choice(["batch_optimized", "batch_optimized", "record_limit"]),
            max_poll_records=rng.choice([1, 5, 20, 500]),
            max_poll_interval_ms=rng.choice([2_500, 60_000]),
            fetch_max_wait_ms=rng.choice([50, 300, 500]),
            fetch_max_bytes=rng.choice([300, 1_000_000]),
            request_timeout_ms=1_000,
            default_api_timeout_ms=10_000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=200,
        )
        consumer.set_acknowledgement_commit_callback(self._reported)
        return consumer

    # -- events

    def pause(self, seconds: float) -> None:
        """Delay the application, with records in hand."""
        self._pause_s = seconds

    def calm_down(self) -> None:
        """Accept every record from now on, without delays."""
        self._is_calm, self._slow_s, self._pause_s = True, 0.0, 0.0

    def fail(self) -> None:
        """Have the application raise an error while it has records."""
        self._fails = True

    def wake(self) -> None:
        """Interrupt the call that waits."""
        self._consumer.wakeup()

    async def leave(self, timeout: float = CLOSE_S) -> None:
        """Close the consumer after the present call."""
        self._leaves, self._close_s = True, timeout
        await asyncio.wait([self._task])
        self._task.result()

    async def kill(self, *, vanishes: bool) -> None:
        """End as after SIGKILL; if it vanishes, brokers do not see its connections break."""
        self._is_killed = True
        self._shares.ended.add(self.name)
        if vanishes:
            self.network.disconnect()
        else:
            self.network.kill()
        self._task.cancel()
        await asyncio.wait([self._task])
        for part in (self._consumer._membership, self._consumer._reading):
            await part.close()
        await self._consumer._engine.close(0)
        self._world.covered["a member vanished" if vanishes else "a member was killed"] += 1

    @property
    def is_ended(self) -> bool:
        """Whether it has ended by itself; raises an unexpected error that ended it."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()
        return self._task.done()

    # -- its loop

    async def _run(self) -> None:
        self._consumer.subscribe([TOPIC])
        try:
            while not self._leaves:
                await self._work()
        except ApplicationError as error:
            self._shares.ended.add(self.name)  # what was not certain is released, and nothing is reported about it
            self._world.covered["an application failed"] += 1
            await self._close(self._consumer.__aexit__(ApplicationError, error, None), 30.0)
            return
        self._accept_open()
        if self._close_s < CLOSE_S:
            self._world.covered["closed with a short timeout"] += 1
        await self._close(self._consumer.close(self._close_s), self._close_s)

    async def _close(self, closing: object, timeout: float) -> None:
        with suppress(KafkaError):
            await self._world.close(self.name, closing, timeout)

    async def _work(self) -> None:
        rng, timeout = self._rng, self._rng.choice([0.05, 0.3, 1.0])
        try:
            async with aclosing(self._read(timeout)) as pieces:
                async for records in pieces:
                    await self._process(records)
                    if self._leaves:
                        break
            if rng.random() < 0.3:
                await self._commit()
            if not self._is_calm and rng.random() < 0.01:
                await self._unsubscribe_for_a_while()
        except WakeupError:
            self._world.covered["woken up"] += 1
        except UsageError as error:
            self._world.history.stuck.append(f"{self.name}: {error!r}")
            await asyncio.sleep(0.1)
        except KafkaError as error:
            self._world.covered[type(error).__name__] += 1
            self._world.note(f"{self.name}: {error!r}")
            await asyncio.sleep(0.01)

    async def _unsubscribe_for_a_while(self) -> None:
        self._accept_open()
        self._world.covered["unsubscribed"] += 1
        await self._world.call(f"{self.name}: unsubscribe", self._consumer.unsubscribe(CLOSE_S), CLOSE_S)
        await asyncio.sleep(self._rng.uniform(0, 2))
        self._consumer.subscribe([TOPIC])

    async def _commit(self) -> None:
        self._accept_open()
        if self._rng.random() < 0.4:
            self._consumer.commit_nowait()
            return
        results = await self._world.call(f"{self.name}: commit", self._consumer.commit(COMMIT_S), COMMIT_S)
        for error in results.values():
            self._world.covered[f"{type(error).__name__} of a commit" if error else "committed"] += 1

    # -- reading

    async def _by_polling(self, timeout: float) -> AsyncIterator[list[Given]]:
        self._accept_open()
        batches = await self._world.call(f"{self.name}: poll", self._consumer.poll(timeout), timeout)
        yield self._given([record for batch in batches.values() for record in batch])

    async def _by_batches(self, timeout: float) -> AsyncIterator[list[Given]]:
        async with aclosing(self._consumer.batches(timeout)) as batches:
            for _ in range(self._rng.choice([1, 3, 10])):
                self._accept_open()
                batch = await self._world.call(f"{self.name}: batches", anext(batches, None), timeout)
                if batch is None:
                    return
                yield self._given(batch.records)

    async def _by_records(self, timeout: float) -> AsyncIterator[list[Given]]:
        for _ in range(self._rng.choice([1, 5, 30])):
            self._accept_open()
            try:
                async with asyncio.timeout(timeout):
                    record = await anext(self._consumer, None)
            except TimeoutError:
                return
            if record is not None:
                yield self._given([record])

    async def _by_arrow(self, timeout: float) -> AsyncIterator[list[Given]]:
        self._accept_open()
        work = self._consumer.poll_arrow(timeout, COLUMNS)
        table = await self._world.call(f"{self.name}: poll_arrow", work, timeout)
        yield self._note_given(
            [
                (TopicPartition(row["topic"], row["partition"]), row["offset"], row["value"], row["delivery_count"])
                for row in table.to_pylist()
            ]
        )

    def _given(self, records: list[ShareRecord]) -> list[Given]:
        return self._note_given(
            [
                (TopicPartition(each.topic, each.partition), each.offset, each.value, each.delivery_count)
                for each in records
            ]
        )

    def _note_given(self, records: list[tuple[TopicPartition, int, bytes | None, int]]) -> list[Given]:
        found = [Given(self.name, tp, offset, value, count, self._world.now_s) for tp, offset, value, count in records]
        self._shares.given += found
        self._open |= {(each.topic_partition, each.offset): each for each in found}
        self._world.covered[f"read by {self._method}"] += bool(found)
        return found

    # -- processing

    async def _process(self, records: list[Given]) -> None:
        for given in records:
            if self._slow_s:
                await asyncio.sleep(self._slow_s)
            if self._pause_s:
                pause_s, self._pause_s = self._pause_s, 0.0
                await asyncio.sleep(pause_s)
            if self._fails:
                raise ApplicationError
            self._world.covered["delivered again"] += given.delivery_count > 1
            if self._is_explicit:
                self._say(given, self._draw(self._weights))
            elif not self._is_calm and self._rng.random() < EXCEPTIONS:
                self._say(given, self._draw(OTHER_WEIGHTS))

    def _draw(self, weights: Mapping[AcknowledgeType, int]) -> AcknowledgeType:
        if self._is_calm:
            return AcknowledgeType.ACCEPT
        return self._rng.choices(list(weights), list(weights.values()))[0]

    def _say(self, given: Given, kind: AcknowledgeType) -> None:
        self._consumer.acknowledge_offset(given.topic_partition, given.offset, kind)
        self._note_said(given, kind)
        self._world.covered[kind.name] += 1

    def _accept_open(self) -> None:
        """In implicit mode, note that the next call accepts the records which the application got."""
        if not self._is_explicit:
            for given in list(self._open.values()):
                self._note_said(given, AcknowledgeType.ACCEPT)

    def _note_said(self, given: Given, kind: AcknowledgeType) -> None:
        place = given.topic_partition, given.offset
        self._open.pop(place, None)
        answer = Answer(given, kind, self._world.now_s)
        self._shares.answers.append(answer)
        self._pending[place].append(answer)

    def _reported(self, offsets: dict[TopicPartition, list[int]], error: KafkaError | None) -> None:
        if self._is_killed:
            return
        for tp, each in offsets.items():
            for offset in each:
                answers = self._pending.get((tp, offset))
                if not answers:
                    continue  # an offset without a record, or a record that could not be returned
                if len(answers) > 1:
                    for answer in answers:
                        answer.is_ambiguous = True
                answer = answers.pop(0)
                answer.reported_s, answer.error = self._world.now_s, error
                self._world.covered["confirmed" if error is None else f"{type(error).__name__} of an answer"] += 1
