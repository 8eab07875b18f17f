"""Sends or reads a record, and prints which functions of kafkaraw ran: `traced_client.py SERVERS send|poll`.

`test_architecture.py` runs it in a process of its own. The client is warm when the trace begins: it is connected, and
the codecs of the messages are compiled.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from types import FrameType

import kafkaraw
from kafkaraw import Consumer, Producer, TopicPartition

PACKAGE = str(Path(kafkaraw.__file__).parent) + "/"
WARM_UP = 3
seen: list[tuple[str, str]] = []
tracing = threading.Event()


def profile(frame: FrameType, event: str, _argument: object) -> None:
    if event in ("call", "return") and tracing.is_set() and frame.f_code.co_filename.startswith(PACKAGE):
        seen.append((frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_code.co_qualname))


def send(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(WARM_UP):
            producer.send("walks", b"sent", key=b"k").result(timeout=10)
        tracing.set()
        producer.send("walks", b"sent", key=b"k").result(timeout=10)
        tracing.clear()


def poll(servers: str) -> None:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("walks", 0)])
        with Producer(bootstrap_servers=servers) as producer:
            for _ in range(WARM_UP):
                producer.send("walks", b"sent", key=b"k").result(timeout=10)
                assert consumer.poll(timeout=10)
        print("warm", flush=True)
        tracing.set()
        read = [record.value for batch in consumer.poll(timeout=30).values() for record in batch]
        tracing.clear()
        assert read == [b"read"], read


if __name__ == "__main__":
    threading.setprofile(profile)
    sys.setprofile(profile)
    {"send": send, "poll": poll}[sys.argv[2]](sys.argv[1])
    sys.setprofile(None)
    print(json.dumps(seen))
