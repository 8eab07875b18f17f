"""SASL: the mechanisms, one file each with the client's and the broker's half, and the client's conversation.

Pure: nonces and tokens are passed in, bytes come out. Start at `mechanism` for what a mechanism is, and at
`conversation` for how a client logs in. A mechanism is one file and one line in each of the tables that choose it
(`client/network/security.py`, `broker/security/listener_security.py`).
"""
