"""Transactions in the broker: the coordinator's decisions, its log, and the markers that it has written.

`states` says what a transaction is and how it may change, `coordinator` decides, `state_log` keeps what was decided in
`__transaction_state`. None of them knows of requests or of a network. Start at `coordinator`.
Source: KIP-98, KIP-360, KIP-588, KIP-890.
"""
