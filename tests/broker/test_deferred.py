"""Answers that come later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kafkaraw.broker.deferred import Deferred, Failed, after, answered, in_turns
from kafkaraw.testing.virtual import run_virtual


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


def in_steps(count: int, end: Callable[[], object], *, cancel_after: int | None = None) -> tuple[int, list[object]]:
    """How many of the steps are done, and what comes, when each has a turn of the loop."""
    done = 0

    def step() -> bool:
        nonlocal done
        done += 1
        return done < count

    async def main() -> list[object]:
        answer = in_turns(step, end)
        if not isinstance(answer, Deferred):
            return [answer]
        got: list[object] = []
        answer.when_done(got.append)
        for turn in range(count + 1):
            if turn == cancel_after:
                answer.cancel()
            await asyncio.sleep(0)
        return got

    got = run_virtual(lambda simulation: main(), 1)
    return done, got


@pytest.mark.parametrize("count", [1, 2, 5])
def test_work_in_turns_is_answered_when_its_last_step_is_done(count: int):
    assert in_steps(count, lambda: "all") == (count, ["all"])


def test_steps_that_are_left_are_not_done_after_a_cancellation():
    assert in_steps(5, lambda: "all", cancel_after=1) == (2, [])


def test_what_fails_in_a_later_turn_is_delivered_instead_of_the_answer():
    def end() -> object:
        raise OSError("late")

    (failed,) = in_steps(3, end)[1]
    assert isinstance(failed, Failed)
    assert str(failed.error) == "late"
    with pytest.raises(OSError, match="late"):
        in_steps(1, end)


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
