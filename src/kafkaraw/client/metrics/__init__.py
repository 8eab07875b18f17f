"""What clients count, under Java's names, and how Prometheus is given it.

Start at `client_metrics.py`.
"""
