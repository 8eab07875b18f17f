"""Tools for tests, for this package's own and for its users': virtual time, networks in memory.

Start at `virtual.run_virtual`; users start at the fixtures of `pytest_plugin`.
"""
