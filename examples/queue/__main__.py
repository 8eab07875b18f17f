"""A work queue: four workers share the jobs of one partition, of which some take fifty times as long as the others.

    python -m examples.queue                                        # on an embedded broker
    BOOTSTRAP_SERVERS=localhost:9092 python -m examples.queue       # on a cluster with share groups (Kafka 4.2)

In a consumer group, one member would read the partition, and every job would wait for the long ones before it. In a
share group, a worker acquires one job at a time. A job that fails is released, and delivered again to any worker; a job
that no worker can do is rejected, and its worker sends it to jobs.dead. Start at `work`.
"""

import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from kafkaraw import (
    AcknowledgeType,
    Admin,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareRecord,
)
from kafkaraw.broker import EmbeddedBroker

WORKERS = 4
JOBS = 60
SHORT_MS, LONG_MS = 10, 500
WAIT_S_MAX = 60.0


@dataclass(frozen=True)
class Queue:
    """Where the jobs are.

    Attributes:
        servers: of the brokers.
        topic: has the jobs, in one partition.
        group: the share group of the workers.
        dead: the topic of jobs that no worker can do.
    """

    servers: str
    topic: str
    group: str
    dead: str


@dataclass
class Log:
    """What one worker has done: ids of jobs, with the count of the delivery, and the time that they took."""

    done: list[tuple[int, int]] = field(default_factory=list)
    rejected: int = 0
    busy_s: float = 0.0


def work(queue: Queue, log: Log, is_over: Callable[[], bool]) -> None:
    """Do jobs, one at a time, until there are no more."""
    with (
        Producer(bootstrap_servers=queue.servers) as producer,
        ShareConsumer(
            bootstrap_servers=queue.servers,
            group_id=queue.group,
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit",
            max_poll_records=1,
        ) as consumer,
    ):
        consumer.subscribe([queue.topic])
        while not is_over():
            for batch in consumer.poll(timeout=0.2).values():
                for record in batch:
                    began = time.monotonic()
                    try:
                        do(record)
                    except OSError:
                        consumer.acknowledge(record, AcknowledgeType.RELEASE)
                    except ValueError:
                        producer.send(queue.dead, record.value).result(WAIT_S_MAX)  # before the record is gone
                        log.rejected += 1
                        consumer.acknowledge(record, AcknowledgeType.REJECT)
                    else:
                        log.done.append((json.loads(record.value or b"")["id"], record.delivery_count))
                        consumer.acknowledge(record)
                    log.busy_s += time.monotonic() - began


def do(record: ShareRecord) -> None:
    """Do a job.

    Raises:
        ValueError: it is no job.
        OSError: something that it needs was not there; it may be later.
    """
    job = json.loads(record.value or b"")
    if job["id"] % 10 == 9 and record.delivery_count == 1:
        raise ConnectionError("the service is busy")
    time.sleep(job["ms"] / 1000)


def fill(queue: Queue) -> None:
    """Create the topics, and send the jobs: every tenth one is long, and one is no JSON."""
    with Admin(bootstrap_servers=queue.servers) as admin:
        admin.create_topics([NewTopic(queue.topic, partitions=1), NewTopic(queue.dead, partitions=1)])
        group = ConfigResource(ConfigResourceType.GROUP, queue.group)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=queue.servers) as producer:
        for number in range(JOBS):
            job = {"id": number, "ms": SHORT_MS if number % 10 else LONG_MS}
            producer.send(queue.topic, json.dumps(job).encode())
        producer.send(queue.topic, b"no JSON")


def run(servers: str) -> list[Log]:
    """Let the workers do all jobs; return what each has done."""
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    queue = Queue(servers, topic=name, group=name, dead=f"{name}.dead")
    fill(queue)
    logs = [Log() for _ in range(WORKERS)]
    deadline = time.monotonic() + WAIT_S_MAX

    def is_over() -> bool:
        return sum(len(log.done) + log.rejected for log in logs) > JOBS or time.monotonic() > deadline

    workers = [threading.Thread(target=work, args=(queue, log, is_over)) for log in logs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return logs


def main() -> int:
    """Run the example; return 0 if every job was done, and the invalid one rejected."""
    with ExitStack() as stack:
        servers = os.environ.get("BOOTSTRAP_SERVERS")
        if servers is None:
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        began = time.monotonic()
        logs = run(servers)
        seconds = time.monotonic() - began
    for number, log in enumerate(logs):
        again = sum(count > 1 for _, count in log.done)
        print(f"worker {number}: {len(log.done)} jobs in {log.busy_s:.1f} s, {again} of them at the second delivery")
    done = sorted(number for log in logs for number, _ in log.done)
    rejected = sum(log.rejected for log in logs)
    print(f"{len(set(done))} of {JOBS} jobs done, {rejected} rejected, in {seconds:.1f} s")
    return 0 if set(done) == set(range(JOBS)) and rejected else 1


if __name__ == "__main__":
    sys.exit(main())
