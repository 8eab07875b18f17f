"""Our broker answers about streams groups as Apache Kafka does: the same conversations with both."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker
from tests.interop import group_questions, streams_questions
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka
from tests.rotation import rotating

LIKE_APACHES = {name: value for name, value in SINGLE_NODE.items() if name.startswith("group.")}


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=LIKE_APACHES) as broker:
        yield broker


@pytest.mark.parametrize("name", rotating(streams_questions.CONVERSATIONS, 3))
def test_both_brokers_say_the_same(name: str, apache_kafka: ApacheKafka, our_broker: EmbeddedBroker) -> None:
    group_id = f"streams-{uuid.uuid4().hex[:6]}"
    talk = streams_questions.CONVERSATIONS[name]
    theirs = group_questions.have(talk, str(apache_kafka.bootstrap_servers), group_id)
    ours = group_questions.have(talk, our_broker.bootstrap_servers, group_id)
    assert len(theirs) == len(ours)
    for number, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        assert our == their, f"answer {number}"


@pytest.mark.parametrize("name", rotating(["one_member", "two_members"], 1))
def test_both_brokers_write_the_same(name: str, apache_kafka: ApacheKafka, our_broker: EmbeddedBroker) -> None:
    group_id, found = f"streams-{uuid.uuid4().hex[:6]}", []
    for servers in (str(apache_kafka.bootstrap_servers), our_broker.bootstrap_servers):
        group_questions.have(streams_questions.CONVERSATIONS[name], servers, group_id)
        found.append(group_questions.written(servers, group_id))
    theirs, ours = found
    assert theirs, "nothing was written"
    assert ours == theirs, "\n".join(difflib.unified_diff(theirs, ours, "theirs", "ours", n=0))
