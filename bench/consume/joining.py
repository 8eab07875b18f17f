"""From joining a group to the first record: what a service waits for when it starts. The worker process, and its rows.

`python -m bench.consume.joining WHO PROTOCOL SERVERS TOPIC` prints one line of JSON. Imports come before the watch is
started; making the client, finding the cluster, joining and the first Fetch are measured, in a process that has done
nothing else, as a service has when it starts. The broker's own wait for more members is switched off.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from typing import Final

SILENCE_SECONDS_MAX: Final = 30.0
NO_WAIT: Final = {"group.initial.rebalance.delay.ms": "0"}
PROTOCOLS: Final = {"join classic": "classic", "join KIP-848": "consumer"}

Join = Callable[[str, str, str], None]


def ours(protocol: str, servers: str, topic: str) -> None:
    """kafkaraw: subscribe, and the first record."""
    from kafkaraw import Consumer

    group = uuid.uuid4().hex
    consumer = Consumer(
        bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", group_protocol=protocol
    )
    consumer.subscribe([topic])
    assert consumer.poll(SILENCE_SECONDS_MAX, max_records=1)


def confluent(protocol: str, servers: str, topic: str) -> None:
    """confluent-kafka: subscribe, and the first message."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "group.protocol": protocol,
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(SILENCE_SECONDS_MAX)
    assert message is not None and message.error() is None, message


JOINERS: Final[dict[str, Join]] = {"kafkaraw": ours, "confluent": confluent}


def main(who: str, protocol: str, servers: str, topic: str) -> None:
    """Join once and print how long it took; the process then ends without ado, for leaving is not measured."""
    __import__("kafkaraw.client.blocking.consumer" if who == "kafkaraw" else "confluent_kafka")
    wall, cpu = time.perf_counter(), time.process_time()
    JOINERS[who](protocol, servers, topic)
    measured = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps(measured), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
