"""From a Fetch to the records in the user's hand.

Decisions are in `core/fetch`; nothing here knows of groups. Start at `reading.py`.
"""
