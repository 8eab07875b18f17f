"""`kafkaraw pipelines dead-letters`: list, show, replay and discard the dead letters of a pipeline."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from kafkaraw.cli.pipelines_options import place_option
from kafkaraw.cli.rendering import print_rows, time_text
from kafkaraw.cli.start_offsets import TIME_FORMS, timestamp_ms
from kafkaraw.errors import UsageError
from kafkaraw.readable import text_or_base64

if TYPE_CHECKING:
    from kafkaraw.pipelines.dead_letters.store import DeadLetters, Filter, Found, Handled

F = TypeVar("F", bound=Callable[..., object])
_REASONS: Final = ("decode", "expectation", "function", "sink")
_STATES: Final = ("open", "replayed", "discarded")
_ERROR_WIDTH: Final = 60


@click.group("dead-letters")
def dead_letters() -> None:
    """Records that a pipeline could not use: list, show, replay and discard them."""


def _filters(command: F) -> F:
    options = (
        place_option,
        click.option("--reason", "reasons", multiple=True, type=click.Choice(_REASONS), help="Only these; repeatable."),
        click.option(
            "--flow", "--dataset", "datasets", multiple=True, metavar="NAME", help="Of a flow or view; repeatable."
        ),
        click.option("--expectation", "expectations", multiple=True, metavar="NAME", help="Not met; repeatable."),
        click.option("--topic", "topics", multiple=True, metavar="NAME", help="Origin of the records; repeatable."),
        click.option("--since", metavar="TIME", help=f"At or after this time: {TIME_FORMS}."),
        click.option("--until", metavar="TIME", help="Before this time."),
        click.option(
            "--at", "places", multiple=True, metavar="PARTITION:OFFSET", help="Position in the dead-letter topic."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@dead_letters.command("list")
@_filters
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="[default: open]")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of dead letters; the oldest first.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
def list_command(place: Path, states: tuple[str, ...], limit: int | None, as_json: bool, **filters: object) -> None:
    """List dead letters, the oldest first."""
    from kafkaraw.pipelines.dead_letters.store import State

    store = _store(place)
    found = store.find(_filter(filters), [State(each) for each in states or ("open",)])[:limit]
    print_rows([_row(each, as_json=as_json) for each in found], as_json=as_json)


@dead_letters.command()
@click.argument("positions", nargs=-1, metavar="[PARTITION:OFFSET]...")
@_filters
@click.option("--limit", type=click.IntRange(1), help="Maximum number.  [default: 1, or all PARTITION:OFFSETs]")
@click.option("--value", "value_only", is_flag=True, help="Only the bytes of the value.")
def show(
    place: Path,
    positions: tuple[str, ...],
    places: tuple[str, ...],
    limit: int | None,
    value_only: bool,
    **filters: object,
) -> None:
    """Show dead letters whole: headers, key and value as JSON, bytes that are not UTF-8 in Base64.

    PARTITION:OFFSET is a position in the dead-letter topic, as `list` prints it; the same as --at.
    """
    chosen = (*positions, *places)
    found = _store(place).find(_filter({**filters, "places": chosen}))[: limit or len(set(chosen)) or 1]
    if not found:
        raise UsageError("no dead letter meets these conditions; `list` without options shows all that are open")
    for each in found:
        if value_only:
            sys.stdout.buffer.write(each.letter.value or b"")
        else:
            click.echo(json.dumps(_whole(each), indent=2, ensure_ascii=False))


@dead_letters.command()
@_filters
@click.option("--to-origin", is_flag=True, help="Into their own topics, for all readers, instead of the replay topic.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of dead letters; the oldest first.")
@click.option("--dry-run", is_flag=True, help="Count only.")
def replay(place: Path, to_origin: bool, limit: int | None, dry_run: bool, **filters: object) -> None:
    """Write open dead letters again, each exactly once: the flows that have missed them read them.

    Correct the pipeline first, and start it again. Records that it still cannot use become dead letters again.
    """
    done = _store(place).replay(_filter(filters), to_origin=to_origin, limit=limit, dry_run=dry_run)
    _report("would be replayed" if dry_run else "replayed", done)


@dead_letters.command()
@_filters
@click.option("--all", "everything", is_flag=True, help="All open ones; needed if there is no other condition.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of dead letters; the oldest first.")
@click.option("--dry-run", is_flag=True, help="Count only.")
def discard(place: Path, everything: bool, limit: int | None, dry_run: bool, **filters: object) -> None:
    """Mark open dead letters as discarded: they are not replayed any more. They stay in the topic."""
    if not everything and not any(filters.values()):
        raise UsageError("which ones? give a condition, such as --flow, or --all for all open dead letters")
    done = _store(place).discard(_filter(filters), limit=limit, dry_run=dry_run)
    _report("would be discarded" if dry_run else "discarded", done)


def _store(place: Path) -> DeadLetters:
    from kafkaraw.pipelines.dead_letters.store import DeadLetters
    from kafkaraw.pipelines.specification import read_specification

    specification = read_specification(place)
    return DeadLetters(specification.name, specification.settings)


def _filter(given: dict[str, object]) -> Filter:
    from kafkaraw.pipelines.dead_letters.store import Filter

    now_ms = int(time.time() * 1000)

    def texts(name: str) -> frozenset[str]:
        found = given[name]
        assert isinstance(found, tuple), "repeatable options are tuples"
        return frozenset(found)

    def moment(name: str) -> int | None:
        text = given[name]
        return None if text is None else timestamp_ms(str(text), now_ms, f"--{name}")

    return Filter(
        reasons=texts("reasons"),
        datasets=texts("datasets"),
        expectations=texts("expectations"),
        topics=texts("topics"),
        since_ms=moment("since"),
        until_ms=moment("until"),
        places=frozenset(_place(text) for text in texts("places")),
    )


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.rpartition(":")
    try:
        return int(partition or 0), int(offset)
    except ValueError:
        raise UsageError(f"{text}: must be PARTITION:OFFSET, such as 0:17, or an offset of partition 0") from None


def _row(found: Found, *, as_json: bool) -> dict[str, object]:
    letter = found.letter
    error = letter.error if as_json else " ".join(letter.error.split())
    return {
        "AT": f"{letter.place[0]}:{letter.place[1]}",
        "TIME": time_text(letter.time_ms),
        "STATE": found.state.value,
        "FLOW": letter.dataset,
        "REASON": letter.reason,
        "EXPECTATION": letter.expectation or None,
        "ORIGIN": _origin(found),
        "ERROR": error if as_json or len(error) <= _ERROR_WIDTH else f"{error[: _ERROR_WIDTH - 1]}…",
    }


def _origin(found: Found) -> str:
    letter = found.letter
    return letter.topic if letter.offset < 0 else f"{letter.topic}-{letter.partition}:{letter.offset}"


def _whole(found: Found) -> dict[str, object]:
    letter = found.letter
    return {
        "at": f"{letter.place[0]}:{letter.place[1]}",
        "state": found.state.value,
        "pipeline": letter.pipeline,
        "flow": letter.dataset,
        "reason": letter.reason,
        "expectation": letter.expectation or None,
        "error": letter.error,
        "origin": {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset},
        "time": time_text(letter.time_ms),
        "timestamp": time_text(letter.timestamp_ms),
        "headers": [[name, text_or_base64(value)] for name, value in letter.headers],
        "key": text_or_base64(letter.key),
        "value": text_or_base64(letter.value),
    }


def _report(what: str, done: Handled) -> None:
    to = f", to {' and '.join(done.to)}" if done.to else ""
    click.echo(f"{done.count} dead {'letter' if done.count == 1 else 'letters'} {what}{to}")
    for (dataset, reason), count in sorted(done.by_kind.items()):
        click.echo(f"  {dataset}, {reason}: {count}")
    if done.left:
        click.echo(
            f"{done.left} of reason sink stay open: a part of the record is missing or does not fit its schema; `show` "
            "has the error"
        )
