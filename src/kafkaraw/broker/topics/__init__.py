"""Topics: creation, replica placement, additional partitions, and their files.

Start at `catalog.py`.
"""
