"""Our consumer as a member in a process of its own; the twin of the other clients' in `group_members`, as a program."""

from __future__ import annotations

import logging
import sys

from kafkaraw import Consumer
from tests.interop.group_members import HEARTBEAT_MS, SESSION_MS, asked_to_leave, tell


def settings_of(strategy: str) -> dict[str, object]:
    """What makes a member of that strategy, or of the protocol in which the broker assigns."""
    if strategy == "KIP-848":
        return {"group_protocol": "consumer"}
    return {
        "partition_assignment_strategy": strategy,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "session_timeout_ms": SESSION_MS,
    }


def main(servers: str, group: str, topic: str, strategy: str) -> None:
    """Read the topic until asked to leave."""
    end, owned = asked_to_leave(), list[int]()
    tell(up=True)
    with Consumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        **settings_of(strategy),
    ) as consumer:
        consumer.subscribe([topic])
        while not end.is_set():
            batches = consumer.poll(0.05)
            now = sorted(partition.partition for partition in consumer.assignment())
            if now != owned:
                owned = now
                tell(owned=owned)
            for batch in batches.values():
                for record in batch:
                    tell(partition=record.partition, offset=record.offset)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    main(*sys.argv[1:])
