"""The Grafana dashboard of the docs shows metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from kafkaraw import Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.group_export import GroupCollector
from kafkaraw.metrics import register

DASHBOARD = Path(__file__).parents[2] / "docs" / "dashboards" / "clients.json"


def test_each_metric_of_the_dashboard_is_served(kafka_broker: EmbeddedBroker) -> None:
    servers = kafka_broker.bootstrap_servers
    registry = CollectorRegistry()
    groups = GroupCollector(Cluster(servers, None, ()), [], 8)
    registry.register(groups)
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, group_id="billing") as consumer,
    ):
        producer.send("orders", b"").result(10)
        register(producer, registry, client="a")
        register(consumer, registry, client="b")
        served = set(re.findall(r"^# TYPE (\w+)", generate_latest(registry).decode(), re.MULTILINE))
    groups.close()
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    used = {name for panel in panels for it in panel["targets"] for name in re.findall(r"kafkaraw_\w+", it["expr"])}
    assert len(used) > 10
    assert {name for name in used if name not in served and name.removesuffix("_bucket") not in served} == set()
