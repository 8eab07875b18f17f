"""The partition log: wire batches, verbatim, in segment files.

Start at `partition_log.PartitionLog`; below it `segment.Segment` (one file), `batch_index.BatchIndex` (where the
batches of a file are) and `storage.LogStorage`: what a file system must offer. `file_storage` offers it in a directory
and `memory_storage` in memory, both over `descriptor_file`. Nothing here knows about requests, topics or clients.
"""
