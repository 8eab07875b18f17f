"""The producer's decisions, pure: when to send each sealed batch to which broker, and its outcome.

Start at `machine.py`. `partition.py` keeps the order of one partition's batches, `ledger.py` reports outcomes, and
`outcomes.py` and `remedies.py` decide what follows an error response.
"""
