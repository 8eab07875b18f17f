"""The fetch schedule says at any time what a look at every partition would say, and looks only at what has changed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from kafkaraw.core.fetch import schedule
from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP
from kafkaraw.core.fetch.requests import FetchPlan, FetchTarget
from kafkaraw.core.fetch.schedule import need_of
from kafkaraw.core.fetch.subscription_state import FetchState
from kafkaraw.errors import NetworkError, Stage
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import EpochEndOffset, FetchResponse, LeaderIdAndEpoch, PartitionData
from kafkaraw.records import TopicPartition
from tests.core.fetch.test_fetcher import P0, FetcherOf, answer, batch, cluster, data, fetcher
from tests.examples import examples

PARTITIONS = [TopicPartition("t", number) for number in range(4)] + [TopicPartition("u", 0)]
NO_ANSWER = NetworkError("no answer", stage=Stage.REQUEST)
ERRORS = [ErrorCode.NONE] * 8 + [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_OUT_OF_RANGE]


class Life:
    """A fetcher, brokers and a user that do whatever they may; two nodes lead, nothing is in order for long."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.view = cluster((1, 1, 2, 2))
        self.reset: int | None = EARLIEST_TIMESTAMP
        self.made = FetcherOf(lambda: self.reset, notes_processed=True, replica_age_max_ms=250)
        self.made.subscriptions.assign(PARTITIONS[:3])
        for of in self.made.subscriptions.assignment:
            self.made.subscriptions.seek(of, 0)
        self.under_way: dict[int, FetchPlan] = {}
        self.session_id = 0

    def step(self) -> str:
        """Do something; says what."""
        often = [self.ask, self.answer, self.answer, self.take, self.wait, self.look_up]
        seldom = [self.assign, self.seek, self.pause, self.resume, self.move_leaders, self.fail, self.learn_metadata]
        act = self.rng.choice(often * 2 + seldom)
        act()
        return act.__name__

    # -- the user

    def assign(self) -> None:
        self.reset = self.rng.choice([None, EARLIEST_TIMESTAMP, EARLIEST_TIMESTAMP])
        self.made.subscriptions.assign(self.rng.sample(PARTITIONS, self.rng.randrange(2, 6)))

    def seek(self) -> None:
        of = self.rng.choice(self.made.subscriptions.assignment)
        if self.rng.random() < 0.2:
            self.made.subscriptions.seek_to([of], EARLIEST_TIMESTAMP)
        else:
            self.made.subscriptions.seek(of, self.rng.randrange(3), self.rng.choice([-1, 3, 9]))

    def pause(self) -> None:
        self.made.subscriptions.pause([self.rng.choice(self.made.subscriptions.assignment)])

    def resume(self) -> None:
        self.made.subscriptions.resume(sorted(self.made.subscriptions.paused))

    def take(self) -> None:
        self.made.subscriptions.take()
        for _ in range(self.rng.randrange(4)):
            self.made.subscriptions.cursor.next_record()

    # -- the cluster

    def wait(self) -> None:
        self.now_ms += self.rng.choice([1, 60, 300, 2000])

    def move_leaders(self) -> None:
        of = self.rng.choice(PARTITIONS)
        self.view.update_leader(of, self.rng.choice([1, 2]), self.view.leader_epoch_of(of) + 1)

    def learn_metadata(self) -> None:
        if self.rng.random() < 0.3:
            self.view.forget_topic("t")
        else:
            self.view = cluster(tuple(self.rng.choice([1, 2]) for _ in range(self.rng.randrange(3, 6))))

    def look_up(self) -> None:
        for of, (_, generation) in self.made.offset_lookups(self.now_ms).items():
            if self.rng.random() < 0.7:
                self.made.offset_found(of, generation, 0)
            else:
                self.made.offset_lookup_failed(of, generation, NO_ANSWER, self.now_ms)

    # -- requests

    def ask(self) -> None:
        for plan in self.made.plan(self.view, self.now_ms, self.under_way.keys()):
            self.under_way[plan.node_id] = plan

    def answer(self) -> None:
        if not self.under_way:
            return
        plan = self.under_way.pop(self.rng.choice(list(self.under_way)))
        partitions = [self._answer_about(t) for t in plan.targets if self.rng.random() < 0.8]
        self.session_id += 1
        response = answer(*partitions)
        response.session_id = self.rng.choice([0, self.session_id, self.session_id])
        self.made.receive(plan, response, self.view, self.now_ms)

    def _answer_about(self, target: FetchTarget) -> PartitionData:
        number, offset = target.topic_partition.partition, target.offset
        error = self.rng.choice(ERRORS)
        if error:
            hint = LeaderIdAndEpoch(leader_id=self.rng.choice([-1, 1, 2]), leader_epoch=target.leader_epoch + 1)
            return data(number, error=error, current_leader=hint)
        if self.rng.random() < 0.05:
            return data(number, diverging_epoch=EpochEndOffset(epoch=1, end_offset=0))
        if self.rng.random() < 0.2:
            return data(number, preferred_read_replica=self.rng.choice([1, 2]))
        return data(number, batch(offset) if self.rng.random() < 0.5 else None)

    def fail(self) -> None:
        if not self.under_way:
            return
        plan = self.under_way.pop(self.rng.choice(list(self.under_way)))
        if self.rng.random() < 0.5:
            self.made.fetch_failed(plan, NO_ANSWER, self.now_ms)
        else:
            gone = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
            self.made.receive(plan, gone, self.view, self.now_ms)

    # -- what holds at any time

    def check_needs(self) -> None:
        """The schedule has what a look at every partition gives."""
        wanted: dict[int, dict[TopicPartition, FetchTarget | None]] = {}
        lookups = set()
        for of in self.made.subscriptions.assignment:
            is_held = of in self.made.subscriptions.paused or of in self.made.subscriptions.buffer
            need = need_of(self.made.subscriptions.partition(of), self.view, self.now_ms, is_held=is_held)
            if need.node_id is not None:
                wanted.setdefault(need.node_id, {})[of] = need.target
            if need.has_lookup:
                lookups.add(of)
        assert self.made.has_pending_lookup(self.view, self.now_ms) == bool(lookups)
        assert set(self.made._schedule.lookups) == lookups
        assert {n: one.targets for n, one in self.made._schedule.sessions.items() if one.targets} == wanted

    def check_times(self) -> None:
        """The end of each pause is awaited."""
        pauses = [self.made.subscriptions.partition(of).retry_at_ms for of in self.made.subscriptions.assignment]
        due = min((at_ms for at_ms in pauses if at_ms > self.now_ms), default=None)
        next_ms = self.made.retry_at_ms(self.now_ms)
        assert due is None or (next_ms is not None and self.now_ms < next_ms <= due)

    def check_moved(self) -> None:
        """Noting the partitions that have moved gives all positions."""
        self.made.subscriptions.caller_returned()
        assert self.made.subscriptions.processed() == self.made.subscriptions.positions()

    def check_unready(self) -> None:
        """Who has an error or no position is known."""
        positions = [self.made.subscriptions.partition(of) for of in self.made.subscriptions.assignment]
        unready = {
            p.topic_partition for p in positions if p.fetch_state is FetchState.INITIALIZING or p.error is not None
        }
        assert unready <= set(self.made.subscriptions.unready)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_schedule_always_equals_a_full_look_at_every_partition(seed: int) -> None:
    life = Life(seed)
    for _ in range(40):
        note(life.step())
        life.check_times()
        life.check_unready()
        if life.rng.random() < 0.5:
            life.check_moved()
        if life.rng.random() < 0.8:  # else two things happen between two looks
            life.check_needs()


def test_an_answer_about_one_partition_of_many_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [TopicPartition("t", number) for number in range(100)]
    made, view = fetcher(*many), cluster((1,) * 100)
    (plan,) = made.plan(view, 0, busy=())
    opening = answer(*(data(of.partition) for of in many))
    opening.session_id = 5
    made.receive(plan, opening, view, 0)
    (plan,) = made.plan(view, 0, busy=())
    looks: list[TopicPartition] = []

    def counted(partition, cluster, now_ms, *, is_held):  # type: ignore[no-untyped-def]
        looks.append(partition.topic_partition)
        return need_of(partition, cluster, now_ms, is_held=is_held)

    monkeypatch.setattr(schedule, "need_of", counted)
    news = answer(data(P0.partition, batch(0)))
    news.session_id = 5
    made.receive(plan, news, view, 0)
    made.subscriptions.take()
    (plan,) = made.plan(view, 0, busy=())
    assert [(target.topic_partition, target.offset) for target in plan.session.targets or ()] == [(P0, 5)]
    assert looks == [P0]
