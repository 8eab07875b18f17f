"""Lists, replays and discards dead letters, with the client.

The dead-letter topic itself has the state: a *mark* is a record behind the letters that says which of them were
replayed or discarded. A replay writes the records, its mark, and the offset of the group
`PIPELINE.dead-letters.replay` in one transaction, so a letter is replayed exactly once however a replay ends. Only one
replay of a pipeline works at a time: the next one fences it, by its transactional id, before it reads the state.

The group's offset is the first letter that is neither replayed nor discarded: its lag is what is left, at most. Must
not import pyspark. Start at `DeadLetters`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.errors import DeserializationError, KafkaError, TransactionError, UnknownTopicError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.letters import LARGEST_RECORD, Letter, Reason, headers_of, letter_of
from kafkaraw.pipelines.model import Settings
from kafkaraw.pipelines.topic_admin import client_of
from kafkaraw.records import TopicPartition
from kafkaraw.spark.writing.dead_letters import AS_JSON, LEFT_OUT

if TYPE_CHECKING:
    from kafkaraw.records import Record

_MARK: Final = "kafkaraw.mark"
_SILENCE_S: Final = 60.0  # without any progress towards the end of the topic
_PER_TRANSACTION: Final = 5_000
_BYTES_PER_TRANSACTION: Final = 32 << 20


class State(StrEnum):
    """What has happened to a dead letter."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters are meant: those that meet all conditions.

    Args:
        reasons: "decode", "expectation", "function", "sink"; empty for all.
        datasets: views or flows; empty for all.
        expectations: names; empty for all.
        topics: that the records come from; empty for all.
        since_ms: became dead letters at or after this time, in ms since 1970.
        until_ms: became dead letters before this time.
        places: partitions and offsets in the dead-letter topic; empty for all.
    """

    reasons: frozenset[str] = frozenset()
    datasets: frozenset[str] = frozenset()
    expectations: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    places: frozenset[tuple[int, int]] = frozenset()

    def takes(self, letter: Letter) -> bool:
        """Return whether a dead letter meets all conditions."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.datasets or letter.dataset in self.datasets)
            and (not self.expectations or bool(self.expectations & set(letter.expectation.split(", "))))
            and (not self.topics or letter.topic in self.topics)
            and (self.since_ms is None or letter.time_ms >= self.since_ms)
            and (self.until_ms is None or letter.time_ms < self.until_ms)
            and (not self.places or letter.place in self.places)
        )


EVERY: Final = Filter()
"""Takes all dead letters."""


@dataclass(frozen=True, slots=True)
class Found:
    """A dead letter and its state."""

    letter: Letter
    state: State


@dataclass(frozen=True, slots=True)
class Handled:
    """What a replay or discard has done, or with `dry_run` would do.

    Args:
        count: number of dead letters.
        by_kind: their number by dataset and reason.
        to: names of the topics that the records were written to; empty for a discard.
        left: number of dead letters that stay open, since they are not the records that were to be written.
    """

    count: int
    by_kind: Mapping[tuple[str, str], int]
    to: tuple[str, ...] = ()
    left: int = 0


