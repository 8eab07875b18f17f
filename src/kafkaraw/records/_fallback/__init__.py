"""The hot path in plain Python, for installations without a C compiler.

Written for CPython: short varints come from a table or are decoded in place, bytes are built by `%` and `join`. It has
the same interface as the compiled modules (`records/interface.py`) and passes the same tests. Mechanism only: `core`
decides which batch to send when. Start at `open_batches.py` for writing, `reader.py` for reading.
"""
