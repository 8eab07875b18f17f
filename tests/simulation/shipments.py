"""Writes down what a producer does with its batches: what it sends, sends again, and gets back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kafkaraw.client.sending.sender import Outbox
from kafkaraw.core.producer.events import Answered, Event, RequestLost, SendProduce
from kafkaraw.core.producer.failures import Verdict, verdict_on
from kafkaraw.protocol.error_codes import error_name
from kafkaraw.records import BatchPromise, SealedBatch, TopicPartition
from kafkaraw.testing.audit import History, Step


def watch_shipments(
    name: str, outbox: Outbox, history: History, covered: Counter[str], clock: Callable[[], float]
) -> None:
    """Have a history tell the story of a producer's batches.

    Args:
        name: of the producer.
        outbox: its own.
        history: where the story is written.
        covered: counts what the story is made of.
        clock: gives the seconds.
    """
    numbers: dict[int, tuple[int, BatchPromise]] = {}  # by identity; it is kept, so that no other gets its own
    under_way: dict[int, SendProduce] = {}
    story, send, tell = history.shipments[name], outbox.send, outbox._report

    def promise_of(batch: SealedBatch) -> BatchPromise:
        """What its senders wait for; parts of a batch are as old as the whole, and go where it would have gone."""
        promise = batch.promise
        while promise.whole is not None:
            promise = promise.whole
        return promise

    def number_of(batch: SealedBatch) -> int:
        promise = promise_of(batch)
        return numbers.setdefault(id(promise), (len(numbers), promise))[0]

    def noted_send(action: SendProduce) -> None:
        under_way[action.request_id] = action
        covered["several requests in flight"] += len(under_way) > 1
        for numbered in action.batches:
            covered["sent again"] += id(promise_of(numbered.batch)) in numbers
            covered["next epoch"] += numbered.identity.epoch > 0
            tp = TopicPartition(numbered.batch.topic, numbered.batch.partition)
            story.append((clock(), tp, number_of(numbered.batch), Step.LEFT))
        send(action)

    def noted_tell(event: Event) -> None:
        if isinstance(event, Answered | RequestLost):
            for numbered in under_way.pop(event.request_id).batches:
                tp = TopicPartition(numbered.batch.topic, numbered.batch.partition)
                if isinstance(event, RequestLost):
                    covered["lost"] += 1
                elif (code := event.outcomes[tp].error_code if tp in event.outcomes else -1) and code >= 0:
                    covered[error_name(code)] += 1
                if isinstance(event, RequestLost) or verdict_on(code) is not Verdict.WRITTEN:
                    story.append((clock(), tp, number_of(numbered.batch), Step.RETURNED))
        tell(event)

    outbox.send, outbox._report = noted_send, noted_tell
