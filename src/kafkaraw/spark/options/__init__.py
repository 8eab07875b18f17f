"""What a user may say of a DataFrame: options, where to start and to end, and which topics. Pure, but for certificates.

Start at `parsing.py`.
"""
