"""The auditor: silent about a sound history, and each violation is told by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import RecordMetadata, TopicPartition
from kafkaraw.testing.audit import Call, History, Invariant, Outcome, Position, Step, Transaction, audit

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def sound() -> History:
    """Three records sent by `a`, acknowledged, read as they came and in the end; a fourth failed."""
    history = History()
    history.sent["a"] = [b"0", b"1", b"2", b"3"]
    history.acknowledged = {b"%d" % n: RecordMetadata("t", 0, n, 0) for n in range(3)}
    history.failed = {b"3": KafkaTimeoutError("late")}
    history.reads["c"] = [(P0, n, b"%d" % n) for n in range(3)]
    history.final = {P0: [(n, b"%d" % n) for n in range(3)], P1: []}
    history.read_to_end["c"] = [P0, P1]
    history.calls = [Call("close", 10.0, 5.0, 15.05)]
    return history


def nobody_is_told(history: History) -> None:
    del history.failed[b"3"]


def two_values_at_one_offset(history: History) -> None:
    history.reads["d"] = [(P0, 1, b"9")]


def gone_from_the_middle(history: History) -> None:
    del history.final[P0][1]
    del history.reads["c"]
    del history.read_to_end["c"]


def gone_from_the_end(history: History) -> None:
    history.final[P0].pop()
    history.reads["c"].pop()
    del history.read_to_end["c"]


def in_another_partition(history: History) -> None:
    history.acknowledged[b"2"] = RecordMetadata("t", 1, 2, 0)
    del history.read_to_end["c"]


def not_read_to_the_end(history: History) -> None:
    history.reads["c"].pop()


def stepped_over_on_resuming(history: History) -> None:
    history.reads["c2"] = [history.reads["c"].pop()]
    history.reads["c"].pop()
    history.resumed["c2"] = "c"
    del history.read_to_end["c"]


def late(history: History) -> None:
    history.calls.append(Call("poll", 10.0, 1.0, 11.2))


def never(history: History) -> None:
    history.calls.append(Call("poll", 10.0, 1.0))


def believes_in_an_old_leader(history: History) -> None:
    history.leader_epochs["c"] = [(P0, b"id", 3), (P1, b"id", 1), (P0, b"id", 2)]


def held(history: History) -> None:
    history.left_over.append("20 bytes of memory")


def there_twice(history: History) -> None:
    history.final[P0].append((3, b"2"))


def out_of_order(history: History) -> None:
    history.final[P0] = [(0, b"1"), (1, b"0")]
    history.acknowledged, history.reads, history.read_to_end = {}, {}, {}
    history.failed = dict.fromkeys(history.sent["a"], KafkaTimeoutError("late"))


def denied_and_there(history: History) -> None:
    history.denied.add(b"1")


def denied_and_read(history: History) -> None:
    history.denied.add(b"3")
    history.reads["c"].append((P0, 3, b"3"))
    del history.read_to_end["c"]
    history.deleted_before[P0] = 4


def sent_again_behind_a_newer_one(history: History) -> None:
    left, returned = Step.LEFT, Step.RETURNED
    history.shipments["a"] = [(1.0, P0, 0, left), (2.0, P0, 0, returned), (2.1, P0, 1, left), (3.0, P0, 0, left)]


def does_not_get_through(history: History) -> None:
    history.stuck.append("a in partition 0")


def a_zombie(history: History) -> None:
    history.zombies.append("a")


def jumped_over(history: History) -> None:
    del history.reads["c"][1]
    del history.read_to_end["c"]


def went_back(history: History) -> None:
    history.reads["c"].append((P0, 1, b"1"))


def test_a_sound_history_has_no_violation():
    assert audit(sound()) == []


@pytest.mark.parametrize(
    ("spoil", "invariant"),
    [
        (nobody_is_told, Invariant.UNSETTLED),
        (two_values_at_one_offset, Invariant.INCONSISTENT_OFFSETS),
        (gone_from_the_middle, Invariant.LOST_WRITE),
        (gone_from_the_end, Invariant.UNSEEN),
        (in_another_partition, Invariant.UNSEEN),
        (not_read_to_the_end, Invariant.UNSEEN),
        (there_twice, Invariant.DUPLICATE),
        (out_of_order, Invariant.SEND_SKIP),
        (denied_and_there, Invariant.DENIED_WRITE),
        (denied_and_read, Invariant.DENIED_WRITE),
        (sent_again_behind_a_newer_one, Invariant.OVERTAKEN),
        (jumped_over, Invariant.POLL_SKIP),
        (stepped_over_on_resuming, Invariant.POLL_SKIP),
        (went_back, Invariant.NONMONOTONIC_POLL),
        (late, Invariant.OVERDUE),
        (never, Invariant.OVERDUE),
        (believes_in_an_old_leader, Invariant.EPOCH_WENT_BACK),
        (held, Invariant.LEFT_OVER),
        (a_zombie, Invariant.ZOMBIE),
        (does_not_get_through, Invariant.STUCK),
    ],
)
def test_each_violation_is_reported_by_name(spoil: Callable[[History], None], invariant: Invariant):
    history = sound()
    spoil(history)
    found = audit(history)
    assert [violation.invariant for violation in found] == [invariant]
    assert str(found[0]).startswith(f"{invariant.value}: ")


def test_duplicates_and_disorder_are_no_violation_without_idempotence():
    for spoil in (there_twice, out_of_order):
        history = sound()
        spoil(history)
        assert audit(history, idempotent=False) == []


def test_named_producers_may_write_duplicates_and_disorder():
    for spoil in (there_twice, out_of_order):
        history = sound()
        spoil(history)
        history.repeating, history.unordered = {"a"}, {"a"}
        assert audit(history) == []


@pytest.mark.parametrize(
    "story",
    [
        [(1.0, P0, 0, Step.LEFT), (1.0, P0, 1, Step.LEFT), (2.0, P0, 0, Step.RETURNED), (2.1, P0, 0, Step.LEFT)],
        [(1.0, P0, 0, Step.LEFT), (2.0, P0, 0, Step.RETURNED), (2.0, P0, 1, Step.LEFT), (2.1, P0, 0, Step.LEFT)],
        [(1.0, P0, 0, Step.LEFT), (2.0, P0, 0, Step.RETURNED), (2.1, P1, 1, Step.LEFT), (2.2, P0, 0, Step.LEFT)],
        [(1.0, P0, 0, Step.LEFT), (2.0, P0, 0, Step.RETURNED), (2.1, P0, 0, Step.LEFT), (2.2, P0, 1, Step.LEFT)],
        [(1.0, P0, 0, Step.LEFT), (2.0, P0, 0, Step.RETURNED), (9.0, P0, 1, Step.LEFT)],
    ],
    ids=["in flight together", "at the same moment", "another partition", "in turn", "given up"],
)
def test_retries_in_order_are_no_violation(story: list[tuple[float, TopicPartition, int, Step]]):
    history = sound()
    history.shipments["a"] = story
    assert audit(history) == []


def test_producers_in_turn_may_repeat_but_not_reorder():
    history = sound()
    history.repeating = history.in_turn = {"a"}
    history.final[P0] = [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"1")]
    assert audit(history) == []
    history.final[P0] = [(0, b"1"), (1, b"0"), (2, b"2"), (3, b"1")]
    assert Invariant.SEND_SKIP in {violation.invariant for violation in audit(history)}


def test_resuming_without_a_gap_or_with_repetition_is_no_violation():
    history = sound()
    history.reads["c2"] = history.reads["c"][1:]
    history.reads["c"].pop()
    history.resumed["c2"] = "c"
    history.read_to_end = {"c2": [P0, P1]}
    assert audit(history) == []


def test_weakly_acknowledged_records_may_be_lost_unless_they_were_read():
    history = sound()
    history.weak.add("a")
    history.final[P0].pop()
    assert {violation.invariant for violation in audit(history)} == {Invariant.POLL_SKIP}
    history.reads["c"].pop()
    assert audit(history) == []


def test_a_recreated_topic_has_new_epochs():
    history = sound()
    history.leader_epochs["c"] = [(P0, b"id", 3), (P0, b"other id", 0), (P0, b"other id", 1)]
    assert audit(history) == []


def test_deleted_records_are_not_missed():
    history = sound()
    history.final[P0] = [(2, b"2")]
    history.deleted_before[P0] = 2
    history.reads["d"] = [(P0, 0, b"0"), (P0, 2, b"2")]
    assert audit(history) == []


def test_unclean_elections_allow_loss_only():
    history = sound()
    history.final[P0] = [(0, b"0"), (1, b"9"), (2, b"0")]
    assert {violation.invariant for violation in audit(history, unclean=True)} == {Invariant.DUPLICATE}


def transactional() -> History:
    """`x` is committed, `y` aborted, of `z` nobody knows; all that is not of `y` is seen by committed readers."""
    history = History()
    history.transactions = {
        "x": Transaction([b"x0", b"x1"], Outcome.COMMITTED),
        "y": Transaction([b"y0"], Outcome.ABORTED),
        "z": Transaction([b"z0", b"z1"], Outcome.UNKNOWN),
    }
    values = [b"x0", b"y0", b"x1", b"z0", b"z1"]
    history.sent["a"] = values
    history.acknowledged = {value: RecordMetadata("t", 0, offset, 0) for offset, value in enumerate(values)}
    history.final = {P0: list(enumerate(values))}
    history.final_committed = {P0: [entry for entry in enumerate(values) if entry[1] != b"y0"]}
    history.reads["c"] = [(P0, offset, value) for offset, value in history.final_committed[P0]]
    history.committed_only.add("c")
    history.read_to_end["c"] = [P0]
    return history


def sees_aborted(history: History) -> None:
    history.final_committed[P0].insert(1, (1, b"y0"))
    history.reads["c"].insert(1, (P0, 1, b"y0"))


def consumer_alone_sees_aborted(history: History) -> None:
    history.reads["c"] = [(P0, 1, b"y0")]
    del history.read_to_end["c"]
    history.final_committed[P0] = []
    history.transactions = {"y": history.transactions["y"]}


def half_committed(history: History) -> None:
    history.final_committed[P0].remove((2, b"x1"))
    del history.reads["c"], history.read_to_end["c"]


def half_of_what_nobody_knows(history: History) -> None:
    history.final_committed[P0].remove((4, b"z1"))
    del history.reads["c"], history.read_to_end["c"]


def nothing_of_a_committed_one(history: History) -> None:
    history.final_committed[P0] = history.final_committed[P0][2:]
    del history.reads["c"], history.read_to_end["c"]


def test_sound_transactions_have_no_violation():
    assert audit(transactional()) == []
    history = transactional()
    history.final_committed[P0] = history.final_committed[P0][:2]  # of z, nothing
    history.reads["c"] = history.reads["c"][:2]
    assert audit(history) == []


@pytest.mark.parametrize(
    ("spoil", "invariant"),
    [
        (sees_aborted, Invariant.ABORTED_READ),
        (consumer_alone_sees_aborted, Invariant.ABORTED_READ),
        (half_committed, Invariant.TORN_TRANSACTION),
        (half_of_what_nobody_knows, Invariant.TORN_TRANSACTION),
        (nothing_of_a_committed_one, Invariant.TORN_TRANSACTION),
    ],
)
def test_each_transaction_violation_is_reported_by_name(spoil: Callable[[History], None], invariant: Invariant):
    history = transactional()
    spoil(history)
    assert invariant in {violation.invariant for violation in audit(history)}


@pytest.mark.parametrize("outcome_of_z", [Outcome.UNKNOWN, Outcome.COMMITTED])
@pytest.mark.parametrize(
    ("stands_at", "found"), [(3, []), (2, [Invariant.TORN_POSITION]), (-1, [Invariant.TORN_POSITION])]
)
def test_committed_offsets_are_those_of_the_last_visible_transaction(
    outcome_of_z: Outcome, stands_at: int, found: list[Invariant]
):
    history = transactional()
    history.transactions["z"].outcome = outcome_of_z
    for offset, name in enumerate("xyz", 1):
        history.transactions[name].positions.append(Position("g", P0, offset))
    history.final_positions = {("g", P0): stands_at}
    assert [violation.invariant for violation in audit(history)] == found


def test_positions_of_an_aborted_transaction_do_not_count():
    history = transactional()
    history.transactions["y"].positions.append(Position("g", P0, 2))
    history.final_positions = {("g", P0): -1}
    assert audit(history) == []
    history.final_positions = {("g", P0): 2}
    assert [violation.invariant for violation in audit(history)] == [Invariant.TORN_POSITION]
