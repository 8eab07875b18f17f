"""Finding brokers, connecting to them, and sending requests: the layer that all clients share.

Nothing here knows what a record or a group is. Start at `engine.py`.
"""
