"""Our broker answers about groups as Apache Kafka does: the same conversations with both."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.error_codes import ErrorCode
from tests.interop import group_questions, migration_questions, regex_questions
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka

CONVERSATIONS = group_questions.CONVERSATIONS | migration_questions.CONVERSATIONS
# What Apache Kafka is started with in all tests.
LIKE_APACHES = {name: value for name, value in SINGLE_NODE.items() if name.startswith("group.")}


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=LIKE_APACHES) as broker:
        yield broker


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_both_brokers_say_the_same(name: str, apache_kafka: ApacheKafka, our_broker: EmbeddedBroker) -> None:
    group_id = f"questions-{name}-{uuid.uuid4().hex[:6]}"
    talk = CONVERSATIONS[name]
    theirs = group_questions.have(talk, str(apache_kafka.bootstrap_servers), group_id)
    ours = group_questions.have(talk, our_broker.bootstrap_servers, group_id)
    assert len(theirs) == len(ours)
    for number, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        assert our == their, f"answer {number}"


@pytest.mark.parametrize("name", ["up_and_down", "static_up_and_down", "empty_groups"])
def test_both_brokers_write_the_same(name: str, apache_kafka: ApacheKafka, our_broker: EmbeddedBroker) -> None:
    group_id, found = f"written-{name}-{uuid.uuid4().hex[:6]}", []
    for servers in (str(apache_kafka.bootstrap_servers), our_broker.bootstrap_servers):
        group_questions.have(CONVERSATIONS[name], servers, group_id)
        found.append(group_questions.written(servers, group_id))
    theirs, ours = found
    assert ours == theirs, "\n".join(difflib.unified_diff(theirs, ours, "theirs", "ours", n=0))


@pytest.mark.parametrize("regex", regex_questions.INVALID)
def test_both_brokers_refuse_the_same_regexes(regex: str, apache_kafka: ApacheKafka, our_broker: EmbeddedBroker):
    group_id = f"regexes-{uuid.uuid4().hex[:6]}"
    theirs = regex_questions.refusal(str(apache_kafka.bootstrap_servers), group_id, regex)
    assert theirs[0] == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert regex_questions.refusal(our_broker.bootstrap_servers, group_id, regex) == theirs


def test_both_brokers_match_the_same_topics(apache_kafka: ApacheKafka, our_broker: EmbeddedBroker):
    prefix = f"regexes-{uuid.uuid4().hex[:6]}"
    theirs = regex_questions.matched(str(apache_kafka.bootstrap_servers), prefix)
    assert regex_questions.matched(our_broker.bootstrap_servers, prefix) == theirs
    assert all(theirs.values()), theirs
