"""From `send()` to an acknowledged record: batches on their way, promises, waiting, transactions.

Decisions are in `core/producer`; here they meet the network and the user. Start at `delivery.py`.
"""
