"""The work of the source: on the driver, look up, decide and cut into tasks; in a task, read a range.

Start at `stream_plan.py`, which decides where a micro-batch ends, and at `task.py`.
"""
