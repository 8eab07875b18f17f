"""The transaction coordinator's decisions, with a log and markers that answer when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.broker.transactions.coordinator import (
    Done,
    Limits,
    Outcome,
    ProducerIdAndEpoch,
    TransactionCoordinator,
)
from kafkaraw.broker.transactions.states import EPOCH_MAX, Transaction, TransactionState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from tests.examples import examples

ID = "flights-loader"
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
S = TransactionState


@dataclass
class World:
    """A coordinator, and hands that hold back what it wants done until told."""

    now_ms: int = 1_000
    next_id: int = 7
    held: bool = False
    written: list[Transaction] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    marked: list[Transaction] = field(default_factory=list)
    appends: list[Callable[[ErrorCode], None]] = field(default_factory=list)
    markers: list[Callable[[], None]] = field(default_factory=list)
    hold_markers: bool = False
    later: list[Callable[[], None]] = field(default_factory=list)
    refuse: ErrorCode = ErrorCode.NONE

    def __post_init__(self) -> None:
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(self, self.Markers(self), self.take, lambda: self.now_ms, Limits())

    def take(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def append(self, transaction: Transaction, done: Done) -> None:
        def land(code: ErrorCode) -> None:
            if not code:
                self.written.append(transaction)
            done(code)

        if self.held:
            self.appends.append(land)
        else:
            land(self.refuse)

    def forget(self, transactional_id: str, done: Done) -> None:
        self.forgotten.append(transactional_id)
        done(ErrorCode.NONE)

    @dataclass
    class Markers:
        world: World

        def later(self, act: Callable[[], None]) -> None:
            self.world.later.append(act)

        def write(self, ending: Transaction, done: Callable[[], None]) -> None:
            self.world.marked.append(ending)
            if self.world.hold_markers:
                self.world.markers.append(done)
            else:
                done()

    # ---- requests, answered at once unless something is held

    def init(
        self, expected: ProducerIdAndEpoch | None = None, timeout_ms: int = 60_000, name: str = ID
    ) -> Outcome | None:
        answers: list[Outcome] = []
        self.coordinator.init_producer_id(name, timeout_ms, expected, answers.append)
        return answers[0] if answers else None

    def add(self, who: ProducerIdAndEpoch, *partitions: TopicPartition, version: int = 2) -> ErrorCode | None:
        answers: list[ErrorCode] = []
        self.coordinator.add_partitions(ID, who, frozenset(partitions), version, answers.append)
        return answers[0] if answers else None

    def end(self, who: ProducerIdAndEpoch, *, commit: bool = True, version: int = 2) -> Outcome | None:
        answers: list[Outcome] = []
        self.coordinator.end(ID, who, commit=commit, version=version, answer=answers.append)
        return answers[0] if answers else None

    def started(self) -> ProducerIdAndEpoch:
        outcome = self.init()
        assert outcome is not None and outcome.code == ErrorCode.NONE
        return outcome.identity

    @property
    def state(self) -> TransactionState:
        transaction = self.coordinator.transaction(ID)
        assert transaction is not None
        return transaction.state

    def set_epoch(self, epoch: int, **changes: object) -> None:
        current = self.coordinator.transaction(ID)
        assert current is not None
        self.coordinator = self.new_coordinator()
        self.coordinator.load([replace(current, producer_epoch=epoch, **changes)])


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_producer_starts_at_epoch_0(world: World) -> None:
    assert world.init() == Outcome(ErrorCode.NONE, ProducerIdAndEpoch(7, 0))
    assert world.state is S.EMPTY


def test_a_second_producer_gets_the_next_epoch_and_the_first_is_fenced(world: World) -> None:
    first, second = world.started(), world.started()
    assert second == ProducerIdAndEpoch(first.producer_id, first.epoch + 1)
    assert world.add(first, A) == ErrorCode.PRODUCER_FENCED
    assert world.end(first) == Outcome(ErrorCode.PRODUCER_FENCED)
    assert world.add(second, A) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        (ID, 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(world: World, name: str, timeout_ms: int, code: ErrorCode) -> None:
    assert world.init(name=name, timeout_ms=timeout_ms) == Outcome(code)
    assert world.written == []


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_runs_through_all_its_states(world: World, commit: bool, version: int) -> None:
    who = world.started()
    assert world.add(who, A, version=version) == ErrorCode.NONE
    assert world.add(who, B, version=version) == ErrorCode.NONE
    ended = world.end(who, commit=commit, version=version)
    assert ended == Outcome(ErrorCode.NONE, ProducerIdAndEpoch(who.producer_id, who.epoch + (1 if version == 2 else 0)))
    outcome = [S.PREPARE_COMMIT, S.COMPLETE_COMMIT] if commit else [S.PREPARE_ABORT, S.COMPLETE_ABORT]
    assert [written.state for written in world.written] == [S.EMPTY, S.ONGOING, S.ONGOING, *outcome]
    assert [(marked.partitions, marked.producer_epoch) for marked in world.marked] == [({A, B}, ended.identity.epoch)]
    assert world.written[-1].partitions == frozenset()


def test_the_answer_comes_when_the_outcome_is_durable_not_when_the_markers_are_written(world: World) -> None:
    world.hold_markers = True
    who = world.started()
    world.add(who, A)
    assert world.end(who) is not None
    assert world.state is S.PREPARE_COMMIT
    world.markers.pop()()
    assert world.state is S.COMPLETE_COMMIT


def test_nothing_else_happens_to_an_id_while_its_state_is_being_written(world: World) -> None:
    who = world.started()
    world.held = True
    assert world.add(who, A) is None
    assert world.add(who, B) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end(who) == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert world.init() == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)


def test_a_state_that_was_not_written_is_not_in_force(world: World) -> None:
    who = world.started()
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.add(who, A) == ErrorCode.NOT_ENOUGH_REPLICAS
    world.refuse = ErrorCode.NONE
    assert world.state is S.EMPTY
    assert world.add(who, A) == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 2])
def test_a_successor_aborts_the_open_transaction_and_asks_again(world: World, version: int) -> None:
    zombie = world.started()
    world.add(zombie, A, version=version)
    assert world.init() == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert world.state is S.COMPLETE_ABORT
    assert [(marked.state, marked.producer_epoch) for marked in world.marked] == [(S.PREPARE_ABORT, zombie.epoch + 1)]
    assert world.init() == Outcome(ErrorCode.NONE, ProducerIdAndEpoch(zombie.producer_id, zombie.epoch + 2))
    assert world.end(zombie, version=version) == Outcome(ErrorCode.PRODUCER_FENCED)


def test_a_producer_that_recovers_gets_the_next_epoch_and_the_same_one_when_it_asks_again(world: World) -> None:
    who = world.started()
    next_one = ProducerIdAndEpoch(who.producer_id, who.epoch + 1)
    assert world.init(expected=who) == Outcome(ErrorCode.NONE, next_one)
    assert world.init(expected=who) == Outcome(ErrorCode.NONE, next_one)
    world.started()
    assert world.init(expected=who) == Outcome(ErrorCode.PRODUCER_FENCED)


def test_a_stranger_with_another_producer_id_is_fenced(world: World) -> None:
    who = world.started()
    assert world.init(expected=ProducerIdAndEpoch(who.producer_id + 100, 0)) == Outcome(ErrorCode.PRODUCER_FENCED)
    assert world.add(ProducerIdAndEpoch(99, 0), A) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(ProducerIdAndEpoch(99, 0)) == Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_an_id_that_was_never_initialised_is_unknown(world: World) -> None:
    assert world.add(ProducerIdAndEpoch(1, 0), A) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(ProducerIdAndEpoch(1, 0)) == Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert world.coordinator.transaction(ID) is None


def test_an_id_whose_epochs_are_used_up_goes_on_with_another_producer_id(world: World) -> None:
    world.started()
    world.set_epoch(EPOCH_MAX - 1)
    assert world.init() == Outcome(ErrorCode.NONE, ProducerIdAndEpoch(8, 0))


def test_the_last_epoch_still_ends_its_transaction_and_the_next_id_takes_over(world: World) -> None:
    who = world.started()
    world.add(who, A)
    world.set_epoch(EPOCH_MAX - 1)
    last = ProducerIdAndEpoch(who.producer_id, EPOCH_MAX - 1)
    fresh = Outcome(ErrorCode.NONE, ProducerIdAndEpoch(8, 0))
    assert world.end(last) == fresh
    assert world.end(last) == fresh, "the answer was lost, the producer asks again"
    assert world.marked[-1].producer_epoch == EPOCH_MAX
    assert world.init(expected=last) is not None


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_an_end_that_is_repeated_gets_the_same_answer(world: World, commit: bool, version: int) -> None:
    who = world.started()
    world.add(who, A, version=version)
    first = world.end(who, commit=commit, version=version)
    assert world.end(who, commit=commit, version=version) == first
    assert len(world.marked) == 1
    assert world.end(who, commit=not commit, version=version) == Outcome(ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_repeated_while_markers_are_written_has_to_wait(world: World, commit: bool) -> None:
    world.hold_markers = True
    who = world.started()
    world.add(who, A)
    world.end(who, commit=commit)
    assert world.end(who, commit=commit) == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert world.end(who, commit=not commit) == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)


def test_a_producer_that_aborts_while_the_previous_markers_are_written_is_not_fenced(world: World) -> None:
    world.hold_markers = True
    who = world.started()
    world.add(who, A)
    ended = world.end(who)
    assert ended is not None
    assert world.end(ended.identity, commit=False) == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    world.markers.pop()()
    assert world.end(ended.identity, commit=False) == Outcome(
        ErrorCode.NONE, ProducerIdAndEpoch(who.producer_id, who.epoch + 2)
    )


def test_in_the_first_generation_a_fenced_producer_hears_so_while_its_successors_markers_are_written(
    world: World,
) -> None:
    world.hold_markers = True
    zombie, who = world.started(), world.started()
    world.add(who, A, version=0)
    world.end(who, version=0)
    assert world.end(who, version=0) == Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert world.end(zombie, version=0) == Outcome(ErrorCode.PRODUCER_FENCED)


def test_nothing_can_be_committed_that_was_not_begun(world: World) -> None:
    who = world.started()
    assert world.end(who, version=0) == Outcome(ErrorCode.INVALID_TXN_STATE)
    assert world.end(who, version=2) == Outcome(ErrorCode.INVALID_TXN_STATE)
    assert world.end(who, commit=False, version=0) == Outcome(ErrorCode.INVALID_TXN_STATE)


def test_with_epoch_bumps_nothing_may_be_aborted_so_that_late_writes_are_fenced(world: World) -> None:
    who = world.started()
    assert world.end(who, commit=False) == Outcome(ErrorCode.NONE, ProducerIdAndEpoch(who.producer_id, who.epoch + 1))
    assert world.state is S.COMPLETE_ABORT


def test_partitions_that_are_part_of_it_are_not_written_again(world: World) -> None:
    who = world.started()
    world.add(who, A, B)
    before = len(world.written)
    assert world.add(who, B) == ErrorCode.NONE
    assert len(world.written) == before


def test_partitions_are_verified_for_brokers_that_append(world: World) -> None:
    who = world.started()
    assert world.coordinator.verify_partitions(ID, who, [A]) == {A: ErrorCode.TRANSACTION_ABORTABLE}
    world.add(who, A)
    found = world.coordinator.verify_partitions(ID, who, [A, B])
    assert found == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    stale = ProducerIdAndEpoch(who.producer_id, who.epoch - 1)
    assert world.coordinator.verify_partitions(ID, stale, [A]) == {A: ErrorCode.PRODUCER_FENCED}


def test_partitions_are_verified_while_more_are_being_added_but_not_while_it_ends(world: World) -> None:
    who = world.started()
    world.add(who, A, version=0)
    world.held = True
    assert world.add(who, B, version=0) is None
    found = world.coordinator.verify_partitions(ID, who, [A, B])
    assert found == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    world.appends.pop()(ErrorCode.NONE)
    world.held, world.hold_markers = False, True
    world.end(who, version=0)
    assert world.coordinator.verify_partitions(ID, who, [A]) == {A: ErrorCode.CONCURRENT_TRANSACTIONS}


@pytest.mark.parametrize(("version", "code"), [(0, ErrorCode.PRODUCER_FENCED), (2, ErrorCode.NONE)])
def test_a_transaction_that_is_open_too_long_is_aborted(world: World, version: int, code: ErrorCode) -> None:
    who = world.started()
    world.add(who, A, version=version)
    world.now_ms += 60_000
    world.coordinator.abort_overdue()
    assert world.state is S.ONGOING
    world.now_ms += 1
    world.coordinator.abort_overdue()
    assert world.state is S.COMPLETE_ABORT
    assert world.end(who, version=version).code == ErrorCode.PRODUCER_FENCED or version == 2
    assert world.init(expected=who).code == code


def test_ids_that_are_not_used_are_forgotten_but_never_with_an_open_transaction(world: World) -> None:
    who = world.started()
    world.add(who, A)
    world.now_ms += Limits().expiration_ms + 1
    world.coordinator.forget_unused()
    assert world.forgotten == []
    world.end(who)
    world.now_ms += Limits().expiration_ms
    world.coordinator.forget_unused()
    assert world.forgotten == [ID]
    assert world.coordinator.transactions() == []


def test_a_new_leader_carries_decided_transactions_to_their_end(world: World) -> None:
    world.hold_markers = True
    who = world.started()
    world.add(who, A)
    world.end(who)
    decided = world.written[-1]
    assert decided.state is S.PREPARE_COMMIT
    world.coordinator.resign()
    successor, world.hold_markers = world.new_coordinator(), False
    successor.load([decided])
    assert successor.transaction(ID) == replace(decided.completed(world.now_ms), updated_ms=world.now_ms)
    world.markers.pop()()
    assert [written.state for written in world.written].count(S.COMPLETE_COMMIT) == 1, "the old one keeps quiet"


def test_a_resigned_coordinator_answers_waiting_requests_with_not_coordinator(world: World) -> None:
    who = world.started()
    world.held = True
    answers: list[ErrorCode] = []
    world.coordinator.add_partitions(ID, who, frozenset({A}), 2, answers.append)
    world.coordinator.resign()
    world.appends.pop()(ErrorCode.NONE)
    assert answers == [ErrorCode.NOT_COORDINATOR]


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["init", "recover", "add", "commit", "abort", "time", "land", "marked"]),
        st.integers(0, 3),
        st.sampled_from([0, 2]),
    ),
    max_size=40,
)


@given(REQUESTS)
@settings(max_examples=examples(300), deadline=None)
def test_for_any_requests_epochs_never_decrease_and_each_outcome_is_marked_once(
    steps: list[tuple[str, int, int]],
) -> None:
    world = World(held=True, hold_markers=True)
    identities = [ProducerIdAndEpoch(7, 0)]
    for what, which, version in steps:
        who = identities[which % len(identities)]
        outcome: Outcome | None = None
        if what == "init":
            outcome = world.init()
        elif what == "recover":
            outcome = world.init(expected=who)
        elif what == "add":
            world.add(who, A, version=version)
        elif what in ("commit", "abort"):
            outcome = world.end(who, commit=what == "commit", version=version)
        elif what == "time":
            world.now_ms += 61_000
            world.coordinator.abort_overdue()
        elif what == "land" and world.appends:
            world.appends.pop(0)(ErrorCode.NONE if which else ErrorCode.NOT_ENOUGH_REPLICAS)
        elif what == "marked" and world.later:
            world.later.pop(0)()
        elif what == "marked" and world.markers:
            world.markers.pop(0)()
        if outcome is not None and outcome.code == ErrorCode.NONE and outcome.identity not in identities:
            identities.append(outcome.identity)
        current = world.coordinator.transaction(ID)
        if current is not None and ProducerIdAndEpoch(current.producer_id, current.producer_epoch) not in identities:
            identities.append(ProducerIdAndEpoch(current.producer_id, current.producer_epoch))
    seen = [(written.producer_id, written.producer_epoch) for written in world.written]
    assert seen == sorted(seen)
    decided = [written for written in world.written if written.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)]
    assert world.marked == decided
