"""The work of `kafkaraw copy`: read Arrow batches, send them, and commit what is acknowledged.

Offsets are committed for a group, but the copy joins none: it assigns all partitions, so two copies at a time do the
work twice (in one cluster, the transactional id fences the older one). Start at `copy`.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.stopping import Stop
from kafkaraw.client.admin.topics import NewTopic
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.config import AdminConfig, ConsumerConfig, ProducerConfig
from kafkaraw.errors import BrokerError, KafkaError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kafkaraw.client.committed import OffsetAndMetadata
    from kafkaraw.client.sending.arrow_rows import ArrowTicket

_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_TURN_S: Final = 0.2
"""The longest time until a signal is noticed."""
_IN_FLIGHT_MAX: Final = 8
"""Batches of about a megabyte that are sent and not acknowledged."""
_TRANSACTION_ROWS: Final = 50_000
"""A transaction ends after so many records, or when no more are there: its commit costs two round trips."""


class CopyOptions(TypedDict):
    """The command's options, by click's names."""

    source: str
    target: str | None
    group: str | None
    follow: bool
    isolation_level: str
    at_least_once: bool
    dry_run: bool
    quiet: bool


class Sending(Protocol):
    """Sends batches, and commits the offsets of those that are acknowledged."""

    def send(self, table: pyarrow.RecordBatch, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Send a batch; `positions` are the offsets to continue at behind it."""

    def finish(self) -> None:
        """Wait until everything is acknowledged and committed."""


