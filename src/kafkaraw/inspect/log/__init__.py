"""Read log directories without a broker: dump files, list partitions, verify them, repair them.

These modules open files; the formats are in `core.log`. Start at `dump.dump`, `directory.scan`, `verify.verify` and
`repair.plan`. Only `repair` changes anything.
"""
