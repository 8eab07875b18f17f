"""The producer's decisions, pure: which sealed batch goes where and when, and what became of it.

Start at `machine.py`; the order of one partition's batches is kept in `partition.py`, what senders are told in
`ledger.py`, and what follows from a broker's refusal stands in `outcomes.py` and `remedies.py`.
"""
