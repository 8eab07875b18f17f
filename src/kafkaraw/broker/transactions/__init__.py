"""Transactions in the broker: the transaction coordinator, its log, and transaction markers.

`states` defines the states of a transactional id and their transitions, `coordinator` decides about requests, and
`state_log` stores the states in `__transaction_state`. They do not depend on requests or a network. Start at
`coordinator`.
Source: KIP-98, KIP-360, KIP-588, KIP-890.
"""
