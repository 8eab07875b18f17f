from __future__ import annotations

import random

from kafkaraw.core.retry import Backoff, ReconnectPolicy


def policy(jitter: float = 0.0) -> ReconnectPolicy:
    return ReconnectPolicy(Backoff(50, 1000, jitter=jitter), Backoff(10_000, 30_000, jitter=jitter), random.Random(1))


def test_a_broker_never_tried_may_be_dialled_at_once_and_gets_what_is_set():
    assert policy(0.2).pause_ms("a", 5) == 0
    assert policy(0.2).setup_timeout_ms("a") == 10_000


def test_pauses_double_up_to_the_longest_and_each_broker_has_its_own():
    tries = policy()
    pauses = []
    for _ in range(7):
        tries.began("a", 100)
        tries.failed("a", 100)
        pauses.append(tries.pause_ms("a", 100))
    assert pauses == [50, 100, 200, 400, 800, 1000, 1000]
    assert tries.pause_ms("a", 600) == 500
    assert tries.pause_ms("b", 100) == 0


def test_an_attempt_may_take_longer_after_each_failure():
    tries = policy()
    timeouts = []
    for _ in range(4):
        timeouts.append(tries.setup_timeout_ms("a"))
        tries.failed("a", 0)
    assert timeouts == [10_000, 20_000, 30_000, 30_000]


def test_a_success_forgets_the_failures_but_attempts_stay_apart():
    tries = policy()
    for _ in range(5):
        tries.failed("a", 0)
    tries.began("a", 1000)
    tries.succeeded("a")
    assert tries.setup_timeout_ms("a") == 10_000
    assert tries.pause_ms("a", 1010) == 40
    assert tries.pause_ms("a", 1050) == 0


def test_jitter_spreads_the_pauses():
    tries = policy(jitter=0.2)
    pauses = set()
    for key in range(20):
        tries.failed(key, 0)
        pauses.add(tries.pause_ms(key, 0))
    assert len(pauses) > 10 and all(40 <= pause <= 60 for pause in pauses)
