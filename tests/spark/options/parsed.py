"""Options parsed for tests, and what is said of those that are refused."""

from __future__ import annotations

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options.parsing import SparkOptions, parse_options

BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(**options: str) -> SparkOptions:
    """Dots of a name are written as two underscores."""
    return parse_options(BASE | {name.replace("__", "."): value for name, value in options.items()})


def error_of(options: dict[str, str]) -> str:
    """The message with which the options are refused."""
    with pytest.raises(ConfigError) as error:
        parse_options(BASE | options)
    return str(error.value)
