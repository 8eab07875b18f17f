"""How Spark is made to tell errors."""

from __future__ import annotations

import os
import re

import pytest

from kafkaraw.errors import ConfigError, NetworkError, Stage
from kafkaraw.spark.errors import without_traceback

_HIDE = "SPARK_HIDE_TRACEBACK"


@pytest.fixture
def process_of_spark(monkeypatch):
    monkeypatch.delenv(_HIDE, raising=False)
    monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", "true")


def test_a_kafka_error_is_shown_without_its_traceback(process_of_spark):
    with pytest.raises(ConfigError), without_traceback():
        raise ConfigError("what to do")
    assert os.environ.pop(_HIDE) == "1"


def test_an_unexpected_error_keeps_its_traceback(process_of_spark):
    with pytest.raises(KeyError), without_traceback():
        raise KeyError("nobody raised this on purpose")
    assert _HIDE not in os.environ


def test_nothing_is_hidden_in_a_process_that_spark_has_not_started(monkeypatch):
    for name in (_HIDE, "PYTHON_UNIX_DOMAIN_ENABLED", "PYTHON_WORKER_FACTORY_SECRET"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError), without_traceback():
        raise ConfigError("what to do")
    assert _HIDE not in os.environ


def test_errors_of_a_query_name_the_options_that_help():
    options = "the broker wants a login: set kafka.security.protocol=SASL_SSL and kafka.sasl.mechanism"
    with pytest.raises(NetworkError, match=f"^{re.escape(options)}$") as raised, without_traceback():
        raise NetworkError(
            "the broker wants a login: set security_protocol=SASL_SSL and sasl_mechanism", stage=Stage.SASL
        )
    assert raised.value.stage is Stage.SASL
