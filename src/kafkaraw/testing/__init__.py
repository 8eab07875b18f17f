"""What tests use, ours and our users': time that jumps, networks in memory.

Start at `virtual.run_virtual`, and as a user at the fixtures of `pytest_plugin`.
"""
