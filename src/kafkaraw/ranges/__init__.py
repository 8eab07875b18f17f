"""Ranges of offsets as Arrow batches: what Spark's tasks and data sets read.

Start at `planning.py`, which cuts ranges, `reading.py`, which fetches them, and `rows.py`, which makes columns.
"""
