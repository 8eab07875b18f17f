"""Our broker answers about share groups as Apache Kafka does: the same conversations with both."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaraw.broker import EmbeddedBroker
from tests.interop import (
    group_questions,
    share_fetch_questions,
    share_group_questions,
    share_reading_questions,
    share_state_questions,
)
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka

CONVERSATIONS = {
    **share_state_questions.CONVERSATIONS,
    **share_group_questions.CONVERSATIONS,
    **share_fetch_questions.CONVERSATIONS,
    **share_reading_questions.CONVERSATIONS,
}
Conversation = Callable[[group_questions.Table], Iterator[Any]]
# What Apache Kafka is started with in all tests.
LIKE_APACHES = {name: value for name, value in SINGLE_NODE.items() if name.startswith(("group.", "share."))}


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=LIKE_APACHES) as broker:
        yield broker


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_both_brokers_say_the_same(name: str, apache_kafka: ApacheKafka, our_broker: EmbeddedBroker) -> None:
    group_id = f"{name}-{uuid.uuid4().hex[:6]}"
    compare(CONVERSATIONS[name], group_id, str(apache_kafka.bootstrap_servers), our_broker.bootstrap_servers)


def test_both_brokers_refuse_a_share_session_beyond_the_limit(tmp_path: Path) -> None:
    limit = {"group.share.max.share.sessions": "1", "group.share.max.size": "1"}
    with (
        ApacheKafka(tmp_path, limit) as kafka,
        EmbeddedBroker(properties={**LIKE_APACHES, **limit}) as ours,
    ):
        talk = share_reading_questions.sessions
        compare(talk, "sessions", str(kafka.bootstrap_servers), ours.bootstrap_servers)


def compare(talk: Conversation, group_id: str, kafka: str, embedded: str) -> None:
    """Have a conversation with both brokers."""
    theirs = group_questions.have(talk, kafka, group_id)
    ours = group_questions.have(talk, embedded, group_id)
    assert len(theirs) == len(ours)
    for number, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        assert our == their, f"answer {number}"
