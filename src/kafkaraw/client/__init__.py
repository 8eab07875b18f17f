"""The Kafka client: `AsyncProducer`, `AsyncConsumer`, `AsyncAdmin` and the blocking faces over the same objects.

Everything that waits is asyncio and goes through one `Engine` (`client/network/engine.py`), which owns the connections
and the view of the cluster. Start reading there, then at `consumer.py` or `producer.py`. Nothing here may import the
broker: the two meet as bytes.
"""
