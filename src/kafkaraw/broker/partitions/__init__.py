"""Replicas of partitions: appending, reading, replication, leader election, and producer state.

`log` stores the bytes. Start at `partition.py`.
"""
