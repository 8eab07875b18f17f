"""Membership of a consumer group: joining, callbacks, positions committed.

Decisions are in `core/group`. Start at `group.py`.
"""
