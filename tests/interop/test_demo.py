"""The flights demo, the same command, on Apache Kafka instead of the embedded broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.interop.apache_kafka import ApacheKafka

pytest.importorskip("pyspark")


@pytest.mark.soak
def test_the_demo_balances_on_apache_kafka(apache_kafka: ApacheKafka) -> None:
    command = [sys.executable, "-m", "kafkaraw", "demo", "flights", "--limit", "1000", "--bootstrap-server"]
    done = subprocess.run(
        [*command, apache_kafka.bootstrap_servers], capture_output=True, text=True, check=False, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "The sheet balances" in done.stdout
