"""Topics as data sets of Arrow, which DuckDB, Polars, pandas and PyArrow scan.

Start at `dataset.py`; `pruning.py` decides what is fetched, and `scan.py` fetches it.
"""
