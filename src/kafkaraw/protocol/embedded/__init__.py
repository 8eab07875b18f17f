"""Structures that travel inside bytes fields and records: group protocols, control records, the coordinators' topics.

One module per place where they are found; `records.py` says which structure a record of an internal topic holds.
"""
