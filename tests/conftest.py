"""What every test shares: the header that says what is being tested, markers, and the order (`distribution`).

The markers `foreign` and `long` are set here, by folder, file or fixture: no test carries them itself. `make quick`
leaves out both.
"""

from __future__ import annotations

import gc
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer

from tests.distribution import (
    Distribution,
    group_of,
    in_starting_order,
    is_last_of_its_group,
    send_only_what_is_read,
)
from tests.examples import DEFAULT, examples
from tests.interop.apache_kafka import ApacheKafka, ApacheKafkaError, shared_classes, why_missing
from tests.java_options import share_spark_classes, start_spark_with_quick_jvms
from tests.rotation import leave_slow_tests_to_other_commits
from tests.simulation import seeds

TESTS = Path(__file__).parent
# What needs Spark, Java, or another client of Kafka, besides the tests with one of the fixtures.
FOREIGN = (
    "spark",
    "interop",
    "demo",
    "bench",
    "protocol/oracle",
    "protocol_exports/test_kaitai.py",
    "protocol_exports/test_wireshark.py",
    "console/test_browser.py",
    "docs/test_other_tools.py",
    "docs/test_schemas.py",
    "mirror/backups/test_object_store.py",
    "pipelines/test_command_run.py",
    "records/test_other_clients.py",
    "schemas/serializers/test_confluent_serializers.py",
    "schemas/server/test_confluent_client.py",
)
FOREIGN_FIXTURES = {"apache_kafka", "java"}
SPARK_FIXTURE = "spark"
# What starts Spark, besides the connectors' scenarios, which have a Spark of their own.
SPARK = ("spark", "demo", "docs/test_schemas.py", "interop/test_demo.py", "pipelines/test_command_run.py")
# What starts Apache Kafka or its clients, besides the tests with one of the fixtures.
KAFKA = ("interop", "protocol/oracle")
# What takes more than two seconds of processor time, runs nothing but Python, and is about processes, whole programs,
# limits of resources, or arbitrary input: a change of a module seldom breaks these alone.
LONG = (
    "broker/groups/test_assignors.py",
    "broker/groups/test_histories.py",
    "broker/log/test_cleaner_crashes.py",
    "broker/log/test_index_file.py",
    "broker/partitions/test_elections.py",
    "broker/partitions/test_storage_faults.py",
    "broker/quotas/test_throttling.py",
    "broker/test_bounds.py",
    "broker/test_embedded.py",
    "broker/test_hostile.py",
    "broker/test_hostile_names.py",
    "broker/test_old_releases.py",
    "broker/topics/test_replica_placement.py",
    "cli/test_admin_commands.py",
    "cli/test_broker.py",
    "cli/test_broker_nodes.py",
    "cli/test_consume.py",
    "cli/test_copies.py",
    "cli/test_copy.py",
    "cli/test_doctor.py",
    "cli/test_group_export.py",
    "cli/test_groups.py",
    "cli/test_log.py",
    "cli/test_mirror.py",
    "cli/test_perf.py",
    "cli/test_produce.py",
    "cli/test_registry.py",
    "cli/test_schemas.py",
    "cli/test_top_live.py",
    "cli/test_wire.py",
    "cli/test_wire_tap.py",
    "client/admin/test_transactions.py",
    "client/credentials/test_oidc.py",
    "client/fetching/test_arrow_sizes.py",
    "client/fetching/test_idle.py",
    "client/fetching/test_interruptions.py",
    "client/fetching/test_old_formats.py",
    "client/groups/test_closing.py",
    "client/groups/test_group.py",
    "client/groups/test_group_changes.py",
    "client/hooks",
    "client/network/test_security.py",
    "client/network/test_telemetry.py",
    "client/sending/test_close.py",
    "client/sending/test_interrupted_sends.py",
    "client/sending/test_unclosed.py",
    "client/test_against_embedded_broker.py",
    "client/test_blocking.py",
    "client/test_cancelled_calls.py",
    "client/test_hostile_brokers.py",
    "client/test_leaks.py",
    "client/test_no_secret_is_shown.py",
    "client/test_process.py",
    "client/test_through_a_cluster.py",
    "client/test_timeouts.py",
    "client/test_uvloop.py",
    "client/threads",
    "console/test_command.py",
    "console/test_dead_letters.py",
    "console/test_pages.py",
    "core/group/test_assignors.py",
    "core/log/test_formats.py",
    "core/producer/test_machine_against_a_broker_model.py",
    "docs/test_architecture.py",
    "docs/test_command_line.py",
    "docs/test_copies.py",
    "docs/test_docs.py",
    "docs/test_first_change.py",
    "docs/test_guides.py",
    "docs/test_pointers.py",
    "fuzz",
    "inspect/test_annotation.py",
    "inspect/test_guess.py",
    "mirror/backups/test_backups.py",
    "mirror/test_killed_copies.py",
    "mirror/test_snapshot.py",
    "mistakes",
    "net/test_loop_thread.py",
    "optimized",
    "pipelines/test_dead_letter_commands.py",
    "pipelines/test_dead_letter_store.py",
    "pipelines/test_killed_replays.py",
    "property",
    "protocol/test_decoding_bounds.py",
    "records/test_building.py",
    "records/test_checksums.py",
    "records/test_compaction.py",
    "records/test_compression.py",
    "records/test_decompressed_sizes.py",
    "records/test_legacy.py",
    "records/test_rows.py",
    "records/test_splitting.py",
    "records/test_switches_between_threads.py",
    "schemas/arrow/test_protobuf_encoding.py",
    "schemas/languages/test_hostile_schemas.py",
    "schemas/languages/test_versions.py",
    "schemas/server/test_takeover.py",
    "schemas/server/test_topic.py",
    "schemas/test_client.py",
    "simulation/test_connection.py",
    "simulation/test_events.py",
    "simulation/test_faults.py",
    "simulation/test_planted_bugs.py",
    "test_imports.py",
    "testing/test_audit_spark.py",
    "testing/test_pytest_plugin.py",
    "test_web_server.py",
    "worker/test_endpoints_and_threads.py",
    "worker/test_kills.py",
)

