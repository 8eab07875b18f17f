"""Our share consumer in one group with other clients', while members are killed and the broker is restarted.

On Apache Kafka, and on `kafkaraw broker`, which starts again from its data directory.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.interop.apache_kafka import why_missing
from tests.interop.share_kills import Restarting, apache_broker, command_broker, run_killed
from tests.rotation import rotating

APACHE, OURS = "Apache Kafka", "our broker"
ONCE = ("java", "ours", "broker killed")
OFTEN = (*ONCE, "ours", "java", "broker stopped", "java", "ours", "ours", "broker killed", "java", "ours")
WITH_OTHERS = ("confluent", "franz-go", "ours", "broker killed", "java", "franz-go", "confluent", "broker stopped")


def running(broker: str, folder: Path) -> AbstractContextManager[Restarting]:
    """Return a broker of the test's own."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    return apache_broker() if broker == APACHE else command_broker(folder)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("broker", rotating([APACHE, OURS], 1))
def test_each_record_is_accepted_once_though_members_and_the_broker_are_killed(broker: str, tmp_path: Path) -> None:
    with running(broker, tmp_path) as kafka:
        run_killed(kafka, ["ours", "java"], ONCE, seed=1).check()


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("broker", [APACHE, OURS])
@pytest.mark.parametrize("seed", range(2, 5))
def test_each_record_is_accepted_once_in_twelve_kills(broker: str, seed: int, tmp_path: Path) -> None:
    with running(broker, tmp_path) as kafka:
        run = run_killed(kafka, ["ours", "java", "ours-implicit", "java-implicit"], OFTEN, seed=seed)
        run.check()
        assert sum(run.kills.values()) == len(OFTEN)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("broker", [APACHE, OURS])
def test_each_record_is_accepted_once_in_a_group_of_four_clients(broker: str, tmp_path: Path) -> None:
    with running(broker, tmp_path) as kafka:
        run_killed(kafka, ["ours", "java", "confluent", "franz-go"], WITH_OTHERS, seed=5).check()
