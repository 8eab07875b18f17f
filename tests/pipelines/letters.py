"""Dead letters for tests, and the topics of a pipeline that has them."""

from __future__ import annotations

import itertools
from pathlib import Path

from kafkaraw.light_classes import replace
from kafkaraw.pipelines.dead_letters.store import DeadLetters
from kafkaraw.pipelines.letters import Letter, headers_of, letter_of
from kafkaraw.pipelines.model import Pipeline, Settings
from kafkaraw.pipelines.topic_admin import create_topics

NAME = "sales"
_numbers = itertools.count()


class Topics:
    """The dead-letter and the replay topic of a pipeline."""

    def __init__(self, kafka, partitions: int = 1) -> None:
        self.kafka = kafka
        number = next(_numbers)
        self.dead = kafka.new_topic(partitions) if partitions > 1 else f"dead-{number}"
        self.replays = f"replays-{number}"
        self.name = f"sales-{number}"
        self.settings = Settings(self.dead, self.replays, self.name, kafka={"kafka.bootstrap.servers": kafka.servers})
        create_topics(Pipeline(self.name, Path(), "", (), (), self.settings), True)
        self.store = DeadLetters(self.name, self.settings)

    def add(self, *letters: Letter, partition: int = 0) -> None:
        for each in letters:
            name = self.name if each.pipeline == NAME else each.pipeline
            self.kafka.producer.send(
                self.dead,
                each.value,
                each.key,
                headers=headers_of(replace(each, pipeline=name)),
                timestamp_ms=each.timestamp_ms,
                partition=partition,
            )
        self.kafka.producer.flush()

    def replayed(self) -> list[int]:
        """The origin offsets of what was replayed."""
        return sorted(letter_of(record).offset for record in self.kafka.records(self.replays))


def letter(offset: int, **changed: object) -> Letter:
    parts: dict[str, object] = {
        "pipeline": NAME,
        "dataset": "orders",
        "reason": "decode",
        "expectation": "",
        "error": "no JSON",
        "topic": "orders-in",
        "partition": 0,
        "offset": offset,
        "time_ms": 1_000 + offset,
        "key": b"k",
        "value": b"%d" % offset,
        "headers": (),
        "timestamp_ms": 500 + offset,
    }
    return Letter(**{**parts, **changed})  # type: ignore[arg-type]
