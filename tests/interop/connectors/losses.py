"""What is lost between two runs of a stream, or before a first: KafkaDontFailOnDataLossSuite, and rules of our own."""

from __future__ import annotations

from typing import Final

from tests.interop.connectors.scenario import (
    Create,
    Delete,
    DeleteRecords,
    Options,
    Outcome,
    Partitions,
    Refused,
    Scenario,
    Step,
    Stream,
    numbers,
    rows,
    scenario,
    send,
)

_SUITE: Final = "KafkaDontFailOnDataLoss"
_LENIENT: Final = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1000"}
_REFUSED: Final = Refused("failOnDataLoss")


def _lost(
    name: str, steps: tuple[Step, ...], expect: Outcome, options: Options | None = None, **about: object
) -> Scenario:
    """A stream has read ten records; then something is lost, and it is started again. Topic u stays."""
    ours = about.pop("ours", None)
    given = {"subscribe": "$t,$u", "startingOffsets": "earliest"} | dict(options or {})
    return scenario(
        f"loss: {name}",
        Create("t"),
        Create("u"),
        send("t", range(10)),
        Stream(options=given, expect=numbers(range(10))),
        *steps,
        Stream(options=given, expect=expect, ours=ours),  # type: ignore[arg-type]
        suite=_SUITE,
        **about,
    )


_ANEW_3: Final[tuple[Step, ...]] = (Delete("t"), Create("t"), send("t", range(3)))
_ANEW_14: Final[tuple[Step, ...]] = (Delete("t"), Create("t"), send("t", range(14)))
_MORE: Final = send("t", range(10, 20))

_BETWEEN: Final = (
    _lost("deleted records that were read", (_MORE, DeleteRecords("t", 7)), numbers(range(10, 20))),
    _lost("deleted records", (_MORE, DeleteRecords("t", 15)), _REFUSED, quick=True),
    _lost(
        "deleted records, with failOnDataLoss=false",
        (_MORE, DeleteRecords("t", 15)),
        numbers(range(15, 20)),
        _LENIENT,
        quick=True,
    ),
    _lost("all new records deleted", (_MORE, DeleteRecords("t", 20)), _REFUSED),
    _lost("all new records deleted, with failOnDataLoss=false", (_MORE, DeleteRecords("t", 20)), rows(), _LENIENT),
    _lost("a topic created again", _ANEW_3, _REFUSED),
    _lost("a topic created again, with failOnDataLoss=false", _ANEW_3, rows(), _LENIENT),
    _lost("a topic created again that has grown beyond", _ANEW_14, numbers(range(10, 14))),
    _lost("a topic created again, empty", (Delete("t"), Create("t")), _REFUSED),
    _lost("a topic created again, empty, with failOnDataLoss=false", (Delete("t"), Create("t")), rows(), _LENIENT),
    _lost("a topic that is gone", (Delete("t"), send("u", 1)), Refused("failOnDataLoss", "UnknownTopicOrPartition")),
    _lost(
        "a topic that is gone, with failOnDataLoss=false",
        (Delete("t"), send("u", 1)),
        Refused("", "UnknownTopicOrPartition"),
        _LENIENT,
        ours=rows("1"),
        differs="`failOnDataLoss`",
    ),
    _lost(
        "a new partition whose first records are deleted",
        (Partitions("t", 2), send("t", range(10, 20), partition=1), DeleteRecords("t", 3, partition=1)),
        _REFUSED,
    ),
    _lost(
        "a new partition whose first records are deleted, with failOnDataLoss=false",
        (Partitions("t", 2), send("t", range(10, 20), partition=1), DeleteRecords("t", 3, partition=1)),
        numbers(range(13, 20)),
        _LENIENT,
    ),
)


def _first(name: str, options: Options, expect: Outcome, **about: object) -> Scenario:
    """A first run from offset 0, of which the records up to 30 are deleted."""
    given = {"subscribe": "$t", "startingOffsets": '{"$t":{"0":0}}'} | dict(options)
    return scenario(
        f"loss: {name}",
        Create("t"),
        send("t", range(50)),
        DeleteRecords("t", 30),
        Stream(options=given, expect=expect),
        suite=_SUITE,
        **about,
    )


_BEFORE: Final = (
    _first("a first run from an offset that is deleted", {}, _REFUSED),
    _first("a first run from an offset that is deleted, with failOnDataLoss=false", _LENIENT, numbers(range(30, 50))),
    _first(
        "a first run from a deleted offset in portions, with failOnDataLoss=false",
        _LENIENT | {"maxOffsetsPerTrigger": "7"},
        numbers(range(30, 50)),
    ),
    scenario(
        "loss: a topic is deleted while the stream runs, and created again, with failOnDataLoss=false",
        Create("t"),
        Create("u"),
        send("t", range(10)),
        Stream(
            options={"subscribePattern": "$prefix-.*", "startingOffsets": "earliest"} | _LENIENT,
            trigger="live",
            phases=(((Delete("t"), send("u", 10)), 11), ((Create("t"), send("t", range(11, 25)), send("u", 25)), 26)),
            expect=numbers(range(26)),
        ),
        suite=_SUITE,
    ),
)

SCENARIOS: Final = (*_BETWEEN, *_BEFORE)
