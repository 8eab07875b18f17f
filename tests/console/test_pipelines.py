"""The pages of pipelines: state, graph, rates and expectations, as a run has noted them in its storage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.cli.console_pipelines import pipelines_in
from kafkaraw.light_classes import replace
from kafkaraw.pipelines.plan import Plan
from kafkaraw.pipelines.running.plans import keep_plan
from kafkaraw.pipelines.running.progress import FlowProgress, RunStatus
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.running.supervision import Failure, Remedy
from tests.console.running import HOSTILE_TEXTS, running
from tests.pipelines.test_plan import PLAN

TOTALS = {
    "kafkaraw.written": {"rows": 7},
    "expectations.orders": {"rows": 9, "dropped": 2, "quarantined": 0, "unmet.drop.amount is positive": 2},
}
NAME = "sales"


def noted(folder: Path, servers: str, plan: Plan = PLAN, *, state: str = "completed", **clean: object) -> Storage:
    """Make a pipeline's folder, with a storage as after a run."""
    folder.mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(
        f"name: {NAME}\nstorage: storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
        f"configuration:\n  kafkaraw.kafka.bootstrap.servers: {servers}\n"
    )
    (folder / "transformations").mkdir()
    (folder / "transformations" / "a.py").write_text("")
    storage = Storage.of(str(folder / "storage"), NAME)
    keep_plan(plan, storage)
    given = {"state": "completed", "rows_read": 9, "rows_written": 7, "rows_per_second": 120.0, "lag": 31, **clean}
    flows = (FlowProgress("clean", "clean", totals=TOTALS, **given), FlowProgress("top", "top", state="completed"))
    status = RunStatus(NAME, "once", state, 1_800_000_000.0, 1_800_000_009.0, 1, flows)
    storage.status_file.write_text(json.dumps(status.as_json()))
    return storage


@pytest.fixture
def shop(tmp_path: Path, servers: str) -> Iterator[tuple[Storage, httpx.Client]]:
    storage = noted(tmp_path / "pipelines" / "sales", servers)
    with running(servers, of={"pipelines": pipelines_in([tmp_path / "pipelines"])}) as client:
        yield storage, client


def graph_of(text: str) -> ElementTree.Element:
    found = re.search(r'<svg class="graph".*?</svg>', text, re.DOTALL)
    assert found is not None
    return ElementTree.fromstring(found[0])


def test_a_folder_of_pipelines_is_listed(shop: tuple[Storage, httpx.Client]) -> None:
    page = shop[1].get("/c/test/pipelines").text
    assert 'href="/c/test/pipeline?name=sales"' in page and ">completed<" in page
    assert 'href="/c/test/dead-letters?pipeline=sales"' in page


def test_the_graph_has_a_box_for_each_node(shop: tuple[Storage, httpx.Client]) -> None:
    page = shop[1].get("/c/test/pipeline", params={"name": NAME}).text
    graph = graph_of(page)
    assert [each.text for each in graph.iter("title")] == ["orders", "orders", "clean", "top"]
    assert len([each for each in graph.iter("path") if each.get("class") == "batch"]) == 1
    links = [each.get("href") for each in graph.iter("a")]
    assert links == ["/c/test/topics/orders/messages", "#flow-clean", "#flow-top"]
    assert 'id="flow-clean"' in page
    assert "clean, streaming table, 7 written, lag 31; reads orders." in page
    assert "orders, temporary view, 1 expectation: 2 unmet; reads orders." in page


def test_expectations_have_passed_and_failed_rows(shop: tuple[Storage, httpx.Client]) -> None:
    page = shop[1].get("/c/test/pipeline", params={"name": NAME}).text
    row = re.search(r"<td>amount is positive</td><td>drop</td><td[^>]*>(\d+)</td><td[^>]*>(\d+)</td>", page)
    assert row is not None and row.groups() == ("7", "2")


def test_rates_are_shown_while_it_runs(shop: tuple[Storage, httpx.Client]) -> None:
    storage, client = shop
    assert "120 rows/s" not in client.get("/c/test/pipeline", params={"name": NAME}).text
    with storage.lock():
        assert "120 rows/s" in client.get("/c/test/pipeline", params={"name": NAME}).text


def test_a_run_that_was_killed_is_a_problem(tmp_path: Path, servers: str) -> None:
    noted(tmp_path / "sales", servers, state="running")
    with running(servers, of={"pipelines": pipelines_in([tmp_path / "sales"])}) as client:
        assert "it was killed" in client.get("/c/test/pipeline", params={"name": NAME}).text
        assert 'class="bad-text">killed' in client.get("/c/test/pipelines").text


def test_hostile_names_and_errors_are_text(tmp_path: Path, servers: str) -> None:
    script = HOSTILE_TEXTS[0]
    node = PLAN.graph.nodes[1]
    evil = replace(node, name=script)
    datasets = (PLAN.datasets[0], replace(PLAN.datasets[1], name=script), PLAN.datasets[2])
    names = {node: evil}
    edges = tuple(
        replace(each, source=names.get(each.source, each.source), reader=names.get(each.reader, each.reader))
        for each in PLAN.graph.edges
    )
    graph = replace(
        PLAN.graph,
        nodes=tuple(evil if each == node else each for each in PLAN.graph.nodes),
        edges=edges,
        flows={evil: (script,)},
    )
    plan = replace(PLAN, datasets=datasets, graph=graph)
    failure = Failure(Remedy.RETRY, HOSTILE_TEXTS[1])
    noted(tmp_path / "sales", servers, plan, state="failed", failure=failure, failures=9)
    with running(servers, of={"pipelines": pipelines_in([tmp_path / "sales"])}) as client:
        page = client.get("/c/test/pipeline", params={"name": NAME}).text
    graph_of(page)
    assert script not in page and HOSTILE_TEXTS[1] not in page and "&lt;script&gt;" in page
    assert "Flows have failed" in page


def test_masks_hide_errors(tmp_path: Path, servers: str) -> None:
    noted(tmp_path / "sales", servers, failure=Failure(Remedy.RETRY, "cannot cast 'Ada' to INT"))
    of = {"pipelines": pipelines_in([tmp_path / "sales"])}
    with running(servers, of=of, masks=frozenset({"name"})) as client:
        assert "Ada" not in client.get("/c/test/pipeline", params={"name": NAME}).text


def test_a_pipeline_that_has_not_run_and_a_damaged_storage_are_said(tmp_path: Path, servers: str) -> None:
    storage = noted(tmp_path / "sales", servers)
    with running(servers, of={"pipelines": pipelines_in([tmp_path / "sales"])}) as client:
        storage.status_file.write_text("{")
        assert client.get("/c/test/pipelines").status_code == 200
        assert client.get("/c/test/pipeline", params={"name": NAME}).status_code == 200
        storage.status_file.unlink()
        assert "has not run yet" in client.get("/c/test/pipeline", params={"name": NAME}).text
        assert client.get("/c/test/pipeline", params={"name": "other"}).status_code == 404


def test_pipelines_of_others_are_found_by_their_topics(servers: str, console: httpx.Client) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("elsewhere.dead-letters", partitions=1)])
    page = console.get("/c/test/pipelines").text
    assert "--pipeline FOLDER" in page
    assert 'href="/c/test/topics/elsewhere.dead-letters/messages">elsewhere<' in page
