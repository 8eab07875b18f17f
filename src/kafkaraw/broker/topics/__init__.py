"""Which topics there are: creating them, placing their replicas, growing them, writing them down.

Start at `catalog.py`.
"""
