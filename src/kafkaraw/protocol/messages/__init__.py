"""One module per API, named after it, with its request and its response in all their versions.

Kafka has one JSON file per message, and the broker has one handler file per API. A reader looks for a message by the
name of its API: CreateTopics is in `messages/create_topics.py`, its handler in `broker/handlers/create_topics.py`. So
short APIs, such as Heartbeat, have a file of their own, too. Modules are imported on first use (see `protocol.apis`): a
client loads only the APIs that it sends, and importing this package imports none of them.
"""
