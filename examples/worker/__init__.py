"""A complete service that handles records of a topic: `python -m examples.worker`. Start at `__main__.py`."""
