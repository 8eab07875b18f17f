"""The loops that try again: what is tried again, until when, and what is said at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from kafkaraw.client.admin.calls import Calls
from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.network.engine import Engine
from kafkaraw.errors import BrokerError, KafkaError, NetworkError, Stage, StaleMetadataError
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster, runtime_of

PASSING = error_for(ErrorCode.NOT_CONTROLLER, "later")
FINAL = error_for(ErrorCode.INVALID_REQUEST, "never")


def simulate(play: Callable[[Calls, Simulation], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, 1).start()
        config = parse(AdminConfig, {"bootstrap_servers": cluster.bootstrap_servers})
        engine = Engine.on(config, runtime_of(simulation))
        await engine.start()
        await play(Calls(engine), simulation)
        await engine.close()

    run_virtual(main, 1)


class Failing:
    """Raises one error after the other, then succeeds."""

    def __init__(self, *errors: KafkaError) -> None:
        self.errors = list(errors)
        self.tries = 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_what_may_pass_is_tried_again_as_a_whole() -> None:
    async def play(calls: Calls, simulation: Simulation) -> None:
        once = Failing(PASSING, NetworkError("lost", stage=Stage.REQUEST))
        assert await calls.retry(once, calls.deadline(10)) == "done"
        assert once.tries == 3

    simulate(play)


@pytest.mark.parametrize("error", [FINAL, error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")])
def test_what_is_final_is_raised_at_once(error: KafkaError) -> None:
    async def play(calls: Calls, simulation: Simulation) -> None:
        once = Failing(error)
        with pytest.raises(type(error)) as raised:
            await calls.retry(once, calls.deadline(10))
        assert once.tries == 1
        assert raised.value.__cause__ is None, "an error that is its own cause has an endless chain of causes"
        with pytest.raises(type(error)) as raised:
            calls.raise_first({"item": error})
        assert raised.value.__cause__ is None

    simulate(play)


def test_the_last_failure_before_the_deadline_is_raised_and_the_deadline_holds() -> None:
    async def play(calls: Calls, simulation: Simulation) -> None:
        began = simulation.loop.time()
        with pytest.raises(BrokerError, match="NOT_CONTROLLER"):
            await calls.retry(Failing(*[PASSING] * 100), calls.deadline(3))
        assert simulation.loop.time() - began <= 3

    simulate(play)


@pytest.mark.parametrize(
    "error",
    [
        NetworkError("lost", stage=Stage.REQUEST),
        error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody to ask yet"),
        StaleMetadataError("broker 7 is not known"),
    ],
)
def test_a_try_that_ends_early_is_made_again_for_every_item(error: KafkaError) -> None:
    async def play(calls: Calls, simulation: Simulation) -> None:
        tries: list[list[str]] = []

        async def once(items: Sequence[str]) -> dict[str, KafkaError]:
            tries.append(list(items))
            if len(tries) == 1:
                raise error
            return {}

        await calls.each(["a", "b"], once, calls.deadline(10))
        assert tries == [["a", "b"], ["a", "b"]]

    simulate(play)


def test_only_the_items_that_may_pass_are_tried_again_and_the_failed_ones_are_named() -> None:
    async def play(calls: Calls, simulation: Simulation) -> None:
        asked: list[list[int]] = []

        async def once(items: Sequence[int]) -> dict[int, KafkaError]:
            asked.append(list(items))
            if len(asked) > 1:
                return {}
            other = error_for(ErrorCode.INVALID_CONFIG, "three")
            return {1: error_for(ErrorCode.INVALID_REQUEST, "one"), 2: PASSING, 3: other}

        with pytest.raises(BrokerError, match=r"INVALID_REQUEST.*one.*INVALID_CONFIG.*three"):
            await calls.each([1, 2, 2, 3, 4], once, calls.deadline(10))
        assert asked == [[1, 2, 3, 4], [2]]

    simulate(play)