class DeadLetters:
    """The dead letters of one pipeline.

    Args:
        pipeline: its name.
        settings: its settings.
    """

    def __init__(self, pipeline: str, settings: Settings) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._topic = settings.dead_letter_topic
        self.group: str = f"{pipeline}.dead-letters.replay"

    def find(self, wanted: Filter = EVERY, states: Iterable[State] = tuple(State)) -> list[Found]:
        """Return dead letters, in the order of the topic.

        Raises:
            KafkaError: the brokers cannot be reached, or the topic does not exist.
        """
        kept = frozenset(states)
        return [each for each in self._read(wanted).found if each.state in kept]

    def replay(
        self, wanted: Filter = EVERY, *, to_origin: bool = False, limit: int | None = None, dry_run: bool = False
    ) -> Handled:
        """Write open dead letters again, each exactly once.

        They go to the replay topic, which only the views and flows that have missed them read; with `to_origin`, to the
        topic that they come from, for all its readers. Rows that a target did not take (reason "sink") go to that
        target; those of which a part is missing, or could not be encoded, stay open.

        Args:
            wanted: which ones.
            to_origin: write the records to their own topics, without our headers.
            limit: maximum number of dead letters; the oldest first.
            dry_run: count only.

        Raises:
            KafkaError: the brokers cannot be reached, another replay has taken over, or a record does not fit.
        """

        def target_of(letter: Letter) -> str:
            back = to_origin or letter.reason == Reason.SINK
            return letter.topic if back else self._settings.replay_topic

        return self._handle(State.REPLAYED, wanted, limit, dry_run, target_of)

    def discard(self, wanted: Filter, *, limit: int | None = None, dry_run: bool = False) -> Handled:
        """Mark open dead letters as discarded: they are not replayed any more; arguments as for `replay`."""
        return self._handle(State.DISCARDED, wanted, limit, dry_run, None)

    # -- the topic

    def _read(self, wanted: Filter) -> _Contents:
        """Return the dead letters that a filter takes, with their states, as of now."""
        letters: list[Letter] = []
        places: list[tuple[int, int]] = []
        handled: dict[tuple[int, int], State] = {}
        for record in self._records():
            mark = _mark_of(record)
            if mark is not None:
                handled |= mark
                continue
            try:
                letter = letter_of(record)
            except DeserializationError:
                continue  # another application's record
            if letter.pipeline != self._pipeline:
                continue
            places.append(letter.place)
            if wanted.takes(letter):
                letters.append(letter)
        found = [Found(each, handled.get(each.place, State.OPEN)) for each in letters]
        return _Contents(found, places, set(handled))

    def _records(self) -> Iterator[Record]:
        with client_of(Consumer, self._settings, **_READING) as consumer:
            try:
                partitions = consumer.partitions_for(self._topic)
            except UnknownTopicError as error:
                raise KafkaError(
                    f"topic {self._topic!r} does not exist: a run of the pipeline makes it. Its name is the setting "
                    "kafkaraw.dead.letter.topic"
                ) from error
            ends = consumer.end_offsets(partitions)
            starts = consumer.beginning_offsets(partitions)
            left = {tp for tp in partitions if starts[tp] < ends[tp]}
            consumer.assign(sorted(left))
            deadline = time.monotonic() + _SILENCE_S
            while left:
                found = consumer.poll(0.2)
                for tp, batch in found.items():
                    yield from (record for record in batch if record.offset < ends[tp])
                done = {tp for tp in left if consumer.position(tp) >= ends[tp]}
                left -= done
                if found or done:
                    deadline = time.monotonic() + _SILENCE_S
                elif time.monotonic() > deadline:
                    raise KafkaError(
                        f"{', '.join(map(str, sorted(left)))}: no records for {_SILENCE_S:.0f} s, the end is not "
                        "reached; a transaction may be open: try again after its timeout"
                    )

    # -- changes

    def _handle(
        self,
        state: State,
        wanted: Filter,
        limit: int | None,
        dry_run: bool,
        target_of: Callable[[Letter], str] | None,
    ) -> Handled:
        replays = target_of is not None
        if dry_run:
            contents = self._read(wanted)
            return _handled(_chosen(contents, limit, replays=replays), target_of, contents)
        producing = {"transactional_id": self.group, "max_request_size": LARGEST_RECORD}
        with client_of(Producer, self._settings, **producing, buffer_memory=2 * LARGEST_RECORD) as producer:
            producer.init_transactions()  # fences another replay, so the state that is read next is the last one
            contents = self._read(wanted)
            chosen = _chosen(contents, limit, replays=replays)
            done = 0
            for part in _parts(chosen):
                try:
                    self._commit(producer, part, state, contents, target_of)
                except TransactionError as error:
                    raise TransactionError(
                        f"{done} of {len(chosen)} dead letters were {state.value}, then the transaction failed; "
                        f"probably another replay or discard of {self._pipeline!r} has taken over. `list` shows what "
                        f"is open: {error}"
                    ) from error
                done += len(part)
        return _handled(chosen, target_of, contents)

    def _commit(
        self,
        producer: Producer,
        letters: Sequence[Letter],
        state: State,
        contents: _Contents,
        target_of: Callable[[Letter], str] | None,
    ) -> None:
        """Write the records, their mark and the group's offset in one transaction."""
        places = [letter.place for letter in letters]
        with producer.transaction():
            if target_of is not None:
                for letter in letters:
                    self._write(producer, letter, target_of(letter))
            contents.handled.update(places)
            producer.send(self._topic, _mark(places), None, headers=[(_MARK, state.value.encode())])
            producer.send_offsets_to_transaction(contents.first_open(self._topic), self.group)

    def _write(self, producer: Producer, letter: Letter, topic: str) -> None:
        timestamp = letter.timestamp_ms if letter.timestamp_ms >= 0 else None
        back = topic != self._settings.replay_topic
        headers = list(letter.headers) if back else headers_of(letter)
        partition = None
        if back and letter.partition >= 0:
            known = {each.partition for each in producer.partitions_for(topic)}
            partition = letter.partition if letter.partition in known else None
        producer.send(topic, letter.value, letter.key, headers=headers, timestamp_ms=timestamp, partition=partition)


