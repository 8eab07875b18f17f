"""Metrics that clients push to brokers (KIP-714): when a client pushes, and the bytes that both ends exchange.

Start at `reporter.py` (the client's decisions) and `otlp.py` (the bytes).
"""
