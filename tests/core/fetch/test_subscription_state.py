"""The position of a partition has one owner: whatever happens in whatever order, the four offsets follow the table."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP, OffsetAndMetadata
from kafkaraw.core.fetch.subscription_state import CompletedFetch, FetchState, SubscriptionState
from kafkaraw.errors import UsageError
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, TopicPartition, encode_batch
from tests.examples import examples

ID = Uuid(b"t" * 16)
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def respond(made: SubscriptionState, of: TopicPartition, count: int, *, epoch: int = 0) -> None:
    """A response brings records of a partition, from its fetched offset on."""
    offset = made.partition(of).offset
    wire = encode_batch([(0, None, b"v", None)] * count, base_offset=offset, partition_leader_epoch=epoch)
    batch = Batch(*of, memoryview(wire), start_offset=offset)
    made.buffer.put(of, CompletedFetch(1, batch, [(offset, epoch)], ID), is_paused=of in made.paused)


def reading(*partitions: TopicPartition, notes_processed: bool = True) -> SubscriptionState:
    made = SubscriptionState(lambda: EARLIEST_TIMESTAMP, notes_processed=notes_processed)
    made.assign(partitions, {of: OffsetAndMetadata(0) for of in partitions})
    return made


def offsets(found: dict[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, int]:
    return {of: at.offset for of, at in found.items()}


# -- every order of events


@dataclass
class Expected:
    """The four offsets of a partition, by the table."""

    fetched: int = 0
    delivered: int = 0
    buffered: int = 0  # records in the buffer


class Life:
    """A consumer whose caller, group and brokers do whatever they may."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.made = reading(P0, P1)
        self.expected = {P0: Expected(), P1: Expected()}
        self.given: dict[TopicPartition, int] = {}  # where what was given last starts
        self.processed: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.unconfirmed: set[TopicPartition] = set()

    def step(self) -> str:
        often = [self.respond, self.take, self.give_record, self.give_record, self.give_batch, self.give_poll]
        seldom = [self.come_back, self.commit, self.seek, self.pause, self.resume, self.assign]
        act = self.rng.choice(often * 2 + seldom)
        act()
        return act.__name__

    def respond(self) -> None:
        self.made.schedule_seen()  # before each request
        of = self.rng.choice(list(self.expected))
        if not self.expected[of].buffered:
            self.expected[of].buffered = self.rng.randrange(1, 5)
            respond(self.made, of, self.expected[of].buffered)

    def take(self) -> None:
        count = 0
        for of, it in self.expected.items():
            if of not in self.made.paused:
                count += it.buffered
                it.fetched, it.buffered = it.fetched + it.buffered, 0
        assert self.made.take() == count

    def give_record(self) -> None:
        record = self.made.cursor.next_record()
        self._was_given([] if record is None else [(TopicPartition("t", record.partition), record.offset, 1)])

    def give_batch(self) -> None:
        batch = self.made.cursor.next_batch()
        self._was_given([] if batch is None else [(batch.topic_partition, batch.start_offset, batch.records_count)])

    def give_poll(self) -> None:
        batches = self.made.cursor.take(self.rng.randrange(1, 6))
        self._was_given([(batch.topic_partition, batch.start_offset, batch.records_count) for batch in batches])

    def _was_given(self, found: list[tuple[TopicPartition, int, int]]) -> None:
        self.given = {of: start for of, start, _ in found}
        for of, start, count in found:
            assert of not in self.made.paused, "nothing of a paused partition is given"
            assert start == self.expected[of].delivered, "nothing is left out or given twice"
            self.expected[of].delivered += count
        if not found:
            in_hand = [of for of, it in self.expected.items() if it.delivered < it.fetched]
            assert set(in_hand) <= self.made.paused, "what is in hand is given"

    def come_back(self) -> None:
        in_doubt = self.rng.random() < 0.3
        self.made.caller_returned(in_doubt=in_doubt)
        self.given = self.given if in_doubt else {}
        self.processed = {of: min(it.delivered, self.given.get(of, it.delivered)) for of, it in self.expected.items()}

    def commit(self) -> None:
        wanted = self.made.uncommitted()
        self.made.commit_began(wanted)
        self.unconfirmed |= set(wanted)
        if self.rng.random() < 0.7:
            self.made.commit_succeeded(wanted)
            self.committed.update(wanted)
            self.unconfirmed -= set(wanted)

    def seek(self) -> None:
        of, offset = self.rng.choice(list(self.expected)), self.rng.randrange(20)
        self.made.seek(of, offset)
        self.expected[of] = Expected(offset, offset)
        self.given.pop(of, None)

    def pause(self) -> None:
        self.made.pause([self.rng.choice(list(self.expected))])

    def resume(self) -> None:
        self.made.resume(sorted(self.made.paused))

    def assign(self) -> None:
        wanted = self.rng.sample([P0, P1, P2], self.rng.randrange(1, 4))
        self.made.assign(wanted, dict.fromkeys(wanted, OffsetAndMetadata(7)))
        self.made.retain(wanted)
        self.expected = {of: self.expected.get(of, Expected(7, 7)) for of in wanted}
        for kept in (self.given, self.processed, self.committed):
            for of in kept.keys() - set(wanted):
                del kept[of]
        self.unconfirmed &= set(wanted)

    def check(self) -> None:
        made = self.made
        assert {it.topic_partition: it.offset for it in made.partitions()} == {
            of: it.fetched for of, it in self.expected.items()
        }
        delivered = {of: it.delivered for of, it in self.expected.items()}
        assert offsets(made.positions()) == {of: made.position(of) for of in self.expected} == delivered
        processed = made.processed()
        assert offsets(processed) == self.processed
        assert made.uncommitted() == {
            of: at for of, at in processed.items() if of in self.unconfirmed or self.committed.get(of) != at
        }
        assert made.cursor.unsettled == self.given


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_four_offsets_follow_the_table_in_every_order_of_events(seed: int) -> None:
    life = Life(seed)
    for _ in range(60):
        note(life.step())
        life.check()


