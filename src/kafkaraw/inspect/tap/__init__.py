"""A tap: a proxy in front of each broker of a cluster, which shows what clients and brokers say to each other.

The only part of `inspect` that opens sockets. Start at `proxy.Tap`. `passage` is the way of the bytes, `addresses`
rewrites the addresses that brokers send, `injection` makes faults happen, `lines` and `summary` are what a terminal
shows. Payloads are passed on without being decoded.
"""
