"""`kafkaraw pipelines plan` and `kafkaraw pipelines init`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.pipelines_options import conf_option, place_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaraw.pipelines.plan import Change, Plan

_REFUSED: Final = 1


@click.command()
@place_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "svg", "json"]),
    help="[default: by the ending of --output, or text]",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file, instead of standard output."
)
@conf_option
@click.option("--verbose", is_flag=True, help="Show what Spark prints.")
@click.pass_context
def plan(
    ctx: click.Context, place: Path, form: str | None, output: Path | None, conf: dict[str, str], verbose: bool
) -> None:
    """Check a pipeline, and show its graph and what changed since its last run.

    Every definition is evaluated without data: unknown inputs, cycles, types, missing watermarks and output modes are
    reported with file and line, all together. Nothing is read from topics and nothing is written.

    The exit code is 0, 1 if `run` refuses a change since the last run, and 2 if a definition is wrong.
    """
    from kafkaraw.pipelines.plan import Effect
    from kafkaraw.pipelines.running.planning import plan_place

    chosen = form or _form_of(output)
    found, changed = plan_place(place, conf, quiet=not verbose)
    text = _shown(found, changed, chosen)
    if output is None:
        click.echo(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")
    if any(each.effect is not Effect.NOTHING for each in changed or ()):
        ctx.exit(_REFUSED)


def _form_of(output: Path | None) -> str:
    """The format that the ending of a file means."""
    forms = {".txt": "text", ".svg": "svg", ".json": "json"}
    if output is None:
        return "text"
    if output.suffix not in forms:
        raise click.BadParameter(f"{output}: end it with .txt, .svg or .json, or give --format", param_hint="--output")
    return forms[output.suffix]


def _shown(plan: Plan, changed: Sequence[Change] | None, form: str) -> str:
    from kafkaraw.pipelines.drawing import as_svg, as_text
    from kafkaraw.pipelines.plan import to_json

    if form == "svg":
        return as_svg(plan).rstrip()
    return to_json(plan, changed) if form == "json" else as_text(plan, changed)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="NAME")
@click.option(
    "-b",
    "--bootstrap-server",
    "servers",
    metavar="HOST:PORT[,...]",
    default="localhost:9092",
    show_default=True,
    help="Bootstrap servers of the pipeline.",
)
def init(folder: Path, servers: str) -> None:
    """Write a small pipeline into a new folder: it runs, and has a test and sample data.

    NAME is the folder; its last part is the name of the pipeline.
    """
    from kafkaraw.pipelines.scaffold import write_pipeline

    for each in write_pipeline(folder, servers):
        click.echo(f"  {folder / each}")
    name = folder.absolute().name
    click.echo(f"""\
Next:
  cd {folder}
  kafkaraw pipelines test
  kafkaraw produce -b {servers} {name}.orders < sample-orders.jsonl
  kafkaraw pipelines run --once
  kafkaraw pipelines dead-letters list
Without a Kafka cluster, `kafkaraw broker` is one, in another terminal.""")
