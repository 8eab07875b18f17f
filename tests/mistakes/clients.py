"""Mistakes in making clients: arguments, addresses, settings, properties."""

from __future__ import annotations

from kafkaraw import ConfigError, NetworkError, UsageError
from tests.mistakes.mistake import Desk, Mistake, constructed


def setting(
    what: str, kind: str, settings: dict[str, object], value: str, remedy: str, *, stage: str | None = None
) -> Mistake:
    """A setting that does not fit: the stage is its name."""

    def call(desk: Desk) -> object:
        given = {"bootstrap_servers": "127.0.0.1:1", **settings}
        named = {name: desk.named(one) if isinstance(one, str) else one for name, one in given.items()}
        return constructed(lambda: getattr(desk, kind)(**named))

    return Mistake(what, call, ConfigError, stage or next(iter(settings)), value, remedy)


def servers(what: str, given: object, value: str, remedy: str) -> Mistake:
    return setting(what, "Producer", {"bootstrap_servers": given}, value, remedy)


POSITIONAL = (
    Mistake("a dict for a producer", lambda on: constructed(lambda: on.Producer({"bootstrap_servers": "h:1"})),
            UsageError, "Producer(a dict)", "settings are keywords", "from_properties()"),
    Mistake("a dict for a consumer", lambda on: constructed(lambda: on.Consumer({"bootstrap.servers": "h:1"})),
            UsageError, "Consumer(a dict)", "settings are keywords", "from_properties()"),
    Mistake("a dict for an admin client", lambda on: constructed(lambda: on.Admin({"bootstrap_servers": "h:1"})),
            UsageError, "Admin(a dict)", "settings are keywords", "**settings"),
    Mistake("a topic for a consumer", lambda on: constructed(lambda: on.Consumer("orders")),
            UsageError, "Consumer('orders')", "settings are keywords", "topics go to subscribe()"),
    Mistake("an address for a producer", lambda on: constructed(lambda: on.Producer("localhost:9092")),
            UsageError, "Producer('localhost:9092')", "settings are keywords", "bootstrap_servers="),
    Mistake("a runtime of another class", lambda on: constructed(lambda: on.Admin(bootstrap_servers="h:1", runtime=5)),
            UsageError, "runtime", "5", "leave it out"),
)  # fmt: skip

SERVERS = (
    Mistake("no address", lambda on: constructed(lambda: on.Producer()),
            ConfigError, "bootstrap_servers", "is missing", "as in 'localhost:9092'"),
    servers("None for addresses", None, "None", '"host:port,host:port"'),
    servers("no text for addresses", "", "''", 'give "host:port"'),
    servers("a number for addresses", 9092, "9092", '"host:port,host:port"'),
    servers("bytes for addresses", b"localhost:9092", "b'localhost:9092'", "not bytes"),
    servers("an address without a port", "localhost", "'localhost' has no port", "did you mean 'localhost:9092'"),
    servers("an address as a pair", ("localhost", 9092), "('localhost', 9092)", "write 'localhost:9092'"),
    servers("a list of pairs", [("localhost", 9092)], "('localhost', 9092)", '"host:port"'),
    servers("a URL of Kafka", "kafka://localhost:9092", "'kafka://localhost:9092'", "leave 'kafka://' out"),
    servers("a URL of a web server", "http://localhost:8080/", "'http://localhost:8080/'", "leave 'http://' out"),
    servers("addresses with blanks between", "one:9092 two:9092", "one:9092 two:9092", "write 'one:9092,two:9092'"),
    servers("addresses with semicolons", "one:9092;two:9092", "one:9092;two:9092", "separate servers with commas"),
    servers("a port that is text", "localhost:kafka", "localhost:kafka", "the port must be a number from 1 to 65535"),
    servers("a port out of range", "localhost:90920", "localhost:90920", "the port must be a number from 1 to 65535"),
    Mistake("a host that cannot be resolved",
            lambda on: on.produce(lambda p: p.partitions_for("t"), bootstrap_servers="no-such-host.invalid:9092"),
            NetworkError, "cannot resolve", "no-such-host.invalid:9092", "check the spelling", 5.0),
)  # fmt: skip

