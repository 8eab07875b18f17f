"""`Producer`, `Consumer`, `Admin`: the asyncio clients for code that blocks, each in a module of its own.

The same objects, run on the one loop thread of the process. A call crosses threads once; sending and reading records
cross none: records are collected into batches, and batches decoded, on the caller's thread.

What differs: producers and admins may be used by many threads, consumers by one at a time. Nothing of this may be
called on the loop thread (in a ticket's callback): it would wait for itself, and raises `UsageError` instead.
Nothing is imported here: who reads records does not pay for what sends them.
"""
