"""Structures that travel inside bytes fields and records: group protocols, control records, the coordinators' topics.

One module per place where they are found. In a coordinator's topic the key begins with the record type that `@data`
names; `inspect.embedded` opens such records.
"""
