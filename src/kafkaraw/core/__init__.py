"""Decisions without I/O: state machines and tables that know no socket, clock, thread or randomness of their own.

A machine answers four questions: `receive(event, now_ms)`, `actions()`, `deadline_ms()`, `tick(now_ms)`. Times and
random sources are passed in, so that everything here can be tested as plain values and run on virtual time.
"""
