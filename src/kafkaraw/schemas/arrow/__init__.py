"""Typed Arrow columns from framed records.

A schema becomes a tree of `columns.Column` and, with the schema of the writer, a `program.Program`. `_decoding`
(compiled) or `plain_decoding` runs it over the buffers of a binary column. Nothing here asks a registry except through
the argument `registry`. Start at `decode`.
"""
