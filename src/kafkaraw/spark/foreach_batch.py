"""Functions for `foreachBatch`: in update mode, which Spark refuses for sinks written in Python, and for several sinks.

Start at `batch_writer`; `writer_id` names the writer of a query, which keeps the number of its last micro-batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.spark.micro_batches import QUERY_ID, RUN_ID
from kafkaraw.spark.options.client import PATIENCE_OPTION
from kafkaraw.spark.options.lake import BATCH_OPTION as TABLE_BATCH_OPTION
from kafkaraw.spark.options.parsing import BATCH_OPTION, parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KAFKA: Final = "kafkaraw"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{0,100}")

# (run of a query, name) -> the micro-batch that was written last, and its writer.
_writers: dict[tuple[str, str], tuple[int, object]] = {}
_WRITERS_MAX: Final = 1_000


def batch_writer(
    options: Mapping[str, str], *, name: str = "", format: str = KAFKA
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that appends each micro-batch to Kafka or a table, in any output mode.

        query = counts.writeStream.outputMode("update").foreachBatch(batch_writer({
            "kafka.bootstrap.servers": "localhost:9092", "topic": "counts"})).start()

    Delivery is at least once, as in the sink: a micro-batch that failed is written again. With `exactlyOnce` each
    micro-batch is written once, as by the sink; the function must then be called for every micro-batch, even an empty
    one. Tables have each micro-batch once.

    Args:
        options: options of the format for writing.
        name: distinguishes several writers within one query; letters, digits and `._-`. It must stay the same when the
            query is restarted. Used with `exactlyOnce`, and for tables.
        format: "kafkaraw", or that of a table, such as "kafkaraw.delta".

    Raises:
        ConfigError: the name has other characters. The function raises `UsageError` if `exactlyOnce` is set and
            it is not called by `foreachBatch`, or two writers of a micro-batch have the same name.
    """
    chosen = dict(options)
    check_name(name)

    def write(batch: DataFrame, batch_id: int) -> None:
        if format != KAFKA:
            writer_id_ = writer_id(batch, name, batch_id, write, needed_by=f"format {format}")
            writer = batch.write.format(format).options(**chosen).option(TABLE_BATCH_OPTION, f"{writer_id_}/{batch_id}")
            writer.mode("append").save()
            return
        # As in a streaming sink, these settings override the user's.
        writer = batch.write.format("kafkaraw").option(*PATIENCE_OPTION).options(**chosen)
        if parse_options(chosen).exactly_once is not None:
            writer = writer.option(BATCH_OPTION, f"{writer_id(batch, name, batch_id, write)}/{batch_id}")
        writer.mode("append").save()

    return write


def check_name(name: str) -> None:
    """Check the name of a writer.

    Raises:
        ConfigError: it has characters that names of decisions and files do not have.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"name={name!r}: must be at most 100 letters, digits, or characters of ._-")


def writer_id(batch: DataFrame, name: str, batch_id: int, writer: object, needed_by: str = "exactlyOnce=true") -> str:
    """Return the name of a writer in decisions and tables: the query's id, and the name that the user has given.

    A function may create its writer again for each micro-batch; in one micro-batch a name has one writer.

    Args:
        batch: the rows.
        name: that the user has given.
        batch_id: the micro-batch.
        writer: tells writers apart.
        needed_by: what needs the id, for messages.

    Raises:
        UsageError: Spark does not pass the id of the query, or another writer has the name.
    """
    query_id, run_id = property_of(batch, QUERY_ID), property_of(batch, RUN_ID)
    if query_id is None:
        raise UsageError(
            f"{needed_by}: Spark does not pass the id of the query. Call this function in foreachBatch, on the thread "
            f"that foreachBatch calls, of a session that is not Spark Connect's; or write without foreachBatch"
        )
    key = run_id or query_id, name
    written_id, earlier = _writers.get(key, (batch_id, writer))
    if written_id == batch_id and earlier is not writer:
        raise UsageError(
            f"{needed_by}: two writers of query {query_id} have the name {name!r} in batch {batch_id}: give each "
            f'its own, batch_writer(options, name="..."); to write the batch again, call the same writer'
        )
    _writers.pop(key, None)  # so that it becomes the last in the order of use
    _writers[key] = batch_id, writer
    while len(_writers) > _WRITERS_MAX:
        del _writers[next(iter(_writers))]
    return f"{query_id}.{name}" if name else query_id


def property_of(batch: DataFrame, name: str) -> str | None:
    """Return a local property of the thread that runs the micro-batch; None if it is not set."""
    context = getattr(batch.sparkSession, "sparkContext", None)
    return None if context is None else context.getLocalProperty(name)
