"""ACLs: the entries and their index (`rules`), the authorization decision (`authorizer`), their file (`stored`).

Pure: no network, clock or storage. What each API checks is in its file in `broker.handlers`.
"""