SETTINGS = (
    setting("an unknown setting", "Producer", {"batch_sise": 5}, "unknown setting", "did you mean 'batch_size'?"),
    setting("Java's name of a setting", "Consumer", {"auto.offset.reset": "latest"}, "unknown setting",
            "did you mean 'auto_offset_reset'?"),
    setting("a setting of the producer", "Consumer", {"acks": "all"}, "not accepted here", "a setting of the producer"),
    setting("a setting of the consumer", "Producer", {"group_id": "g"}, "not accepted here",
            "a setting of the consumer"),
    setting("text for milliseconds", "Producer", {"linger_ms": "5"}, "'5'", "a whole number of milliseconds, not str"),
    setting("seconds for milliseconds", "Producer", {"linger_ms": 0.005}, "0.005", "a whole number of milliseconds"),
    setting("a float for milliseconds", "Consumer", {"request_timeout_ms": 30.0}, "30.0", "number of milliseconds"),
    setting("a negative time", "Producer", {"linger_ms": -1}, "-1", "at least 0 ms"),
    setting("no time at all", "Producer", {"request_timeout_ms": 0}, "0", "at least 1 ms"),
    setting("True for milliseconds", "Admin", {"default_api_timeout_ms": True}, "True", "number of milliseconds"),
    setting("seconds for a delivery timeout", "Producer", {"delivery_timeout_ms": 30}, "30",
            "at least linger_ms + request_timeout_ms"),
    setting("seconds for a session timeout", "Consumer", {"session_timeout_ms": 45, "group_id": "g"}, "45",
            "both are milliseconds"),
    setting("a heartbeat longer than the session", "Consumer", {"heartbeat_interval_ms": 60_000, "group_id": "g"},
            "60000", "usually a third of it"),
    setting("a size with a unit", "Consumer", {"fetch_max_bytes": "50MB"}, "'50MB'", "a whole number of bytes"),
    setting("a negative size", "Producer", {"buffer_memory": -5}, "-5", "at least 1 bytes"),
    setting("a size that no request can have", "Producer", {"max_request_size": 10**10}, str(10**10),
            "at most 2147483647 bytes"),
    setting("acks of 2", "Producer", {"acks": 2}, "2", "'all' (or -1), 1 or 0"),
    setting("acks without idempotence's", "Producer", {"acks": 1, "enable_idempotence": True}, "1",
            "change it or leave idempotence out"),
    setting("a codec that is misspelled", "Producer", {"compression_type": "gzipp"}, "'gzipp'", "did you mean 'gzip'?"),
    setting("a codec that Kafka has not", "Producer", {"compression_type": "brotli"}, "'brotli'", "'zstd'"),
    setting("a level that no codec has", "Producer", {"compression_level": 99, "compression_type": "gzip"}, "99",
            "at most 22"),
    setting("text for a flag", "Consumer", {"enable_auto_commit": "true", "group_id": "g"}, "'true'", "True or False"),
    setting("no text for a transactional id", "Producer", {"transactional_id": ""}, "''", "leave it out"),
    setting("a number for a transactional id", "Producer", {"transactional_id": 5}, "5", "must be text, not int"),
    setting("transactions without idempotence", "Producer", {"enable_idempotence": False, "transactional_id": "x"},
            "False", "must be True for transactional_id"),
    setting("the name of a serializer", "Producer", {"value_serializer": "json"}, "'json'", "must be a function"),
    setting("the name of a deserializer", "Consumer", {"key_deserializer": "utf-8"}, "'utf-8'", "must be a function"),
    setting("a partitioner that is misspelled", "Producer", {"partitioner": "round-robin"}, "'round-robin'",
            "did you mean 'round_robin'?"),
    setting("an interceptor without methods", "Producer", {"interceptors": [3]}, "int", "on_send"),
    setting("a reset policy that there is not", "Consumer", {"auto_offset_reset": "begin"}, "'begin'", '"earliest"'),
    setting("no text for a group", "Consumer", {"group_id": ""}, "''", "leave it out"),
    setting("a number for a group", "Consumer", {"group_id": 5}, "5", "must be text"),
    setting("an assignor that is misspelled", "Consumer", {"partition_assignment_strategy": "stikcy", "group_id": "g"},
            "'stikcy'", "did you mean 'sticky'?"),
    setting("a static name without a group", "Consumer", {"group_instance_id": "x"}, "no effect", "without a group_id"),
    setting("automatic commits without a group", "Consumer", {"enable_auto_commit": True}, "no effect",
            "without a group_id"),
    setting("no records for a poll", "Consumer", {"max_poll_records": 0}, "0", "at least 1"),
    setting("an isolation level that there is not", "Consumer", {"isolation_level": "committed"}, "'committed'",
            "did you mean 'read_committed'?"),
    setting("a security protocol that there is not", "Consumer", {"security_protocol": "TLS"}, "'TLS'", "'SSL'"),
    setting("a login without a mechanism", "Consumer", {"security_protocol": "SASL_SSL"}, "is missing",
            "choose one of PLAIN", stage="sasl_mechanism"),
    setting("a login without a password", "Admin",
            {"sasl_mechanism": "PLAIN", "security_protocol": "SASL_PLAINTEXT", "sasl_username": "ada"}, "'PLAIN'",
            "needs sasl_password"),
    setting("a login that the protocol does not have", "Admin", {"sasl_username": "ada"}, "'PLAINTEXT'",
            "choose one with SASL"),
    setting("certificates that the protocol does not use", "Admin", {"ssl_cafile": "/ca.pem"}, "'PLAINTEXT'",
            "choose one with SSL"),
    setting("a file that is not there", "Admin", {"ssl_cafile": "/no/such.pem", "security_protocol": "SSL"},
            "/no/such.pem", "No such file"),
    setting("a file that is no certificate", "Admin", {"ssl_cafile": "<folder>/text", "security_protocol": "SSL"},
            "the trusted certificates cannot be used", "not PEM"),
    setting("a mechanism that there is not", "Admin", {"sasl_mechanism": "SCRAM-SHA-1",
            "security_protocol": "SASL_PLAINTEXT", "sasl_username": "a", "sasl_password": "b"}, "'SCRAM-SHA-1'",
            "'SCRAM-SHA-256'"),
)  # fmt: skip

