"""Client quotas: the configured quotas (`table`), measured rates (`rates`), and throttle times (`throttling`).

This package neither sends nor waits: `broker.connection` mutes a connection for the throttle time (KIP-219).
"""
