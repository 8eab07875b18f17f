"""A batch query of a run, with the methods of a streaming query that the run needs.

A materialized view is computed in a thread of its own, so that the run goes on to watch its streaming queries. Must not
know what is computed. Start at `BatchJob`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_TIMEOUT_S: Final = 30.0


class BatchJob:
    """Runs a function once, in a thread. The names are those of `StreamingQuery`.

    Args:
        spark: the session.
        work: what is done.
        name: of the flow, for Spark's job group.
    """

    def __init__(self, spark: SparkSession, work: Callable[[], None], name: str) -> None:
        self._spark = spark
        self._work = work
        self._group = f"{name}-{uuid.uuid4().hex}"
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"kafkaraw-{name}", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:
        """Whether it still computes."""
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, bool]:
        """What it does, as of a query: it is always busy."""
        return {"isTriggerActive": True}

    @property
    def lastProgress(self) -> None:
        """There are no progress events."""
        return

    @property
    def recentProgress(self) -> list[None]:
        """There are no progress events."""
        return []

    def exception(self) -> Exception | None:
        """Return the error that has ended it; None if it has succeeded."""
        return self._error

    def stop(self) -> None:
        """Cancel what it computes. What is replaced is not replaced then."""
        self._spark.sparkContext.cancelJobGroup(self._group)
        self._thread.join(_STOP_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._spark.sparkContext.setJobGroup(self._group, self._group, interruptOnCancel=True)
            self._work()
        except Exception as error:  # noqa: BLE001 -- of the user's functions or Spark
            self._error = error
