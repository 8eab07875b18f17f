"""One module per API, named after it, with its request and its response in all their versions.

Modules are imported on first use (see `protocol.apis`); importing this package imports none of them.
"""
