"""Spark jobs with format "kafkaraw" and with Spark's own connector, on the same topics, in one run.

`make bench-spark` runs it. Spark's own connector runs on the Spark that it was released for, in a virtual environment
of its own, with its jars from Maven (`peers.py`). Start at `rows.py`: what is measured, and what must come out.
"""
