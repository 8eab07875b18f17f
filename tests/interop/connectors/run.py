"""Runs scenarios with both connectors on one Apache Kafka, and shows what came of them.

    .venv/bin/python -m tests.interop.connectors.run              # all, as a table
    .venv/bin/python -m tests.interop.connectors.run 'headers'    # those whose names have the word
    .venv/bin/python -m tests.interop.connectors.run --failed     # shows only what is not as expected
    .venv/bin/python -m tests.interop.connectors.run --results F  # keeps what came in F; a next run does what F lacks

The table has a line per scenario: same (both give the same rows), refused (both refuse), differs (as documented), and
WRONG with what was expected and what came.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.spark import peers
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.connectors.catalog import SCENARIOS
from tests.interop.connectors.scenario import Observation, Outcome, Refused, Rows, Scenario
from tests.java_options import JVM_VARIABLES, QUICK_JVM, options_of_drivers

ROOT = Path(__file__).parents[3]
THREADS = 2
OURS = "kafkaraw"
THEIRS = "kafka"
CONNECTORS = (THEIRS, OURS)

Found = dict[str, Any]
Pair = tuple[str, str]


def outcomes(servers: str, pairs: Sequence[Pair], scratch: Path, threads: int = THREADS) -> Iterator[Found]:
    """What came of scenarios, named beside a connector each, as `perform` prints it, one by one.

    Raises:
        bench.spark.peers.FetchError: Spark's own connector cannot be had.
    """
    site = next(peers.python().parents[1].glob("lib/python*/site-packages"))
    jars = [str(jar) for jar in peers.jars()]
    asked = {"servers": servers, "jars": jars, "asked": list(pairs), "scratch": str(scratch), "threads": threads}
    ours = ("PYSPARK_", "SPARK_", "PYTHON")
    environ = {name: text for name, text in os.environ.items() if not name.startswith(ours) or name in JVM_VARIABLES}
    # Our Python and packages, with another Spark before the one that is installed.
    environ |= {
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
    }
    drivers = JVM_VARIABLES[0]
    if environ.get(drivers, "").startswith(" ".join(QUICK_JVM)):  # in tests: another Spark has another file of classes
        with suppress(OSError, RuntimeError, subprocess.TimeoutExpired):
            environ[drivers] = options_of_drivers(site / "pyspark", peers.python().parents[1], environ)
    command = [sys.executable, "-m", "tests.interop.connectors.perform", json.dumps(asked)]
    with open(scratch / "errors", "w") as errors:
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        with process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("{"):
                        yield json.loads(line)
                process.wait(60)
            finally:
                process.kill()
    if process.returncode:
        raise RuntimeError((scratch / "errors").read_text()[-3000:])


def mistakes(scenario: Scenario, connector: str, found: Found) -> list[str]:
    """What is not as the scenario expects it of the connector."""
    if "fault" in found:
        return [found["fault"]]
    steps = [step for step in scenario.steps if isinstance(step, Observation)]
    expected = [_expected(step, connector) for step in steps]
    wrong = [
        f"step {number}: expected {shown(outcome)}, came {shown_found(came)}"
        for number, (outcome, came) in enumerate(zip(expected, found["outcomes"], strict=False), 1)
        if not _meets(outcome, came, connector)
    ]
    if not wrong and len(found["outcomes"]) < len(expected):
        return [f"only {len(found['outcomes'])} of {len(expected)} steps were done"]
    return wrong


def _expected(step: Observation, connector: str) -> Outcome:
    return step.ours if connector == OURS and step.ours is not None else step.expect


def _meets(expected: Outcome, came: Found, connector: str) -> bool:
    if isinstance(expected, Rows):
        return "rows" in came and sorted(_plain(expected.rows), key=repr) == came["rows"]
    return "refused" in came and _words(expected, connector).lower() in came["refused"].lower()


def _words(refused: Refused, connector: str) -> str:
    return refused.ours if connector == OURS or refused.theirs is None else refused.theirs


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def shown(outcome: Outcome) -> str:
    """An expectation in a line."""
    return str(_plain(outcome.rows)) if isinstance(outcome, Rows) else repr(outcome)


def shown_found(came: Found) -> str:
    """An outcome in a line or a few."""
    return str(came["rows"]) if "rows" in came else f"refused: {came['refused'][:1500]}"


def kind(scenario: Scenario) -> str:
    """What a scenario that went as expected is called in the table."""
    if scenario.differs:
        return "differs"
    observed = [step.expect for step in scenario.steps if isinstance(step, Observation)]
    return "refused" if all(isinstance(each, Refused) for each in observed) else "same"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run scenarios with both connectors on one Apache Kafka.")
    parser.add_argument("words", nargs="*", help="only scenarios whose names have one of these")
    parser.add_argument("--quick", action="store_true", help="only those that `make test` runs")
    parser.add_argument("--failed", action="store_true", help="show only what is not as expected")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--connector", choices=CONNECTORS, help="do what is missing with this one only")
    parser.add_argument("--results", type=Path, help="file of outcomes; those in it are not done again")
    arguments = parser.parse_args()
    chosen = [each for each in SCENARIOS if not arguments.words or any(word in each.name for word in arguments.words)]
    chosen = [each for each in chosen if each.quick or not arguments.quick]
    by_name = {each.name: each for each in chosen}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is stopped
    halves: dict[str, dict[str, Found]] = {name: {} for name in by_name}
    table: Counter[str] = Counter()

    def show(found: Found) -> None:
        both = halves.get(found["name"], {})
        both[found["connector"]] = found
        if len(both) == len(CONNECTORS) and found["name"] in by_name:
            result = _line(by_name[found["name"]], [both[each] for each in CONNECTORS])
            table[result[0]] += 1
            if result[0] == "WRONG" or not arguments.failed:
                print(f"{result[0]:8} {result[1]}", flush=True)

    if arguments.results and arguments.results.exists():
        for line in arguments.results.read_text().splitlines():
            show(json.loads(line))
    connectors = [arguments.connector] if arguments.connector else CONNECTORS
    missing = [(name, each) for each in connectors for name in by_name if each not in halves[name]]
    if missing:
        with tempfile.TemporaryDirectory() as scratch, ApacheKafka() as kafka:
            for found in outcomes(kafka.bootstrap_servers, missing, Path(scratch), arguments.threads):
                show(found)
                if arguments.results:
                    with arguments.results.open("a") as results:
                        results.write(json.dumps(found) + "\n")
    print(", ".join(f"{count} {name}" for name, count in sorted(table.items())), f"of {len(chosen)}")
    return int(table["WRONG"] > 0 or sum(table.values()) < len(chosen))


def _line(scenario: Scenario, both: list[Found]) -> tuple[str, str]:
    times = ", ".join(f"{each['connector']} {each['seconds']} s" for each in both)
    about = f"{scenario.name} ({times})"
    wrong = [
        f"\n    {each['connector']}: {text}" for each in both for text in mistakes(scenario, each["connector"], each)
    ]
    if wrong:
        return "WRONG", about + "".join(wrong)
    return kind(scenario), about


if __name__ == "__main__":
    sys.exit(main())
