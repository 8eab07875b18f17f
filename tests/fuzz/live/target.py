"""The broker under attack: a process of its own with three listeners, an authorizer, and an honest client beside it.

Hostile clients are everybody else: they come from 127.0.0.2, may do everything with topics, groups and transactional
ids that begin with `evil`, may write to and read all topics, and may do nothing with those that begin with `honest`.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme

from kafkaraw import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    KafkaError,
    NewTopic,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from tests.fuzz.live.honest import PASSWORD, TOPIC, USER
from tests.fuzz.live.process import Watched
from tests.fuzz.live.wire import free_ports

HOST = "127.0.0.1"
HOSTILE_HOST = "127.0.0.2"
EVIL_USER, EVIL_PASSWORD = "eve", "eve-secret"
HOSTILE_CONNECTIONS_MAX = 1_500
DESCRIPTORS_MAX = 4_096
IDLE_MS = 4_000
START_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 60.0
PRINCIPALS = ("User:ANONYMOUS", f"User:{EVIL_USER}")
KINDS = ("memory", "disk", "open")
"""In memory; with a data directory; and in memory without an authorizer, where only the broker itself is judged."""


@dataclass
class Target:
    """A running broker and its honest client; `close` ends both.

    Args:
        kind: one of `KINDS`.
        fault: a fault that `planted` puts into the broker; None for the broker as it is.
    """

    kind: str
    fault: str | None = None
    broker: Watched = field(init=False)
    honest: Watched = field(init=False)

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafkaraw-fuzz-")
        folder = Path(self._folder.name)
        self.plain, self.logins, self.tls = [(HOST, port) for port in free_ports(3)]
        authority = trustme.CA()
        mine = authority.issue_cert("localhost", HOST)
        self._authority = folder / "authority.pem"
        self._authority.write_bytes(authority.cert_pem.bytes())
        (folder / "broker.pem").write_bytes(mine.private_key_and_cert_chain_pem.bytes())
        self._config = folder / "server.properties"
        self._config.write_text(self._properties(folder / "broker.pem"))
        self._data = folder / "data" if self.kind == "disk" else None
        self._start_broker()
        try:
            self._prepare()
            self._start_honest()
            self.tell_honest("settle")
        except BaseException:
            self.close()
            raise

    def _properties(self, keystore: Path) -> str:
        ends = {"PLAINTEXT": self.plain, "SASL_PLAINTEXT": self.logins, "SSL": self.tls}
        plain_login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        jaas = f'{plain_login} user_{USER}="{PASSWORD}" user_{EVIL_USER}="{EVIL_PASSWORD}";'
        properties = {
            "listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in ends.items()),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.location": str(keystore),
            "connections.max.idle.ms": str(IDLE_MS),
            "connections.max.login.ms": "3000",
            "max.connections.per.ip.overrides": f"{HOSTILE_HOST}:{HOSTILE_CONNECTIONS_MAX}",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "transaction.max.timeout.ms": "60000",
        }
        if self.kind != "open":
            properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            properties["super.users"] = f"User:{USER}"
        return "".join(f"{name}={value}\n" for name, value in properties.items())

    def _start_broker(self) -> None:
        module = ["kafkaraw"] if self.fault is None else ["tests.fuzz.live.planted", self.fault]
        command = ["-m", *module, "broker", "--config", str(self._config)]
        if self._data is not None:
            command += ["--data-dir", str(self._data)]
        self.broker = Watched(command, descriptors_max=DESCRIPTORS_MAX)
        self.broker.line(START_TIMEOUT_S)

    def _start_honest(self) -> None:
        ends = {"--logins": self.logins, "--plain": self.plain, "--tls": self.tls}
        arguments = [text for name, (host, port) in ends.items() for text in (name, f"{host}:{port}")]
        arguments += ["--broker", str(self.broker.process_id), "--authority", str(self._authority)]
        self.honest = Watched(["-m", "tests.fuzz.live.honest", *arguments])

    @property
    def authority(self) -> str:
        """PEM text of the authority of the broker's certificate."""
        return self._authority.read_text()

    def admin(self) -> Admin:
        """A client that may do everything."""
        return Admin(
            bootstrap_servers="{}:{}".format(*self.logins),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username=USER,
            sasl_password=PASSWORD,
            default_api_timeout_ms=20_000,
        )

    def _prepare(self) -> None:
        with self.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, partitions=1, replication_factor=1)])
            self.make_evil_topics(admin)
            if self.kind == "open":
                return
            admin.create_acls(
                [
                    AclBinding(pattern, who, operation, permission)
                    for who in PRINCIPALS
                    for pattern, operation, permission in _rules()
                ]
            )

    def make_evil_topics(self, admin: Admin) -> None:
        """Create the topics that hostile clients begin with."""
        compact = {"cleanup.policy": "compact"}
        packed = {"compression.type": "gzip"}
        stamped = {"message.timestamp.type": "LogAppendTime"}
        configs = {"evil-0": {}, "evil-compact": compact, "evil-gzip": packed, "evil-stamped": stamped}
        admin.create_topics(
            [NewTopic(name, partitions=2, replication_factor=1, configs=config) for name, config in configs.items()]
        )

    def clean_up(self) -> None:
        """Delete what hostile clients have made, so that what is left is what leaked."""
        with self.admin() as admin:
            names = [listing.name for listing in admin.list_topics()]
            theirs = [name for name in names if name != TOPIC and not name.startswith("__")]
            for at in range(0, len(theirs), 200):
                admin.delete_topics(theirs[at : at + 200])
            groups = [listing.group_id for listing in admin.list_groups() if not listing.group_id.startswith("honest")]
            for at in range(0, len(groups), 200):
                try:
                    admin.delete_groups(groups[at : at + 200])
                except KafkaError:
                    continue  # members whose sessions have not ended yet; they cost what the budget allows
            self.make_evil_topics(admin)

    def tell_honest(self, command: str) -> dict[str, Any]:
        """Give the honest client a command, and return its answer."""
        self.honest.say(json.dumps({"do": command}))
        answer: dict[str, Any] = json.loads(self.honest.line(ANSWER_TIMEOUT_S))
        return answer

    def restart(self) -> None:
        """Stop the broker and start it again on its data; the honest client goes on where it was."""
        self.tell_honest("pause")
        self.broker.stop()
        self._start_broker()
        self.tell_honest(str(self.broker.process_id))

    def close(self) -> None:
        """End both processes, and remove the data."""
        if hasattr(self, "honest"):
            self.honest.stop(kill=True)
        self.broker.stop(kill=True)
        self._folder.cleanup()


def _rules() -> list[tuple[ResourcePattern, AclOperation, AclPermissionType]]:
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    everything, kinds = AclOperation.ALL, (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    rules = [
        (ResourcePattern(ResourceType.TOPIC, "*"), operation, allow)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    rules += [(ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"), AclOperation.CREATE, allow)]
    for kind in kinds:
        rules.append((ResourcePattern(kind, "evil", PatternType.PREFIXED), everything, allow))
        rules.append((ResourcePattern(kind, "honest", PatternType.PREFIXED), everything, deny))
    return rules