MARKERS = {
    "foreign": "needs Spark, Java or another client of Kafka (set by tests/conftest.py)",
    "long": "takes seconds, or is one of the many seeds of a simulation (set by tests/conftest.py)",
}

start_spark_with_quick_jvms()
gc.disable()  # while tests are collected: what is made stays (`pytest_collection_finish`)

# The first test that needs Apache Kafka or its client may wait until Maven has fetched them.
FIRST_FETCH_SECONDS = 600


def pytest_report_header(config: pytest.Config) -> list[str]:
    from kafkaraw import __version__
    from kafkaraw.records import IMPLEMENTATION

    return [f"kafkaraw {__version__} on {platform.machine()}, records: {IMPLEMENTATION}", seeds.header()]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Distribution:
    gc.enable()  # this process collects no tests
    config.option.loadscopereorder = False
    return Distribution(config, log)


def leaves_out(config: pytest.Config, marker: str) -> bool:
    """Whether `-m` leaves out all tests with a marker, so that there is no need to collect them."""
    return re.search(rf"\bnot {marker}\b", config.option.markexpr) is not None


@cache  # asked for every test: without it, a tenth of what collecting takes
def is_in(path: Path, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these files, or in one of these folders, below `tests`."""
    below = str(path).removeprefix(f"{TESTS}/") + "/"
    return below.startswith(tuple(f"{place}/" for place in places))


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        send_only_what_is_read(config)
    seeds.with_soak = not leaves_out(config, "soak")
    # How long an example takes says more about the machine than about the code: pytest-timeout ends what hangs.
    hypothesis.settings.register_profile("kafkaraw", deadline=None, max_examples=examples(DEFAULT))
    hypothesis.settings.load_profile("kafkaraw")
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no tests that are left out: most of them import pyspark."""
    left_out = (FOREIGN if leaves_out(config, "foreign") else ()) + (LONG if leaves_out(config, "long") else ())
    return True if is_in(collection_path, left_out) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    needs_java = bool(FOREIGN_FIXTURES & set(getattr(item, "fixturenames", ())))
    if needs_java:
        item.add_marker(pytest.mark.timeout(FIRST_FETCH_SECONDS))
    if needs_java or is_in(item.path, FOREIGN) or needs_spark(item):
        item.add_marker("foreign")
    if is_in(item.path, LONG):
        item.add_marker("long")


def needs_spark(item: pytest.Item) -> bool:
    """Whether a test needs Spark: by its folder, or by its fixture."""
    return is_in(item.path, SPARK) or SPARK_FIXTURE in getattr(item, "fixturenames", ())


def pytest_collection_finish() -> None:
    """Leave what was collected out of what the garbage collector goes through from now on.

    That were 600,000 objects. They made collections slow, and rare: CPython collects the oldest generation when it has
    grown by a quarter, so that memory grew by gigabytes of garbage.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_slow_tests_to_other_commits(items, "tests/")
    groups = {item: group_of(item.nodeid) for item in items}
    rank = in_starting_order(groups.values())
    items.sort(key=lambda item: (rank[groups[item]], is_last_of_its_group(item.nodeid)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Make what Spark and Apache Kafka start quickly with before the test's time begins."""
    if needs_spark(item):
        share_spark_classes()
    if is_in(item.path, KAFKA) or FOREIGN_FIXTURES & set(getattr(item, "fixturenames", ())):
        share_kafka_classes()
    return (yield)


@cache
def share_kafka_classes() -> None:
    """Write the file of Kafka's classes; where that fails, the first test that needs it says why."""
    if why_missing() is None:
        with suppress(ApacheKafkaError, subprocess.SubprocessError):
            shared_classes()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """Leave what a passed test has printed and logged out of its report, unless `-rP` or `-rA` shows it.

    Workers send reports to the first process, which keeps all of them.
    """
    report = yield
    if report.passed and not {"A", "P"} & set(item.config.option.reportchars):
        report.sections = []
    return report


@pytest.fixture
def short_topic_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this process take a topic for missing after 0.2 s, and not after 3 s."""
    from kafkaraw.client.fetching import reading
    from kafkaraw.client.network import metadata

    for module in (metadata, reading):
        monkeypatch.setattr(module, "UNKNOWN_TOPIC_GRACE_S", 0.2)


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    """A real broker to compare with; tests that ask for it are skipped where Java or Maven is missing."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka() as kafka:
        yield kafka
