"""Checkpoints of flows: what they have read, and new generations of them that start elsewhere.

Spark's files are read only. A change that a checkpoint cannot follow gets a new generation, which starts where the old
one has ended (`fork`), or at offsets that are given (`rewind`). Must not start Spark. Start at `checkpoint_of`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.dead_letters.flows import NAME_PREFIX
from kafkaraw.pipelines.graph import NodeKind
from kafkaraw.pipelines.model import did_you_mean
from kafkaraw.pipelines.running.plans import kept_plan
from kafkaraw.pipelines.running.storage import FlowStorage, Storage
from kafkaraw.pipelines.tables import Metrics, file_name_of

Offsets = Mapping[str, Mapping[int, int]]
"""The next offsets, by topic and partition."""

_TABLES: Final = (NodeKind.STREAMING_TABLE.value, NodeKind.MATERIALIZED_VIEW.value)


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch in a checkpoint.

    Args:
        number: Spark's id.
        offsets: where it ends in the topics that the flow reads.
        other_sources: number of sources that are no topics, such as tables.
        watermark_ms: the watermark that it was computed with; None if there is none.
    """

    number: int
    offsets: Offsets
    other_sources: int
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One generation of a flow's checkpoint.

    Args:
        flow: name of the flow.
        generation: its number.
        is_current: whether the next run continues it.
        start: where it starts; None for where the definition says.
        finished: the last finished micro-batch; None if there is none.
        unfinished: the micro-batch that the next run repeats; None if there is none.
        counted: number of the last micro-batch whose rows are written and counted.
        totals: what the flow has counted up to there.
    """

    flow: str
    generation: int
    is_current: bool
    start: Offsets | None
    finished: Batch | None
    unfinished: Batch | None
    counted: int
    totals: Metrics

    def as_json(self) -> dict[str, object]:
        """Return the values for JSON."""
        batches = {
            name: None if each is None else {field: getattr(each, field) for field in Batch.__slots__}
            for name, each in (("finished", self.finished), ("unfinished", self.unfinished))
        }
        names = ("flow", "generation", "is_current", "start", "totals")
        return {name: getattr(self, name) for name in names} | batches


def flow_named(storage: Storage, name: str) -> FlowStorage:
    """Return what a flow keeps.

    Raises:
        ConfigError: no flow of that name has run.
    """
    known = {each.name: each for each in storage.flows()}
    if name not in known:
        hint = did_you_mean(name, known) or f": it has {', '.join(known) or 'none'}"
        raise ConfigError(f"storage {storage.root} has no checkpoint of a flow {name!r}{hint}")
    return known[name]


def checkpoint_of(flow: FlowStorage, generation: int | None = None) -> Checkpoint:
    """Return a generation of a flow's checkpoint; the current one if none is given.

    Raises:
        ConfigError: a file of the checkpoint is damaged.
    """
    number = flow.generation if generation is None else generation
    folder = flow.folder(number) / "checkpoint"
    planned = _numbers(flow, number, "offsets")
    committed = _numbers(flow, number, "commits")
    done = max(committed, default=-1)
    last = max(planned, default=-1)
    counts = flow.counts(number)
    return Checkpoint(
        flow.name,
        number,
        number == flow.generation,
        flow.start_offsets(number),
        _batch(folder / "offsets" / str(done), done) if done >= 0 else None,
        _batch(folder / "offsets" / str(last), last) if last > done else None,
        counts.batch,
        counts.totals,
    )


def _numbers(flow: FlowStorage, generation: int, kind: str) -> list[int]:
    folder = flow.folder(generation) / "checkpoint" / kind
    return [int(each.name) for each in folder.glob("[0-9]*") if each.name.isdigit()]


def _batch(path: Any, number: int) -> Batch:  # noqa: ANN401 -- a Path
    try:
        version, metadata, *sources = path.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise ValueError(f"it has version {version!r}")
        watermark = int(json.loads(metadata).get("batchWatermarkMs", 0))
        offsets, others = dict[str, dict[int, int]](), 0
        for text in sources:
            found = _topics(json.loads(text)) if text != "-" else {}
            others += found is None
            for topic, partitions in (found or {}).items():
                known = offsets.setdefault(topic, {})
                for partition, offset in partitions.items():
                    known[partition] = min(offset, known.get(partition, offset))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read as Spark's offsets: {error}") from error
    return Batch(number, offsets, others, watermark or None)


def _topics(source: Any) -> dict[str, dict[int, int]] | None:  # noqa: ANN401 -- a value of JSON
    """Return the offsets of topics; None for those of another source."""
    if not isinstance(source, dict) or not all(isinstance(each, dict) for each in source.values()):
        return None
    return {topic: {int(number): int(at) for number, at in each.items()} for topic, each in source.items()}


# -- new generations


@dataclass(frozen=True, slots=True)
class NewGeneration:
    """A generation that was begun.

    Args:
        flow: name of the flow.
        number: of the generation.
        start: where it starts.
        notes: what a person should know.
    """

    flow: str
    number: int
    start: Offsets
    notes: tuple[str, ...]


def fork(storage: Storage, name: str, *, unfinished: str | None = None, anew: Collection[str] = ()) -> NewGeneration:
    """Begin a generation that starts where the current one has ended. Its state is empty.

    Args:
        storage: of the pipeline; no run may have it.
        name: of the flow.
        unfinished: "skip" or "repeat" a micro-batch for which it is not known whether it was written.
        anew: topics that were deleted and made anew, which are read from their beginning.

    Raises:
        ConfigError: there is no checkpoint, it has files of tables, it has not read a topic of `anew`, or it is not
            known where it has ended.
        StorageInUseError: a run has the storage.
    """
    with storage.lock():
        flow = flow_named(storage, name)
        checkpoint = checkpoint_of(flow)
        last = checkpoint.unfinished if _counts_as_written(storage, checkpoint, unfinished) else checkpoint.finished
        start = checkpoint.start or {} if last is None else last.offsets
        if last is None and checkpoint.start is None:
            raise ConfigError(f"flow {name!r} has finished no micro-batch: there is nothing to fork; just run it")
        if last is not None and last.other_sources:
            raise ConfigError(
                f"flow {name!r} reads a table as a stream, and only its checkpoint knows which files it has read: a "
                f"new one would read all rows again. Compute its target again with --full-refresh, or everything with "
                f"`kafkaraw pipelines checkpoint rewind {name} --to earliest`"
            )
        for topic in anew:
            if topic not in start:
                known = did_you_mean(topic, start) or f": it has read {', '.join(sorted(start)) or 'none'}"
                raise ConfigError(
                    f"--anew {topic}: the checkpoint of flow {name!r} has no offsets of this topic{known}"
                )
        start = {**start, **{topic: {} for topic in anew}}
        number = flow.begin_generation(start, checkpoint.totals)
    return NewGeneration(name, number, start, ("State of aggregations, joins and deduplication begins empty.",))


def _counts_as_written(storage: Storage, checkpoint: Checkpoint, unfinished: str | None) -> bool:
    """Return whether the unfinished micro-batch was written.

    Raises:
        ConfigError: it is not known.
    """
    batch = checkpoint.unfinished
    if batch is None:
        return False
    if checkpoint.counted >= batch.number or _is_in_table(storage, checkpoint, batch):
        return True
    if unfinished is not None:
        return unfinished == "skip"
    kept = kept_plan(storage)
    planned = None if kept is None else kept.plan.flow(checkpoint.flow)
    target = None if kept is None or planned is None else kept.plan.dataset(planned.target)
    if target is not None and target.kind in _TABLES:
        return False
    raise ConfigError(
        f"flow {checkpoint.flow!r} was killed in micro-batch {batch.number}, and only a run with the definition that "
        "it had can finish it exactly once: run that once more, or give --unfinished skip or --unfinished repeat"
    )


def _is_in_table(storage: Storage, checkpoint: Checkpoint, batch: Batch) -> bool:
    """Return whether a table has the micro-batch."""
    name = f"{checkpoint.generation:06d}-{batch.number:012d}.json"
    manifests = f"*/_kafkaraw/manifests/{file_name_of(checkpoint.flow)}/{name}"
    if any((storage.root / "tables").glob(manifests)):
        return True
    mark = [checkpoint.generation, batch.number]
    versions = (storage.root / "tables").glob("*/_kafkaraw/current.json")
    return any(_origin(each).get(checkpoint.flow) == mark for each in versions)


def _origin(path: Any) -> Mapping[str, list[int]]:  # noqa: ANN401 -- a Path
    found = json.loads(path.read_text(encoding="utf-8"))["origin"]
    assert isinstance(found, dict), "an origin is an object"
    return found


def topics_of(storage: Storage, name: str) -> Iterable[str]:
    """Return the topics that a flow has read.

    Raises:
        ConfigError: it has read none.
    """
    checkpoint = checkpoint_of(flow_named(storage, name))
    last = checkpoint.unfinished or checkpoint.finished
    offsets = (last.offsets if last is not None else checkpoint.start) or {}
    if not offsets:
        raise ConfigError(
            f"the checkpoint of flow {name!r} has no offsets of topics: it cannot start elsewhere in them"
        )
    return sorted(offsets)


def rewind(storage: Storage, name: str, start: Offsets, *, is_beginning: bool) -> NewGeneration:
    """Begin a generation that starts at given offsets. What was written stays: rows may be written again.

    Args:
        storage: of the pipeline; no run may have it.
        name: of the flow.
        start: where it starts. Topics that it leaves out are read on from where the checkpoint has ended, unless
            everything is read again.
        is_beginning: whether these are the first offsets; a flow that reads tables as streams can start there only.

    Raises:
        ConfigError: there is no checkpoint, or the flow reads tables as streams.
        StorageInUseError: a run has the storage.
    """
    with storage.lock():
        flow = flow_named(storage, name)
        checkpoint = checkpoint_of(flow)
        last = checkpoint.unfinished or checkpoint.finished
        if last is not None and last.other_sources and not is_beginning:
            raise ConfigError(f"flow {name!r} reads a table as a stream: it can only be rewound --to earliest")
        if not is_beginning:
            ended = (checkpoint.start if checkpoint.finished is None else checkpoint.finished.offsets) or {}
            start = {**ended, **start}
        # The dead letters that a flow has found were written before: its count goes on, or the balance would miss them.
        number = flow.begin_generation(start, checkpoint.totals if name.startswith(NAME_PREFIX) else {})
    again = "Rows of records that are read again are written again; --full-refresh empties a table instead."
    return NewGeneration(name, number, start, (again, "State of aggregations, joins and deduplication begins empty."))
