"""Runs kill plans of the exactly-once sink by their seeds, and prints what became of each; exits with 1 if one fails.

python -m tests.spark.run_sink_plans 0-6,33            on an embedded cluster of three
python -m tests.spark.run_sink_plans 0-9 --apache      on Apache Kafka
python -m tests.spark.run_sink_plans 33 --few-epochs   the epochs of producer ids are used up soon
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.spark import session
from tests.interop.apache_kafka import ApacheKafka
from tests.spark.kafka import Kafka
from tests.spark.sink_mishaps import few_epochs
from tests.spark.sink_plan import drawn
from tests.spark.sink_run import SinkRun, problem_of


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("seeds", type=_seeds)
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--few-epochs", action="store_true")
    given = parser.parse_args(arguments)
    plans = list(dict.fromkeys(drawn(seed, embedded=not given.apache) for seed in given.seeds))
    failed = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sink-plans-")))
        if given.few_epochs:
            stack.enter_context(few_epochs())
        cluster = None if given.apache else EmbeddedCluster(3, data_dir=folder / "nodes")
        servers = stack.enter_context(cluster or ApacheKafka()).bootstrap_servers
        admin = stack.enter_context(Admin(bootstrap_servers=servers))
        kafka = Kafka(servers, admin, stack.enter_context(Producer(bootstrap_servers=servers, linger_ms=0)))
        spark = session("sink plans", conf={"spark.sql.warehouse.dir": str(folder / "warehouse")})
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")
        folders = [folder / str(number) for number in range(len(plans))]
        for each in folders:
            each.mkdir()
        for plan, outcome in SinkRun(spark, kafka, cluster, folders, plans).outcomes().items():
            problem = problem_of(plan, outcome)
            failed += bool(problem)
            print(f"{plan}: {problem or 'as it must be'}", flush=True)
    return int(failed > 0)


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        seeds += range(int(low), int(high or low) + 1)
    return seeds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
