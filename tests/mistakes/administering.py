"""Mistakes in managing a cluster: topics, partitions, configurations, groups, users."""

from __future__ import annotations

from kafkaraw import (
    BrokerError,
    ClosedError,
    ConfigResource,
    NewTopic,
    RetriableBrokerError,
    TopicPartition,
    UsageError,
)
from tests.mistakes.mistake import T0, Act, Mistake

MISSING = TopicPartition("missing", 0)
TOPIC = ConfigResource.topic("t")


def refused(
    what: str, act: Act, stage: str, value: str, remedy: str, error: type[BaseException] = UsageError
) -> Mistake:
    return Mistake(what, lambda on: on.administer(act), error, stage, value, remedy)


def unknown(what: str, act: Act, stage: str, value: str) -> Mistake:
    return refused(what, act, stage, value, "check the name and the number, or create it", RetriableBrokerError)


TOPICS = (
    refused("create one name", lambda a: a.create_topics("abc"), "create_topics", "'abc'", "create_topics(['abc'])"),
    refused("create None", lambda a: a.create_topics(None), "create_topics", "None", "give a list"),
    refused("create one topic", lambda a: a.create_topics(NewTopic("x")), "create_topics", "NewTopic", "give a list"),
    refused("create what is no topic", lambda a: a.create_topics([5]), "create_topics", "5", "write NewTopic("),
    refused("create a dict", lambda a: a.create_topics({"x": 3}), "create_topics", "not a dict", "NewTopic('orders'"),
    refused("more replicas than brokers", lambda a: a.create_topics([NewTopic("x", 1, 3)]), "create topic 'x'", "3",
            "no more than there are brokers", BrokerError),
    refused("a negative number of partitions", lambda a: a.create_topics([NewTopic("x", -3)]), "create topic 'x'",
            "INVALID_PARTITIONS", "at least 1", BrokerError),
    refused("no partitions", lambda a: a.create_topics([NewTopic("x", 0)]), "create topic 'x'", "INVALID_PARTITIONS",
            "at least 1", BrokerError),
    refused("text for partitions", lambda a: a.create_topics([NewTopic("x", "3")]), "create topic 'x'",
            "partitions='3'", "a whole number"),
    refused("text for replicas", lambda a: a.create_topics([NewTopic("x", 3, "1")]), "create topic 'x'",
            "replication_factor='1'", "a whole number"),
    refused("no name", lambda a: a.create_topics([NewTopic(None)]), "create topic None", "None", "NewTopic('orders')"),
    refused("a name with a blank", lambda a: a.create_topics([NewTopic("a b")]), "create topic 'a b'",
            "INVALID_TOPIC_EXCEPTION", "1 to 249", BrokerError),
    refused("a topic that exists", lambda a: a.create_topics(["t"]), "create topic 't'", "TOPIC_ALREADY_EXISTS",
            "choose another name", BrokerError),
    refused("a configuration that there is not",
            lambda a: a.create_topics([NewTopic("x", configs={"retention": "5"})]), "create topic 'x'", "retention",
            "Admin.describe_configs lists names", BrokerError),
    refused("a configuration's value that does not fit",
            lambda a: a.create_topics([NewTopic("x", configs={"retention.ms": "soon"})]), "create topic 'x'", "soon",
            "Not a number of type LONG", BrokerError),
    refused("a list for configurations", lambda a: a.create_topics([NewTopic("x", configs=["retention.ms=5"])]),
            "create topic 'x'", "['retention.ms=5']", "{'retention.ms': '60000'}"),
    refused("a list for assignments", lambda a: a.create_topics([NewTopic("x", assignments=[[0]])]),
            "create topic 'x'", "[[0]]", "must be a dict"),
    refused("replicas on a broker that there is not",
            lambda a: a.create_topics([NewTopic("x", assignments={0: [99]})]), "create topic 'x'", "99",
            "brokers that exist", BrokerError),
    refused("text for a timeout", lambda a: a.create_topics(["x"], timeout="5"), "timeout", "'5'", "number of seconds"),
    refused("delete one name", lambda a: a.delete_topics("t"), "one name", "'t'", "give a list of names, ['t']"),
    refused("delete None", lambda a: a.delete_topics([None]), "no name", "None", "give a list of names"),
    refused("delete no list", lambda a: a.delete_topics(None), "no list", "None", "give a list of names"),
    unknown("delete what does not exist", lambda a: a.delete_topics(["missing"]), "delete topic", "'missing'"),
    unknown("describe what does not exist", lambda a: a.describe_topics(["missing"]), "describe topic", "'missing'"),
    refused("describe one name", lambda a: a.describe_topics("t"), "one name", "'t'", "give a list of names"),
    refused("describe a number", lambda a: a.describe_topics([5]), "no name", "5", "give a list of names"),
    Mistake("list topics after close", lambda on: on.administer(lambda a: on.steps(a.close(), a.list_topics)),
            ClosedError, "client", "is closed", "make a new one"),
)  # fmt: skip

