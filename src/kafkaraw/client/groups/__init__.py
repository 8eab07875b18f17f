"""A consumer and its group: membership, rebalance listener, committed offsets.

The state machines are in `core/group`; `membership` drives them, `reconciliation` carries a change of the assignment
out. `progress` commits, in the order of `commit_queue`, by the requests of `commits`. Start at `group.py`.
"""
