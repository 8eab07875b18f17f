"""Copies of topics in other clusters: whether a copy is complete.

`comparison` compares two sequences of records, without I/O; `verification` reads both topics and reports. Start at
`verification.verify_topic`.
"""
