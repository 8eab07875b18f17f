"""`Producer`, `Consumer`, `Admin`: the blocking clients, each in a module of its own.

They run the asyncio clients on the one loop thread of the process. A call crosses threads once. Sending and reading
records do not cross threads: the caller's thread appends records to batches, and decodes batches.

Many threads may use a producer or an admin client; one thread at a time may use a consumer. A call on the loop thread
(in a ticket's callback) would wait for itself, so it raises `UsageError`. This package imports no module by itself, so
that a program that only reads records does not load the producer.
"""
