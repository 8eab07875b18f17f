"""Replays the dead letters of a pipeline, and dies at one of its steps, as if the machine had lost its power.

Usage: killed_replay.py SERVERS PIPELINE DEAD_LETTER_TOPIC REPLAY_TOPIC STEP. A step is a call of the producer: the
process ends before its STEP-th call, or behind it if it is the last one. Prints the number of steps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.pipelines.dead_letters import store
from kafkaraw.pipelines.model import Settings

STEPS = ("init_transactions", "begin_transaction", "send", "send_offsets_to_transaction", "commit_transaction")


def main(servers: str, pipeline: str, dead: str, replays: str, step: int) -> None:
    done = 0

    def dying(method: Callable[..., object], *, sent: bool) -> Callable[..., object]:
        def call(self: Producer, *args: object, **named: object) -> object:
            nonlocal done
            if done == step:
                self.flush() if sent and done > 1 else None
                os._exit(9)
            result = method(self, *args, **named)
            done += 1
            return result

        return call

    for name in STEPS:
        setattr(Producer, name, dying(getattr(Producer, name), sent=name != "init_transactions"))
    store._PER_TRANSACTION = 2
    settings = Settings(dead, replays, pipeline, kafka={"kafka.bootstrap.servers": servers})
    store.DeadLetters(pipeline, settings).replay()
    print(done, flush=True)
    os._exit(9)


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
