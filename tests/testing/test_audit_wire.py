"""Answers on the wire: each request is answered once, in its turn."""

from __future__ import annotations

import pytest

from kafkaraw.testing.audit_wire import audit_wire
from kafkaraw.testing.invariants import Invariant
from kafkaraw.testing.memory_network import Sent

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
def test_one_answer_each_in_turn_is_sound(history: list[Sent]):
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
def test_an_answer_that_nobody_waits_for_is_told(history: list[Sent]):
    assert [violation.invariant for violation in audit_wire(history)] == [Invariant.ANSWERED_TWICE]
