"""Commits what flows have read to consumer groups, one for each flow, so that every Kafka tool shows their lag.

A flow's group is PREFIX.FLOW. Checkpoints alone decide where a flow continues: these offsets are for people, and a
commit that fails is logged and repeated, and stops nothing. Must not block the run: a thread of its own waits for
brokers. Start at `Commits`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from kafkaraw.client.blocking.admin import Admin
from kafkaraw.errors import KafkaError
from kafkaraw.pipelines.model import Pipeline
from kafkaraw.pipelines.topic_admin import client_of
from kafkaraw.records import TopicPartition

_log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_TIMEOUT_S: Final = 10.0
_CLOSE_TIMEOUT_S: Final = 15.0

Positions = Mapping[tuple[str, str], int]
"""Offsets of the next records, by topic and partition."""


def group_of(pipeline: Pipeline, flow: str) -> str:
    """Return the name of a flow's group."""
    return f"{pipeline.settings.group_prefix}.{flow}"


class Commits:
    """Commits positions, in a thread.

    Args:
        pipeline: has the settings of the client.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._noted: dict[str, dict[TopicPartition, int]] = {}
        self._committed: dict[str, dict[TopicPartition, int]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._enabled = bool(pipeline.settings.kafka.get("kafka.bootstrap.servers"))

    def note(self, flow: str, positions: Positions) -> None:
        """Note what a flow has read; committed within about a second."""
        if not positions or not self._enabled:
            return
        with self._lock:
            self._noted[flow] = {TopicPartition(topic, int(number)): at for (topic, number), at in positions.items()}
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="kafkaraw-pipeline-commits", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Commit what was noted last, and stop the thread; gives up after some seconds."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _follow(self) -> None:
        try:
            with client_of(Admin, self._pipeline.settings) as admin:
                while not self._closing.wait(_EVERY_S):
                    self._commit(admin)
                self._commit(admin)
        except KafkaError as error:
            _log.warning("offsets are not committed to groups: %s", error)

    def _commit(self, admin: Admin) -> None:
        with self._lock:
            due = {flow: offsets for flow, offsets in self._noted.items() if self._committed.get(flow) != offsets}
        for flow, offsets in due.items():
            group = group_of(self._pipeline, flow)
            try:
                admin.alter_group_offsets(group, offsets, timeout=_TIMEOUT_S)
            except KafkaError as error:
                _log.warning("the offsets of flow %s are not committed to group %s: %s", flow, group, error)
                self._committed.pop(flow, None)
            else:
                self._committed[flow] = offsets
