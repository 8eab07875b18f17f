"""`kafkaraw pipelines plan` without its options: from a folder to its plan and what changed since the last run.

Nothing is written: neither into the storage nor into a catalog or topic. Start at `plan_place`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.plan import Change, Plan
from kafkaraw.pipelines.running.driver_session import output_hidden
from kafkaraw.pipelines.running.plans import changes_since_last_run, existing_storage, planned
from kafkaraw.pipelines.specification import read_specification
from kafkaraw.spark.launch.session_builder import session

_MASTER: Final = "local[1]"  # no job runs


def plan_place(path: Path, conf: Mapping[str, str], *, quiet: bool = False) -> tuple[Plan, tuple[Change, ...] | None]:
    """Return the plan of the pipeline in a folder, and what changed since its last run; None if there was none.

    Args:
        path: of the specification, or of a folder with one.
        conf: Spark settings that override those of the specification.
        quiet: hide what Spark and the definition files print, unless it fails.

    Raises:
        PipelineError: a definition is wrong.
        ConfigError: Spark cannot start, or the storage is another pipeline's.
    """
    specification = read_specification(path)
    with output_hidden() if quiet else nullcontext():
        spark = session(specification.name, _MASTER, {**specification.settings.spark, **conf})
        pipeline = load_pipeline(specification, spark)
        plan = planned(pipeline, spark)
    return plan, changes_since_last_run(plan, existing_storage(pipeline))
