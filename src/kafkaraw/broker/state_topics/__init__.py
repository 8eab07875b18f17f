"""Internal topics in which coordinators store their state, and the hosting of coordinators on nodes.

Used by `groups` and `transactions`. Start at `replicated.py`.
"""
