// A Kafka Streams application with a word count and a join of clicks with a table of regions.
// Arguments: bootstrap servers, application id, prefix of the topics, state directory, group protocol, guarantee.
// It prints READY when it runs, and ends, with its streams closed, when its standard input ends.
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class WordsAndRegions {
    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[2];
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(arguments[3]).toString());
        settings.put("group.protocol", arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[5]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("consumer.auto.offset.reset", "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(prefix + "-lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()).withName("by-word"))
            .count(Materialized.as("counts"))
            .toStream()
            .to(prefix + "-counts", Produced.with(Serdes.String(), Serdes.Long()));
        KTable<String, String> regions = builder.table(prefix + "-regions", Consumed.with(Serdes.String(), Serdes.String()));
        KStream<String, String> clicks = builder.stream(prefix + "-clicks");
        clicks.join(regions, (click, region) -> click + "@" + region, Joined.with(Serdes.String(), Serdes.String(), Serdes.String()))
            .to(prefix + "-joined");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch ready = new CountDownLatch(1);
        streams.setStateListener((state, before) -> {
            System.err.println("state " + state);
            if (state == KafkaStreams.State.RUNNING) {
                ready.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        ready.await();
        System.out.println("READY");
        System.out.flush();
        while (System.in.read() >= 0) {
        }
        streams.close();
        System.out.println("CLOSED");
    }
}
