"""`kafkaraw top`: brokers, topics and groups of a cluster, live, by rate and lag."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.rendering import TABLE, output_option

if TYPE_CHECKING:
    from kafkaraw.cli.top_screen import Place

_ROOTS: Final = ("brokers", "topics", "groups", "problems")
_INTERVAL_MIN_S: Final = 0.5
_INTERVAL_MAX_S: Final = 3600.0

EPILOG: Final = """\b
Examples:
  kafkaraw top -b localhost:9092
  kafkaraw top -b localhost:9092 --view groups --sort behind
  kafkaraw top -b localhost:9092 --topics 'orders*' --groups 'billing*'
  kafkaraw top -b localhost:9092 --once -o json
  kafkaraw top -b localhost:9092 -n 60 -d 10 -o json > lag.jsonl
\b
Keys: b t g w views, arrows, Enter open, Esc back, m members, < > sort, r reverse, / filter, p pause, + - interval,
h help, q quit.
\b
Exit codes:
    0  finished
    1  the cluster cannot be reached, or refuses the client
    2  invalid options
  130  stopped by Ctrl-C
"""


@click.command(epilog=EPILOG)
@cluster_options
@click.option(
    "--view", type=click.Choice(_ROOTS), help="The table at the start.  [default: topics; with --once, the first three]"
)
@click.option("--sort", "sorted_by", metavar="COLUMN", help="Sort by this column; needs --view.")
@click.option("--reverse", is_flag=True, help="Sort in the other direction.")
@click.option("--filter", "text", default="", metavar="TEXT", help="Show names with this text only; needs --view.")
@click.option("--topics", multiple=True, metavar="PATTERN", help="Ask for these topics only, with * and ?; repeatable.")
@click.option("--groups", multiple=True, metavar="PATTERN", help="Ask for these groups only, with * and ?; repeatable.")
@click.option("--internal", "with_internal", is_flag=True, help="Show internal topics.")
@click.option(
    "-d",
    "--interval",
    "interval_s",
    type=click.FloatRange(_INTERVAL_MIN_S, _INTERVAL_MAX_S),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between snapshots.",
)
@click.option("--once", is_flag=True, help="Print tables once, after one interval; the default without a terminal.")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Print N times, each after an interval.")
@click.option(
    "--rows", "rows_max", type=click.IntRange(0), default=20, show_default=True, help="Rows of printed tables; 0: all."
)
@output_option
@click.pass_context
def top(  # noqa: PLR0913 -- one for each option
    ctx: click.Context,
    cluster: Cluster,
    view: str | None,
    sorted_by: str | None,
    reverse: bool,
    text: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    with_internal: bool,
    interval_s: float,
    once: bool,
    count: int | None,
    rows_max: int,
    output: str,
) -> None:
    """Show brokers, topics and groups, live: rates, lag in records and seconds, what is wrong.

    Rates are records and bytes written between two snapshots. The lag of a group is shown with its age and its trend.
    Nothing is written to the cluster, and no group is joined. Permissions: DESCRIBE on topics, groups and the cluster;
    what is not permitted is left out and named.

    The cluster is asked for at most a quarter of the time: if a snapshot takes longer than that share of the interval,
    the next one waits. --topics and --groups make snapshots of large clusters cheaper.
    """
    if (sorted_by or text or reverse) and view is None:
        raise click.UsageError("--sort, --reverse and --filter need --view, the table that they are for")
    cluster.properties  # noqa: B018 - says that no cluster is given before the screen is drawn
    is_live = not once and count is None and output == TABLE and _is_terminal()
    if not is_live:
        from kafkaraw.cli.top_print import run as print_tables

        print_tables(
            cluster,
            None if view is None else _place(view, sorted_by, text, reverse=reverse),
            output=output,
            topics=topics,
            groups=groups,
            interval_s=interval_s,
            count=count or 1,
            rows_max=rows_max,
            with_internal=with_internal,
        )
        return
    from kafkaraw.cli.top_live import run
    from kafkaraw.cli.top_screen import Screen

    screen = Screen(interval_s=interval_s, with_internal=with_internal)
    screen.show(_place(view or "topics", sorted_by, text, reverse=reverse))
    ctx.exit(run(cluster, screen, topics=topics, groups=groups))


def _is_terminal() -> bool:
    import os

    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _place(view: str, sorted_by: str | None, text: str, *, reverse: bool) -> Place:
    from kafkaraw.cli.top_screen import Place
    from kafkaraw.cli.top_tables import VIEWS

    place = Place(VIEWS[view], filter=text)
    if sorted_by is not None:
        column = place.view.column(sorted_by)
        if column is None:
            titles = ", ".join(each.title.lower() for each in place.view.columns)
            raise click.UsageError(f"--sort {sorted_by}: the columns of {view} are {titles}")
        place.sort(column.title)
    place.descending ^= reverse
    return place
