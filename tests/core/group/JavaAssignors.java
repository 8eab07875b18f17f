import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Java's assignors behind a pipe. A line of JSON asks, a line of JSON answers:
 *
 *   {"assignor": NAME, "topics": {TOPIC: [[RACK...]...]}, "members": {ID: {...}}}  ->  {ID: [[TOPIC, PARTITION]...]}
 *   {"assignor": NAME, "given": [[TOPIC, PARTITION]...], "generation": N}          ->  {"userData": HEX or null}
 *   {"read": HEX, "version": N}                                                    ->  the subscription, written again in N
 */
public final class JavaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            Object answer;
            try {
                answer = question.has("read") ? read(question) : question.has("given") ? userData(question) : assign(question);
            } catch (RuntimeException error) {
                answer = JSON.createObjectNode().put("!failed", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static AbstractPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static ObjectNode assign(JsonNode question) {
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        question.get("topics").fields().forEachRemaining(topic -> topics.put(topic.getKey(), partitions(topic.getKey(), topic.getValue())));
        Map<String, Subscription> members = new HashMap<>();
        question.get("members").fields().forEachRemaining(member -> members.put(member.getKey(), subscription(member.getValue())));
        Map<String, List<TopicPartition>> result = assignor(question.get("assignor").asText()).assignPartitions(topics, members);
        ObjectNode answer = JSON.createObjectNode();
        result.forEach((member, given) -> {
            ArrayNode list = answer.putArray(member);
            given.forEach(partition -> list.addArray().add(partition.topic()).add(partition.partition()));
        });
        return answer;
    }

    private static List<PartitionInfo> partitions(String topic, JsonNode racks) {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (JsonNode replicas : racks) {
            Node[] nodes = new Node[Math.max(1, replicas.size())];
            nodes[0] = Node.noNode();
            for (int i = 0; i < replicas.size(); i++) {
                nodes[i] = new Node(i, "host", 9092, replicas.get(i).asText());
            }
            partitions.add(new PartitionInfo(topic, partitions.size(), nodes[0], nodes, nodes));
        }
        return partitions;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        byte[] data = member.get("userData").isNull() ? null : HexFormat.of().parseHex(member.get("userData").asText());
        Subscription subscription = new Subscription(
            topics, data == null ? null : ByteBuffer.wrap(data), topicPartitions(member.get("owned")),
            member.get("generation").isNull() ? -1 : member.get("generation").asInt(),
            member.get("rack").isNull() ? Optional.empty() : Optional.of(member.get("rack").asText()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").isNull() ? null : member.get("instance").asText()));
        return subscription;
    }

    private static List<TopicPartition> topicPartitions(JsonNode pairs) {
        List<TopicPartition> partitions = new ArrayList<>();
        pairs.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return partitions;
    }

    private static ObjectNode userData(JsonNode question) {
        ConsumerPartitionAssignor assignor = assignor(question.get("assignor").asText());
        ConsumerGroupMetadata group = new ConsumerGroupMetadata("group", question.get("generation").asInt(), "member", Optional.empty());
        assignor.onAssignment(new Assignment(topicPartitions(question.get("given"))), group);
        return JSON.createObjectNode().put("userData", hex(assignor.subscriptionUserData(new TreeSet<>())));
    }

    private static ObjectNode read(JsonNode question) {
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(question.get("read").asText()));
        Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
        short version = (short) question.get("version").asInt();
        return JSON.createObjectNode()
            .put("written", hex(ConsumerProtocol.serializeSubscription(subscription, version)))
            .put("generation", subscription.generationId().orElse(-1))
            .put("rack", subscription.rackId().orElse(null));
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
