import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/** Says of each file what Apache Kafka's classes read in it, in a line: records, or that they refuse it. */
public class ReadBatches {
    private static String read(byte[] data) {
        StringBuilder line = new StringBuilder();
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    byte[] value = new byte[Math.max(record.valueSize(), 0)];
                    if (record.hasValue()) {
                        record.value().get(value);
                    }
                    line.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                        .append(record.valueSize()).append(' ').append(Arrays.hashCode(value)).append(';');
                }
            }
        } catch (Exception error) {
            return "refused " + error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).split("\n")[0];
        }
        return "read " + line;
    }

    public static void main(String[] arguments) throws Exception {
        for (String file : arguments) {
            System.out.println(read(HexFormat.of().parseHex(Files.readString(Path.of(file)).strip())));
        }
    }
}
