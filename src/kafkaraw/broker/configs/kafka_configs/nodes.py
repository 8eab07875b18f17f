"""The node, its controller and its replicas.

Configurations of Kafka 4.3's broker, with their defaults. Declarations only.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.configs.kafka_configs.declared import CLUSTER_WIDE, Declared
from kafkaraw.protocol.config_codes import ConfigType

BOOLEAN: Final = ConfigType.BOOLEAN
CLASS: Final = ConfigType.CLASS
INT: Final = ConfigType.INT
LIST: Final = ConfigType.LIST
LONG: Final = ConfigType.LONG
STRING: Final = ConfigType.STRING

NODES: Final = (
    Declared("process.roles", LIST, None, "what this node is: broker, controller, or both"),
    Declared("node.id", INT, None, "the number of this node, unique in the cluster"),
    Declared("broker.id", INT, "-1", "the older name of node.id"),
    Declared("broker.rack", STRING, None, "where the broker stands, for spreading replicas over racks"),
    Declared("broker.heartbeat.interval.ms", INT, "2000", "milliseconds between two heartbeats to the controller"),
    Declared("broker.session.timeout.ms", INT, "9000",
             "milliseconds without a heartbeat after which a broker is fenced"),
    Declared("initial.broker.registration.timeout.ms", INT, "60000",
             "milliseconds that a starting broker waits to be registered"),
    Declared("early.start.listeners", LIST, None, "listeners that are opened before everything else is ready"),
    Declared("controlled.shutdown.enable", BOOLEAN, "true", "hand leaderships over before the broker stops"),
    Declared("auto.leader.rebalance.enable", BOOLEAN, "true",
             "give leadership back to preferred leaders in the background"),
    Declared("leader.imbalance.check.interval.seconds", LONG, "300",
             "seconds between two looks for partitions away from their preferred leader"),
    Declared("unclean.leader.election.enable", BOOLEAN, "false",
             "let a replica lead that may have missed records", CLUSTER_WIDE),
    Declared("auto.create.topics.enable", BOOLEAN, "true", "create a topic when a client asks for its metadata"),
    Declared("delete.topic.enable", BOOLEAN, "true", "let clients delete topics"),
    Declared("num.partitions", INT, "1", "partitions of a topic that is created without a number"),
    Declared("default.replication.factor", INT, "1", "replicas of a topic that is created without a number"),
    Declared("create.topic.policy.class.name", CLASS, None, "class that decides which topics may be created"),
    Declared("alter.config.policy.class.name", CLASS, None, "class that decides which configurations may be changed"),
    Declared("controller.listener.names", LIST, None, "names of the listeners of the controllers"),
    Declared("controller.quorum.voters", LIST, "", "the voters of the metadata quorum, as id@host:port"),
    Declared("controller.quorum.bootstrap.servers", LIST, "", "where to find the metadata quorum"),
    Declared("controller.quorum.auto.join.enable", BOOLEAN, "false", "let a controller join the voters by itself"),
    Declared("controller.quorum.append.linger.ms", INT, "25",
             "milliseconds that the quorum's leader collects records before it writes them"),
    Declared("controller.quorum.election.backoff.max.ms", INT, "1000",
             "longest wait, in milliseconds, before another election"),
    Declared("controller.quorum.election.timeout.ms", INT, "1000",
             "milliseconds without a leader before a new election"),
    Declared("controller.quorum.fetch.timeout.ms", INT, "2000",
             "milliseconds without a fetch before a voter stands for election"),
    Declared("controller.quorum.fetch.max.bytes", INT, "1048576", "most bytes of a fetch between voters"),
    Declared("controller.quorum.fetch.snapshot.max.bytes", INT, "1048576",
             "most bytes of a piece of a snapshot between voters"),
    Declared("controller.quorum.request.timeout.ms", INT, "2000",
             "milliseconds that a request between voters may take"),
    Declared("controller.quorum.retry.backoff.ms", INT, "20",
             "milliseconds before a request between voters is tried again"),
    Declared("controller.socket.timeout.ms", INT, "30000",
             "milliseconds that a request from the broker to the controller may take"),
    Declared("controller.quota.window.num", INT, "11", "samples that the quota on topic changes is reckoned from"),
    Declared("controller.quota.window.size.seconds", INT, "1", "seconds of each of these samples"),
    Declared("metadata.log.dir", STRING, None, "directory of the metadata log; none is the first of log.dirs"),
    Declared("metadata.log.max.record.bytes.between.snapshots", LONG, "20971520",
             "bytes of metadata records before a snapshot is taken"),
    Declared("metadata.log.max.snapshot.interval.ms", LONG, "3600000",
             "milliseconds after which a snapshot is taken in any case; 0 is never"),
    Declared("metadata.log.segment.bytes", INT, "1073741824", "largest segment of the metadata log, in bytes"),
    Declared("metadata.log.segment.ms", LONG, "604800000",
             "oldest age of the metadata log's active segment, in milliseconds"),
    Declared("metadata.max.idle.interval.ms", INT, "500",
             "milliseconds between records that show that the quorum is alive; 0 is none"),
    Declared("metadata.max.retention.bytes", LONG, "104857600",
             "bytes of metadata log and snapshots before old ones are deleted"),
    Declared("metadata.max.retention.ms", LONG, "604800000",
             "age of metadata log and snapshots before old ones are deleted, in milliseconds"),
    Declared("num.replica.fetchers", INT, "1", "threads that fetch from each other broker", CLUSTER_WIDE),
    Declared("num.replica.alter.log.dirs.threads", INT, None, "threads that move replicas between directories"),
    Declared("replica.fetch.backoff.ms", INT, "1000", "milliseconds that a follower waits after an error"),
    Declared("replica.fetch.max.bytes", INT, "1048576", "bytes that a follower asks for per partition"),
    Declared("replica.fetch.min.bytes", INT, "1", "fewest bytes of an answer to a follower"),
    Declared("replica.fetch.response.max.bytes", INT, "10485760", "bytes that a follower asks for in one request"),
    Declared("replica.fetch.wait.max.ms", INT, "500", "longest wait, in milliseconds, of a follower's fetch"),
    Declared("replica.high.watermark.checkpoint.interval.ms", LONG, "5000",
             "milliseconds between two writings of the high watermarks"),
    Declared("replica.lag.time.max.ms", LONG, "30000",
             "a follower that lags for longer is out of sync, in milliseconds"),
    Declared("replica.selector.class", STRING, None, "class that chooses the replica a consumer reads from"),
    Declared("replica.socket.receive.buffer.bytes", INT, "65536", "receive buffer of followers' connections, in bytes"),
    Declared("replica.socket.timeout.ms", INT, "30000", "milliseconds that a follower's request may take"),
    Declared("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false",
             "a new follower starts at the last tiered offset", CLUSTER_WIDE),
    Declared("alter.log.dirs.replication.quota.window.num", INT, "11",
             "samples that the quota on moves between directories is reckoned from"),
    Declared("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", "seconds of each of these samples"),
    Declared("replication.quota.window.num", INT, "11", "samples that the quota on replication is reckoned from"),
    Declared("replication.quota.window.size.seconds", INT, "1", "seconds of each of these samples"),
    Declared("config.providers", LIST, "", "names of classes that look up values of configurations", CLUSTER_WIDE),
)  # fmt: skip