# -- single rules


def test_the_record_in_hand_is_committed_only_when_the_next_one_is_asked_for() -> None:
    made = reading(P0)
    respond(made, P0, 3)
    made.take()
    assert [made.cursor.next_record(), made.cursor.next_record()][1] is not None
    made.caller_returned(in_doubt=True)
    assert offsets(made.uncommitted()) == {P0: 1}
    made.caller_returned()
    assert offsets(made.uncommitted()) == {P0: 2}


def test_what_is_in_the_buffer_does_not_move_the_position() -> None:
    made = reading(P0)
    respond(made, P0, 3)
    made.caller_returned()
    assert (made.position(P0), offsets(made.processed())) == (0, {P0: 0})


@pytest.mark.parametrize(
    "move", [lambda made: made.seek(P0, 1), lambda made: made.seek_to([P0], -2), lambda made: made.assign([P1])]
)
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_seek_and_a_revocation_drop_what_was_fetched(
    move: Callable[[SubscriptionState], None], is_taken: bool
) -> None:
    made = reading(P0)
    respond(made, P0, 3)
    if is_taken:
        made.take()
    move(made)
    assert made.take() == 0
    assert made.cursor.next_record() is None


def test_a_reset_by_the_broker_gives_what_is_in_hand_first() -> None:
    made = reading(P0)
    respond(made, P0, 2)
    made.take()
    assert made.request_reset(made.partition(P0))
    assert made.partition(P0).fetch_state is FetchState.AWAIT_RESET
    assert made.position(P0) == 0
    assert [made.cursor.next_record(), made.cursor.next_record(), made.cursor.next_record()][2] is None
    assert made.position(P0) is None
    assert made.positions() == {}


def test_positions_carry_the_epoch_of_the_record_before_them() -> None:
    made = reading(P0)
    respond(made, P0, 2, epoch=4)
    made.take()
    assert made.positions()[P0].leader_epoch == -1
    made.cursor.next_record()
    assert made.positions()[P0] == OffsetAndMetadata(1, leader_epoch=4)


def test_a_consumer_that_stores_offsets_itself_commits_nothing_else() -> None:
    made = reading(P0, notes_processed=False)
    respond(made, P0, 3)
    made.take()
    made.cursor.next_batch()
    made.caller_returned()
    assert made.uncommitted() == {}
    made.store({P0: OffsetAndMetadata(2, "text")})
    assert made.uncommitted() == made.processed() == {P0: OffsetAndMetadata(2, "text")}


def test_an_unconfirmed_commit_is_made_again_though_the_caller_went_back() -> None:
    made = reading(P0)
    made.offsets_read({P0: OffsetAndMetadata(0)})
    made.caller_returned()
    assert made.uncommitted() == {}
    made.commit_began([P0])
    assert offsets(made.uncommitted()) == {P0: 0}


def test_nothing_is_changed_if_one_partition_is_not_assigned() -> None:
    made = reading(P0)
    for change in (made.pause, made.resume, lambda chosen: made.seek_to(chosen, -2)):
        with pytest.raises(UsageError, match="t-1 is not assigned"):
            change([P0, P1])
    assert (made.paused, made.position(P0)) == (set(), 0)
