"""Answers that come later."""

from __future__ import annotations

from kafkaraw.broker.replies import Deferred, Failed, after, answered


def test_what_follows_on_an_answer_that_is_there_follows_at_once():
    assert after(1, lambda value: value + 1) == 2


def test_what_follows_on_a_later_answer_follows_when_it_comes():
    first: Deferred[int] = Deferred(lambda: None)
    second: Deferred[int] = Deferred(lambda: None)
    got: list[object] = []
    following = after(first, lambda value: second if value == 1 else None)
    assert isinstance(following, Deferred)
    following.when_done(got.append)
    first.resolve(1)
    assert got == []
    second.resolve(7)
    assert got == [7]


def test_cancelling_reaches_what_is_waited_for():
    cancelled: list[str] = []
    first: Deferred[int] = Deferred(lambda: cancelled.append("first"))
    second: Deferred[int] = Deferred(lambda: cancelled.append("second"))
    following = after(first, lambda value: second)
    assert isinstance(following, Deferred)
    first.resolve(1)
    following.cancel()
    assert cancelled == ["second"]


def test_an_answer_reported_before_the_call_returns_is_no_later_one():
    assert answered(lambda done: done(3)) == 3


def test_a_failure_passes_what_would_have_followed():
    first: Deferred[object] = Deferred(lambda: None)
    got: list[object] = []
    followed: list[object] = []
    following = after(first, followed.append)
    assert isinstance(following, Deferred)
    following.when_done(got.append)
    first.resolve(Failed(OSError()))
    assert (followed, [type(one) for one in got]) == ([], [Failed])


def test_what_raises_after_a_later_answer_is_delivered_as_a_failure():
    first: Deferred[int] = Deferred(lambda: None)
    got: list[object] = []
    following = after(first, lambda value: 1 // value)
    assert isinstance(following, Deferred)
    following.when_done(got.append)
    first.resolve(0)
    assert isinstance(got[0], Failed)
    assert isinstance(got[0].error, ZeroDivisionError)
