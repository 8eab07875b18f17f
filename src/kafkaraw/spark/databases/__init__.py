"""Tables of databases: the formats "kafkaraw.postgresql", "kafkaraw.sqlite" and "kafkaraw.duckdb".

Tasks stage rows, which no reader sees; the driver moves them into the table, together with the number of the batch, in
one transaction. Start at `sink`, then `commits`.
"""
