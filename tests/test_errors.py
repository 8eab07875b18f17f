"""Errors that are stored once and raised several times: each call raises a copy of its own."""

from __future__ import annotations

import traceback
from typing import Self

import pytest

from kafkaraw.core.producer.events import Unacknowledged
from kafkaraw.errors import (
    BatchTooLargeError,
    DeliveryError,
    DeliveryTimeoutError,
    DeserializationError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    Stage,
    TopicAuthorizationError,
    copy_to_raise,
)
from kafkaraw.protocol.error_codes import ErrorCode, error_for

ENTRY = Unacknowledged("t", 0, 3, 1, 3, maybe_written=True)
ERRORS = [
    KafkaError("plain", 7),
    NetworkError("gone", stage=Stage.CONNECT),
    KafkaTimeoutError("late"),
    DeliveryError("lost", unacknowledged=[ENTRY]),
    DeliveryTimeoutError("late", unacknowledged=[ENTRY]),
    DeserializationError("bad", topic="t", partition=1, offset=2),
    ProtocolError("bad", path="a.b", offset=4),
    BatchTooLargeError("large", path="a", offset=1),
    error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"),
    error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", resource="t", operation="WRITE"),
    TopicAuthorizationError("no", code=29, name="N", retriable=False, principal="User:ada"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
    FileNotFoundError(2, "none", "name"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_has_the_type_text_arguments_and_attributes_of_the_error(error: Exception) -> None:
    error.add_note("first note")
    error.__cause__ = ValueError("the cause")
    twin = copy_to_raise(error)
    assert twin is not error
    assert type(twin) is type(error)
    assert (str(twin), repr(twin), twin.args) == (str(error), repr(error), error.args)
    assert vars(twin) == vars(error)
    assert twin.__cause__ is error.__cause__
    assert twin.__suppress_context__
    twin.add_note("of the copy only")
    assert error.__notes__[-1] == "first note"


def test_a_copy_has_the_attributes_that_are_kept_in_slots() -> None:
    class Foreign(ValueError):
        __slots__ = ("__hidden", "unset", "where")

        def __init__(self, where: str) -> None:
            super().__init__(where)
            self.where = where
            self.__hidden = where.upper()

        @property
        def hidden(self) -> str:
            return self.__hidden

    class Derived(Foreign):
        __slots__ = "more"

    class Ours(KafkaError):
        __slots__ = ("where",)

    error = Derived("here")
    error.more = [1]
    twin = copy_to_raise(error)
    assert twin is not error
    assert (twin.where, twin.hidden, twin.more) == ("here", "HERE", [1])
    assert not hasattr(twin, "unset")
    ours = Ours("why")
    ours.where = "there"
    assert copy_to_raise(ours).where == "there"


def test_a_copy_that_is_raised_leaves_the_traceback_and_context_of_the_error_as_they_were() -> None:
    def origin() -> None:
        raise KafkaError("once")

    def raise_again() -> None:
        raise copy_to_raise(error)

    with pytest.raises(KafkaError) as caught:
        origin()
    error = caught.value
    before = len(traceback.extract_tb(error.__traceback__))
    for _ in range(3):
        try:
            raise ValueError("under way")
        except ValueError:
            with pytest.raises(KafkaError) as again:
                raise_again()
        frames = [frame.name for frame in traceback.extract_tb(again.value.__traceback__)]
        assert frames[-1] == "origin"  # the copy says where the error comes from
        assert isinstance(again.value.__context__, ValueError)
    assert len(traceback.extract_tb(error.__traceback__)) == before
    assert error.__context__ is None


def test_an_error_of_a_foreign_class_that_cannot_be_copied_is_returned_itself() -> None:
    class Foreign(Exception):
        def __init__(self, first: int, second: int) -> None:
            super().__init__("text")

    error = Foreign(1, 2)
    assert copy_to_raise(error) is error


def test_an_error_of_a_user_s_subclass_that_cannot_be_copied_is_returned_itself() -> None:
    class Refused(KafkaError):
        def __new__(cls, first: int, second: int) -> Self:
            return super().__new__(cls, first)

        def __init__(self, first: int, second: int) -> None:
            super().__init__("text")

    error = Refused(1, 2)
    assert copy_to_raise(error) is error
