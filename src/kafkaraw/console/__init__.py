"""The web console: pages about clusters, topics, messages, groups and schemas, rendered on the server.

`settings` says what it shows and who may see it, `app` has the routes and makes an ASGI application, `serving` runs it
on a socket. `access` stands in front of every page: hosts, logins, tokens against forged requests, headers. Must import
only public names of the other packages, so that it proves them, and must treat everything that comes from a cluster as
hostile text. Start at `app`.
"""

from __future__ import annotations
