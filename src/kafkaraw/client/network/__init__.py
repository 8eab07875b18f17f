"""Finding brokers, connecting to them, and sending requests: what every client does, whatever it asks.

Nothing here knows what a record or a group is. Start at `engine.py`.
"""
