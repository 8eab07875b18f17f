"""Faults that are planted into the process under attack, to see that the harness finds them.

`python -m tests.fuzz.live.planted FAULT broker ...` is `kafkaraw broker ...` with the fault;
`python -m tests.fuzz.live.planted FAULT tests.fuzz.live.victim` is that module with it. Nothing here is used otherwise.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable
from typing import Any

_kept: list[object] = []


def leak_descriptors() -> None:
    """Each lost connection leaves a descriptor behind."""
    from kafkaraw.broker.connection import BrokerConnection

    lost = BrokerConnection.link_lost

    def link_lost(self: Any, error: Any) -> None:
        _kept.append(os.open("/dev/null", os.O_RDONLY))
        lost(self, error)

    BrokerConnection.link_lost = link_lost  # type: ignore[method-assign]


def keep_memory() -> None:
    """Each request leaves 256 KiB behind."""
    from kafkaraw.broker.connection import BrokerConnection

    received = BrokerConnection.frame_received

    def frame_received(self: Any, frame: Any) -> None:
        _kept.append(os.urandom(1 << 18))
        received(self, frame)

    BrokerConnection.frame_received = frame_received  # type: ignore[method-assign]


def stall() -> None:
    """A connection that ends with an error stops the loop for 3 seconds, once."""
    from kafkaraw.broker.connection import BrokerConnection

    lost = BrokerConnection.link_lost

    def link_lost(self: Any, error: Any) -> None:
        if error is not None and not _kept:
            _kept.append(error)
            time.sleep(3)
        lost(self, error)

    BrokerConnection.link_lost = link_lost  # type: ignore[method-assign]


def corrupt_records() -> None:
    """Every tenth batch that is appended has one bit changed."""
    from kafkaraw.broker.log.partition_log import PartitionLog

    append = PartitionLog.append

    def appended(self: Any, batch: memoryview, header: Any) -> None:
        _kept.append(None)
        if len(_kept) % 10 == 0:
            changed = bytearray(batch)
            changed[-1] ^= 1
            batch = memoryview(changed)
        append(self, batch, header)

    PartitionLog.append = appended  # type: ignore[method-assign]


def end_on_garbage() -> None:
    """A frame that makes no sense ends the process."""
    from kafkaraw.broker.connection import BrokerConnection

    lost = BrokerConnection.link_lost

    def link_lost(self: Any, error: Any) -> None:
        if error is not None:
            os._exit(3)
        lost(self, error)

    BrokerConnection.link_lost = link_lost  # type: ignore[method-assign]


def raise_bare_errors() -> None:
    """An admin client's call that fails raises an IndexError."""
    from kafkaraw import Admin, KafkaError

    list_topics = Admin.list_topics

    def listed(self: Any, **options: Any) -> Any:
        try:
            return list_topics(self, **options)
        except KafkaError as error:
            raise IndexError("planted") from error

    Admin.list_topics = listed  # type: ignore[method-assign]


def hang() -> None:
    """An admin client's call that failed waits for ever."""
    from kafkaraw import Admin, KafkaError

    list_topics = Admin.list_topics

    def listed(self: Any, **options: Any) -> Any:
        try:
            return list_topics(self, **options)
        except KafkaError:
            while True:
                time.sleep(1)

    Admin.list_topics = listed  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "leak-descriptors": leak_descriptors,
    "keep-memory": keep_memory,
    "stall": stall,
    "corrupt-records": corrupt_records,
    "end-on-garbage": end_on_garbage,
    "raise-bare-errors": raise_bare_errors,
    "hang": hang,
}


def main() -> None:
    FAULTS[sys.argv[1]]()
    if sys.argv[2] == "broker":
        sys.argv = ["kafkaraw", *sys.argv[2:]]
        runpy.run_module("kafkaraw", run_name="__main__")
    else:
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
