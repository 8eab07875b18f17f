"""The fixtures as users get them: in a pytest run of their own, with every warning an error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/how-to/test-with-kafkaraw.md"
TAP_EXAMPLE = ROOT / "docs/how-to/debug-with-the-tap.md"
FIXTURES = (
    "kafka_broker",
    "kafka_broker_session",
    "kafka_broker_factory",
    "kafka_cluster",
    "kafka_cluster_session",
    "kafka_cluster_factory",
    "kafka_faults",
    "kafka_tap",
    "kafka_tap_factory",
    "schema_registry",
)
PLUGIN = "kafkaraw.testing.pytest_plugin"


def run_pytest(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *args]
    # Where kafkaraw is installed, pytest has the plugin from its entry point; run from a source tree, it is named.
    env_args = [] if _is_installed() else ["-p", PLUGIN]
    return subprocess.run([*command, *env_args], cwd=folder, capture_output=True, text=True, timeout=60)


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))


def code_of(page: Path) -> list[str]:
    """The Python of a page, by block."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


KEEPS_OLD_RECORDS = """
from kafkaraw import Admin, ConfigResource, NewTopic

def test_brokers_of_the_session_keep_records_of_any_age(kafka_broker_session, kafka_cluster_session):
    for each in (kafka_broker_session, kafka_cluster_session):
        with Admin(bootstrap_servers=each.bootstrap_servers) as admin:
            admin.create_topics([NewTopic('old', 1)])
            topic = ConfigResource.topic('old')
            assert admin.describe_configs([topic])[topic]['retention.ms'].value == '-1'
"""
HAS_A_REGISTRY = """
from kafkaraw import Admin
from kafkaraw.schemas import Registry, Schema

def test_the_registry_is_on_the_broker_of_the_test(kafka_broker, schema_registry):
    with Registry(schema_registry.url) as registry:
        assert registry.register('s', Schema('"int"')).id == 1
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        assert '_schemas' in {topic.name for topic in admin.list_topics()}

def test_the_registry_is_in_memory_without_a_broker(schema_registry):
    with Registry(schema_registry.url) as registry:
        assert registry.register('s', Schema('"int"')).version == 1
"""


def test_the_examples_of_the_manual_and_tests_with_the_fixtures_run(tmp_path: Path):
    for number, block in enumerate([*code_of(EXAMPLE), code_of(TAP_EXAMPLE)[-1], KEEPS_OLD_RECORDS, HAS_A_REGISTRY]):
        (tmp_path / f"test_example_{number}.py").write_text(block)
    result = run_pytest(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "12 passed" in result.stdout


def test_a_run_that_uses_no_fixture_does_not_load_kafkaraw(tmp_path: Path):
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        f"    assert {PLUGIN!r} in sys.modules\n"
        "    loaded = {name for name in sys.modules if name.startswith(('kafkaraw.', 'pyarrow', 'lz4', 'zstandard'))}\n"
        f"    assert loaded == {{'kafkaraw._version', 'kafkaraw.testing', {PLUGIN!r}}}\n"
    )
    result = run_pytest(tmp_path, "-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:xdist")
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_fixture_is_listed(tmp_path: Path):
    listing = run_pytest(tmp_path, "--fixtures").stdout
    missing = [name for name in FIXTURES if f"\n{name} " not in listing]
    assert not missing, listing
