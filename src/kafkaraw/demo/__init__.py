"""The demos: real data through Kafka and Spark, on this package's own client, broker and data source.

One demo so far: `flights`, the 336,776 flights that left New York in 2013. Start reading at `run.py`, which is the
whole story in order; the folder `pipeline` is the part to copy: `kafkaraw pipelines run` runs it, too.

Nothing but the command line imports this package.
"""
