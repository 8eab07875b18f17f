"""The options of a DataFrame: where to start and to end, and which topics. Pure, except for reading certificates.

Start at `parsing.py`.
"""
