"""A work queue with unequal work, in a share group: `python -m examples.queue`. Start at `__main__.py`."""
