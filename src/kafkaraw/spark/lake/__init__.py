"""Formats "kafkaraw.delta" and "kafkaraw.iceberg": lake tables without a JAR.

Start at `sink.py`, which Spark calls. Tasks write data files (`data_files`), the driver commits them in the table's own
log, together with the number of the micro-batch (`commits`). `delta` and `iceberg` say how each format does that;
`schemas` decides which columns fit, `batches` names files.
"""
