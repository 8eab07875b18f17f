"""The producer's decisions, pure: when to send each sealed batch to which broker, and its outcome.

Start at `machine.py`. `batches.py` keeps the order of each partition's batches, makes the requests and
reports outcomes; `failures.py` decides what follows an error response.
"""
