// Uses many parts of Apache Kafka's Java clients once each, so that there is traffic to record. Nothing here judges.
// Run as a single source file: java -cp 'jars/*' Traffic.java PLAIN_ADDRESS SASL_ADDRESS CLIENT_ID

import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

public class Traffic {
    static final String TOPIC = "golden-java";
    static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    static String address;
    static String clientId;

    interface Step {
        Object run() throws Exception;
    }

    // What the broker refuses is traffic too.
    static void attempt(Step step) {
        try {
            Object result = step.run();
            if (result instanceof KafkaFuture<?> future) {
                future.get(15, TimeUnit.SECONDS);
            }
        } catch (Exception error) {
            System.out.println("  " + error);
        }
    }

    static Map<String, Object> base(Object... more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "client.id", clientId));
        for (int i = 0; i < more.length; i += 2) {
            config.put((String) more[i], more[i + 1]);
        }
        return config;
    }

    static KafkaProducer<String, String> producer(Object... more) {
        return new KafkaProducer<>(base(more), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Object... more) {
        return new KafkaConsumer<>(base(more), new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] args) throws Exception {
        address = args[0];
        clientId = args[2];
        try (Admin admin = Admin.create(base())) {
            attempt(() -> admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all());
            produce();
            for (String protocol : List.of("classic", "consumer")) {
                attempt(() -> consume(protocol));
            }
            attempt(() -> share(admin));
            attempt(() -> transact());
            administer(admin);
        }
        address = args[1];
        attempt(() -> authenticated());
    }

    static void produce() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (var producer = producer("compression.type", codec)) {
                for (int i = 0; i < 5; i++) {
                    var record = new ProducerRecord<>(TOPIC, "key " + i, "value " + i + " " + codec);
                    record.headers().add("h", new byte[] {1});
                    producer.send(record);
                }
            }
        }
    }

    static Object consume(String protocol) {
        try (var consumer = consumer("group.id", TOPIC + "-" + protocol, "group.protocol", protocol,
                "auto.offset.reset", "earliest", "enable.auto.commit", false, "client.rack", "rack-1")) {
            consumer.subscribe(List.of(TOPIC));
            int count = 0;
            for (int i = 0; i < 30 && count < 25; i++) {
                count += consumer.poll(Duration.ofMillis(500)).count();
            }
            consumer.commitSync();
            consumer.committed(Set.of(FIRST));
            consumer.offsetsForTimes(Map.of(FIRST, 1L));
            consumer.listTopics();
            return count;
        }
    }

    static Object share(Admin admin) throws Exception {
        var group = new ConfigResource(ConfigResource.Type.GROUP, TOPIC + "-share");
        var earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        var config = base("group.id", TOPIC + "-share", "share.acknowledgement.mode", "explicit");
        try (var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            int count = 0;
            for (int i = 0; i < 30 && count < 25; i++) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    count++;
                }
                consumer.commitSync();
            }
            return count;
        }
    }

    static Object transact() throws Exception {
        try (var producer = producer("transactional.id", TOPIC + "-tx");
                var consumer = consumer("group.id", TOPIC + "-tx", "auto.offset.reset", "earliest")) {
            consumer.subscribe(List.of(TOPIC));
            consumer.poll(Duration.ofSeconds(5));
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, "in a transaction")).get();
            producer.sendOffsetsToTransaction(Map.of(FIRST, new OffsetAndMetadata(1, "note")), consumer.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, "aborted")).get();
            producer.abortTransaction();
        }
        try (var consumer = consumer("isolation.level", "read_committed", "auto.offset.reset", "earliest")) {
            consumer.assign(List.of(FIRST, new TopicPartition(TOPIC, 1)));
            consumer.seek(FIRST, new OffsetAndMetadata(1, Optional.of(0), "")); // its epoch is checked first
            return consumer.poll(Duration.ofSeconds(3)).count();
        }
    }

    static void administer(Admin admin) {
        var topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        var set = new AlterConfigOp(new ConfigEntry("retention.ms", "1000000"), AlterConfigOp.OpType.SET);
        var pattern = new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL);
        var entry = new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW);
        var quota = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        var rate = new ClientQuotaAlteration(quota, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9)));
        var scram = new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
                "not-a-secret".getBytes(), "salt".getBytes());
        String classic = TOPIC + "-classic";
        attempt(() -> admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).nodes());
        attempt(() -> admin.describeTopics(List.of(TOPIC)).allTopicNames());
        attempt(() -> admin.listTopics().names());
        attempt(() -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all());
        attempt(() -> admin.describeConfigs(List.of(topic)).all());
        attempt(() -> admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all());
        attempt(() -> admin.listConfigResources().all());
        attempt(() -> admin.listOffsets(Map.of(FIRST, OffsetSpec.maxTimestamp())).all());
        attempt(() -> admin.createAcls(List.of(new AclBinding(pattern, entry))).all());
        attempt(() -> admin.describeAcls(AclBindingFilter.ANY).values());
        attempt(() -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all());
        attempt(() -> admin.alterClientQuotas(List.of(rate)).all());
        attempt(() -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        attempt(() -> admin.alterUserScramCredentials(List.of(scram)).all());
        attempt(() -> admin.describeUserScramCredentials().all());
        attempt(() -> admin.describeLogDirs(List.of(1)).allDescriptions());
        attempt(() -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(TOPIC, 0, 1), "nowhere")).all());
        attempt(() -> admin.alterPartitionReassignments(
                Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(1))))).all());
        attempt(() -> admin.listPartitionReassignments().reassignments());
        attempt(() -> admin.electLeaders(ElectionType.PREFERRED, Set.of(FIRST)).all());
        attempt(() -> admin.describeProducers(List.of(FIRST)).all());
        attempt(() -> admin.listTransactions().all());
        attempt(() -> admin.describeTransactions(List.of(TOPIC + "-tx")).all());
        attempt(() -> admin.fenceProducers(List.of(TOPIC + "-tx")).all());
        attempt(() -> admin.describeMetadataQuorum().quorumInfo());
        attempt(() -> admin.describeFeatures().featureMetadata());
        attempt(() -> admin.updateFeatures(Map.of("share.version", new FeatureUpdate((short) 1,
                FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all());
        attempt(() -> admin.listGroups().all());
        attempt(() -> admin.describeClassicGroups(List.of(classic)).all());
        attempt(() -> admin.describeConsumerGroups(List.of(TOPIC + "-consumer", classic)).all());
        attempt(() -> admin.describeShareGroups(List.of(TOPIC + "-share")).all());
        attempt(() -> admin.describeStreamsGroups(List.of(TOPIC + "-streams")).all());
        attempt(() -> admin.listShareGroupOffsets(
                Map.of(TOPIC + "-share", new ListShareGroupOffsetsSpec())).all());
        attempt(() -> admin.alterShareGroupOffsets(TOPIC + "-share", Map.of(FIRST, 1L)).all());
        attempt(() -> admin.deleteShareGroupOffsets(TOPIC + "-share", Set.of(TOPIC)).all());
        attempt(() -> admin.deleteShareGroups(List.of(TOPIC + "-share")).all());
        attempt(() -> admin.listConsumerGroupOffsets(classic).all());
        attempt(() -> admin.alterConsumerGroupOffsets(classic, Map.of(FIRST, new OffsetAndMetadata(1))).all());
        attempt(() -> admin.deleteConsumerGroupOffsets(classic, Set.of(FIRST)).all());
        attempt(() -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(1))).all());
        attempt(() -> admin.deleteConsumerGroups(List.of(classic, TOPIC + "-consumer")).all());
        attempt(() -> admin.unregisterBroker(99).all());
        attempt(() -> admin.addRaftVoter(9, Uuid.ONE_UUID, Set.of(new RaftVoterEndpoint("C", "127.0.0.1", 9))).all());
        attempt(() -> admin.removeRaftVoter(9, Uuid.ONE_UUID).all());
        attempt(() -> admin.deleteTopics(List.of(TOPIC)).all());
    }

    static Object authenticated() throws Exception {
        String login = "org.apache.kafka.common.security.plain.PlainLoginModule required "
                + "username=\"alice\" password=\"alice-secret\";";
        try (Admin admin = Admin.create(base("security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN",
                "sasl.jaas.config", login))) {
            var token = admin.createDelegationToken().delegationToken().get(15, TimeUnit.SECONDS);
            Thread.sleep(2000); // a token is known once the metadata log has been read
            admin.describeDelegationToken().delegationTokens().get(15, TimeUnit.SECONDS);
            admin.renewDelegationToken(token.hmac()).expiryTimestamp().get(15, TimeUnit.SECONDS);
            return admin.expireDelegationToken(token.hmac()).expiryTimestamp();
        }
    }
}
