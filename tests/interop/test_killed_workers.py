"""Processes with workers are killed, with groups and logs of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.apache_kafka import ApacheKafka
from tests.worker.kills import SHARE, run_killed

CLASSIC = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
CONSUMER = {"group_protocol": "consumer"}


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("settings", [CLASSIC, CONSUMER, SHARE], ids=["classic", "consumer", "share"])
def test_no_record_is_lost_or_skipped_in_20_kills_on_apache_kafka(
    apache_kafka: ApacheKafka, tmp_path: Path, settings: dict
) -> None:
    servers, group = apache_kafka.bootstrap_servers, f"billing-{'-'.join(settings)}"
    run_killed(servers, tmp_path, group, kills=20, records=1_000, seed=1, settings=settings).check()
