"""A partition that brings nothing ends with an error that says where; one that is only slow does not."""

from __future__ import annotations

import pytest

from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.mirror.stalls import STALLED_S, Stalls
from kafkaraw.records import TopicPartition

OF = TopicPartition("orders", 3)


def test_a_partition_without_progress_for_a_minute_is_an_error() -> None:
    stalls = Stalls()
    for _ in range(int(STALLED_S) - 1):
        stalls.check(OF, 17, 40, waited_s=1.0)
    text = r"orders-3: no record came for 60 s at offset 17, and it is read up to offset 40; is its leader up\?"
    with pytest.raises(KafkaTimeoutError, match=text):
        stalls.check(OF, 17, 40, waited_s=1.0)


def test_progress_begins_the_minute_anew() -> None:
    stalls = Stalls()
    for _ in range(3):
        stalls.check(OF, 17, 40, waited_s=STALLED_S - 1)
        stalls.clear()
