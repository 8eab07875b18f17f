"""What a consumer decides about fetching: where each partition stands, what to ask next, what an answer means. Pure.

Start at `fetcher.py`; `positions.py` is the state of one partition, `reactions.py` the table of error codes.
"""
