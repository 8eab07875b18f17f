"""Carries out some plans of `sink_plan` side by side in one driver, and says what came of each.

The order: the queries run to their steps in a driver that is then killed; what befalls them does so; they are started
again here, once for each turn that their plan takes; in the end `kafkaraw.testing.audit_spark` judges the logs.
Start at `SinkRun.outcomes`.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafkaraw.spark.versions import features
from kafkaraw.testing.audit_spark import audit_exactly_once
from kafkaraw.testing.invariants import Violation
from kafkaraw.testing.partition_logs import open_transactions, read_logs
from kafkaraw.testing.sink_history import SinkHistory, SinkSlot, Skipped
from tests.spark import faulty
from tests.spark.kafka import Kafka
from tests.spark.kill_case import KillCase
from tests.spark.killed_driver import Driver, driver_at_its_steps
from tests.spark.side_by_side import run_to_their_ends
from tests.spark.sink_mishaps import (
    Cluster,
    befall,
    copy_of,
    leader_of_decisions_down,
    lose_last_commit,
    other_transaction_in_front,
    query_id_of,
    restore,
    set_policy,
)
from tests.spark.sink_plan import FORGETTING, MAY_FAIL, REPLANNED, ZOMBIES, Mishap, SinkPlan

PREFIX = "kafkaraw-spark"
ZOMBIE_S = 120.0
TASKS = {Mishap.FEWER: 1, Mishap.MORE: 4}
RUNS = 1 if features().read_limits else 2
"""Without read limits, `availableNow` runs one micro-batch, and that may be the repetition of an unfinished one."""


@dataclasses.dataclass(frozen=True)
class SinkOutcome:
    """What a query left behind.

    Attributes:
        refusal: the error with which it refused to go on after its mishap; empty for none.
        errors: those that it must not have had, with the turn in which it had them.
        numbers: what readers of committed records find.
        violations: what the auditor found.
    """

    refusal: str
    errors: list[str]
    numbers: list[int]
    violations: list[Violation]


class SinkRun:
    """Some plans, and the queries that follow them."""

    def __init__(
        self, spark: SparkSession, kafka: Kafka, cluster: Cluster, folders: Iterable[Path], plans: Iterable[SinkPlan]
    ) -> None:
        self._spark, self._kafka, self._cluster = spark, kafka, cluster
        self._cases = {plan: self._prepared(plan, str(folder)) for plan, folder in zip(plans, folders, strict=False)}
        self._errors: dict[SinkPlan, list[str]] = {plan: [] for plan in self._cases}
        self._refusals = dict.fromkeys(self._cases, "")
        self._left_open: dict[SinkPlan, list[str]] = {plan: [] for plan in self._cases}
        faulty.register(spark)

    def _prepared(self, plan: SinkPlan, folder: str) -> KillCase:
        source, target = self._kafka.new_topic(plan.partitions), self._kafka.new_topic(2)
        self._produce(source, plan, plan.before)
        return KillCase(
            self._kafka.servers,
            source,
            target,
            folder,
            "earliest",
            "processing time",
            plan.step,
            plan.batch,
            exactly_once=True,
            count=plan.count,
            decisions=f"decisions-{target}",
            tasks=plan.partitions,
            outlives=plan.mishap in ZOMBIES,
        )

    def _produce(self, source: str, plan: SinkPlan, numbers: range) -> None:
        for partition in range(plan.partitions):
            self._kafka.produce(source, numbers[partition :: plan.partitions], partition)

    def outcomes(self) -> dict[SinkPlan, SinkOutcome]:
        """Carry all plans out."""
        with ExitStack() as meanwhile:
            meanwhile.callback(self._release)
            if blocked := self._of(Mishap.BLOCKED):
                cases = [self._cases[plan] for plan in blocked]
                meanwhile.enter_context(other_transaction_in_front(self._kafka, cases))
            self._die(meanwhile)
            with self._copies_at_their_steps() as copies:
                self._repeat()
                self._compare_with_copies(copies)
            self._go_on()
        return {plan: self._outcome(plan) for plan in self._cases}

    # -- the turns

    def _die(self, meanwhile: ExitStack) -> None:
        """All get to their steps; then the driver is killed, but for those that survive, which first get to the end."""
        with driver_at_its_steps(list(self._cases.values())) as driver:
            for plan in self._of(*ZOMBIES):
                for number in range(plan.partitions):
                    driver.wait_for(Path(f"{self._cases[plan].reached}-{number}"))
            for plan, case in self._cases.items():
                befall(self._kafka, self._cluster, plan.mishap, case)
            if leaderless := self._of(Mishap.LEADER_LOST):
                cases = [self._cases[plan] for plan in leaderless]
                meanwhile.enter_context(leader_of_decisions_down(self._cluster, cases))
            survivors = {plan: case for plan, case in self._cases.items() if plan.survives}
            ends = driver.ends_of(list(survivors.values()))
            for plan, case in survivors.items():
                if ends[case] and plan.mishap is not Mishap.LEADER_LOST:
                    self._errors[plan].append(f"the driver that survived: {ends[case]}")

    @contextmanager
    def _copies_at_their_steps(self) -> Iterator[tuple[Driver, dict[SinkPlan, KillCase]] | None]:
        """A second driver, in which the copies of checkpoints get to the same steps."""
        copies = {plan: _copied(plan, self._cases[plan]) for plan in self._of(Mishap.COPIES)}
        if not copies:
            yield None
            return
        with driver_at_its_steps(list(copies.values())) as driver:
            yield driver, copies

    def _repeat(self) -> None:
        """The queries are started again, after the mishap that befell them."""
        for plan in self._of(Mishap.ZOMBIE_RESTART):
            self._cases[plan].go_on.touch()
        again: set[SinkPlan] = set()
        for plan, error in self._finish(self._cases, TASKS).items():
            if error and plan.mishap in MAY_FAIL:
                again.add(plan)
            else:
                self._note(plan, "repeated", error, may_refuse=plan.mishap is not Mishap.RESTORED)
        for plan in self._of(*REPLANNED):
            if not self._refusals[plan]:
                self._left_open[plan] += self._open_transactions(plan)
        for plan in self._of(Mishap.WRONG_POLICY):
            set_policy(self._kafka, self._cases[plan].decisions, "compact")
        again |= {plan for plan in self._cases if self._refusals[plan] and not plan.refuses_for_good}
        self._finish_well("repeated once more", again)
        for plan in self._of(*ZOMBIES):
            self._wake(plan)
        for plan in self._of(Mishap.ZOMBIE_SUNK, Mishap.LOST_COMMIT):
            lose_last_commit(self._cases[plan].checkpoint)

    def _compare_with_copies(self, copies: tuple[Driver, dict[SinkPlan, KillCase]] | None) -> None:
        """The copies go on, at once or after one batch more of the original; they may refuse to, or be fenced."""
        late = [plan for plan in self._of(Mishap.COPIES) if plan.late]
        for plan in late:
            self._produce(self._cases[plan].source, plan, plan.after)
        self._finish_well("while a copy stood still", late)
        if copies is not None:
            driver, cases = copies
            driver.ends_of(list(cases.values()))

    def _go_on(self) -> None:
        """More numbers come, and the queries go on that can; those that were restored are to refuse."""
        able = [
            plan
            for plan in self._cases
            if not self._errors[plan] and not (plan.refuses_for_good and self._refusals[plan])
        ]
        for plan in able:
            if not plan.late:
                self._produce(self._cases[plan].source, plan, plan.after)
        self._finish_well("went on", able)
        for plan in self._of(Mishap.RESTORED):
            restore(self._cases[plan])
        for plan in self._of(Mishap.RESTORED, Mishap.COPIES):
            self._produce(self._cases[plan].source, plan, plan.last)
        for plan, error in self._finish(self._of(Mishap.RESTORED)).items():
            self._note(plan, "restored", error, may_refuse=True)
        self._finish_well("went on without its copy", self._of(Mishap.COPIES))
        for plan in able:
            if plan.mishap is not Mishap.RESTORED and not self._errors[plan]:
                self._left_open[plan] += self._open_transactions(plan)

    def _wake(self, plan: SinkPlan) -> None:
        """Zombies go on until they are done, or refused."""
        case, deadline_s = self._cases[plan], time.monotonic() + ZOMBIE_S
        case.go_on.touch()
        for number in range(plan.partitions):
            while not Path(f"{case.reached}-{number}-over").exists():
                assert time.monotonic() < deadline_s, f"the zombie of task {number} of {plan} is still at work"
                time.sleep(0.05)

    def _release(self) -> None:
        """Nothing that outlived its driver stays behind."""
        for case in self._cases.values():
            for folder in _folders_of(case):
                if folder.exists():
                    dataclasses.replace(case, folder=str(folder)).go_on.touch()

    # -- running queries

    def _finish(
        self, plans: Iterable[SinkPlan], tasks: Mapping[Mishap, int] = MappingProxyType({})
    ) -> dict[SinkPlan, str]:
        """Run queries to the end of their topics, some of them with other numbers of tasks; gives what they died of."""

        def start(plan: SinkPlan) -> StreamingQuery:
            case = self._cases[plan]
            if plan.mishap in tasks:
                case = dataclasses.replace(case, tasks=tasks[plan.mishap])
            return case.finish_noting(self._spark)

        return run_to_their_ends(plans, start)

    def _finish_well(self, turn: str, plans: Iterable[SinkPlan]) -> None:
        chosen = list(plans)
        for _ in range(RUNS):
            for plan, error in self._finish(chosen).items():
                self._note(plan, turn, error, may_refuse=False)

    def _note(self, plan: SinkPlan, turn: str, error: str, *, may_refuse: bool) -> None:
        if error and may_refuse and plan.must_refuse is not False:
            self._refusals[plan] = error
            for note in Path(self._cases[plan].folder).glob("task-*.json"):
                note.unlink()  # tasks of a batch that was refused have skipped nothing
        elif error:
            self._errors[plan].append(f"{turn}: {error}")

    # -- judging

    def _of(self, *mishaps: Mishap) -> list[SinkPlan]:
        """Those that are befallen by one of these, as long as all goes as it must."""
        return [plan for plan in self._cases if plan.mishap in mishaps and not self._errors[plan]]

    def _open_transactions(self, plan: SinkPlan) -> list[str]:
        return open_transactions(self._kafka.servers, f"{PREFIX}-{query_id_of(self._cases[plan])}")

    def _outcome(self, plan: SinkPlan) -> SinkOutcome:
        case = self._cases[plan]
        numbers = self._kafka.numbers(case.target)
        history = SinkHistory.from_logs(read_logs(self._kafka.servers, [case.target, case.decisions]), case.decisions)
        query_id = query_id_of(case)
        history.open_transactions = self._left_open[plan]
        history.skipped = [skipped for folder in _folders_of(case) for skipped in skipped_in(folder, query_id)]
        refused = bool(self._refusals[plan])
        if plan.mishap not in FORGETTING or not refused:
            required = plan.required(refused=refused)
            history.wanted = {query_id: [b"%d" % number for number in sorted(required)]}
        if plan.mishap in FORGETTING:
            history.undecided_until = {query_id: plan.batch}
        return SinkOutcome(self._refusals[plan], self._errors[plan], numbers, audit_exactly_once(history))


def _copied(plan: SinkPlan, case: KillCase) -> KillCase:
    """The query of a copied checkpoint; where the batch is decided, it stops before it would commit it."""
    step = "prepared" if plan.is_decided else plan.step
    return dataclasses.replace(case, folder=str(copy_of(case).parent), step=step)


def _folders_of(case: KillCase) -> list[Path]:
    return [Path(case.folder), copy_of(case).parent]


def skipped_in(folder: Path, query_id: str) -> Iterator[Skipped]:
    """The tasks that noted in a folder that they had written nothing, because it was written before."""
    for path in sorted(folder.glob("task-*.json")):
        note = json.loads(path.read_text())
        if note["ended"]:
            rows = tuple(row.encode() for row in note["rows"])
            yield Skipped(SinkSlot(query_id, note["batch"], note["slot"]), rows)


def problem_of(plan: SinkPlan, outcome: SinkOutcome) -> str:
    """What is not as it must be, on a line each; empty when each row is there once, and nothing but refusals failed."""
    refused = bool(outcome.refusal)
    problems = [*outcome.errors]
    if plan.must_refuse not in (refused, None):
        problems.append(f"it has refused: {outcome.refusal}" if refused else "it has not refused")
    if refused and "UsageError" not in outcome.refusal:
        problems.append(f"this is no refusal: {outcome.refusal}")
    counts = Counter(outcome.numbers)
    problems += [f"{number} is there {count} times" for number, count in counts.items() if count > 1]
    if missing := plan.required(refused=refused) - counts.keys():
        problems.append(f"missing: {sorted(missing)}")
    if others := counts.keys() - plan.allowed(refused=refused):
        problems.append(f"these must not be there: {sorted(others)}")
    return "\n".join([*problems, *map(str, outcome.violations)])
