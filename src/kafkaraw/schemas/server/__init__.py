"""A schema registry to run, with Confluent's REST API and its topic `_schemas`.

`records` is the format of the topic, `state` what its records make, `service` the operations, `app` the REST API;
`topic` reads and writes the topic, `elector` elects the primary of several instances. `EmbeddedRegistry` and
`kafkaraw registry` run it; `create_app` gives the REST API to another ASGI server. Start at `service`.
"""

from __future__ import annotations
