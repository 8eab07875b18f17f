from __future__ import annotations

import time

from kafkaraw.net import SystemClock


def test_the_system_clock_counts_milliseconds_since_1970() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= SystemClock().time_ms() <= time.time_ns() // 1_000_000
