"""The files of a log directory, as Apache Kafka 4.3 writes them: bytes to values and back, and what recovery decides.

The package lies in `core` because it is pure and both sides of the layer above use it: the broker, which writes these
files, and the tools of `kafkaraw.logs`, which read directories without a broker. It opens no file: callers pass bytes
or memoryviews, and names only for errors. Start at `names` (which file is what), `batches` (log segments), `indexes`
and `recovery` (what Kafka's LogLoader does with a segment). `DamagedFileError` is the one error of damaged input.
"""
