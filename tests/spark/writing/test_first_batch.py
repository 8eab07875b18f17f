"""The first micro-batch of an exactly-once query, when the decision about it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin.transactions import TransactionListing
from kafkaraw.errors import UsageError
from kafkaraw.spark.writing.decision import driver_transactional_id
from kafkaraw.spark.writing.decisions import Decisions, Found
from kafkaraw.spark.writing.exactly_once import commit_batch
from tests.spark.writing.query import TOPIC, Query, forget_clients


@pytest.fixture(params=[0, 2])
def query(request: pytest.FixtureRequest) -> Iterator[Query]:
    with EmbeddedBroker(properties={"transaction.version": request.param}) as broker:
        yield Query(broker.bootstrap_servers)
        forget_clients()


def test_a_first_batch_whose_decision_was_deleted_is_refused_by_a_new_driver(query: Query) -> None:
    query.run(0)
    with Admin(bootstrap_servers=query.servers) as admin:
        admin.delete_topics([TOPIC])
    forget_clients()
    for _ in range(2):  # a refused repetition leaves the proof in place
        with pytest.raises(UsageError, match=r"has committed one: the topic was deleted.*0@none=write"):
            query.run(0)
        assert query.read() == [0, 1, 2]


def test_a_first_batch_that_was_not_decided_is_written_by_a_new_driver(query: Query) -> None:
    query.tasks(0)
    with Admin(bootstrap_servers=query.servers) as admin:
        admin.delete_topics([TOPIC])
    forget_clients()
    query.run(0)
    query.run(1)
    assert query.read() == [0, 1, 2, 10, 11, 12]


def test_a_first_batch_whose_decision_is_being_committed_is_not_refused(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.decide_only(0, monkeypatch)
    forget_clients()
    name = driver_transactional_id("kafkaraw-spark", query.id)
    listed, look, behind = Admin.list_transactions, Decisions.look, [False, True]

    def committing(admin: Admin, *, states: list[str], timeout: float) -> list[TransactionListing]:
        """The coordinator has decided to commit, and the marker is not in the log before it has said so."""
        found = listed(admin, states=states, timeout=timeout)
        if not behind or not behind.pop():
            return found
        return [replace(each, state="PrepareCommit") if each.transactional_id == name else each for each in found]

    def before_the_marker(decisions: Decisions, query_id: str, *, past: int = 0) -> Found:
        return Found(None) if behind else look(decisions, query_id, past=past)

    with monkeypatch.context() as patch:
        written = query.tasks(0)
        patch.setattr(Admin, "list_transactions", committing)
        patch.setattr(Decisions, "look", before_the_marker)
        commit_batch(written, query.settings)
    query.run(1)
    assert query.read() == [0, 1, 2, 10, 11, 12]
