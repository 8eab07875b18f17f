"""Internal topics in which coordinators keep their state, and who hosts a coordinator.

Used by `groups` and `transactions`. Start at `replicated.py`.
"""
