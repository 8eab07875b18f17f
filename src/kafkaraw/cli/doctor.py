"""`kafkaraw doctor`: find out why a cluster cannot be used from this machine, and what to change."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.rendering import TABLE, output_option, show
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from kafkaraw.client.network.diagnosis import Diagnosis, Visit

_LIBRARIES: Final = ("crc32c", "cramjam", "google-re2", "lz4", "zstandard")

EXIT_CODE_HELP: Final = """\b
Exit codes:
   0  everything works
   2  invalid options
  10  the name of a bootstrap server cannot be resolved
  11  ... no TCP connection
  12  ... the TLS handshake fails
  13  ... the authentication fails
  14  ... the response is not that of a Kafka broker
  15  ... no metadata of the cluster
  20-25  the same for a broker at its advertised address
"""


@click.command(epilog=EXIT_CODE_HELP)
@cluster_options
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Timeout of each step, in seconds.",
)
@output_option
@click.pass_context
def doctor(
    ctx: click.Context,
    cluster: Cluster,
    timeout: float,
    output: str,
) -> None:
    """Find out why a cluster cannot be reached or used from this machine.

    Takes the steps of a client: resolve, connect, TLS and SASL if configured, API versions, metadata; then the same
    for every broker at its advertised address. Reports the step that fails, why, and what to change.
    """
    from kafkaraw.client.config import AdminConfig, parse
    from kafkaraw.client.network.diagnosis import diagnose

    try:
        config = parse(AdminConfig, cluster.settings(AdminConfig))
        diagnosis = asyncio.run(diagnose(config, timeout=timeout))
    except ConfigError as error:
        raise click.UsageError(str(error), ctx) from error
    if output == TABLE:
        _print(diagnosis)
    else:
        show([], output, _as_json(diagnosis))
    ctx.exit(diagnosis.exit_code)


def versions() -> dict[str, str]:
    """What is installed here, by name."""
    from importlib.metadata import PackageNotFoundError, version

    from kafkaraw._version import __version__
    from kafkaraw.records import IMPLEMENTATION

    found = {"kafkaraw": __version__, "python": platform.python_version(), "records": IMPLEMENTATION}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def _as_json(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "exit_code": diagnosis.exit_code,
        "cluster_id": diagnosis.cluster_id,
        "versions": versions(),
        "visits": [
            {
                "who": visit.who,
                "address": visit.address,
                "advertised": visit.advertised,
                "passed": [str(stage) for stage in visit.passed],
                "failed": None if visit.failed is None else str(visit.failed),
                "why": visit.why,
                "remedy": visit.remedy,
                "found": visit.found,
                "seconds": round(visit.seconds, 6),
            }
            for visit in diagnosis.visits
        ],
    }


def _print(diagnosis: Diagnosis) -> None:
    import sys

    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    console.print(", ".join(f"{name} {value}" for name, value in versions().items()), style="dim")
    for visit in diagnosis.visits:
        _print_visit(console, visit)
    console.print()
    problems = sum(visit.failed is not None for visit in diagnosis.visits)
    if problems:
        console.print(
            f"{problems} of {len(diagnosis.visits)} addresses cannot be used (exit code {diagnosis.exit_code}).",
            style="bold red",
        )
    else:
        console.print("Everything works.", style="bold green")


def _print_visit(console: Console, visit: Visit) -> None:
    advertised = ", as advertised" if visit.advertised else ""
    console.print()
    console.print(f"{visit.who} {visit.address}{advertised} ({visit.seconds * 1000:.0f} ms)", style="bold")
    if visit.passed:
        console.print(f"  ok    {', '.join(visit.passed)}", style="green")
    if visit.found:
        console.print(f"        {visit.found}", style="dim")
    if visit.failed is not None:
        console.print(f"  FAIL  {visit.failed}: {visit.why}", style="red")
        console.print(f"  try   {visit.remedy}", style="yellow")
