"""Allocates each producer id once, also across restarts: ids are reserved on the storage in blocks, as in Kafka.

Source: org.apache.kafka.controller.ProducerIdControlManager, ProducerIdsBlock.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.errors import ConfigError

BLOCK_SIZE: Final = 1000
IDS_FILE: Final = "kafkaraw-producer-ids"


class ProducerIds:
    """The source of producer ids.

    Args:
        storage: where it is written which ids are taken.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._next_id = 0
        self._block_end = 0

    def take(self) -> int:
        """Return an unused producer id.

        Raises:
            ConfigError: the file on the storage is damaged.
            OSError: the storage is broken.
        """
        if self._next_id >= self._block_end:
            self._reserve()
        taken = self._next_id
        self._next_id += 1
        return taken

    def _reserve(self) -> None:
        text = self._storage.read_text(ROOT, IDS_FILE)
        try:
            start = 0 if text is None else int(text)
        except ValueError as error:
            raise ConfigError(f"{IDS_FILE} in the data directory is damaged: {error}") from error
        self._storage.write_text(ROOT, IDS_FILE, f"{start + BLOCK_SIZE}\n")
        self._next_id, self._block_end = start, start + BLOCK_SIZE
