"""What clients count, under Java's names.

Start at `client_metrics.py`; `kafkaraw.metrics` exports it to Prometheus.
"""
