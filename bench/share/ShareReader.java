import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads a number of records as the only member of a share group, with implicit acknowledgement; see readers.py. */
public final class ShareReader {
    public static void main(String[] args) {
        long wanted = Long.parseLong(args[3]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[2]);
        properties.put("share.acknowledgement.mode", "implicit");
        var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long count = 0;
        long size = 0;
        long first = 0;
        long beganNanos = 0;
        long cpuNanos = 0;
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            long silentSince = System.nanoTime();
            while (count < wanted) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    size += record.value().length;
                    count++;
                }
                if (!records.isEmpty()) {
                    silentSince = System.nanoTime();
                } else if (System.nanoTime() - silentSince > 30_000_000_000L) {
                    throw new IllegalStateException("the broker fell silent after " + count + " records");
                }
                if (first == 0 && count > 0) {
                    first = count;
                    beganNanos = System.nanoTime();
                    cpuNanos = process.getProcessCpuTime();
                }
            }
            consumer.commitSync();
            double seconds = (System.nanoTime() - beganNanos) / 1e9;
            double cpuSeconds = (process.getProcessCpuTime() - cpuNanos) / 1e9;
            System.out.printf(
                    "{\"seconds\": %f, \"cpu_seconds\": %f, \"records\": %d, \"bytes\": %d}%n",
                    seconds, cpuSeconds, count - first, size);
            System.out.flush();
        }
    }
}
