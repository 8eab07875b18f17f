"""One module per API, each with a function `handle(state, context, request)`; the table is in `handlers.table`.

A handler answers with a response, with a `Deferred` one (long polling), or with None when the client wants no answer.
It says no through error codes in its response; it raises `CloseConnection` where Kafka closes the connection instead.
Handlers work on `BrokerState` and know nothing of links, frames or correlation ids.
"""
