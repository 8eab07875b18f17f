"""The page of the metrics: those of clients, and what is given to Prometheus and OpenTelemetry."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from docs.generate.tables import code, notice, sentence, table, text
from kafkaraw.broker import share_metrics as share_groups
from kafkaraw.client.metrics import consumer_metrics, group_metrics, producer_metrics, share_consumer_metrics
from kafkaraw.client.metrics.client_metrics import Metrics, NodeMetrics
from kafkaraw.client.metrics.pushed import ALL_NODES, NODE_ROWS, OWN_ROWS, PREFIX, Row, Value
from kafkaraw.metrics import ClientCollector
from kafkaraw.pipelines.running.http import metrics_text as pipeline_metrics
from kafkaraw.pipelines.running.progress import RunStatus
from kafkaraw.worker.metrics import WorkerStatus

PAGE: Final = "metrics.md"
SOURCES: Final = Path(__file__).parents[2] / "src" / "kafkaraw"
_ABOUT: Final = """\
`client.metrics()` returns the metrics of a client as a dictionary: those of the client itself under `producer`,
`consumer` and `group`, or `share_consumer` and `share_group`, and those of each broker under its node id (`bootstrap`
until the id is known). Names are those of Java's clients, with `_` for `-` and the unit last.
`kafkaraw.metrics.register(client)` gives the same numbers to Prometheus, by the names in the second column. Averages
and maxima are over the life of the client.

