"""Metrics and logs of this machine, aggregated for each minute, and alerts."""
