import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Writes message sets of magic 0 and 1 with Apache Kafka's own classes, and says what these read in others:
 *   java -cp kafka-clients.jar:snappy-java.jar:lz4-java.jar:zstd-jni.jar:slf4j-api.jar MakeLegacyVectors.java write FOLDER
 *   java -cp ... MakeLegacyVectors.java read FILE.hex...
 */
public class MakeLegacyVectors {
    private static final long TIME = 1_700_000_000_000L;

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String make(byte magic, CompressionType type, TimestampType times) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 16), magic, Compression.of(type).build(), times, 1000L, TIME + 5000);
        long offset = 1000;
        builder.appendWithOffset(offset++, TIME, bytes("key"), bytes("value"));
        builder.appendWithOffset(offset++, TIME + 100, null, bytes("no key"));
        builder.appendWithOffset(offset++, TIME - 900, bytes("tombstone"), null);
        offset += 5;
        builder.appendWithOffset(offset++, TIME, bytes(""), bytes(""));
        for (int number = 0; number < 20; number++) {
            builder.appendWithOffset(offset++, TIME + number, bytes("" + number), bytes("value ".repeat(number)));
        }
        ByteBuffer buffer = builder.build().buffer();
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return HexFormat.of().formatHex(data) + "\n";
    }

    private static void write(Path folder) throws Exception {
        List<CompressionType> types =
            List.of(CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4);
        for (CompressionType type : types) {
            Files.writeString(folder.resolve("magic0-" + type.name + ".hex"),
                make(RecordBatch.MAGIC_VALUE_V0, type, TimestampType.NO_TIMESTAMP_TYPE));
            Files.writeString(folder.resolve("magic1-" + type.name + ".hex"),
                make(RecordBatch.MAGIC_VALUE_V1, type, TimestampType.CREATE_TIME));
            Files.writeString(folder.resolve("magic1-stamped-" + type.name + ".hex"),
                make(RecordBatch.MAGIC_VALUE_V1, type, TimestampType.LOG_APPEND_TIME));
        }
    }

    private static void read(Path file) throws Exception {
        byte[] data = HexFormat.of().parseHex(Files.readString(file).strip());
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                byte[] value = new byte[Math.max(record.valueSize(), 0)];
                if (record.hasValue()) {
                    record.value().get(value);
                }
                System.out.println(record.offset() + " " + record.timestamp() + " " + record.keySize()
                    + " " + record.valueSize() + " " + java.util.Arrays.hashCode(value));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write")) {
            write(Path.of(arguments[1]));
        } else {
            for (int index = 1; index < arguments.length; index++) {
                read(Path.of(arguments[index]));
            }
        }
    }
}
