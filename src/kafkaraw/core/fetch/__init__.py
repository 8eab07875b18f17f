"""The decisions of reading: where a consumer is in each partition, what to ask which broker, what answers mean. Pure.

Start at `subscription_state.py` for positions, and at `fetcher.py` for requests.
"""
