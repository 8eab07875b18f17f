"""Copies of topics in other clusters, in directories and in files; and whether a copy is complete.

`flow.Flow` copies the topics of one cluster to another one, batch by batch, from the settings in `interfaces`;
`running.MirrorRun` does so with everything beside it. `snapshot.take_snapshot` copies a slice with its offsets into a
directory of the embedded broker, `backups` keeps topics in files; both read with `slices` and `cluster_facts`.
`verification.verify_topic` compares a topic with its copy.
"""
