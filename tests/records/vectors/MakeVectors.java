import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Writes the vectors of this folder with Apache Kafka's own classes, and reads batches written by others:
 *   java -cp kafka-clients.jar:snappy-java.jar:lz4-java.jar:zstd-jni.jar:slf4j-api.jar MakeVectors.java write FOLDER
 *   java -cp ... MakeVectors.java read FILE.hex...
 */
public class MakeVectors {
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static SimpleRecord[] records() {
        List<SimpleRecord> records = new ArrayList<>();
        records.add(new SimpleRecord(1_700_000_000_000L, bytes("key"), bytes("value"), new Header[] {
            new RecordHeader("name", bytes("header")), new RecordHeader("null", null), new RecordHeader("größe", bytes(""))}));
        records.add(new SimpleRecord(1_700_000_000_100L, null, bytes("no key")));
        records.add(new SimpleRecord(1_699_999_000_000L, bytes("tombstone"), null));
        records.add(new SimpleRecord(1_700_000_000_000L, bytes(""), bytes("")));
        for (int number = 0; number < 70; number++) {
            records.add(new SimpleRecord(1_700_000_000_000L + number, bytes("" + number), bytes("value ".repeat(number))));
        }
        return records.toArray(new SimpleRecord[0]);
    }

    private static void write(Path folder, String name, MemoryRecords records) throws Exception {
        ByteBuffer buffer = records.buffer();
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        Files.writeString(folder.resolve(name + ".hex"), HexFormat.of().formatHex(data) + "\n");
    }

    /** What compaction leaves: a batch with the time at which its tombstones may go, and one without records. */
    private static void writeCleaned(Path folder) throws Exception {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(4096), RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME,
            1000L, RecordBatch.NO_TIMESTAMP, 123L, (short) 4, 567, true, false, 8, 4096, 1_700_000_900_000L);
        long offset = 1000;
        for (SimpleRecord record : List.of(records()).subList(0, 10)) {
            builder.appendWithOffset(offset, record);
            offset += 3;
        }
        write(folder, "horizon", builder.build());
        ByteBuffer emptied = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(emptied, RecordBatch.MAGIC_VALUE_V2, 123L, (short) 4, 567, 1000L, 1027L, 8,
            TimestampType.CREATE_TIME, 1_700_000_000_100L, true, false);
        emptied.flip();
        write(folder, "emptied", MemoryRecords.readableRecords(emptied));
    }

    private static void writeAll(Path folder) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            write(folder, type.name, MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 1000L,
                Compression.of(type).build(), TimestampType.CREATE_TIME,
                123L, (short) 4, 567, 8, true, records()));
        }
        writeCleaned(folder);
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) {
            write(folder, type.name().toLowerCase(), MemoryRecords.withEndTransactionMarker(
                99L, 1234L, 8, 7L, (short) 2, new EndTransactionMarker(type, 11)));
        }
    }

    private static void read(Path file) throws Exception {
        byte[] data = HexFormat.of().parseHex(Files.readString(file).strip());
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            int count = 0;
            int hash = 0;
            for (Record record : batch) {
                record.ensureValid();
                count++;
                byte[] value = new byte[Math.max(record.valueSize(), 0)];
                if (record.hasValue()) {
                    record.value().get(value);
                }
                hash = 31 * hash + java.util.Arrays.hashCode(value) + record.headers().length;
            }
            System.out.println(file.getFileName() + " " + batch + " read " + count + " hash " + hash);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write")) {
            writeAll(Path.of(arguments[1]));
        } else {
            for (int index = 1; index < arguments.length; index++) {
                read(Path.of(arguments[index]));
            }
        }
    }
}
