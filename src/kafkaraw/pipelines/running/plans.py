"""The plan of the last run in the storage, and the changes since then that a run refuses.

    STORAGE/plan.json    the plan, and the generation of each flow's checkpoint when the plan was kept

A change that a checkpoint or a table cannot follow is refused before anything is written, with the text of the change.
It is accepted if nothing was written yet, or if a new generation of the flow began since (`checkpoint fork`,
`--full-refresh`). `keep_plan` writes; everything else only reads. Start at `planned` and `check_changes`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.analysis import analyze
from kafkaraw.pipelines.dead_letters.flows import dead_letter_flows
from kafkaraw.pipelines.evaluation import Judge, ReadTopic
from kafkaraw.pipelines.model import Location, Pipeline, PipelineError, raise_errors
from kafkaraw.pipelines.plan import Change, Effect, Plan, PlanFormatError, changes, from_json, merged, plan_of, to_json
from kafkaraw.pipelines.running.storage import Storage, local_path
from kafkaraw.pipelines.tables import write_atomically

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """The plan of the last run.

    Args:
        plan: the plan.
        generations: of the flows' checkpoints, by the names of flows.
    """

    plan: Plan
    generations: Mapping[str, int]


def planned(
    pipeline: Pipeline, spark: SparkSession, *, read_topic: ReadTopic | None = None, judge: Judge | None = None
) -> Plan:
    """Return the plan of a pipeline.

    Args:
        pipeline: to check.
        spark: the session that its definitions were loaded with.
        read_topic: returns the rows of `topic()`; None for those of Kafka.
        judge: applies expectations; None for those of this package.

    Raises:
        PipelineError: the definitions have problems; all of them together.
    """
    from kafkaraw.pipelines.judging import judged
    from kafkaraw.pipelines.topics import read_topic as read_kafka

    found = analyze(
        pipeline,
        spark,
        read_topic=read_topic or read_kafka,
        judge=judge or judged,
        dead_letter_flows=dead_letter_flows,
    )
    return plan_of(found)


def existing_storage(pipeline: Pipeline) -> Storage | None:
    """Return the storage of a pipeline; None if it has not run yet. Nothing is written.

    Raises:
        ConfigError: it belongs to another pipeline, or is something else.
    """
    storage = Storage(local_path(pipeline.storage))
    if storage.is_new:
        return None
    storage.claim(pipeline.name)  # writes only if there is nothing
    return storage


def kept_plan(storage: Storage) -> KeptPlan | None:
    """Return the plan of the last run; None if there was none.

    Raises:
        ConfigError: the file is damaged.
    """
    path = storage.root / _FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        generations = {str(name): int(number) for name, number in document["generations"].items()}
        return KeptPlan(from_json(json.dumps(document["plan"])), generations)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, PlanFormatError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}): restore it from a backup, or delete it; the next run then accepts every "
            "change without a check"
        ) from error


def changes_since_last_run(plan: Plan, storage: Storage | None) -> tuple[Change, ...] | None:
    """Return what changed since the last run, without changes that the storage has followed; None if there was none."""
    kept = None if storage is None else kept_plan(storage)
    if storage is None or kept is None:
        return None
    return tuple(each for each in changes(kept.plan, plan) if not _is_followed(each, plan, kept, storage))


def _is_followed(change: Change, plan: Plan, kept: KeptPlan, storage: Storage) -> bool:
    """Whether all flows of an incompatible change have a checkpoint that began after it, or have written nothing."""
    return change.effect is not Effect.NOTHING and not any(
        _has_old_checkpoint(flow, kept, storage) for flow in _flows_of(change, plan)
    )


def _flows_of(change: Change, plan: Plan) -> list[str]:
    if change.effect is Effect.CHECKPOINT:
        return [change.name]
    return [flow.name for flow in plan.flows_into(change.name)]


def _has_old_checkpoint(flow: str, kept: KeptPlan, storage: Storage) -> bool:
    stored = storage.flow(flow)
    if stored.generation > kept.generations.get(flow, stored.generation):
        return False
    return stored.counts().batch >= 0 or any((stored.checkpoint / "offsets").glob("[0-9]*"))


def check_changes(
    plan: Plan,
    pipeline: Pipeline,
    storage: Storage,
    *,
    flows: Collection[str] | None = None,
    full_refresh: Collection[str] = (),
) -> None:
    """Refuse changes that a checkpoint or a table cannot follow.

    Args:
        plan: of the definitions as they are now.
        pipeline: has the locations of definitions.
        storage: has the plan of the last run.
        flows: names of the flows that will run; None for all.
        full_refresh: names of tables that will be emptied.

    Raises:
        PipelineError: there are such changes; the text of each, with file and line.
    """
    refreshed = {pipeline.canonical_name(each) for each in full_refresh}

    def is_refused(change: Change) -> bool:
        if change.effect is Effect.NOTHING:
            return False
        concerned = _flows_of(change, plan)
        if plan.dead_letters_flow(change.name) is None:
            targets = {pipeline.canonical_name(pipeline.flow(name).target) for name in concerned}
            if targets <= refreshed:
                return False
        return flows is None or any(name in flows for name in concerned)

    found = changes_since_last_run(plan, storage) or ()
    raise_errors(pipeline.name, [_refusal(each, plan, pipeline) for each in found if is_refused(each)])


def _refusal(change: Change, plan: Plan, pipeline: Pipeline) -> PipelineError:
    location: Location | None = None
    dead_letters = plan.dead_letters_flow(change.name)
    if dead_letters is not None:
        file, _, line = dead_letters.location.rpartition(":")
        location = Location(file, int(line))
    elif change.effect is Effect.CHECKPOINT:
        location = pipeline.flow(change.name).location
    else:
        location = pipeline.dataset(change.name).location
    return PipelineError(f"changed since the last run: {change}", location=location)


def keep_plan(plan: Plan, storage: Storage, flows: Collection[str] | None = None) -> None:
    """Keep the plan of a run that begins, behind the generations that it begins with.

    Args:
        plan: of the definitions.
        storage: of the pipeline.
        flows: names of the flows that run; None for all. Of the others, what the last run kept stays.
    """
    before = kept_plan(storage)
    running = {flow.name for flow in (*plan.flows, *plan.dead_letters)} if flows is None else set(flows)
    generations = {} if before is None else dict(before.generations)
    generations |= {name: storage.flow(name).generation for name in running}
    if flows is not None:
        plan = merged(None if before is None else before.plan, plan, running)
    document = {"generations": generations, "plan": json.loads(to_json(plan))}
    write_atomically(storage.root / _FILE, json.dumps(document, indent=2, ensure_ascii=False))
