"""The requests of a consumer, and waiting for records.

Decisions and positions are in `core/fetch`; nothing here knows of groups. Start at `reading.py`.
"""
