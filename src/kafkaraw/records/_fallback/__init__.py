"""The hot path in plain Python: what runs where no C compiler was at hand.

Written for CPython: short varints come from a table or are decoded in place, bytes are built by `%` and `join`. It has
the same interface as the compiled modules (`records/interface.py`) and passes the same tests. Mechanism only: which
batch to send when is decided in `core`. Start at `open_batches.py` for writing, `reader.py` for
reading.
"""
