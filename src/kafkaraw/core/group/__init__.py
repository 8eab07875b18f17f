"""Membership of consumer groups, without I/O.

`assignors/` says which member reads which partition; `subscription` is how classic members tell each other what they
want; `classic` and `modern` are the two membership protocols as machines: events in, actions out, time passed in.
"""
