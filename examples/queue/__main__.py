"""A work queue with unequal work, in both kinds of groups: how long does it take until all is done?

    python -m examples.queue                                        # on an embedded broker
    BOOTSTRAP_SERVERS=localhost:9092 python -m examples.queue       # on a cluster with share groups (Kafka 4.2)

Four workers do jobs, one at a time each; every tenth job takes a hundred times as long as the others. In a consumer
group, four workers need four partitions. Each worker has the jobs of one of them, and two partitions happen to have all
long jobs: two workers are idle in the end. In a share group, the four workers share the jobs of one partition, and a
worker takes the next job when it is free. A job that fails is tried again, in the share group by any worker; a job that
no worker can do becomes a dead letter. Start at `run`.
"""

import json
import logging
import os
import sys
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field

from kafkaraw import Admin, ConfigResource, ConfigResourceType, NewTopic, Producer, Record
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.worker import Retries, Worker

WORKERS = 4
PARTITIONS = {"consumer": WORKERS, "share": 1}
"""By type of the group. If a share group had as many partitions as members, each member would read one of them."""
JOBS = 60
SHORT_MS, LONG_MS = 10, 1_000
WAIT_S_MAX = 60.0
QUICK = {"group.initial.rebalance.delay.ms": 0}
"""Properties of the embedded broker: a consumer group forms at once."""


@dataclass
class Log:
    """What one worker has done: ids of jobs, and when the first one began and the last one ended, in seconds."""

    done: list[int] = field(default_factory=list)
    began_s: float = 0.0
    ended_s: float = 0.0


@dataclass(frozen=True)
class Run:
    """What the workers of one group have done.

    Attributes:
        logs: one of each worker.
        dead: the number of dead letters.
    """

    logs: list[Log]
    dead: int

    @property
    def done(self) -> list[int]:
        """The ids of the jobs that were done, in order."""
        return sorted(job for log in self.logs for job in log.done)

    @property
    def seconds(self) -> float:
        """From the beginning of the first job to the end of the last one."""
        busy = [log for log in self.logs if log.done]
        return max(log.ended_s for log in busy) - min(log.began_s for log in busy)


def run(servers: str, group_type: str) -> Run:
    """Let the workers of a group do all jobs."""
    topic = f"jobs-{uuid.uuid4().hex[:8]}"
    fill(servers, topic, group_type)
    logs, tried = [Log() for _ in range(WORKERS)], set[int]()
    workers = [make_worker(servers, topic, group_type, log, tried) for log in logs]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    deadline, dead = time.monotonic() + WAIT_S_MAX, 0
    while (sum(len(log.done) for log in logs) < JOBS or not dead) and time.monotonic() < deadline:
        time.sleep(0.05)
        dead = sum(dead_letters(worker) for worker in workers)
    for worker in workers:
        worker.stop()
    for thread in threads:
        thread.join()
    return Run(logs, dead)


def make_worker(servers: str, topic: str, group_type: str, log: Log, tried: set[int]) -> Worker:
    """Return a worker that does one job at a time."""
    start = {} if group_type == "share" else {"auto_offset_reset": "earliest"}
    worker = Worker(bootstrap_servers=servers, group_id=topic, group_type=group_type, concurrency=1, **start)

    @worker.handle(
        topic,
        value_deserializer=json.loads,
        retries=Retries(attempts=3, backoff_ms=20, on=ConnectionError),
        dead_letter_topic=f"{topic}.dead",
    )
    def do(record: Record) -> None:
        job: dict[str, int] = record.value  # what json.loads has returned
        log.began_s = log.began_s or time.monotonic()
        if job["id"] % 10 == 9 and job["id"] not in tried:
            tried.add(job["id"])
            raise ConnectionError("the service is busy")
        time.sleep(job["ms"] / 1000)
        log.done.append(job["id"])
        log.ended_s = time.monotonic()

    return worker


def dead_letters(worker: Worker) -> int:
    """Return the number of jobs that a worker could not do."""
    handlers: dict[str, dict[str, dict[str, int]]] = worker.metrics()["handlers"]  # type: ignore[assignment]
    return handlers["do"]["reactions"].get("dead letter", 0)


def fill(servers: str, topic: str, group_type: str) -> None:
    """Create the topics, and send the jobs: every tenth one is long, and one is no JSON."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS[group_type]), NewTopic(f"{topic}.dead", 1)])
        if group_type == "share":
            group = ConfigResource(ConfigResourceType.GROUP, topic)
            admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(JOBS):
            job = {"id": number, "ms": SHORT_MS if number % 10 else LONG_MS}
            producer.send(topic, json.dumps(job).encode(), partition=number % PARTITIONS[group_type])
        producer.send(topic, b"no JSON", partition=0)


def main() -> int:
    """Run the example; return 0 if every job was done in both groups, and the invalid one is a dead letter."""
    logging.getLogger("kafkaraw.worker").setLevel(logging.CRITICAL)  # failures of jobs are part of the example
    with ExitStack() as stack:
        servers = os.environ.get("BOOTSTRAP_SERVERS")
        if servers is None:
            servers = stack.enter_context(EmbeddedBroker(properties=QUICK)).bootstrap_servers
        runs = {group_type: run(servers, group_type) for group_type in ("consumer", "share")}
    for group_type, each in runs.items():
        counts = ", ".join(str(len(log.done)) for log in each.logs)
        print(
            f"{group_type} group: {len(set(each.done))} of {JOBS} jobs done in {each.seconds:.1f} s, by the workers: "
            f"{counts}; {each.dead} dead letter"
        )
    is_complete = all(set(each.done) == set(range(JOBS)) and each.dead for each in runs.values())
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
