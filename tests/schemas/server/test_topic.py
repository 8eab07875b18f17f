"""The registry on a Kafka cluster: the topic, restarts, damaged records, failures of Kafka, and several instances."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from kafkaraw import Admin, ConfigResource, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.light_classes import replace
from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema, TlsSettings
from tests import waiting

NO_IDLE_CONNECTIONS = httpx.Limits(max_keepalive_connections=0)
# Without TLS, since a context of TLS takes 30 ms.
CLIENT = httpx.Client(timeout=30, trust_env=False, verify=False, limits=NO_IDLE_CONNECTIONS)
BROKER = {"group.initial.rebalance.delay.ms": 0, "log.retention.ms": -1}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of a broker whose groups rebalance at once."""
    with EmbeddedBroker(properties=BROKER) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., EmbeddedRegistry]]:
    """A function that starts a registry on a topic and in a group of this test alone."""
    name = request.node.name
    running: list[EmbeddedRegistry] = []

    def make(servers: str, properties: dict[str, object] | None = None, **options: Any) -> EmbeddedRegistry:
        own = {
            "kafkastore.topic": topic_of(name),
            "schema.registry.group.id": topic_of(name),
            "kafkagroup.session.timeout.ms": 6000,
            "kafkagroup.heartbeat.interval.ms": 100,
        }
        running.append(EmbeddedRegistry(servers, properties=own | (properties or {}), **options).start())
        return running[-1]

    yield make
    for registry in running:
        registry.stop()


def topic_of(name: str) -> str:
    return "_" + "".join(character if character.isalnum() else "_" for character in name)


def ask(registry: EmbeddedRegistry | str, method: str, path: str, body: object = None) -> Any:
    url = registry if isinstance(registry, str) else registry.url
    answer = CLIENT.request(method, url + path, json=body)
    found = answer.json()
    return (answer.status_code, found["error_code"], found["message"]) if answer.is_error else found


def enum(*symbols: str) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": list(symbols)}, separators=(",", ":"))


def register(registry: EmbeddedRegistry | str, subject: str, text: str) -> Any:
    return ask(registry, "POST", f"/subjects/{subject}/versions", {"schema": text})


