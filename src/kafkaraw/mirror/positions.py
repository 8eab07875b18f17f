"""Where a flow continues: its positions, which the target has, and what they mean when a cluster has changed. Pure.

The position of a partition is the next offset to read in the source. It is a committed offset of the flow's group in
the target, under the partition of the copy, since brokers refuse offsets of topics that they do not have. With
transactions it is committed with the records that it stands behind. The leader epoch of the source goes along, and, as
metadata, the ids of both topics: a topic that was deleted and created again has another id.

`start_of` decides where the copy of a partition begins. It never leaves out records of the source silently: a loss is
an error that names the offsets; if the configuration allows the flow to go on, the flow reports them. Start
at `start_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import KafkaError, ProducerFencedError, UsageError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.mirror.interfaces import OnLoss, StartAt
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from kafkaraw.client.committed import OffsetAndMetadata

_SOURCE: Final = "source="
_TARGET: Final = "target="
_RUN: Final = "run="
_END: Final = "end="
_REFUSAL: Final = " refusal="
_REFUSAL_LENGTH_MAX: Final = 800
"""Brokers take 4,096 bytes of metadata by default."""


class RecordsLostError(KafkaError):
    """The source has deleted records that the copy does not have.

    Attributes:
        partition: of the source.
        first_offset: of the records that are lost.
        last_offset: of these.
    """

    def __init__(self, partition: TopicPartition, first_offset: int, last_offset: int) -> None:
        super().__init__(
            f"{name_of(partition)}: the source has no records before offset {last_offset + 1} any more, and the copy "
            f"lacks those at offsets {first_offset} to {last_offset}: retention (or a deletion of records) has passed "
            f"the mirror; set on.loss=continue to copy the rest"
        )
        self.partition: TopicPartition = partition
        self.first_offset: int = first_offset
        self.last_offset: int = last_offset


class SourceReplacedError(KafkaError):
    """A topic of the source was deleted and created again: the copy has records of the earlier one."""


class SourceTruncatedError(KafkaError):
    """A partition of the source ends before the position: records that were copied are not in the source any more."""


class TargetTruncatedError(KafkaError):
    """A copy ends before records that the target has acknowledged: it has lost them."""


class PositionMissingError(UsageError):
    """A copy has records, and the flow has no position of it."""


class FlowTakenOverError(ProducerFencedError):
    """Another process copies this flow: it has committed positions since this one has begun."""


class Position(NamedTuple):
    """A position as it is committed.

    Attributes:
        offset: the next offset to read in the source.
        leader_epoch: of the record before it; -1 if it is not known.
        source_id: of the source's topic; zero if it is not known.
        target_id: of the copy.
        run_id: of the process that has committed it; empty if it is not known.
        target_end: the copy has had all offsets before it; -1 if it is not known.
        refusal: why the partition is not copied now; empty while it is.
    """

    offset: int
    leader_epoch: int
    source_id: Uuid
    target_id: Uuid
    run_id: str = ""
    target_end: int = -1
    refusal: str = ""

    @property
    def metadata(self) -> str:
        """The text that is committed with the offset."""
        refusal = _REFUSAL + self.refusal[:_REFUSAL_LENGTH_MAX] if self.refusal else ""
        return (
            f"{_SOURCE}{self.source_id} {_TARGET}{self.target_id} {_RUN}{self.run_id} {_END}{self.target_end}{refusal}"
        )

    @classmethod
    def parse(cls, offset: int, leader_epoch: int, metadata: str) -> Position:
        """Read what was committed; ids that are not there count as not known."""
        metadata, _, refusal = metadata.partition(_REFUSAL)
        words = {name + sign: text for name, sign, text in (word.partition("=") for word in metadata.split())}
        source_id, target_id = _id_of(words.get(_SOURCE, "")), _id_of(words.get(_TARGET, ""))
        end = words.get(_END, "")
        target_end = int(end) if end.isascii() and end.isdigit() else -1
        return cls(offset, leader_epoch, source_id, target_id, words.get(_RUN, ""), target_end, refusal)


_NO_POSITION: Final = Position(-1, -1, ZERO_UUID, ZERO_UUID)


def _id_of(text: str) -> Uuid:
    try:
        return Uuid.parse(text)
    except ValueError:
        return ZERO_UUID


def positions_of(
    copies: Mapping[TopicPartition, TopicPartition], committed: Mapping[TopicPartition, OffsetAndMetadata | None]
) -> dict[TopicPartition, Position]:
    """Return the positions among committed offsets, by partition of the source.

    Args:
        copies: partitions of the target by partition of the source.
        committed: by partition of the target; None if there is no position.
    """
    return {
        of: Position.parse(found.offset, found.leader_epoch, found.metadata)
        for of, copy in copies.items()
        if (found := committed[copy]) is not None
    }


def random_run_id(rng: Random) -> str:
    """Return an id for a process that copies a flow."""
    return f"{rng.getrandbits(48):012x}"


class RunIds:
    """Tells whether another process has committed positions of a flow since this one has begun.

    Args:
        own: id of this process.

    Attributes:
        own: as given.
    """

    def __init__(self, own: str) -> None:
        self.own: str = own
        self._found: dict[TopicPartition, Position] = {}

    def note_absent(self, partitions: Iterable[TopicPartition]) -> None:
        """Take note of partitions without a position: a later one must be of this process."""
        for of in partitions:
            self._found.setdefault(of, _NO_POSITION)

    def check(self, positions: Mapping[TopicPartition, Position], flow: str) -> None:
        """Take note of positions that were read; later ones must be the same, or of this process.

        Args:
            positions: by partition of the source.
            flow: its name, for the message.

        Raises:
            FlowTakenOverError: another process has committed some since.
        """
        for of, position in positions.items():
            if position.run_id != self.own and position != self._found.setdefault(of, position):
                raise FlowTakenOverError(
                    f"mirror {flow}: another process copies this flow: it has committed a position of {name_of(of)} "
                    f"since this one has begun; one process copies a flow: stop one of them"
                )


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What the clusters say about a partition and its copy.

    Attributes:
        source: the partition.
        target: its copy.
        source_id: id of the source's topic; zero with brokers before 2.8.
        target_id: id of the copy's topic.
        position: the position that was committed; None without one.
        first_offset: the log start offset of the source.
        end_offset: the end of the source's log.
        target_end_offset: the end of the copy's log.
    """

    source: TopicPartition
    target: TopicPartition
    source_id: Uuid
    target_id: Uuid
    position: Position | None
    first_offset: int
    end_offset: int
    target_end_offset: int


