"""Share groups without I/O (KIP-932): the states of records, and what is stored about ranges of them.

`record_states` has the states and their transitions, `state_batches` combines what was written about ranges of records.
Start at `record_states`.
"""
