"""Errors of a Spark query beyond those of the client, and how Spark shows them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafkaraw.client.java_spelling import spelled
from kafkaraw.errors import KafkaError, RetriableError, UsageError

CLIENT_PREFIX: Final = "kafka."
"""Prefix of the options that are settings of the client."""

_log = logging.getLogger(__name__)

# deltalake prints the causes of an error as a tree, in colours.
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_BRANCH: Final = re.compile(r"\s*↳\s*")
# Of a shared access signature of Azure, which pyarrow has in the URLs of its errors.
_SIGNATURE: Final = re.compile(r"\bsig=[^&\s'\"]+")

# Spark reads the first when it shows an error, and sets one of the others for its Python processes.
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_OF_SPARK: Final = ("PYTHON_UNIX_DOMAIN_ENABLED", "PYTHON_WORKER_FACTORY_SECRET")


class DataLossError(KafkaError):
    """Records that a query should have read are no longer there."""

    @classmethod
    def explained(cls, what: str) -> DataLossError:
        """Return the error, with a hint how to continue without the records."""
        return cls(
            f"records are missing: {what}. Set the option failOnDataLoss to false to continue without them, "
            "or start the query with a new checkpoint"
        )


class TableError(KafkaError):
    """A lake table cannot be read, written or committed. The message names the stage, the table and what to do."""


class TableConflictError(TableError, RetriableError):
    """Other writers changed a table before a commit. Nothing of the batch is in the table; write it again."""


class TableSchemaError(TableError, UsageError):
    """Rows do not fit into the columns of a table."""


class ChangedBatchError(TableError, UsageError):
    """A micro-batch with this number, but other rows, is in the table already."""


def in_one_line(error: BaseException) -> str:
    """Return the message of a library's error in one line, without colours and signatures."""
    return " ".join(_SIGNATURE.sub("sig=***", _BRANCH.sub(": ", _COLOUR.sub("", str(error)))).split())


def as_cause(error: BaseException) -> BaseException | None:
    """Return a library's error as the cause of another one; None if its message shows a signature."""
    return None if _SIGNATURE.search(str(error)) else error


def as_options(what: object) -> str:
    """Name settings in a client's message as options: `kafka.sasl.mechanism` for `sasl_mechanism`."""
    return spelled(str(what), prefix=CLIENT_PREFIX)


@contextmanager
def without_traceback() -> Iterator[None]:
    """Let Spark show an error of this package by its message, in the names of its options, without a traceback.

    The message says what to do; the traceback may have several dozen frames. Spark's processes end with the first
    error, so this affects no other one. Unexpected errors keep their traceback; so do all errors in processes that
    Spark has not started.
    """
    try:
        yield
    except KafkaError as error:
        error.args = (as_options(str(error)), *error.args[1:])
        if any(name in os.environ for name in _OF_SPARK):
            os.environ[_HIDE] = "1"
            _log.debug("an error that Spark shows without its traceback", exc_info=True)
        raise