class Start(NamedTuple):
    """Where the copy of a partition continues.

    Attributes:
        offset: the next offset to read.
        leader_epoch: of the record before it; -1 if it is not known.
        notice: what has to be told about it; empty if nothing.
    """

    offset: int
    leader_epoch: int = -1
    notice: str = ""


def start_of(facts: PartitionFacts, *, on_loss: OnLoss, start_at: StartAt | None) -> Start:
    """Decide where the copy of a partition continues.

    Args:
        facts: about the partition.
        on_loss: what to do about records that the source has deleted.
        start_at: where a partition without a position begins; None is its first offset, if the copy is empty.

    Raises:
        RecordsLostError: the source has deleted records that the copy lacks.
        SourceReplacedError: the source's topic is another one than the one that was copied.
        SourceTruncatedError: the source ends before the position.
        TargetTruncatedError: the copy ends before records that it has had.
        PositionMissingError: the copy has records, and there is no position.
    """
    position, source = facts.position, facts.source
    if position is not None and _differ(position.target_id, facts.target_id):
        text = f"{name_of(facts.target)} was deleted and created again since it was written to: it is copied anew"
        return Start(facts.first_offset, notice=text)
    if position is None:
        return _start_without_position(facts, start_at)
    if _differ(position.source_id, facts.source_id):
        text = (
            f"topic {source.topic!r} of the source was deleted and created again since it was copied (its id was "
            f"{position.source_id}, and is {facts.source_id}); the copy {facts.target.topic!r} has records of the "
            f"earlier one"
        )
        if on_loss is OnLoss.FAIL:
            raise SourceReplacedError(
                f"{text}: delete the copy, or set on.loss=continue to write the new records behind them"
            )
        return Start(facts.first_offset, notice=f"{text}; the new records follow these")
    if position.target_end > facts.target_end_offset:
        raise TargetTruncatedError(
            f"{name_of(facts.target)} ends at offset {facts.target_end_offset}, and has had records up to offset "
            f"{position.target_end - 1}: the target has lost records of the copy, as after an unclean election or when "
            f"it was restored; delete the copy to copy {source.topic!r} anew"
        )
    if position.offset < facts.first_offset:
        lost = RecordsLostError(source, position.offset, facts.first_offset - 1)
        if on_loss is OnLoss.FAIL:
            raise lost
        return Start(
            facts.first_offset,
            notice=f"{name_of(source)}: the records at offsets {lost.first_offset} to {lost.last_offset} are lost: the "
            f"source has deleted them before they were copied",
        )
    if position.offset > facts.end_offset:
        text = (
            f"{name_of(source)} of the source ends at offset {facts.end_offset}, and was copied up to "
            f"{position.offset - 1}: records that are in the copy are lost in the source"
        )
        if on_loss is OnLoss.FAIL:
            raise SourceTruncatedError(f"{text}; set on.loss=continue to go on at its end")
        return Start(facts.end_offset, notice=f"{text}; continuing at its end")
    return Start(position.offset, position.leader_epoch)


def _start_without_position(facts: PartitionFacts, start_at: StartAt | None) -> Start:
    if start_at is None and facts.target_end_offset > 0:
        raise PositionMissingError(
            f"{name_of(facts.target)} has records up to offset {facts.target_end_offset - 1}, and the mirror has no "
            f"position there (another tool has written them, or the position has expired): set "
            f"consumer.auto.offset.reset=earliest for the flow to copy {name_of(facts.source)} from its first record "
            f"behind them, or latest to copy new records"
        )
    offset = facts.end_offset if start_at is StartAt.LATEST else facts.first_offset
    if start_at is None or not facts.target_end_offset:
        return Start(offset)
    return Start(
        offset,
        notice=f"{name_of(facts.target)} has records up to offset {facts.target_end_offset - 1}, and the mirror has no "
        f"position there (another tool has written them, or the position has expired): by consumer.auto.offset.reset="
        f"{start_at.value}, records from offset {offset} of {name_of(facts.source)} on are copied behind them",
    )


def _differ(one: Uuid, other: Uuid) -> bool:
    """Whether two ids are those of two topics; an id that is not known is no difference."""
    return ZERO_UUID not in (one, other) and one != other
