"""The partition log: wire batches, verbatim, in segment files.

Start at `partition_log.PartitionLog`; below it `segment.Segment` (a log file and its sparse indexes),
`log_loader.LogLoader` (opening, recovery), `producer_snapshots.ProducerSnapshots` and `storage.LogStorage`: what a file
system must offer. `file_storage` offers it in a directory and `memory_storage` in memory, both over `descriptor_file`.
Nothing here knows about requests, topics or clients.
"""