@dataclass(slots=True)
class _Contents:
    """The dead letters of a pipeline as they were read.

    Args:
        found: those that the filter takes.
        places: of all, in their order.
        handled: of those that were replayed or discarded.
    """

    found: list[Found]
    places: list[tuple[int, int]]
    handled: set[tuple[int, int]]

    def first_open(self, topic: str) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that is neither replayed nor discarded, or the one at the end."""
        first = {TopicPartition(topic, partition): offset + 1 for partition, offset in sorted(self.places)}
        for place in sorted(set(self.places) - self.handled, reverse=True):
            first[TopicPartition(topic, place[0])] = place[1]
        return first


def _chosen(contents: _Contents, limit: int | None, *, replays: bool) -> list[Letter]:
    found = (each.letter for each in contents.found if each.state is State.OPEN)
    return list(islice((each for each in found if not replays or _is_record(each)), limit))


def _is_record(letter: Letter) -> bool:
    """Return whether a dead letter is the record that was to be written, so that it can be written now."""
    return letter.reason != Reason.SINK or not {name for name, _ in letter.headers[:2]} & {AS_JSON, LEFT_OUT}


_READING: Final = {
    "isolation_level": "read_committed",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
}


def _handled(letters: Sequence[Letter], target_of: Callable[[Letter], str] | None, contents: _Contents) -> Handled:
    by_kind = Counter((letter.dataset, letter.reason) for letter in letters)
    if target_of is None:
        return Handled(len(letters), dict(by_kind))
    to = {target_of(letter) for letter in letters}
    left = sum(each.state is State.OPEN and not _is_record(each.letter) for each in contents.found)
    return Handled(len(letters), dict(by_kind), tuple(sorted(to)), left)


def _parts(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Divide letters among transactions."""
    part: list[Letter] = []
    size = 0
    for letter in letters:
        size += len(letter.value or b"") + len(letter.key or b"")
        if part and (len(part) >= _PER_TRANSACTION or size > _BYTES_PER_TRANSACTION):
            yield part
            part, size = [], len(letter.value or b"")
        part.append(letter)
    if part:
        yield part


def _mark(places: Iterable[tuple[int, int]]) -> bytes:
    """Return the value of a mark: by partition, ranges of offsets, the last one included."""
    ranges: dict[str, list[list[int]]] = {}
    for partition, offset in sorted(places):
        known = ranges.setdefault(str(partition), [])
        if known and known[-1][1] == offset - 1:
            known[-1][1] = offset
        else:
            known.append([offset, offset])
    return json.dumps(ranges, separators=(",", ":")).encode()


def _mark_of(record: Record) -> dict[tuple[int, int], State] | None:
    """Return the states that a mark sets; None if the record is no mark."""
    headers = tuple(record.headers)
    if not headers or headers[0][0] != _MARK:
        return None
    state = State((headers[0][1] or b"").decode())
    return {
        (int(partition), offset): state
        for partition, ranges in json.loads(record.value or b"{}").items()
        for first, last in ranges
        for offset in range(first, last + 1)
    }
