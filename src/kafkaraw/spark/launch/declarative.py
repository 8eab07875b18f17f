"""Runs Spark Declarative Pipelines that read and write format "kafkaraw", with a reliable exit code.

Spark's own `spark-pipelines run` ends with a traceback and exit code 1 *after* "Run is COMPLETED" as soon as a pipeline
has Python workers: their metrics come between the events, and its client does not accept them there. This module
ignores them. Everything else is Spark's: the commands, their options, and their output.
Must run in a process of its own, which it prepares for Spark Connect. Start at `run_pipelines`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.spark.launch.executables import worker_python
from kafkaraw.spark.launch.session_builder import prepare_environment, recommended_conf
from kafkaraw.spark.versions import features, running

_NEEDED: Final = ("grpc", "grpc_status", "google.rpc", "pandas", "yaml")

# The method of Spark's client that yields the responses to a command.
_ANSWERS: Final = "_execute_and_fetch_as_iterator"

# With Spark's default, a run forgets its tables but leaves their files, and a second run fails.
_CONF: Final = {"spark.sql.catalogImplementation": "hive"}


def run_pipelines(arguments: Sequence[str], conf: Mapping[str, str], master: str = "local[*]") -> None:
    """Run a command of `spark-pipelines`.

    Args:
        arguments: the command, and its options.
        conf: settings by Spark's names, for the session; they override the recommended ones.
        master: Spark master that the pipeline's Connect server starts with; "sc://host:port" for a running server.

    Raises:
        ConfigError: a package is missing, or Spark is older than 4.2.
        KafkaError: the pipeline failed, or could not be parsed.
    """
    _check_installed()
    if master.startswith("local"):
        prepare_environment(worker_python())
    given = recommended_conf() | _CONF | dict(conf)
    settings = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*settings, "pyspark-shell"])
    os.environ["SPARK_REMOTE"] = master
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"

    from pyspark.errors import PySparkException
    from pyspark.pipelines import cli

    _pass_over_metrics()
    sys.argv = ["kafkaraw pipelines", *arguments]
    try:
        cli.main()
    except PySparkException as error:
        raise KafkaError(str(error)) from error


def _check_installed() -> None:
    if not features().pipelines:
        version = ".".join(map(str, running()))
        raise ConfigError(
            f'Spark Declarative Pipelines need Spark 4.2 or newer, this is {version}: pip install "pyspark>=4.2"'
        )
    missing = [name for name in _NEEDED if not _is_there(name)]
    if missing:
        raise ConfigError(
            f"Spark Declarative Pipelines need packages that are not there ({', '.join(missing)}): "
            'pip install "kafkaraw[pipelines]"'
        )


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _pass_over_metrics() -> None:
    """Remove everything but events from the responses that the client gets to a command."""
    core = importlib.import_module("pyspark.sql.connect.client.core")
    original: Callable[..., Iterator[object]] = core.SparkConnectClient.execute_command_as_iterator

    def events(client: object, *args: object, **named: object) -> Iterator[object]:
        answers: Callable[..., Iterator[object]] = getattr(client, _ANSWERS)

        def without_metrics(*args: object, **named: object) -> Iterator[object]:
            return (each for each in answers(*args, **named) if not isinstance(each, core.PlanObservedMetrics))

        setattr(client, _ANSWERS, without_metrics)
        try:
            yield from original(client, *args, **named)
        finally:
            delattr(client, _ANSWERS)

    core.SparkConnectClient.execute_command_as_iterator = events
