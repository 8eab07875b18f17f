"""Clients of kafka-python in the process of a test: they are closed at its end, and the sockets that they leave open.

`close()` of kafka-python 3.0 does not wait for requests that are about to be written: it cancels the task that would
write them and then close their socket. Such a socket stays open until the garbage collector finds it, in whatever test
runs by then, and its warning is that test's error. Start at `closing_client`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CLOSE_SECONDS_MAX = 20.0


@contextmanager
def closing_client(client: Any) -> Iterator[Any]:
    """Close a KafkaConsumer, KafkaProducer or KafkaAdminClient at the end, also of a test that fails."""
    try:
        yield client
    finally:
        close_client(client)


def close_client(client: Any) -> None:
    """Close a KafkaConsumer, KafkaProducer or KafkaAdminClient, and its sockets."""
    sender = getattr(client, "_sender", None)
    network = client._client if sender is None else sender._client
    if sender is None:
        client.close()
    else:
        client.close(CLOSE_SECONDS_MAX)
    for connection in list(network._manager._conns.values()):
        if connection.transport is not None and connection.transport._sock is not None:
            connection.transport._sock.close()
