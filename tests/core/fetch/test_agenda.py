"""The agenda says at any time what a look at every partition would say, and looks only at what has changed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from kafkaraw.core.fetch import agenda
from kafkaraw.core.fetch.agenda import need_of
from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.plan import FetchPlan, FetchTarget
from kafkaraw.core.fetch.positions import EARLIEST_TIMESTAMP, Standing
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import NetworkError, Stage
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import EpochEndOffset, FetchResponse, LeaderIdAndEpoch, PartitionData
from kafkaraw.records import TopicPartition
from tests.core.fetch.test_fetcher import P0, answer, batch, cluster, data, fetcher

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
        self.made = Fetcher(lambda: self.reset, Backoff(100, 1000, jitter=0), random.Random(1), replica_age_max_ms=250)
        self.made.assign(PARTITIONS[:3])
        for of in self.made.assignment:
            self.made.seek(of, 0)
        self.under_way: dict[int, FetchPlan] = {}
        self.session_id = 0
        self.noted: dict[TopicPartition, int] = {}

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
        self.made.assign(self.rng.sample(PARTITIONS, self.rng.randrange(2, 6)))

    def seek(self) -> None:
        of = self.rng.choice(self.made.assignment)
        if self.rng.random() < 0.2:
            self.made.seek_to(of, EARLIEST_TIMESTAMP)
        else:
            self.made.seek(of, self.rng.randrange(3), self.rng.choice([-1, 3, 9]))

    def pause(self) -> None:
        self.made.pause(self.rng.choice(self.made.assignment))

    def resume(self) -> None:
        for of in sorted(self.made.paused):
            self.made.resume(of)

    def take(self) -> None:
        self.made.take()

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
        for of, (_, generation) in self.made.searches(self.now_ms).items():
            if self.rng.random() < 0.7:
                self.made.found(of, generation, 0)
            else:
                self.made.search_failed(of, generation, NO_ANSWER, self.now_ms)

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
        """The agenda has what a look at every partition gives."""
        wanted: dict[int, dict[TopicPartition, FetchTarget | None]] = {}
        errands = set()
        for of in self.made.assignment:
            is_held = of in self.made.paused or of in self.made._waiting
            need = need_of(self.made.position(of), self.view, self.now_ms, is_held=is_held)
            if need.node_id is not None:
                wanted.setdefault(need.node_id, {})[of] = need.target
            if need.has_errand:
                errands.add(of)
        assert self.made.has_errand(self.view, self.now_ms) == bool(errands)
        assert set(self.made._agenda.errands) == errands
        assert {n: one.targets for n, one in self.made._agenda.sessions.items() if one.targets} == wanted

    def check_times(self) -> None:
        """The end of each pause is awaited."""
        pauses = [self.made.position(of).retry_at_ms for of in self.made.assignment]
        due = min((at_ms for at_ms in pauses if at_ms > self.now_ms), default=None)
        next_ms = self.made.retry_at_ms(self.now_ms)
        assert due is None or (next_ms is not None and self.now_ms < next_ms <= due)

    def check_moved(self) -> None:
        """Who notes the positions of those that have moved knows all positions."""
        for of in self.made.moved():
            self.noted.pop(of, None)
            self.noted.update({of: position.offset for of, position in self.made.positions([of])})
        assert self.noted == {of: position.offset for of, position in self.made.positions()}

    def check_troubled(self) -> None:
        """Who has an error or no position is known."""
        positions = [self.made.position(of) for of in self.made.assignment]
        troubled = {p.topic_partition for p in positions if p.standing is Standing.LOST or p.error is not None}
        assert troubled <= set(self.made._troubled)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_agenda_always_says_what_a_look_at_every_partition_says(seed: int) -> None:
    life = Life(seed)
    for _ in range(40):
        note(life.step())
        life.check_times()
        life.check_troubled()
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

    def counted(position, cluster, now_ms, *, is_held):  # type: ignore[no-untyped-def]
        looks.append(position.topic_partition)
        return need_of(position, cluster, now_ms, is_held=is_held)

    monkeypatch.setattr(agenda, "need_of", counted)
    news = answer(data(P0.partition, batch(0)))
    news.session_id = 5
    made.receive(plan, news, view, 0)
    made.take()
    (plan,) = made.plan(view, 0, busy=())
    assert [(target.topic_partition, target.offset) for target in plan.session.targets or ()] == [(P0, 5)]
    assert looks == [P0]
