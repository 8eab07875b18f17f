"""What a run needs to know of topics, expectations and dead letters: that of this package, with real brokers.

Must not contain rules of its own. `KAFKA` is all there is.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.pipelines.dead_letters.flows import dead_letter_flows
from kafkaraw.pipelines.judging import judged
from kafkaraw.pipelines.running.targets import TopicFunctions
from kafkaraw.pipelines.topic_admin import create_topics, topic_ids
from kafkaraw.pipelines.topics import read_topic, sink_options, written_rows

KAFKA: Final = TopicFunctions(
    read_topic=read_topic,
    judge=judged,
    rows_of=written_rows,
    sink_options=sink_options,
    dead_letter_flows=dead_letter_flows,
    create_topics=create_topics,
    topic_ids=topic_ids,
)
"""Topics of the brokers that the pipeline's settings name."""
