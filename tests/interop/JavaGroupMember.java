import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a consumer group that tells what it reads and owns, as group_members.py describes. */
public final class JavaGroupMember {
    public static void main(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[1]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("auto.commit.interval.ms", "100");
        if (args[3].equals("KIP-848")) {
            properties.put("group.protocol", "consumer");
        } else {
            properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + args[3]);
            properties.put("heartbeat.interval.ms", "200");
            properties.put("session.timeout.ms", "6000");
        }
        AtomicBoolean end = new AtomicBoolean();
        Thread waiting = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (IOException gone) {
                // then it is over, too
            }
            end.set(true);
        });
        waiting.setDaemon(true);
        waiting.start();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[2]));
            List<Integer> owned = List.of();
            while (!end.get()) {
                var records = consumer.poll(Duration.ofMillis(50));
                List<Integer> now = consumer.assignment().stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
                if (!now.equals(owned)) {
                    owned = now;
                    System.out.println("{\"owned\": " + owned + "}");
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.println("{\"partition\": " + record.partition() + ", \"offset\": " + record.offset() + "}");
                }
            }
        }
    }
}
