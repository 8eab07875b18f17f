"""The first micro-batch of an exactly-once query, when the decision about it is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import UsageError
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
