"""A consumer worker for services: handlers for records, with concurrency, retries, dead letters and commits.

    worker = Worker(bootstrap_servers="localhost:9092", group_id="billing", concurrency=50)

    @worker.handle("orders", dead_letter_topic="orders.dead")
    async def bill(record): ...

    worker.run()

`schedule.py`, `share_schedule.py`, `failures.py` and `letters.py` decide, without I/O: which records may run, what may
be committed or acknowledged, what a failure means. `consumer_service.py` and `share_service.py` drive the clients.
Start at `worker.py`; users start at `docs/how-to/run-a-worker.md`.
"""

from kafkaraw.client.interceptors import ProducerRecord as ProducerRecord
from kafkaraw.errors import HandlerError as HandlerError
from kafkaraw.worker.settings import HandlerSpec as HandlerSpec
from kafkaraw.worker.settings import Retries as Retries
from kafkaraw.worker.worker import Worker as Worker
