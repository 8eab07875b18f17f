"""`discard`: end a producer as if its process had crashed, for tests and simulations.

A producer that is only garbage collected has not crashed: it delivers its records (see `client/sending/unclosed.py`).
"""

from __future__ import annotations

from kafkaraw.client.blocking import producer as blocking
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.producer import AsyncProducer, core_of
from kafkaraw.net.loop_thread import client_loop_thread


async def discard(producer: AsyncProducer) -> None:
    """Drop a producer's connections and all unsent records; report nothing, abort no transaction."""
    await core_of(producer).discard()


def discard_blocking(producer: Producer) -> None:
    """`discard` for the blocking face."""
    client_loop_thread().run(blocking.core_of(producer).discard())
