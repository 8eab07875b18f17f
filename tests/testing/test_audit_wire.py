"""Answers on the wire: each request is answered once, in its turn."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.frames import RequestHeader, encode_request
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.testing.audit_wire import audit_numbering, audit_wire
from kafkaraw.testing.invariants import Invariant
from kafkaraw.testing.memory_network import Sent
from tests.broker.support import batch

PRODUCE, METADATA = 0, 3


def asked(correlation_id: int, api_key: int = METADATA, link: int = 0) -> Sent:
    frame = api_key.to_bytes(2, "big") + b"\0\1" + correlation_id.to_bytes(4, "big") + b"body"
    return Sent(1.0, link, "client", len(frame).to_bytes(4, "big") + frame)


def answered(correlation_id: int, link: int = 0) -> Sent:
    frame = correlation_id.to_bytes(4, "big") + b"body"
    return Sent(2.0, link, "server", len(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize(
    "history",
    [
        [asked(1), answered(1), asked(2), asked(3), answered(2)],
        [asked(1), asked(1, link=1), answered(1), answered(1, link=1)],
        [asked(1, PRODUCE), asked(2), answered(2)],
        [asked(1), answered(1), asked(1), answered(1)],
    ],
    ids=["one after the other, one open", "by link", "acks=0 wants none", "an id used again"],
)
def test_one_response_per_request_in_order_is_no_violation(history: list[Sent]):
    assert audit_wire(history) == []


@pytest.mark.parametrize(
    "history",
    [
        [asked(1), answered(1), answered(1)],
        [answered(1)],
        [asked(1), answered(1, link=1)],
        [asked(1), asked(2), answered(2)],
    ],
    ids=["twice", "never asked", "on another link", "out of turn"],
)
def test_a_response_without_a_request_is_reported(history: list[Sent]):
    assert [violation.invariant for violation in audit_wire(history)] == [Invariant.ANSWERED_TWICE]


def produced(*values: bytes, sequence: int = 0, epoch: int = 0) -> Sent:
    records = batch(*values, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=100, topic_data=[topic])
    frame = encode_request(RequestHeader(PRODUCE, 9, 1, "a"), request)
    return Sent(1.0, 0, "client", len(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize(
    "history",
    [
        [produced(b"a"), produced(b"a")],
        [produced(b"a", b"b"), produced(b"a"), produced(b"b", sequence=1)],
        [produced(b"a"), produced(b"b", epoch=1)],
        [produced(b"a", sequence=-1), produced(b"b", sequence=-1)],
        [asked(1)],
    ],
    ids=["the same", "in parts", "another epoch", "without idempotence", "no Produce"],
)
def test_sequence_numbers_with_the_same_bytes_are_no_violation(history: list[Sent]):
    assert audit_numbering(history) == []


@pytest.mark.parametrize("again", [produced(b"b"), produced(b"a", b"b")], ids=["other bytes", "more records"])
def test_sequence_numbers_with_other_bytes_are_reported(again: Sent):
    assert [violation.invariant for violation in audit_numbering([produced(b"a"), again])] == [Invariant.REWRITTEN]
