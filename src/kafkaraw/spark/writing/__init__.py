"""The work of the sink: tasks write rows to Kafka, at least once or in transactions that the driver commits or aborts.

Start at `task.py`, then `exactly_once.py`.
"""
