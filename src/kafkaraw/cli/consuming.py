"""The work of `kafkaraw consume`: read, write whole batches in one call, and end gracefully.

While records are being written, signals are only noted, so that a group commits exactly the written records.
Start at `consume`.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypedDict, Unpack

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.formats import JsonRenderer, Part, Renderer, TextRenderer, parse_format, unescape
from kafkaraw.cli.kafka_properties import format_of
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.outputs import ColumnsOutput, Output, StreamOutput, discard_pending, is_gone
from kafkaraw.cli.serdes import OF_SCHEMAS, ToText, showing
from kafkaraw.cli.share_consuming import SharePlan, read_share_group, share_plan
from kafkaraw.cli.start_offsets import Kind, Start, parse_range
from kafkaraw.cli.stopping import TURN_S, Stop
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.config import ConsumerConfig, ShareConsumerConfig
from kafkaraw.errors import KafkaTimeoutError, UsageError
from kafkaraw.records import Batch, TopicPartition

if TYPE_CHECKING:
    from kafkaraw.cli.schema_serdes import Schemas

_TERMINAL_RECORDS: Final = 500
"""Maximum number of records written to a terminal between two checks for a signal."""
_NOTHING_S: Final = 5.0
"""How long a member that is to exit at the end waits for partitions, once it has joined the group."""


class ConsumeOptions(TypedDict):
    """The command's options, by click's names."""

    topics: tuple[str, ...]
    more_topics: tuple[str, ...]
    partitions: tuple[int, ...]
    offsets: tuple[str, ...]
    from_beginning: bool
    group: str | None
    share_group: str | None
    ack: str | None
    exit_at_end: bool
    max_messages: int | None
    timeout_ms: int | None
    isolation_level: str | None
    text_format: str | None
    as_json: bool
    output: str | None
    delimiter: str
    key_delimiter: str | None
    show_null: bool
    null_marker: str | None
    serdes: tuple[str, ...]
    registry_url: str | None
    ignore_rules: bool
    formatter_properties: tuple[str, ...]
    unbuffered: bool
    quiet: bool
    verbose: int


@dataclass(frozen=True)
class Plan:
    """What to read, and when to stop.

    Attributes:
        topics: names; in a group, names that begin with ^ are patterns.
        partitions: read only these of each topic; all if empty.
        start: where to begin; None for the committed offsets, or else `auto_offset_reset`.
        stop_ms: stop in each partition before the first record that is not older.
        group: the group whose members share the partitions, unless some are named; it also stores the offsets.
        at_end: stop where the ends were at the start.
        records_max: stop after this many records.
        timeout_s: stop if no record comes for this time.
    """

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    start: Start | None
    stop_ms: int | None
    group: str | None
    at_end: bool
    records_max: int | None
    timeout_s: float | None

    @property
    def subscribes(self) -> bool:
        """Whether the group assigns the partitions."""
        return self.group is not None and not self.partitions


def consume(cluster: Cluster, stop: Stop, **options: Unpack[ConsumeOptions]) -> None:
    """Run the command.

    Args:
        cluster: the cluster to read from.
        stop: the requests of signals.
        options: the command's options.

    Raises:
        KeyboardInterrupt: it was stopped before there was anything to end gracefully.
        click.UsageError: the options are invalid.
        KafkaError: an error of the client.
    """
    stream = sys.stdout.buffer
    schemas = _schemas(cluster, options)
    try:
        topics = _topics(options)
        plan: Plan | SharePlan
        if options["share_group"] is not None:
            plan = share_plan(options["share_group"], topics, options)
            settings = cluster.settings(ShareConsumerConfig, **plan.settings)
        else:
            plan = _plan(topics, options, time.time_ns() // 1_000_000)
            settings = cluster.settings(ConsumerConfig, **_settings(cluster, plan, options))
        output = (
            ColumnsOutput(options["output"], stream)
            if options["output"]
            else StreamOutput(_renderer(options, schemas), stream)
        )
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    notes = Notes(quiet=options["quiet"], verbose=options["verbose"], shares_terminal=stream.isatty())
    with notes:
        try:
            if isinstance(plan, SharePlan):
                count = read_share_group(settings, plan, output, notes, stop, stream)
            else:
                count = _read(settings, plan, output, notes, stop, stream)
            notes.summary("Read", count, output.size_bytes)
        except BrokenPipeError:
            discard_pending(stream)
        finally:
            if schemas is not None:
                schemas.close()


def _read(settings: Mapping[str, Any], plan: Plan, output: Output, notes: Notes, stop: Stop, stream: BinaryIO) -> int:
    """Read and write until the end; return how many records were written."""
    with Consumer(runtime=None, **settings) as consumer:
        reading = _Reading(consumer, plan, output, notes, stop, stream)
        reading.begin()
        with stop.noted():
            reading.run()
            output.close()
    return reading.count


def _schemas(cluster: Cluster, options: ConsumeOptions) -> Schemas | None:
    """Return the schemas of a registry, if one is given or `-s` needs one: an import that takes its time."""
    address = cluster.registry(options["registry_url"])
    if not address.is_given and not any(text.endswith(OF_SCHEMAS) for text in options["serdes"]):
        return None
    from kafkaraw.cli.schema_serdes import Schemas

    return Schemas(address, ignore_rules=options["ignore_rules"])


def _converters(texts: tuple[str, ...], schemas: Schemas | None) -> tuple[ToText | None, ToText | None]:
    """Return the converters that `-s` selects; with a registry, framed keys and values without `-s` are shown, too."""
    if schemas is None:
        return showing(texts)
    key, value = showing(texts, schemas.showing)
    if not schemas.is_given:
        return key, value
    named = {field for text in texts for field in ("key", "value") if text.startswith(f"{field}=") or "=" not in text}
    return (
        schemas.auto("key") if "key" not in named else key,
        schemas.auto("value") if "value" not in named else value,
    )


def _topics(options: ConsumeOptions) -> tuple[str, ...]:
    """Return the topics; raise a UsageError if options exclude each other, in a share group or not."""
    topics = options["topics"] + options["more_topics"]
    if not topics:
        raise UsageError("no topic given: kafkaraw consume TOPIC")
    if options["output"] and (options["as_json"] or options["text_format"] or options["serdes"]):
        raise UsageError(f"--output {options['output']} excludes --json, --format and --serde")
    if options["share_group"] is None and options["ack"] is not None:
        raise UsageError(f"--ack {options['ack']} needs --share-group: a consumer group commits offsets instead")
    if options["share_group"] is None and "d" in parse_format(options["text_format"] or ""):
        raise UsageError("-f: %d needs --share-group: only share groups count deliveries")
    return topics


def _plan(topics: tuple[str, ...], options: ConsumeOptions, now_ms: int) -> Plan:
    group = options["group"]
    if any(topic.startswith("^") for topic in topics) and (group is None or options["partitions"]):
        raise UsageError("a topic that begins with ^ is a regex, which needs --group, and excludes --partition")
    start, stop_ms = parse_range(options["offsets"], now_ms)
    if start is not None and start.kind is Kind.STORED and group is None:
        raise UsageError("-o stored needs --group: only groups have committed offsets")
    if start is None and group is None:
        start = Start(Kind.BEGINNING)
    timeout_ms = options["timeout_ms"]
    return Plan(
        topics=tuple(dict.fromkeys(topics)),
        partitions=options["partitions"],
        start=start,
        stop_ms=stop_ms,
        group=group,
        at_end=options["exit_at_end"],
        records_max=options["max_messages"],
        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
    )


def _settings(cluster: Cluster, plan: Plan, options: ConsumeOptions) -> dict[str, object]:
    more: dict[str, object] = {"group_id": plan.group, "isolation_level": options["isolation_level"]}
    if options["from_beginning"] or (plan.group is None and not cluster.has("auto_offset_reset")):
        more["auto_offset_reset"] = "earliest"
    if not cluster.has("allow_auto_create_topics"):
        more["allow_auto_create_topics"] = False  # reading a topic must not create it
    return more


def _renderer(options: ConsumeOptions, schemas: Schemas | None) -> Renderer:
    if options["formatter_properties"]:
        return _kafkas_renderer(options, schemas)
    key, value = _converters(options["serdes"], schemas)
    end = unescape(options["delimiter"])
    if options["as_json"]:
        return JsonRenderer(end, key=key, value=value)
    parts: list[Part] = ["s", end]
    if options["text_format"] is not None:
        parts = parse_format(options["text_format"])
    elif options["key_delimiter"] is not None:
        parts = ["k", unescape(options["key_delimiter"]), "s", end]
    marker = options["null_marker"]
    null = b"NULL" if options["show_null"] else b""
    return TextRenderer(parts, null=null if marker is None else marker.encode(), key=key, value=value)


def _kafkas_renderer(options: ConsumeOptions, schemas: Schemas | None) -> Renderer:
    if options["as_json"] or options["text_format"] is not None or options["key_delimiter"] is not None:
        raise UsageError("--formatter-property excludes --json, --format and --key-delimiter")
    form = format_of(options["formatter_properties"])
    key, value = _converters(form.serdes + options["serdes"], schemas)
    return TextRenderer(form.parts, null=form.null, key=key, value=value)


class _Reading:
    """One run: its progress, and whether it is at its end."""

    def __init__(
        self, consumer: Consumer, plan: Plan, output: Output, notes: Notes, stop: Stop, stream: BinaryIO
    ) -> None:
        self.count = 0
        self._consumer = consumer
        self._plan = plan
        self._output = output
        self._notes = notes
        self._stop = stop
        self._stream = stream
        self._stopped: set[TopicPartition] = set()  # partitions in which the time to stop was reached
        self._ends = _Ends(consumer, notes) if plan.at_end else None
        self._limit = _TERMINAL_RECORDS if stream.isatty() else None
        self._idle_since_s: float | None = None

    def begin(self) -> None:
        """Choose partitions and positions; nothing is read yet."""
        if self._plan.subscribes:
            self._subscribe()
            return
        wanted = []
        for topic in self._plan.topics:
            there = self._consumer.partitions_for(topic)
            chosen = [each for each in there if not self._plan.partitions or each.partition in self._plan.partitions]
            missing = set(self._plan.partitions) - {each.partition for each in chosen}
            if missing:
                raise UsageError(f"topic {topic!r} has partitions 0 to {len(there) - 1}, not {min(missing)}")
            wanted += chosen
        self._consumer.assign(wanted)
        self._go_to_start(wanted)

    def run(self) -> None:
        """Read and write until the end."""
        last = time.monotonic()
        while not self._stop.asked:
            batches = self._consumer.poll(TURN_S, self._records_left())
            for batch in batches.values():
                self._write(batch)
            if batches:
                last = time.monotonic()
                self._output.flush()
                self._notes.progress(self.count, self._output.size_bytes)
            elif is_gone(self._stream):
                raise BrokenPipeError
            if self._is_over(batches):
                return
            if self._plan.timeout_s is not None and time.monotonic() - last >= self._plan.timeout_s:
                self._notes.say(f"No record for {self._plan.timeout_s:g} s")
                return

    # -- start

    def _subscribe(self) -> None:
        topics = self._plan.topics
        if self._plan.at_end:  # else it waits for partitions that do not exist yet
            for topic in topics:
                if not topic.startswith("^"):
                    self._consumer.partitions_for(topic)
        pattern = None
        if any(topic.startswith("^") for topic in topics):
            pattern = "|".join(f"{topic}.*" if topic.startswith("^") else re.escape(topic) for topic in topics)
        self._consumer.subscribe(
            None if pattern else topics, pattern=pattern, on_assigned=self._assigned, on_revoked=self._revoked
        )
        self._notes.say(f"Waiting for group {self._plan.group} to assign partitions")

    def _assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._notes.say(f"Group {self._plan.group} assigned {_listed(partitions)}")
        self._go_to_start(partitions)

    def _revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._notes.say(f"Group {self._plan.group} revoked {_listed(partitions)}")

    def _go_to_start(self, partitions: Iterable[TopicPartition]) -> None:
        if self._plan.start is not None:
            for partition, offset in self._plan.start.offsets(self._consumer, partitions).items():
                self._consumer.seek(partition, offset)

    # -- writing, and the end

    def _records_left(self) -> int | None:
        left = None if self._plan.records_max is None else self._plan.records_max - self.count
        return min((each for each in (left, self._limit) if each is not None), default=None)

    def _write(self, batch: Batch) -> None:
        if self._plan.stop_ms is not None:
            batch = self._older(batch, self._plan.stop_ms)
        if batch.records_count:
            self.count += self._output.write(batch)

    def _older(self, batch: Batch, stop_ms: int) -> Batch:
        """Return the records before the first one that is not older."""
        partition = batch.topic_partition
        if partition in self._stopped:
            return batch.first(0)
        if all(header.max_timestamp < stop_ms for header in batch.headers):
            return batch
        for index, record in enumerate(batch):
            if record.timestamp_ms >= stop_ms:
                self._stopped.add(partition)
                self._consumer.seek(partition, record.offset)  # so that the position is before the later records
                self._consumer.pause([partition])
                self._notes.say(f"Reached the stop time in {partition.topic} [{partition.partition}]")
                return batch.first(index)
        return batch

    def _is_over(self, batches: Mapping[TopicPartition, Batch]) -> bool:
        if self._plan.records_max is not None and self.count >= self._plan.records_max:
            return True
        if self._ends is not None and self._ends.are_reached(batches, self._stopped):
            return True
        if self._is_left_out():
            self._notes.say(f"Group {self._plan.group} has assigned no partition to this member")
            return True
        return bool(self._stopped) and self._stopped.issuperset(self._consumer.assignment())

    def _is_left_out(self) -> bool:
        """Return whether it reads to the end without an assignment: other members own all partitions, or none match."""
        if not (self._plan.subscribes and self._plan.at_end) or self._consumer.assignment():
            self._idle_since_s = None
            return False
        now_s = time.monotonic()
        if self._consumer.group_metadata().generation_id < 0 or self._idle_since_s is None:
            self._idle_since_s = now_s
        return now_s - self._idle_since_s >= _NOTHING_S


class _Ends:
    """The ends of the partitions when they were first looked up, and which of them are reached."""

    def __init__(self, consumer: Consumer, notes: Notes) -> None:
        self._consumer = consumer
        self._notes = notes
        self._ends: dict[TopicPartition, int] = {}
        self._reached: set[TopicPartition] = set()

    def are_reached(self, batches: Mapping[TopicPartition, Batch], stopped: set[TopicPartition]) -> bool:
        """Return whether nothing is left to read, after these batches; False before anything is assigned."""
        assigned = self._consumer.assignment()
        new = [each for each in assigned if each not in self._ends]
        if new:
            self._ends |= self._consumer.end_offsets(new)
        for partition in assigned:
            if partition not in self._reached and self._is_at_end(partition, batches):
                self._reached.add(partition)
                self._consumer.pause([partition])
                self._notes.say(
                    f"Reached end of topic {partition.topic} [{partition.partition}] at offset {self._ends[partition]}"
                )
        return bool(assigned) and (self._reached | stopped).issuperset(assigned)

    def _is_at_end(self, partition: TopicPartition, batches: Mapping[TopicPartition, Batch]) -> bool:
        end = self._ends[partition]
        if partition in batches:
            return batches[partition].next_offset >= end
        if batches:  # the lookup costs a change of threads; it can wait until no batch comes
            return False
        try:
            return self._consumer.position(partition, TURN_S) >= end
        except KafkaTimeoutError:
            return False


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic} [{each.partition}]" for each in partitions) or "nothing"
