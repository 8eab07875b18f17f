"""Access control lists: entries and who they concern (`rules`), the decision (`authorizer`), their file (`stored`).

Pure: no network, clock or storage. What each API checks is in its file in `broker.handlers`.
"""
