"""Starting Spark on this machine: its settings, its Java, the Python of its processes, and pipelines.

Knows nothing of Kafka. Start at `session_builder.py`.
"""