PARTITIONS = (
    refused("fewer partitions", lambda a: a.create_partitions({"t": 1}), "add partitions to 't'",
            "currently has 3 partition(s); 1", "may only grow", BrokerError),
    refused("a negative number of all", lambda a: a.create_partitions({"t": -1}), "add partitions to 't'", "-1",
            "at least 1", BrokerError),
    refused("text for a number of all", lambda a: a.create_partitions({"t": "5"}), "create_partitions", "'5'",
            "must be a whole number"),
    refused("a list for numbers", lambda a: a.create_partitions(["t"]), "create_partitions", "['t']", "{'orders': 6}"),
    unknown("more of what does not exist", lambda a: a.create_partitions({"missing": 5}), "add", "'missing'"),
    refused("delete records by name", lambda a: a.delete_records({"t": 5}), "delete_records", "'t'",
            "TopicPartition(topic, partition)"),
    refused("delete records before text", lambda a: a.delete_records({T0: "5"}), "delete the records", "'5'",
            "-1 deletes all records"),
    refused("delete records beyond the end", lambda a: a.delete_records({T0: 10**6}), "delete the records before",
            "offset 1000000 of t-0", "above its end", BrokerError),
    refused("delete records before a negative offset", lambda a: a.delete_records({T0: -5}), "delete the records",
            "-5", "-1 deletes all records"),
    refused("delete records of a list", lambda a: a.delete_records([T0]), "delete_records", "not list", "a dict"),
)  # fmt: skip

CONFIGS = (
    refused("describe the configuration of a name", lambda a: a.describe_configs(["t"]), "not a ConfigResource", "'t'",
            "write ConfigResource.topic('t')"),
    refused("describe the configuration of one", lambda a: a.describe_configs(TOPIC), "no list", "ConfigResource",
            "give a list"),
    unknown("describe the configuration of what does not exist",
            lambda a: a.describe_configs([ConfigResource.topic("missing")]), "describe the configuration", "'missing'"),
    refused("a resource of a kind that is text", lambda a: a.describe_configs([ConfigResource("topic", "t")]),
            "ConfigResourceType", "'topic'", "write ConfigResource.topic("),
    refused("alter the configuration of a name", lambda a: a.alter_configs({"t": {"retention.ms": "5"}}),
            "not a ConfigResource", "'t'", "write ConfigResource.topic('t')"),
    refused("alter a list", lambda a: a.alter_configs([TOPIC]), "alter_configs", "ConfigResource",
            "give new values by resource"),
    refused("alter a configuration that there is not", lambda a: a.alter_configs({TOPIC: {"retention": "5"}}),
            "INVALID_CONFIG", "retention", "Admin.describe_configs lists names", BrokerError),
    refused("alter to a value that does not fit", lambda a: a.alter_configs({TOPIC: {"retention.ms": "soon"}}),
            "INVALID_CONFIG", "soon", "Not a number of type LONG", BrokerError),
    refused("quotas of a name", lambda a: a.alter_client_quotas({"x": {"producer_byte_rate": 5}}),
            "alter_client_quotas", "'x'", "write QuotaEntity(user='ada')"),
    refused("quotas in a list", lambda a: a.alter_client_quotas(["x"]), "alter_client_quotas", "['x']",
            "give quotas by entity"),
    refused("a name for a password", lambda a: a.alter_user_scram_credentials(["ada"]), "alter_user_scram_credentials",
            "a str", "write ScramPassword(user, mechanism, password)"),
    refused("text for an access control entry", lambda a: a.create_acls(["x"]), "AclBinding", "'x'",
            "is not an AclBinding"),
    refused("text for a filter", lambda a: a.describe_acls("x"), "describe_acls", "'x'", "write AclBindingFilter()"),
    refused("one filter for several", lambda a: a.delete_acls("x"), "delete_acls", "'x'", "AclBindingFilter()"),
)  # fmt: skip

GROUPS = (
    refused("describe one group's name", lambda a: a.describe_groups("g"), "one name", "'g'", "give a list of names"),
    refused("describe a group that does not exist", lambda a: a.describe_groups(["missing"]), "describe group",
            "'missing'", "Admin.list_groups lists them", BrokerError),
    refused("delete a group that does not exist", lambda a: a.delete_groups(["missing"]), "delete group", "'missing'",
            "Admin.list_groups lists them", BrokerError),
    refused("remove members of a group that does not exist", lambda a: a.remove_members("missing"), "group",
            "'missing'", "Admin.list_groups lists them", BrokerError),
    refused("offsets of one group's name", lambda a: a.list_group_offsets("g"), "one name", "'g'", "a list of names"),
    refused("set text for an offset", lambda a: a.alter_group_offsets("g", {T0: "5"}), "alter_group_offsets: t-0",
            "'5'", "a whole number"),
    refused("set a list of offsets", lambda a: a.alter_group_offsets("g", [T0]), "alter_group_offsets", "not list",
            "a dict by partition"),
    refused("set a negative offset", lambda a: a.alter_group_offsets("g", {T0: -5}), "alter_group_offsets: t-0", "-5",
            "0 or more"),
    unknown("set the offset of what does not exist", lambda a: a.alter_group_offsets("other", {MISSING: 5}),
            "set positions of group 'other'", "missing-0"),
    refused("delete offsets of a name", lambda a: a.delete_group_offsets("g", "t"), "delete_group_offsets", "'t'",
            "a list of TopicPartition"),
    refused("list groups of a state that there is not", lambda a: a.list_groups(states=["Sleeping"]), "list_groups",
            "'Sleeping'", "there are Empty"),
    refused("list groups of one state", lambda a: a.list_groups(states="Stable"), "one name", "'Stable'", "a list"),
    refused("list transactions of a state that there is not", lambda a: a.list_transactions(states=["Sleeping"]),
            "list_transactions", "'Sleeping'", "'Ongoing'"),
    refused("fence one name", lambda a: a.fence_producers("tx"), "one name", "'tx'", "give a list of names, ['tx']"),
    refused("end no transaction", lambda a: a.end_transaction(None, commit=True), "end_transaction", "None",
            "producer.prepare_transaction()"),
    refused("describe the cluster with text for a timeout", lambda a: a.describe_cluster(timeout="5"), "timeout",
            "'5'", "a number of seconds"),
)  # fmt: skip

MISTAKES = (*TOPICS, *PARTITIONS, *CONFIGS, *GROUPS)
