"""`SparkTasks`: tasks of a Spark job copy the shares of a mirror's flow.

Each round is a job with one task for each share. A task runs at most once: if Spark runs it again, because its executor
was lost or another attempt was slow, the first attempt may still write, and both would have the same producer epoch. So
a later attempt reports that only, and the driver starts the share anew in its next round, which fences the attempts of
this one. The job has one stage, without a shuffle, and Spark attempts such a stage once. A task reports its failure and
does not raise it: Spark would end the other tasks of the job.

Shares and reports go through Spark's own connections. Start at `SparkTasks.run`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.errors import PySparkException

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.mirror.shares import Share, ShareProblem, ShareReport, copy_share
from kafkaraw.spark.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE_S: Final = 60.0
"""How long after the end of a round its tasks may take; then Spark cancels the job, as when an executor hangs."""
CANCEL_S: Final = 30.0
"""How long a cancelled job may take to end."""
_UNUSABLE: Final = ("kafkaraw cannot be used on", "They must be equal")
"""What executors report that have no kafkaraw, or another version."""
_CAUSE_LENGTH_MAX: Final = 2000


class SparkTasksError(KafkaError):
    """Spark could not run the tasks of a round, or their reports are lost."""


class SparkTasks:
    """Runs the tasks of a flow on executors.

    Args:
        spark: the session.
        name: of the flow, for Spark's pages.
        count: tasks of each round; None for as many as the executors have cores, divided by `flows_count`.
        flows_count: number of flows that run in this session.
    """

    def __init__(self, spark: SparkSession, name: str, count: int | None = None, flows_count: int = 1) -> None:
        self._context = spark.sparkContext
        self._name = name
        self._count = count
        self._flows_count = flows_count
        self._rounds_count = 0

    def tasks_count(self) -> int:
        """Return how many tasks a round has, at most."""
        return self._count or max(1, self._context.defaultParallelism // self._flows_count)

    async def run(self, shares: Sequence[Share]) -> Sequence[ShareReport]:
        """Run a job with a task for each share.

        Raises:
            SparkTasksError: the job failed, or did not end in time; none of its reports is known.
            UsageError: executors cannot use kafkaraw.
        """
        self._rounds_count += 1
        group = f"kafkaraw mirror {self._name}, round {self._rounds_count}"
        ended = _in_thread(lambda: self._run_job(group, shares), group)
        try:
            async with asyncio.timeout(shares[0].seconds + GRACE_S):
                return await asyncio.shield(ended)
        except TimeoutError:
            self._context.cancelJobGroup(group)
            await asyncio.wait([ended], timeout=CANCEL_S)
            raise SparkTasksError(
                f"{group}: its tasks did not end {GRACE_S:g} s after the round, so the job was cancelled: is an "
                "executor lost, or do the executors have fewer cores than the flows have tasks (--tasks)?"
            ) from None
        except PySparkException as error:
            raise _job_error(group, str(error)) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "py4j":
                raise
            raise _job_error(group, str(getattr(error, "java_exception", error))) from error

    def _run_job(self, group: str, shares: Sequence[Share]) -> list[ShareReport]:
        self._context.setJobGroup(group, group, interruptOnCancel=True)
        numbers = self._context.parallelize(range(len(shares)), len(shares))
        return numbers.mapPartitionsWithIndex(_Task(shares)).collect()


class _Task(Shipped):
    """What a task runs: the share of its number."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self.shares = tuple(shares)

    def __call__(self, number: int, _rows: Iterable[int]) -> Iterator[ShareReport]:
        share = self.shares[number]
        context = TaskContext.get()
        where = f"executor {socket.gethostname()}, process {os.getpid()}"
        if context is not None and context.attemptNumber() > 0:
            yield ShareReport(
                problem=ShareProblem(
                    f"starting: {share.name} on {where}: Spark runs it again, because an earlier attempt is lost or "
                    "slow; it continues in the next round",
                    is_lasting=False,
                    passes=True,
                )
            )
        else:
            yield asyncio.run(copy_share(share, where))


def _job_error(group: str, text: str) -> KafkaError:
    if any(words in text for words in _UNUSABLE):
        return UsageError(f"{group}: {text[-_CAUSE_LENGTH_MAX:]}")
    return SparkTasksError(f"{group}: the job failed: {text[:_CAUSE_LENGTH_MAX]}")


def _in_thread(work: Callable[[], list[ShareReport]], name: str) -> asyncio.Future[list[ShareReport]]:
    """Run blocking work; its thread does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[list[ShareReport]] = loop.create_future()

    def settle(reports: list[ShareReport] | None, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(reports or [])

    def run() -> None:
        try:
            outcome: tuple[list[ShareReport] | None, BaseException | None] = work(), None
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            outcome = None, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended
