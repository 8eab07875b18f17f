"""Run cases of the harness: `python -m tests.client.hooks [--sample N] [--seed SEED] [--only TEXT] [--list]`.

Prints a line for each finding, with the case, and the command that repeats it; exits with 1 if there is any. A case
that does not end within `CASE_S` ends the process, with the stacks of all threads. `KAFKARAW_IMPL` chooses the
implementation of records.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import logging
import random
import sys
import threading
import time

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import IMPLEMENTATION
from tests.client.hooks.audit import LogReader, audit, prepare
from tests.client.hooks.story import story
from tests.client.hooks.table import Case, every_case
from tests.client.hooks.world import World, count_on_client_thread, left_on_client_thread, run_to_the_end, threads

CASE_S = 100.0
SLOW_S = 15.0
"""Less than `request_timeout_ms`: an answer that got lost is noticed, and a busy machine is not."""
AUDITED_AT_ONCE = 25
"""Of so many cases the log is read together."""
MOMENTS = 150
"""A signal comes at one of so many moments."""


class Complaints(logging.Handler):
    """What asyncio, a destructor or a thread complains of; nobody else would hear it."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        logging.getLogger("asyncio").addHandler(self)
        sys.unraisablehook = self._unraisable
        threading.excepthook = lambda problem: self.said.append(f"a thread: {problem.exc_value!r}")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of asyncio's log."""
        error = record.exc_info and record.exc_info[1]
        if not (error and str(error) == "the hook's own"):
            self.said.append(f"asyncio: {record.getMessage()} {error!r}")

    def _unraisable(self, problem: sys.UnraisableHookArgs) -> None:
        if str(problem.exc_value) != "the hook's own":
            self.said.append(f"a destructor, {problem.object!r}: {problem.exc_value!r}")

    def take(self) -> list[str]:
        """What was said since the last call."""
        said, self.said = self.said, []
        return said


def chosen(cases: list[Case], sample: int | None, rng: random.Random) -> list[Case]:
    """As many cases as are wanted: every hook with every operation first, in any end, then any."""
    if sample is None or sample >= len(cases):
        return cases
    rng.shuffle(cases)
    pairs: dict[tuple[object, ...], Case] = {}
    for case in cases:
        pairs.setdefault((case.hook, case.operation), case)
    first = list(pairs.values())
    rest = [case for case in cases if case not in set(first)]
    return (first + rest)[:sample]


def run(world: World, complaints: Complaints) -> None:
    """Run one case; what can be seen at once is noted in its ledger, the rest is left to `audit`."""
    before, tasks, began = threads(), count_on_client_thread(), time.monotonic()
    run_to_the_end(world, story)
    findings = world.ledger.findings
    if time.monotonic() - began > SLOW_S:
        findings.append(f"took {time.monotonic() - began:.1f} s")
    findings += [f"a thread left: {name}" for name in threads() - before]
    findings += [f"a task left on the clients' thread: {task}" for task in left_on_client_thread(tasks)]
    findings += complaints.take()


def report(worlds: list[World], reader: LogReader) -> int:
    """Audit cases, and print what does not hold; returns how many have findings."""
    found, log = 0, reader.read()
    for world in worlds:
        offsets = {} if world.consumer is None else reader.committed_offsets(world.name)
        findings = audit(world, log, offsets)
        found += bool(findings)
        for finding in findings:
            print(f"{world.case} (moment {world.moment}): {finding}", flush=True)
        if findings:
            print("    " + "; ".join(map(str, world.ledger.calls)), flush=True)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--now", type=argparse.FileType("w"), help="where to write which case runs")
    given = parser.parse_args()
    rng, now = random.Random(given.seed), given.now or io.StringIO()
    cases = [case for case in every_case() if all(text in f"/{case}/" for text in given.only)]
    cases = chosen(cases, given.sample, rng)
    logging.getLogger("kafkaraw").addHandler(logging.NullHandler())
    logging.getLogger("kafkaraw").propagate = False
    logging.getLogger("kafkaraw").setLevel(logging.CRITICAL)
    complaints = Complaints()
    began, found = time.monotonic(), 0
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": "0"}) as broker:
        servers = broker.bootstrap_servers
        prepare(servers)
        reader = LogReader(servers)
        for first in range(0, len(cases), AUDITED_AT_ONCE):
            worlds: list[World] = []
            for number, case in enumerate(cases[first : first + AUDITED_AT_ONCE], first):
                worlds.append(World(case, servers, f"case-{number}", rng.randrange(1, MOMENTS)))
                print(f"{case} (moment {worlds[-1].moment})", file=now, flush=True)
                faulthandler.dump_traceback_later(CASE_S, exit=True)
                run(worlds[-1], complaints)
                faulthandler.cancel_dump_traceback_later()
            found += report(worlds, reader)
    print(f"{len(cases)} cases, {found} with findings, {time.monotonic() - began:.0f} s, records: {IMPLEMENTATION}",
          file=sys.stderr)  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
