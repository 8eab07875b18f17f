"""Share groups without I/O (KIP-932): the states of records, the share partition of a leader, and its stored state.

`share_partition` decides which member may have which record, `in_flight` has the records in flight, `record_states`
their states and transitions, and `state_batches` what is stored about ranges of records. Start at `share_partition`.
"""
