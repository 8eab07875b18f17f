"""Replicas of partitions: appending, reading, following, electing; what is remembered of producers.

Bytes on disk are in `log`. Start at `partition.py`.
"""
