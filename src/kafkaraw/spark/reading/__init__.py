"""What stands behind the source: on the driver asking, deciding and cutting into tasks; in a task reading a range.

Start at `stream_plan.py`, which decides how far a micro-batch goes, and at `task.py`.
"""