class AtLeastOnce:
    """Commits offsets behind the acknowledgements, in the order of the batches.

    Args:
        producer: of the target.
        consumer: of the source.
        topic: the target.
    """

    def __init__(self, producer: Producer, consumer: Consumer, topic: str) -> None:
        self._producer, self._consumer, self._topic = producer, consumer, topic
        self._sent: deque[tuple[ArrowTicket, Mapping[TopicPartition, OffsetAndMetadata]]] = deque()
        self._acknowledged: Mapping[TopicPartition, OffsetAndMetadata] = {}

    def send(self, table: pyarrow.RecordBatch, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Send a batch, and wait for older ones if too many are in flight."""
        self._sent.append((self._producer.send_arrow(self._topic, table), positions))
        while len(self._sent) > _IN_FLIGHT_MAX or (self._sent and self._sent[0][0].done):
            self._complete_first()

    def finish(self) -> None:
        """Wait for all batches."""
        self._producer.flush()
        while self._sent:
            self._complete_first()
        if self._acknowledged:
            self._consumer.commit(self._acknowledged)
            self._acknowledged = {}

    def _complete_first(self) -> None:
        ticket, positions = self._sent.popleft()
        ticket.result()
        self._acknowledged = positions
        self._consumer.commit_nowait(positions)  # `finish` commits again, and raises if that fails


class ExactlyOnce:
    """Records and offsets in one transaction.

    Args:
        producer: of the cluster, with a transactional id.
        topic: the target.
        group: the group of the offsets.
    """

    def __init__(self, producer: Producer, topic: str, group: str) -> None:
        self._producer, self._topic, self._group = producer, topic, group
        self._rows = 0
        self._positions: Mapping[TopicPartition, OffsetAndMetadata] = {}
        producer.init_transactions()

    def send(self, table: pyarrow.RecordBatch, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Send a batch in the open transaction, and commit it if it is large."""
        if not self._rows:
            self._producer.begin_transaction()
        try:
            self._producer.send_arrow(self._topic, table)
        except BaseException:
            self._abort()
            raise
        self._rows += table.num_rows
        self._positions = positions
        if self._rows >= _TRANSACTION_ROWS:
            self.finish()

    def finish(self) -> None:
        """Commit the open transaction."""
        if not self._rows:
            return
        self._rows = 0
        try:
            self._producer.send_offsets_to_transaction(self._positions, self._group)
            self._producer.commit_transaction()
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> None:
        self._rows = 0
        with contextlib.suppress(KafkaError):  # the error that led here is raised
            self._producer.abort_transaction()


def copy(cluster: Cluster, to_cluster: Cluster | None, stop: Stop, **options: Unpack[CopyOptions]) -> None:
    """Run the command.

    Args:
        cluster: the cluster of the source.
        to_cluster: the cluster of the target; None is the same one.
        stop: the requests of signals.
        options: the command's options.

    Raises:
        click.UsageError: the options are invalid, or do not fit the topics.
        KafkaError: an error of a client.
    """
    to = cluster if to_cluster is None else to_cluster
    source, target = options["source"], options["target"] or options["source"]
    group = options["group"] or f"copy.{source}.{target}"
    with Notes(quiet=options["quiet"], shares_terminal=False) as notes, contextlib.ExitStack() as stack:
        admin = stack.enter_context(Admin(runtime=None, **cluster.settings(AdminConfig)))
        to_admin = (
            stack.enter_context(Admin(runtime=None, **to.settings(AdminConfig))) if to_cluster is not None else admin
        )
        one_cluster = (
            to_cluster is None or admin.describe_cluster().cluster_id == to_admin.describe_cluster().cluster_id
        )
        if one_cluster and source == target:
            raise click.UsageError(f"{source} cannot be copied onto itself: name a TARGET, or --to-bootstrap-server")
        partitions = _partitions(admin, source)
        missing = _check_target(to_admin, target, len(partitions), notes)
        consumer = stack.enter_context(_consumer(cluster, group, options["isolation_level"]))
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        left = sum(max(0, ends[each] - consumer.position(each)) for each in partitions)
        continues = bool(consumer.committed(partitions))
        notes.say(
            f"copying {source} to {target}: {left:,} offsets in {len(partitions)} partitions, "
            f"{'continuing at' if continues else 'with'} the committed offsets of group {group}"
        )
        if options["dry_run"]:
            notes.say("nothing was copied (--dry-run)")
            return
        if missing:
            to_admin.create_topics([NewTopic(target, partitions=len(partitions))])
            notes.say(f"created {target} with {len(partitions)} partitions")
        exactly_once = one_cluster and not options["at_least_once"]
        producer = stack.enter_context(_producer(to, group if exactly_once else None))
        sending: Sending = (
            ExactlyOnce(producer, target, group) if exactly_once else AtLeastOnce(producer, consumer, target)
        )
        copied = _Copy(consumer, sending, stop, None if options["follow"] else ends)
        with stop.noted(), _progress(left, quiet=options["quiet"]) as advance:
            copied.run(advance)
        notes.say(f"copied {copied.rows:,} records ({copied.size_bytes / 1e6:,.1f} MB)")
        if stop.asked and not options["follow"]:
            notes.say("stopped before the end: the same command continues")


class _Copy:
    """Reads batches until the ends are reached, or a signal came.

    Attributes:
        rows: records that were sent.
        size_bytes: of their columns.
    """

    def __init__(
        self, consumer: Consumer, sending: Sending, stop: Stop, ends: Mapping[TopicPartition, int] | None
    ) -> None:
        self._consumer, self._sending, self._stop, self._ends = consumer, sending, stop, ends
        self.rows = self.size_bytes = 0

    def run(self, advance: _Advance) -> None:
        """Copy; `advance` is called with the number of rows of each batch."""
        while not self._stop.asked and self._goes_on():
            batch = self._consumer.poll_arrow(timeout=_TURN_S, columns=_COLUMNS)
            offsets = batch.num_rows
            positions = self._consumer.next_offsets()
            if self._ends is not None:
                batch, positions = self._within(batch, positions, self._ends)
            if batch.num_rows:
                self._sending.send(batch.drop_columns(["offset"]), positions)
                self.rows += batch.num_rows
                self.size_bytes += batch.nbytes
                advance(batch.num_rows)
            if not offsets:
                self._sending.finish()
        self._sending.finish()

    def _goes_on(self) -> bool:
        """Whether a partition has not reached its end; those that have are paused."""
        if self._ends is None:
            return True
        consumer = self._consumer
        done = [each for each, end in self._ends.items() if consumer.position(each) >= end]
        consumer.pause(done)
        return len(done) < len(self._ends)

    def _within(
        self,
        batch: pyarrow.RecordBatch,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        ends: Mapping[TopicPartition, int],
    ) -> tuple[pyarrow.RecordBatch, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the rows before the ends, and positions that are not behind them."""
        beyond = [each for each, position in positions.items() if position.offset > ends[each]]
        if not beyond:
            return batch, dict(positions)
        import pyarrow.compute as pc

        for each in beyond:
            is_beyond = pc.and_(
                pc.equal(batch["partition"], each.partition), pc.greater_equal(batch["offset"], ends[each])
            )
            batch = batch.filter(pc.invert(is_beyond))
        clipped = {
            each: position._replace(offset=min(position.offset, ends[each])) for each, position in positions.items()
        }
        return batch, clipped


def _consumer(cluster: Cluster, group: str, isolation_level: str) -> Consumer:
    more: dict[str, object] = {
        "group_id": group,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": isolation_level,
        "allow_auto_create_topics": False,
    }
    return Consumer(runtime=None, **cluster.settings(ConsumerConfig, **more))


def _producer(cluster: Cluster, transactional_id: str | None) -> Producer:
    more: dict[str, object] = {"transactional_id": transactional_id, "allow_auto_create_topics": False}
    if not cluster.has("linger_ms"):
        more["linger_ms"] = 20
    if not cluster.has("compression_type"):
        more["compression_type"] = "lz4"
    return Producer(runtime=None, **cluster.settings(ProducerConfig, **more))


def _partitions(admin: Admin, topic: str) -> list[TopicPartition]:
    described = admin.describe_topics([topic])[topic]
    return [TopicPartition(topic, each.partition) for each in described.partitions]


def _check_target(admin: Admin, topic: str, partitions_count: int, notes: Notes) -> bool:
    """Compare the numbers of partitions; return whether the target has to be created.

    Raises:
        UsageError: the target has fewer partitions.
    """
    try:
        found = len(_partitions(admin, topic))
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return True
    if found < partitions_count:
        raise UsageError(
            f"{topic} has {found} partitions, the source {partitions_count}: add partitions to {topic}, or name "
            f"another target"
        )
    if found > partitions_count:
        notes.say(f"{topic} has {found} partitions, the source {partitions_count}: the others stay empty")
    return False


class _Advance(Protocol):
    def __call__(self, rows: int, /) -> None:
        """Show that rows were sent."""


@contextlib.contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[_Advance]:
    """Show a bar on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda rows: bar.advance(task, rows)
