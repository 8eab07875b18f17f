"""Work in turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kafkaraw.broker.replies import Deferred, Failed
from kafkaraw.broker.turns import Steps, TurnQueue, run_in_turns
from kafkaraw.testing.virtual import run_virtual


def steps_of(count: int, done: list[int], end: Callable[[], object] = lambda: "all") -> Steps[object]:
    """Steps of which each ends a turn."""
    for step in range(count):
        done.append(step)
        yield True
    return end()


def in_steps(count: int, end: Callable[[], object], *, cancel_after: int | None = None) -> tuple[int, list[object]]:
    """How many of the steps are done, and what comes, when each has a turn of the loop."""
    done: list[int] = []

    async def main() -> list[object]:
        answer = run_in_turns(steps_of(count, done, end))
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
    return len(done), got


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_run_in_turns_delivers_the_result_after_the_last_step(count: int):
    assert in_steps(count, lambda: "all") == (count, ["all"])


def test_run_in_turns_does_no_step_after_a_cancellation():
    assert in_steps(5, lambda: "all", cancel_after=1) == (2, [])


def test_run_in_turns_delivers_a_late_exception_as_failed():
    def end() -> object:
        raise OSError("late")

    (failed,) = in_steps(3, end)[1]
    assert isinstance(failed, Failed)
    assert str(failed.error) == "late"
    with pytest.raises(OSError, match="late"):
        in_steps(0, end)


def test_turn_queue_runs_one_generator_after_another_and_lets_others_in():
    async def main() -> None:
        queue = TurnQueue()
        order: list[object] = []

        def named(name: str, count: int) -> Steps[str]:
            for _ in range(count):
                order.append(name)
                yield True
            return name

        assert queue.run(named("none", 0)) == "none"
        answers = [queue.run(named(name, 2)) for name in "abc"]
        for answer in answers:
            assert isinstance(answer, Deferred)
            answer.when_done(order.append)
        answers[1].cancel()  # type: ignore[union-attr]
        for turn in range(8):
            order.append(turn)
            await asyncio.sleep(0)
        assert [one for one in order if isinstance(one, str)] == ["a", "a", "a", "b", "b", "c", "c", "c"]
        assert order[:4] == ["a", 0, "a", 1], "the loop runs between two turns"

    run_virtual(lambda simulation: main(), 1)


def test_turn_queue_finishes_at_once_what_it_has_begun_and_goes_on_later():
    async def main() -> None:
        queue = TurnQueue()
        done: list[int] = []
        answers: list[object] = []
        for _ in range(2):
            answer = queue.run(steps_of(3, done))
            assert isinstance(answer, Deferred)
            answer.when_done(answers.append)
        queue.finish()
        assert (done, answers) == ([0, 1, 2, 0, 1, 2], ["all", "all"])
        await asyncio.sleep(0)
        assert queue.run(steps_of(0, done)) == "all"

    run_virtual(lambda simulation: main(), 1)


def test_turn_queue_runs_what_follows_on_a_failure():
    def failing() -> Steps[None]:
        yield True
        raise OSError("late")

    async def main() -> None:
        queue = TurnQueue()
        answers: list[object] = []
        first, second = queue.run(failing()), queue.run(steps_of(1, []))
        assert isinstance(first, Deferred)
        assert isinstance(second, Deferred)
        first.when_done(answers.append)
        second.when_done(answers.append)
        for _ in range(5):
            await asyncio.sleep(0)
        assert isinstance(answers[0], Failed)
        assert answers[1:] == ["all"]

    run_virtual(lambda simulation: main(), 1)
