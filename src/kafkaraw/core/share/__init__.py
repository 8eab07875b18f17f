"""Share groups without I/O (KIP-932).

For the broker: `share_partition` decides which member may have which record, `in_flight` has the records in flight,
`record_states` their states and transitions, and `state_batches` what is stored about ranges of records. For a member:
`member` is the membership, `acknowledgements` has its records, and `sessions` makes the requests to leaders.
"""
