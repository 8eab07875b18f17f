"""What the coordinators of groups and of transactions have in common: internal topics, logs, hosting on nodes.

Start at `hosting.py`; `internal_topic.py` creates the topics, `coordinator_log.py` appends to them and reads them, and
`timers.py` has the timeouts of coordinators.
Source: org.apache.kafka.coordinator.common.runtime.
"""