def records_of(servers: str, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values of a topic, NOOPs left out."""
    return [(key, value) for key, value in all_records_of(servers, topic) if b"NOOP" not in key]


def guid_in(registry: EmbeddedRegistry, subject: str) -> str:
    """The GUID of a subject's first version."""
    found: str = ask(registry, "GET", f"/subjects/{subject}/versions/1")["guid"]
    return found


def all_records_of(servers: str, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values of a topic."""
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        [end] = consumer.end_offsets([TopicPartition(topic, 0)]).values()
        found: list[tuple[Any, Any]] = []
        while consumer.position(TopicPartition(topic, 0)) < end:
            for batch in consumer.poll(1.0).values():
                found += [(bytes(it.key), None if it.value is None else bytes(it.value)) for it in batch]
    return found


def test_the_topic_is_made_compacted_and_survives_a_restart(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    topic = topic_of(request.node.name)
    first = start(servers)
    assert register(first, "s", enum("a"))["id"] == 1
    assert register(first, ":.c:s", enum("b"))["id"] == 1
    assert ask(first, "PUT", "/config/s", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert ask(first, "PUT", "/mode/t", {"mode": "READONLY"}) == {"mode": "READONLY"}
    register(first, "s", enum("c"))
    ask(first, "DELETE", "/subjects/s/versions/1")
    ask(first, "DELETE", "/subjects/s")
    before = [ask(first, "GET", path) for path in ("/schemas?deleted=true", "/contexts", "/config/s", "/mode/t")]
    assert ask(first, "GET", "/v1/metadata/id")["scope"]["clusters"]["kafka-cluster"]
    first.stop()
    with Admin(bootstrap_servers=servers) as admin:
        resource = ConfigResource.topic(topic)
        assert admin.describe_configs([resource])[resource]["cleanup.policy"].value == "compact"
    assert records_of(servers, topic) == [
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schemaType":"AVRO","schema":'
            b'"{\\"type\\":\\"enum\\",\\"name\\":\\"E\\",\\"symbols\\":[\\"a\\"]}","deleted":false}',
        ),
        (b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', b'{"tenant":"default","context":".c"}'),
        (
            b'{"keytype":"SCHEMA","subject":":.c:s","version":1,"magic":1}',
            b'{"subject":":.c:s","version":1,"id":1,"schemaType":"AVRO","schema":'
            b'"{\\"type\\":\\"enum\\",\\"name\\":\\"E\\",\\"symbols\\":[\\"b\\"]}","deleted":false}',
        ),
        (b'{"keytype":"CONFIG","subject":"s","magic":0}', b'{"subject":"s","compatibilityLevel":"NONE"}'),
        (b'{"keytype":"MODE","subject":"t","magic":0}', b'{"subject":"t","mode":"READONLY"}'),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
            b'{"subject":"s","version":2,"id":2,"schemaType":"AVRO","schema":'
            b'"{\\"type\\":\\"enum\\",\\"name\\":\\"E\\",\\"symbols\\":[\\"c\\"]}","deleted":false}',
        ),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schemaType":"AVRO","schema":'
            b'"{\\"type\\":\\"enum\\",\\"name\\":\\"E\\",\\"symbols\\":[\\"a\\"]}","deleted":true}',
        ),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":2}'),
    ]
    again = start(servers)
    assert [
        ask(again, "GET", path) for path in ("/schemas?deleted=true", "/contexts", "/config/s", "/mode/t")
    ] == before
    assert register(again, "x", enum("d"))["id"] == 3


def test_damaged_and_foreign_records_are_skipped(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    topic = topic_of(request.node.name)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
    key = b'{"keytype":"SCHEMA","subject":"s","version":%d,"magic":1}'
    value = b'{"subject":"s","version":%d,"id":%d,"schema":"\\"int\\"","deleted":false}'
    with Producer(bootstrap_servers=servers) as producer:
        for one, other in (
            (b"no json", b"x"),
            (key % 1, value % (1, 1)),
            (key % 2, b"{damaged"),
            (b'{"keytype":"ASSOC","magic":0}', b"{}"),
            (b'{"keytype":"FUTURE","magic":0}', b"{}"),
            (key % 7, b'{"subject":"s","version":7,"id":7,"schema":"\\"\\ud800\\"","deleted":false}'),
            (b'{"keytype":"CONFIG","subject":"\\ud800","magic":0}', b'{"alias":"x"}'),
            (b'{"keytype":"NOOP","magic":0}', None),
        ):
            producer.send(topic, other, one)
    registry = start(servers)
    assert ask(registry, "GET", "/subjects/s/versions") == [1]
    assert ask(registry, "GET", "/schemas/ids/1")["schema"] == '"int"'
    assert register(registry, "s", '"long"')["version"] == 2
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"{damaged", key % 3).result(10)
    assert register(registry, "s", '"float"')["version"] == 3


@pytest.mark.parametrize(
    ("partitions", "configs", "named"),
    [(1, {}, "cleanup.policy='delete'"), (2, {"cleanup.policy": "compact"}, "2 partitions")],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    servers: str, request: pytest.FixtureRequest, partitions: int, configs: dict[str, str | None], named: str
) -> None:
    topic = topic_of(request.node.name)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1, configs)])
    with pytest.raises(ConfigError, match=named):
        EmbeddedRegistry(servers, properties={"kafkastore.topic": topic}).start()


def test_a_read_only_registry_follows_the_topic_and_writes_nothing(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    topic = topic_of(request.node.name)
    with pytest.raises(ConfigError, match="does not create it"):
        EmbeddedRegistry(servers, read_only=True, properties={"kafkastore.topic": topic}).start()
    writer = start(servers)
    register(writer, "s", enum("a"))
    replica = start(servers, read_only=True)
    assert ask(replica, "GET", "/subjects") == ["s"]
    assert register(replica, "t", enum("a")) == (422, 42205, "This registry is in read-only mode")
    register(writer, "t", enum("b"))
    wait_until(lambda: ask(replica, "GET", "/subjects") == ["s", "t"])


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    assert waiting.wait_until(condition, timeout_s, 0.02), "it did not happen in time"


def test_instances_elect_a_primary_and_forward_to_it(servers: str, start: Callable[..., EmbeddedRegistry]) -> None:
    first, second = start(servers, elect=True), start(servers, elect=True)
    found = register(second, "s", enum("a"))
    assert (found["id"], found["version"]) == (1, 1)
    for registry in (first, second):  # the one that sent it on has read it, too
        assert ask(registry, "GET", "/subjects/s/versions/1")["id"] == 1
        status, code, _ = ask(registry, "POST", "/subjects/s/versions", {"schema": '"string"'})
        assert (status, code) == (409, 40901)
    ids = [
        register(registry, f"t{number}", enum(f"e{number}"))["id"]
        for number, registry in enumerate([first, second] * 5)
    ]
    assert sorted(ids) == list(range(2, 12))
    assert ask(second, "DELETE", "/subjects/t1") == [1]
    assert ask(second, "PUT", "/config/s", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    first.stop()
    assert register(second, "u", enum("u"))["id"] == 12
    third = start(servers, elect=True)
    assert register(third, "v", enum("v"))["id"] == 13


def test_an_instance_that_may_not_become_primary_says_so(servers: str, start: Callable[..., EmbeddedRegistry]) -> None:
    registry = start(servers, {"leader.eligibility": False}, elect=True)
    assert register(registry, "s", enum("a")) == (500, 50004, "Leader not known.")
    assert ask(registry, "GET", "/subjects") == []


def test_instances_with_one_url_are_refused(servers: str, start: Callable[..., EmbeddedRegistry]) -> None:
    shared = {"host.name": "registry.example", "host.port": 8081}
    start(servers, shared, elect=True)
    with pytest.raises(ConfigError, match=r"http://registry.example:8081"):
        start(servers, shared, elect=True)


def test_two_writers_at_once_never_give_an_id_or_a_version_twice(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    """Without an election, both take themselves for the primary."""
    pair = [start(servers), start(servers)]
    answers: list[tuple[int, int, str]] = []
    failures: list[object] = []

    def write(registry: EmbeddedRegistry, name: str) -> None:
        for number in range(15):
            text = enum(f"{name}{number}")
            ask(registry, "PUT", "/config", {"compatibility": "NONE"})
            found = register(registry, "s", text)
            (
                answers.append((found["id"], found["version"], text))
                if isinstance(found, dict)
                else failures.append(found)
            )

    threads = [threading.Thread(target=write, args=(registry, name)) for registry, name in zip(pair, "xy", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(answers) == 30
    assert len({number for number, _, _ in answers}) == len({version for _, version, _ in answers}) == 30
    # A third one, which reads the topic from its beginning, has the same schemas behind these ids.
    for registry in (*pair, start(servers)):
        for number, version, text in answers:
            assert ask(registry, "GET", f"/schemas/ids/{number}")["schema"] == text
            assert ask(registry, "GET", f"/subjects/s/versions/{version}")["id"] == number


def test_no_id_is_given_twice_even_when_compaction_has_removed_its_schema(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    topic = topic_of(request.node.name)
    first = start(servers)
    for number in range(1, 4):
        assert register(first, f"s{number}", enum(f"e{number}"))["id"] == number
    assert register(first, ":.c:s", enum("a"))["id"] == 1
    for subject in ("s3", "s2", ":.c:s"):
        ask(first, "DELETE", f"/subjects/{subject}")
        ask(first, "DELETE", f"/subjects/{subject}?permanent=true")
    first.stop()
    with Producer(bootstrap_servers=servers) as producer:
        for key, value in dict(all_records_of(servers, topic)).items():
            if value is not None:  # what compaction leaves
                producer.send(topic + "_compacted", value, key)
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource.topic(topic + "_compacted"): {"cleanup.policy": "compact"}})
    again = start(servers, {"kafkastore.topic": topic + "_compacted"})
    assert ask(again, "GET", "/schemas?deleted=true&subjectPrefix=:*:") == [
        {"subject": "s1", "version": 1, "id": 1, "schema": enum("e1"), "guid": guid_in(again, "s1")}
        | {name: ask(again, "GET", "/subjects/s1/versions/1")[name] for name in ("schemaType", "ts", "deleted")}
    ]
    assert register(again, "s4", enum("e4"))["id"] == 4
    assert register(again, ":.c:s", enum("b"))["id"] == 2


def test_twenty_clients_that_register_at_once_get_one_id_per_schema(
    servers: str, start: Callable[..., EmbeddedRegistry]
) -> None:
    pair = [start(servers, elect=True), start(servers, elect=True)]
    answers: list[tuple[str, int, int]] = []

    def write(number: int) -> None:
        urls = [registry.url for registry in (pair if number % 2 else pair[::-1])]
        with Registry(urls, default_api_timeout_ms=60_000) as client:
            for subject, text in (("same", enum("a")), (f"own{number}", enum(f"e{number}")), ("same", enum("a"))):
                found = client.register(subject, Schema(text))
                assert found.version is not None
                answers.append((text, found.id, found.version))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 60
    assert len({number for _, number, _ in answers}) == len({text for text, _, _ in answers}) == 21
    assert len(set(answers)) == 21
    assert ask(pair[0], "GET", "/subjects/same/versions") == [1]


def test_what_was_answered_before_during_and_after_a_failover_stays(
    servers: str, start: Callable[..., EmbeddedRegistry]
) -> None:
    first, second = start(servers, elect=True), start(servers, elect=True)
    answers: dict[str, tuple[int, int]] = {}
    ends = threading.Event()
    urls = [first.url, second.url]

    def write(name: str) -> None:
        with Registry(urls, default_api_timeout_ms=60_000, retries=50, retry_backoff_ms=50) as client:
            number = 0
            while not ends.is_set():
                text = enum(f"{name}{number}")
                found = client.register(f"{name}{number}", Schema(text))
                answers[text] = found.id, found.version or 0
                number += 1

    threads = [threading.Thread(target=write, args=(name,)) for name in "vwxyz"]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) >= 20)
    first.stop()
    known = len(answers)
    wait_until(lambda: len(answers) >= known + 20, 60)
    ends.set()
    for thread in threads:
        thread.join(60)
    assert len({number for number, _ in answers.values()}) == len(answers)
    for registry in (second, start(servers, elect=True)):
        for text, (number, version) in answers.items():
            assert version == 1
            assert ask(registry, "GET", f"/schemas/ids/{number}")["schema"] == text


def test_a_registry_starts_on_a_topic_that_was_written_halfway(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    topic = topic_of(request.node.name)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
    key = '{"keytype":"SCHEMA","subject":"%s","version":%d,"magic":1}'
    value = '{"subject":"%s","version":%d,"id":%d,"schema":%s,"references":%s,"deleted":%s}'
    reference = '[{"name":"E","subject":"gone","version":1}]'
    with Producer(bootstrap_servers=servers) as producer:
        for one, other in (
            # The first of two tombstones of a permanent deletion; the subject's soft deletion came before.
            (key % ("half", 1), value % ("half", 1, 1, '"\\"int\\""', "[]", "false")),
            (key % ("half", 2), value % ("half", 2, 2, '"\\"long\\""', "[]", "false")),
            ('{"keytype":"DELETE_SUBJECT","subject":"half","magic":0}', '{"subject":"half","version":2}'),
            (key % ("half", 2), None),
            # A context without schemas, and a mode and a configuration without a subject.
            (
                '{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
                '{"tenant":"default","context":".c"}',
            ),
            ('{"keytype":"MODE","subject":"lost","magic":0}', '{"subject":"lost","mode":"READONLY"}'),
            # A reference whose schema is gone, a schema that does not parse, and one that is cut off.
            (key % ("broken", 1), value % ("broken", 1, 5, '"{\\"type\\":\\"E\\"}"', reference, "false")),
            (key % ("damaged", 1), value % ("damaged", 1, 6, '"{"', "[]", "false")),
            (key % ("cut", 1), (value % ("cut", 1, 7, '"\\"int\\""', "[]", "false"))[:40]),
        ):
            producer.send(topic, None if other is None else other.encode(), one.encode())
    registry = start(servers)
    assert ask(registry, "GET", "/subjects/half/versions?deleted=true") == [1]
    assert ask(registry, "DELETE", "/subjects/half?permanent=true") == [1]
    assert ask(registry, "GET", "/subjects?deleted=true") == ["broken", "damaged"]
    assert ask(registry, "GET", "/schemas/ids/6")["schema"] == "{"
    for subject in ("broken", "damaged"):
        status, code, message = register(registry, subject, '"string"')
        assert (status, code) in ((422, 42201), (409, 40901)), message
    assert register(registry, "cut", '"string"')["version"] == 1
    assert register(registry, ":.c:s", '"string"')["id"] == 1
    assert ask(registry, "DELETE", "/subjects/damaged/versions/1") == 1
    assert ask(registry, "DELETE", "/subjects/broken/versions/latest?permanent=false") == 1


def test_kafka_may_be_down_at_the_start_and_later() -> None:
    with EmbeddedBroker(properties=BROKER) as broker:
        servers = broker.bootstrap_servers
    with pytest.raises(KafkaError):
        EmbeddedRegistry(servers, properties={"kafkastore.init.timeout.ms": 1500}).start()


def test_a_write_is_answered_by_a_timeout_if_kafka_is_gone(tmp_path: Any) -> None:
    with EmbeddedBroker(properties=BROKER, data_dir=tmp_path) as broker:
        servers, port = broker.bootstrap_servers, int(broker.bootstrap_servers.rpartition(":")[2])
        registry = EmbeddedRegistry(servers, properties={"kafkastore.timeout.ms": 1000}).start()
        assert register(registry, "s", enum("a"))["id"] == 1
    try:
        status, code, message = register(registry, "s", enum("b", "a"))
        assert (status, code) in ((500, 50002), (500, 50001)), message
        assert ask(registry, "GET", "/subjects/s/versions/1")["id"] == 1  # reads go on
        assert register(registry, "s", enum("a"))["id"] == 1  # as what is known
        with EmbeddedBroker(port, properties=BROKER, data_dir=tmp_path):
            wait_until(lambda: isinstance(register(registry, "s", enum("b", "a")), dict))
            assert ask(registry, "GET", "/subjects/s/versions") == [1, 2]
    finally:
        registry.stop()


def test_a_schema_that_is_too_large_for_the_topic_is_refused(
    servers: str, start: Callable[..., EmbeddedRegistry]
) -> None:
    registry = start(servers)
    quotes = '"' * 300_000  # escaped twice in the record
    text = json.dumps({"type": "record", "name": "R", "fields": [], "doc": quotes})
    assert register(registry, "s", text) == (422, 42209, "Register operation failed because schema is too large")
    assert register(registry, "s", enum("a"))["version"] == 1


def test_the_primary_stops_writing_without_its_coordinator_and_goes_on_with_it(tmp_path: Any) -> None:
    with EmbeddedBroker(properties=BROKER, data_dir=tmp_path) as broker:
        servers, port = broker.bootstrap_servers, int(broker.bootstrap_servers.rpartition(":")[2])
        settings = {
            "kafkastore.timeout.ms": 1000,
            "kafkagroup.session.timeout.ms": 6000,
            "kafkagroup.heartbeat.interval.ms": 100,
        }
        registry = EmbeddedRegistry(servers, elect=True, properties=settings).start()
        assert register(registry, "s", enum("a"))["id"] == 1
    try:
        assert registry._instance is not None
        elector = registry._instance._elector
        assert elector is not None
        elector._settings = replace(elector._settings, session_timeout_ms=1, wait_s=0.1)
        assert register(registry, "s", enum("b", "a")) == (500, 50004, "Leader not known.")
        assert ask(registry, "GET", "/subjects") == ["s"]
        elector._settings = replace(elector._settings, session_timeout_ms=6000, wait_s=10)
        with EmbeddedBroker(port, properties=BROKER, data_dir=tmp_path):
            wait_until(lambda: isinstance(register(registry, "s", enum("b", "a")), dict), 40)
    finally:
        registry.stop()


def test_thousands_of_subjects_are_read_and_listed(
    servers: str, start: Callable[..., EmbeddedRegistry], request: pytest.FixtureRequest
) -> None:
    topic, count = topic_of(request.node.name), 5_000
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(1, count + 1):
            value = {
                "subject": f"s{number}",
                "version": 1,
                "id": number,
                "schema": enum(f"e{number}"),
                "deleted": False,
            }
            key = b'{"keytype":"SCHEMA","subject":"s%d","version":1,"magic":1}' % number
            producer.send(topic, json.dumps(value).encode(), key)
    progress: list[tuple[int, int]] = []
    registry = start(servers, progress=lambda done, of: progress.append((done, of)))
    assert progress[-1] == (count, count)
    assert len(ask(registry, "GET", "/subjects")) == count
    assert len(ask(registry, "GET", "/schemas?limit=-1")) == 1_000  # the limit of Confluent's registry
    assert register(registry, "t", enum("new"))["id"] == count + 1


def test_instances_with_tls_and_users_forward_with_both(
    servers: str, start: Callable[..., EmbeddedRegistry], tmp_path: Any
) -> None:
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "client@example.org")
    (tmp_path / "server.pem").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = TlsSettings(str(tmp_path / "server.pem"), trusted=str(tmp_path / "ca.pem"))
    pair = [start(servers, elect=True, tls=tls, users={"ada": "secret"}) for _ in range(2)]
    with httpx.Client(timeout=30, trust_env=False, verify=False) as client:
        for number, registry in enumerate(pair, 1):
            url = f"{registry.url}/subjects/s{number}/versions"
            assert client.post(url, json={"schema": enum(f"e{number}")}).status_code == 401
            answer = client.post(url, json={"schema": enum(f"e{number}")}, auth=("ada", "secret"))
            assert answer.json()["id"] == number
