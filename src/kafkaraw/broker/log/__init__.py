"""The partition log: wire batches, verbatim, in segment files or in memory.

Start at `partition_log.PartitionLog`; below it `segment.Segment` (one file), `batch_index.BatchIndex` (where the
batches of a file are) and `storage.LogStorage` (what a file system must offer, in `file_storage` and `memory_storage`).
Nothing here knows about requests, topics or clients.
"""
