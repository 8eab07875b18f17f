"""Start Spark on this machine: its settings, its Java, the Python of its processes, and pipelines.

Does not depend on Kafka. Start at `session_builder.py`.
"""