[Monitor](../how-to/monitor.md) shows how to use them.
"""
_PUSHED: Final = f"""\
What a client pushes to brokers that ask for it (KIP-714), by Java's names: behind `{PREFIX}` and the kind of the client
(`producer.`, `consumer.` or `admin.client.`). Times are in milliseconds. "Change" is since the push before; averages
without events and unknown values are left out. Counters are pushed as their change if the broker says so.
"""
_FROM: Final = {
    ALL_NODES: "all brokers",
    producer_metrics.GROUP: "`producer`",
    consumer_metrics.GROUP: "`consumer`",
    group_metrics.GROUP: "`group`",
    share_consumer_metrics.GROUP: "`share_consumer`",
    share_consumer_metrics.MEMBER_GROUP: "`share_group`",
}
_GROUPS: Final = {
    **{module.GROUP: module.MEANINGS for module in (producer_metrics, consumer_metrics, group_metrics)},
    share_consumer_metrics.GROUP: share_consumer_metrics.MEANINGS,
    share_consumer_metrics.MEMBER_GROUP: share_consumer_metrics.MEMBER_MEANINGS,
}


class _Client:
    """A client with one broker and no requests."""

    def metrics(self) -> Metrics:
        """Return a zero for each metric."""
        found: Metrics = {group: dict.fromkeys(meanings, 0.0) for group, meanings in _GROUPS.items()}
        found["consumer"]["records_lag"] = {"topic-0": 0}
        return found | {"0": NodeMetrics("0").as_dict()}


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield from (notice("the declarations of metrics in src/kafkaraw"), "", "# Metrics", "", _ABOUT)
    families: list[Any] = list(ClientCollector(_Client()).collect())
    for group, meanings in _GROUPS.items():
        of_group = [family for family in families if family.name.startswith(f"kafkaraw_{group}_")]
        yield from (f"## `metrics()[{group!r}]`", "")
        yield from table(
            ("name", "Prometheus", "type", "meaning"),
            (
                (code(name), code(_full_name(family)), family.type, sentence(text(meaning)))
                for (name, meaning), family in zip(meanings.items(), of_group, strict=True)
            ),
        )
    yield from ("## Of each broker", "", "The label `node` is the node id.", "")
    of_nodes = [family for family in families if family.name.startswith("kafkaraw_client_")]
    rows = sorted(
        (_key(family.name), code(_full_name(family)), family.type, family.documentation) for family in of_nodes
    )
    yield from table(("name", "Prometheus", "type", "meaning"), ((code(name), *rest) for name, *rest in rows))
    yield from ("## Pushed to brokers", "", _PUSHED)
    yield from table(("name", "from", "metric", "made of it"), _pushed())
    yield from ("## Of pipelines", "", "`kafkaraw pipelines run --port PORT` serves them at `/metrics`.", "")
    run = RunStatus(pipeline="", mode="once", state="running", since=0.0, at=0.0, pid=0, flows=())
    yield from table(("Prometheus", "type", "meaning"), _in_text(pipeline_metrics(run)))
    yield from ("## Of workers", "", "A `kafkaraw.worker.Worker` serves them at `/metrics`.", "")
    worker = WorkerStatus("", (), False, partitions=0, paused=0, running=0, queued=0, commits=0, handlers={})
    yield from table(("Prometheus", "type", "meaning"), _in_text(worker.metrics_text()))
    yield from ("## Of share groups", "", "`kafkaraw broker --metrics` serves them, with the label `node`.", "")
    yield from table(
        ("Prometheus", "type", "meaning"),
        (
            (code(f"{name}_total"), "counter", sentence(text(meaning)))
            if name in share_groups.COUNTERS
            else (code(name), "gauge", sentence(text(meaning)))
            for name, meaning in share_groups.MEANINGS.items()
        ),
    )
    yield from ("## Of groups, of Spark and for OpenTelemetry", "")
    yield from (
        "`kafkaraw groups export` serves the lag of groups, `kafkaraw.spark.KafkaLagListener` that of Spark's queries, "
        "and `kafkaraw.opentelemetry` records what the conventions for messaging name.",
        "",
    )
    yield from table(("name", "from", "meaning"), declared())


def _pushed() -> Iterator[tuple[str, str, str, str]]:
    """Name, group, source and way of each pushed metric."""
    rows: list[tuple[str, Row]] = [(_FROM[group], row) for group, own in OWN_ROWS.items() for row in own]
    rows += [("each broker", row) for row in NODE_ROWS]
    for origin, row in rows:
        way = f"its change by that of {code(row.divisor)}" if row.value is Value.AVERAGE else row.value.value
        yield code(row.name), origin, code(row.source), way


def _full_name(family: Any) -> str:  # noqa: ANN401 - families of prometheus-client have no types
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def _key(name: str) -> str:
    """The name in `metrics()`; the histogram has three there."""
    stem = name.removeprefix("kafkaraw_client_")
    known = NodeMetrics("0").as_dict()
    if stem == "latency_seconds":
        return "latency_histogram"
    return stem if stem in known else stem.replace("_seconds", "_s")


def _in_text(metrics: str) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each metric of a text in Prometheus' format."""
    help_of: dict[str, str] = {}
    for line in metrics.splitlines():
        if line.startswith("# HELP"):
            _, _, name, words = line.split(" ", 3)
            help_of[name] = words
        elif line.startswith("# TYPE"):
            _, _, name, kind = line.split(" ", 3)
            yield code(name), kind, sentence(text(help_of[name]))


def declared() -> Iterable[tuple[str, str, str]]:
    """Name, module and meaning of each metric that a call declares with its name and meaning as texts."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.parent.name == "metrics" or ("kafkaraw_" not in source and "messaging." not in source):
            continue  # those of clients have tables of their own
        module = ".".join(("kafkaraw", *path.relative_to(SOURCES).with_suffix("").parts))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and (found := _declaration(node)):
                yield code(found[0]), code(module), sentence(text(found[1]))


def _declaration(call: ast.Call) -> tuple[str, str] | None:
    texts = [each.value for each in call.args[:2] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    texts += [
        each.value.value
        for each in call.keywords
        if each.arg == "description" and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    ]
    if len(texts) == 2 and texts[0].startswith(("kafkaraw_", "messaging.")) and " " in texts[1]:
        return texts[0], texts[1]
    return None
