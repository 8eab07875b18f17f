"""Read log directories without a broker: dump files, list partitions, verify them, repair them.

These modules open files; the formats are in `core.log`. Start at `dump.dump`, `directory.summaries`,
`verify.examine` and `repair.plan`. Only `repair` changes anything.
"""
