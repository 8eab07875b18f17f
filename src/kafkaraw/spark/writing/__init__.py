"""What stands behind the sink: a task's rows to Kafka, at least once or in transactions that the driver ends.

Start at `task.py`, then `exactly_once.py`.
"""
