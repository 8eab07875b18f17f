"""Metrics that clients push to the broker (KIP-714): subscriptions, requests, and what was received.

Start at `instances.py` (requests) and `received.py` (metrics). Subscriptions are configurations of client metrics, in
`configs.dynamic_configs`.
"""
