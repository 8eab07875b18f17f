"""Data sets of Apache Kafka: through the broker, and of its log directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datasets.directories import check
from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.spark import log_contents


def test_a_log_directory_of_apache_kafka_has_what_its_broker_has(tmp_path: Path):
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(tmp_path, log_contents.PROPERTIES) as apache:
        topics = log_contents.write(apache.bootstrap_servers, tmp_path / "logs")
        try:
            check(apache.bootstrap_servers, tmp_path / "logs", topics)
        finally:
            while log_contents.OPEN_PRODUCERS:
                log_contents.OPEN_PRODUCERS.pop().close(timeout=0)
