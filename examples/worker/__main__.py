"""A service that writes an invoice for each order, with retries and dead letters.

    BOOTSTRAP_SERVERS=localhost:9092 python -m examples.worker

It needs the topics orders, invoices, orders.retry and orders.dead. It ends gracefully with SIGTERM or Ctrl-C, and
serves http://127.0.0.1:8080/healthz and /metrics.
"""

import asyncio
import json
import logging
import os

from kafkaraw import Record
from kafkaraw.worker import ProducerRecord, Retries, Worker

worker = Worker(
    bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
    group_id="billing",
    auto_offset_reset="earliest",
    concurrency=50,
    port=int(os.environ.get("PORT", "8080")),
)


@worker.handle(
    "orders",
    value_deserializer=json.loads,
    retries=Retries(attempts=5, backoff_ms=500, topic="orders.retry"),
    dead_letter_topic="orders.dead",
    timeout_ms=30_000,
)
async def bill(record: Record) -> ProducerRecord:
    """Return the invoice of an order; the order counts as processed when the broker has acknowledged the invoice."""
    order: dict[str, int] = record.value  # what json.loads has returned
    invoice = {"order": order["id"], "total": await price(order)}
    return ProducerRecord("invoices", json.dumps(invoice).encode(), key=record.key)


async def price(order: dict[str, int]) -> int:
    """Ask another service."""
    await asyncio.sleep(0.01)
    return 3 * order["amount"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    worker.run()
