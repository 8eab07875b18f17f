"""Subscriptions and assignments as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.group.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkaraw.errors import ProtocolError
from kafkaraw.records import TopicPartition
from tests.core.group.java_assignors import JavaAssignors
from tests.interop.apache_kafka import why_missing

SUBSCRIPTION = MemberSubscription(
    ("a", "b"), (TopicPartition("a", 0), TopicPartition("b", 2)), b"data", generation_id=5, rack_id="east"
)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAssignors]:
    missing = why_missing()
    if missing:
        pytest.skip(missing)
    with JavaAssignors() as oracle:
        yield oracle


def test_a_subscription_is_read_as_it_was_written() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == SUBSCRIPTION


@pytest.mark.parametrize("subscription", [SUBSCRIPTION, MemberSubscription(("t",)), MemberSubscription(())])
def test_java_reads_and_writes_the_same_bytes(subscription: MemberSubscription, java: JavaAssignors) -> None:
    ours = encode_subscription(subscription)
    written, generation, rack = java.read_subscription(ours, 3)
    assert (written, generation, rack) == (
        ours,
        -1 if subscription.generation_id is None else subscription.generation_id,
        subscription.rack_id,
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_subscriptions_are_read(version: int, java: JavaAssignors) -> None:
    older, _, _ = java.read_subscription(encode_subscription(SUBSCRIPTION), version)
    read = decode_subscription(older)
    assert read.topics == SUBSCRIPTION.topics
    assert read.user_data == b"data"
    assert read.owned_partitions == (SUBSCRIPTION.owned_partitions if version else ())
    assert (read.generation_id, read.rack_id) == (5 if version > 1 else None, None)


def test_a_newer_subscription_is_read_as_the_newest_we_know() -> None:
    newer = (9).to_bytes(2, "big") + encode_subscription(SUBSCRIPTION)[2:] + b"more"
    assert decode_subscription(newer) == SUBSCRIPTION


def test_an_assignment_is_read_as_it_was_written_and_no_bytes_are_no_partitions() -> None:
    partitions = (TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 3))
    assert decode_assignment(encode_assignment(reversed(partitions))) == partitions
    assert decode_assignment(b"") == ()


@given(data=st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        try:
            read(data)
        except ProtocolError:
            continue
