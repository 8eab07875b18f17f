// MirrorMaker 2's own classes: bytes of its records, names of its policies, and what its client library reads.
//
// Arguments: "codec", "policies" or "store", with questions as lines of tab-separated fields on standard input; or
// "client SERVERS ALIAS GROUP", or "acls SERVERS SERVERS" to copy ACLs of the first cluster to the second. One line of fields for each answer.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.DefaultTopicFilter;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.OffsetSyncStore;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;

public class MirrorRecords {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("client")) {
            client(arguments[1], arguments[2], arguments[3]);
            return;
        }
        if (arguments[0].equals("acls")) {
            copyAcls(arguments[1], arguments[2]);
            return;
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            System.out.println(switch (arguments[0]) {
                case "codec" -> codec(fields);
                case "store" -> store(fields);
                default -> policy(fields);
            });
        }
    }

    /** Kind, texts and numbers, our key and value; answers Java's key and value, and whether it reads ours as the same. */
    private static String codec(String[] fields) throws Exception {
        int last = fields.length - 1;
        ConsumerRecord<byte[], byte[]> ours = new ConsumerRecord<>(
            "topic", 0, 0, HEX.parseHex(fields[last - 1]), HEX.parseHex(fields[last]));
        Object made;
        Object read;
        switch (fields[0]) {
            case "checkpoint":
                made = new Checkpoint(fields[1], new TopicPartition(fields[2], Integer.parseInt(fields[3])),
                    Long.parseLong(fields[4]), Long.parseLong(fields[5]), fields[6]);
                read = Checkpoint.deserializeRecord(ours);
                break;
            case "heartbeat":
                made = new Heartbeat(fields[1], fields[2], Long.parseLong(fields[3]));
                read = Heartbeat.deserializeRecord(ours);
                break;
            default:
                made = new OffsetSync(new TopicPartition(fields[1], Integer.parseInt(fields[2])),
                    Long.parseLong(fields[3]), Long.parseLong(fields[4]));
                read = OffsetSync.deserializeRecord(ours);
        }
        return String.join("\t", bytes(made, "recordKey"), bytes(made, "recordValue"),
            Boolean.toString(made.toString().equals(read.toString())));
    }

    private static String bytes(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return HEX.formatHex((byte[]) method.invoke(record));
    }

    /** Topic, partition, our records as key:value,..., offsets; answers what MirrorMaker's checkpoint task makes of each. */
    private static String store(String[] fields) throws Exception {
        Constructor<OffsetSyncStore> constructor = OffsetSyncStore.class.getDeclaredConstructor();
        constructor.setAccessible(true);
        OffsetSyncStore store = constructor.newInstance();
        for (String name : new String[] {"readToEnd", "initializationMustReadToEnd"}) {
            Field field = OffsetSyncStore.class.getDeclaredField(name);
            field.setAccessible(true);
            field.setBoolean(store, name.equals("readToEnd"));
        }
        Method handle = OffsetSyncStore.class.getDeclaredMethod("handleRecord", ConsumerRecord.class);
        handle.setAccessible(true);
        for (String record : fields[2].split(",")) {
            String[] parts = record.split(":");
            handle.invoke(store, new ConsumerRecord<>("topic", 0, 0, HEX.parseHex(parts[0]), HEX.parseHex(parts[1])));
        }
        TopicPartition partition = new TopicPartition(fields[0], Integer.parseInt(fields[1]));
        List<String> found = new ArrayList<>();
        for (String offset : fields[3].split(",")) {
            found.add(Long.toString(store.translateDownstream("group", partition, Long.parseLong(offset)).orElse(-1)));
        }
        return String.join("\t", found);
    }

    /** What the source connector does each 600 s. */
    private static void copyAcls(String source, String target) throws Exception {
        DefaultTopicFilter filter = new DefaultTopicFilter();
        filter.configure(Map.of("topics", "orders, payments.*"));
        DefaultReplicationPolicy policy = new DefaultReplicationPolicy();
        policy.configure(Map.of());
        try (Admin east = Admin.create(Map.<String, Object>of("bootstrap.servers", source));
                Admin west = Admin.create(Map.<String, Object>of("bootstrap.servers", target))) {
            Constructor<MirrorSourceConnector> constructor = MirrorSourceConnector.class.getDeclaredConstructor(
                SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class);
            constructor.setAccessible(true);
            MirrorSourceConnector connector = constructor.newInstance(
                new SourceAndTarget("east", "west"), policy, filter, new DefaultConfigPropertyFilter());
            for (Map.Entry<String, Admin> each : Map.of("sourceAdminClient", east, "targetAdminClient", west).entrySet()) {
                Field field = MirrorSourceConnector.class.getDeclaredField(each.getKey());
                field.setAccessible(true);
                field.set(connector, each.getValue());
            }
            Method sync = MirrorSourceConnector.class.getDeclaredMethod("syncTopicAcls");
            sync.setAccessible(true);
            sync.invoke(connector);
        }
    }

    private static String policy(String[] fields) {
        DefaultReplicationPolicy policy =
            fields[0].equals("identity") ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        Map<String, Object> properties = new HashMap<>();
        properties.put("replication.policy.separator", fields[1]);
        properties.put("replication.policy.internal.topic.separator.enabled", fields[2]);
        policy.configure(properties);
        String alias = fields[3];
        String topic = fields[4];
        return String.join("\t", policy.formatRemoteTopic(alias, topic), String.valueOf(policy.topicSource(topic)),
            String.valueOf(policy.upstreamTopic(topic)), policy.originalTopic(topic),
            Boolean.toString(policy.isHeartbeatsTopic(topic)), Boolean.toString(policy.isInternalTopic(topic)),
            policy.offsetSyncsTopic(alias), policy.checkpointsTopic(alias));
    }

    private static void client(String servers, String alias, String group) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", servers);
        Map<TopicPartition, OffsetAndMetadata> offsets =
            RemoteClusterUtils.translateOffsets(properties, alias, group, Duration.ofSeconds(30));
        Map<String, String> sorted = new TreeMap<>();
        offsets.forEach((partition, at) -> sorted.put(partition.toString(), at.offset() + "\t" + at.metadata()));
        sorted.forEach((partition, at) -> System.out.println(partition + "\t" + at));
        try (MirrorClient client = new MirrorClient(properties)) {
            System.out.println("hops\t" + client.replicationHops(alias));
            System.out.println("upstream\t" + new TreeSet<>(client.upstreamClusters()));
            System.out.println("checkpoints\t" + new TreeSet<>(client.checkpointTopics()));
            System.out.println("heartbeats\t" + new TreeSet<>(client.heartbeatTopics()));
            System.out.println("remote\t" + new TreeSet<>(client.remoteTopics(alias)));
        }
    }
}