PROPERTIES = (
    Mistake("a property that is misspelled",
            lambda on: constructed(lambda: on.Producer.from_properties({"bootstrap.server": "h:1"})),
            ConfigError, "unknown property", "'bootstrap.server'", "did you mean 'bootstrap.servers'?"),
    Mistake("a properties file that is not there",
            lambda on: constructed(lambda: on.Producer.from_properties("/no/such.properties")),
            ConfigError, "the properties file", "/no/such.properties", "No such file"),
    Mistake("a number for properties", lambda on: constructed(lambda: on.Consumer.from_properties(5)),
            ConfigError, "properties", "5", "a dict of Java's or librdkafka's names, or the path"),
    Mistake("a number for a property's name", lambda on: constructed(lambda: on.Consumer.from_properties({5: "h:1"})),
            ConfigError, "property", "5", "must be a name"),
    Mistake("a property of the wrong type",
            lambda on: constructed(
                lambda: on.Producer.from_properties({"bootstrap.servers": "h:1", "linger.ms": "soon"})),
            ConfigError, "linger.ms", "'soon'", "a whole number of milliseconds"),
    Mistake("a Java class for a serializer",
            lambda on: constructed(
                lambda: on.Producer.from_properties({"bootstrap.servers": "h:1", "value.serializer": "org.acme.My"})),
            ConfigError, "value.serializer", "is not accepted with this value", "give the setting of the same name"),
)  # fmt: skip

MISTAKES = (*POSITIONAL, *SERVERS, *SETTINGS, *PROPERTIES)
