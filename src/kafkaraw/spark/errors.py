"""What can go wrong in a Spark query apart from what the client says, and how Spark tells it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafkaraw.client.java_spelling import spelled
from kafkaraw.errors import KafkaError

CLIENT_PREFIX: Final = "kafka."
"""Begins the options that are settings of the client."""

_log = logging.getLogger(__name__)

# Spark looks at the one when it tells an error, and sets one of the others for its Python processes.
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_OF_SPARK: Final = ("PYTHON_UNIX_DOMAIN_ENABLED", "PYTHON_WORKER_FACTORY_SECRET")


class DataLossError(KafkaError):
    """Records that a query should have read are no longer there."""

    @classmethod
    def explained(cls, what: str) -> DataLossError:
        """The error with the way out."""
        return cls(
            f"records are missing: {what}. Set the option failOnDataLoss to false to go on with what is there, "
            "or start the query with a new checkpoint"
        )


def as_options(what: object) -> str:
    """A message of the client, with its settings named as options: `kafka.sasl.mechanism` for `sasl_mechanism`."""
    return spelled(str(what), prefix=CLIENT_PREFIX)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Let Spark tell an error of this package by its message, in the words of its options, without a traceback.

    The message says what to do; of the calls, several dozen may lie in between. Spark's processes end with the first
    error, so no other is told so. Errors that nobody raised on purpose keep their traceback; so do all in processes
    that Spark has not started.
    """
    try:
        yield
    except KafkaError as error:
        error.args = (as_options(str(error)), *error.args[1:])
        if any(name in os.environ for name in _OF_SPARK):
            os.environ[_HIDE] = "1"
            _log.debug("what Spark is told without its traceback", exc_info=True)
        raise
