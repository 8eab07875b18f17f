"""The work of `kafkaraw consume --share-group`: read as a member of a share group, and acknowledge what was written.

Records are acknowledged only after they were written: if the output breaks, they are released. Parquet is an exception:
rows that do not fill a row group are written at the end. `cli/consuming.py` has the rest of the command. Start at
`read_share_group`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from kafkaraw.cli.notes import Notes
from kafkaraw.cli.outputs import ColumnsOutput, StreamOutput, is_gone
from kafkaraw.cli.stopping import TURN_S, Stop
from kafkaraw.client.blocking.share_consumer import ShareConsumer
from kafkaraw.client.sharing.batch import ShareBatch
from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kafkaraw.cli.consuming import ConsumeOptions

_RECORDS_MAX: Final = 500
"""Number of records that one poll acquires, at most."""
_EXCLUDED: Final = {
    "group": "--group: a share group has its members in place of those of a consumer group",
    "partitions": "--partition: the group assigns partitions, and several members may read one",
    "offsets": "--offset: a share group keeps its progress itself; see: kafkaraw groups reset GROUP",
    "from_beginning": "--from-beginning: set it for the group, before it is used first: "
    "kafkaraw configs set --group GROUP share.auto.offset.reset=earliest",
    "exit_at_end": "--exit-at-end: the members share the records, so there is no end of one's own; "
    "use --timeout-ms MS or -c N",
    "isolation_level": "--isolation-level: set it for the group: "
    "kafkaraw configs set --group GROUP share.isolation.level=read_committed",
}
"""Options that a share group does not have, by click's names, and what it has instead."""


@dataclass(frozen=True)
class SharePlan:
    """What to read, what to acknowledge, and when to stop.

    Attributes:
        group: the share group.
        topics: names.
        acknowledge_type: of records that were written.
        records_max: stop after this many records.
        timeout_s: stop if no record comes for this time.
    """

    group: str
    topics: tuple[str, ...]
    acknowledge_type: AcknowledgeType
    records_max: int | None
    timeout_s: float | None

    @property
    def settings(self) -> dict[str, object]:
        """The settings of the consumer that follow from it."""
        if self.records_max is None:
            return {"group_id": self.group}
        most = min(self.records_max, _RECORDS_MAX)
        return {"group_id": self.group, "max_poll_records": most, "share_acquire_mode": "record_limit"}


def share_plan(group: str, topics: tuple[str, ...], options: ConsumeOptions) -> SharePlan:
    """Return what the options mean for a share group.

    Raises:
        UsageError: an option that a share group does not have; the message says what it has instead.
    """
    values: Mapping[str, object] = {**options}
    for name, words in _EXCLUDED.items():
        if values[name]:
            raise UsageError(f"--share-group excludes {words}")
    if any(topic.startswith("^") for topic in topics):
        raise UsageError("a topic that begins with ^ is a regex, which a share group does not have; name the topics")
    timeout_ms = options["timeout_ms"]
    return SharePlan(
        group=group,
        topics=tuple(dict.fromkeys(topics)),
        acknowledge_type=AcknowledgeType[(options["ack"] or "accept").upper()],
        records_max=options["max_messages"],
        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
    )


def read_share_group(
    settings: Mapping[str, object],
    plan: SharePlan,
    output: StreamOutput | ColumnsOutput,
    notes: Notes,
    stop: Stop,
    stream: BinaryIO,
) -> int:
    """Read and write until the end.

    Args:
        settings: of the consumer.
        plan: what to read.
        output: writes the records.
        notes: prints messages.
        stop: the requests of signals.
        stream: the stream of the output.

    Returns:
        the number of records written.

    Raises:
        BrokenPipeError: the reader of the output has closed it. The last records were released.
        KafkaError: an error of the client.
    """
    with ShareConsumer(runtime=None, **settings) as consumer:  # type: ignore[arg-type]  # checked by `Cluster.settings`
        consumer.subscribe(plan.topics)
        notes.say(f"Waiting for records of share group {plan.group}")
        reading = _Reading(consumer, plan, output)
        with stop.noted():
            last = time.monotonic()
            while not stop.asked and not reading.is_complete:
                if reading.step():
                    last = time.monotonic()
                    notes.progress(reading.count, output.size_bytes)
                elif is_gone(stream):
                    raise BrokenPipeError
                elif plan.timeout_s is not None and time.monotonic() - last >= plan.timeout_s:
                    notes.say(f"No record for {plan.timeout_s:g} s")
                    break
            output.close()
    return reading.count


class _Reading:
    """What was written, and what is acknowledged for it."""

    def __init__(self, consumer: ShareConsumer, plan: SharePlan, output: StreamOutput | ColumnsOutput) -> None:
        self.count = 0
        self._consumer = consumer
        self._plan = plan
        self._output = output

    @property
    def is_complete(self) -> bool:
        return self._plan.records_max is not None and self.count >= self._plan.records_max

    def step(self) -> int:
        """Wait for records, for a short time, and write them; return how many they are."""
        before = self.count
        if isinstance(self._output, ColumnsOutput):
            self._write_columns(self._output, self._consumer.poll_arrow(TURN_S))
        else:
            for batch in self._consumer.poll(TURN_S).values():
                self._write(self._output, batch)
        return self.count - before

    def _left(self, found: int) -> int:
        return found if self._plan.records_max is None else min(found, self._plan.records_max - self.count)

    def _write(self, output: StreamOutput, batch: ShareBatch) -> None:
        left = self._left(len(batch))
        first, rest = (ShareBatch(batch.in_hand, part) for part in (batch.records[:left], batch.records[left:]))
        self._consumer.acknowledge(rest, AcknowledgeType.RELEASE)
        self.count += output.write_records(first)
        output.flush()  # an acknowledgement that was chosen is sent, also if the next write fails
        if self._plan.acknowledge_type is not AcknowledgeType.ACCEPT:  # which the next poll implies
            self._consumer.acknowledge(first, self._plan.acknowledge_type)

    def _write_columns(self, output: ColumnsOutput, table: pyarrow.Table) -> None:
        left = self._left(table.num_rows)
        self._acknowledge_rows(table.slice(left), AcknowledgeType.RELEASE)
        self.count += output.write_table(table.slice(0, left))
        output.flush()
        if self._plan.acknowledge_type is not AcknowledgeType.ACCEPT:
            self._acknowledge_rows(table.slice(0, left), self._plan.acknowledge_type)

    def _acknowledge_rows(self, table: pyarrow.Table, kind: AcknowledgeType) -> None:
        for row in table.select(["topic", "partition", "offset"]).to_pylist():
            self._consumer.acknowledge_offset(TopicPartition(row["topic"], row["partition"]), row["offset"], kind)
