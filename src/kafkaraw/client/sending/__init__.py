"""From `send()` to an acknowledged record. Decisions are in `core/producer`; here they meet the network and the user.

In the order in which a record passes: `accumulator.py`, `sender.py`; `producer_core.py` owns both. Start there.
"""
