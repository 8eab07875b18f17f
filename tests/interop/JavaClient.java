// Kafka's own Java client for the interop tests: java_client.py compiles and runs it.
//
// Records pass through standard input and output, one per line, fields separated by tabs, bytes in hex, null as "-":
//     produce BOOTSTRAP TOPIC CODEC               reads   key value timestamp [header-name header-value]...
//     consume BOOTSTRAP TOPIC PARTITIONS COUNT    writes  partition offset key value timestamp [name value]...
//     names                                       writes  kind name, for every setting of every kind of client

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaClient {
    private static final HexFormat HEX = HexFormat.of();
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "produce" -> produce(arguments[1], arguments[2], arguments[3]);
            case "consume" -> consume(
                arguments[1], arguments[2], Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
            case "names" -> {
                ProducerConfig.configNames().forEach(name -> System.out.println("producer\t" + name));
                ConsumerConfig.configNames().forEach(name -> System.out.println("consumer\t" + name));
                AdminClientConfig.configNames().forEach(name -> System.out.println("admin\t" + name));
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : HEX.parseHex(field);
    }

    private static String field(byte[] bytes) {
        return bytes == null ? "-" : HEX.formatHex(bytes);
    }

    private static void produce(String bootstrap, String topic, String codec) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "20");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("request.timeout.ms", "10000");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] fields = line.split("\t", -1);
                var record = new ProducerRecord<>(
                    topic, null, Long.valueOf(fields[2]), bytes(fields[0]), bytes(fields[1]));
                for (int at = 3; at < fields.length; at += 2) {
                    String name = new String(HEX.parseHex(fields[at]), StandardCharsets.UTF_8);
                    record.headers().add(name, bytes(fields[at + 1]));
                }
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private static void consume(String bootstrap, String topic, int partitions, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("check.crcs", "true");
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(all);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            for (int seen = 0; seen < count; ) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("read " + seen + " of " + count + " records in " + PATIENCE);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    StringBuilder line = new StringBuilder()
                        .append(record.partition()).append('\t').append(record.offset())
                        .append('\t').append(field(record.key())).append('\t').append(field(record.value()))
                        .append('\t').append(record.timestamp());
                    for (Header header : record.headers()) {
                        line.append('\t').append(field(header.key().getBytes(StandardCharsets.UTF_8)))
                            .append('\t').append(field(header.value()));
                    }
                    output.println(line);
                    seen++;
                }
            }
        }
        output.flush();
    }
}
