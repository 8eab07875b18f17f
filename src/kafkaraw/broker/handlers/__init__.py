"""The request handlers: one file for each API, which `@handles` registers.

A file holds the handler, and the authorization in front of it. It returns a `Reply`: a response, one that comes later
(long poll), no reply for a Produce with acks=0, or a connection to close. Start at `registration.handles`.
"""
