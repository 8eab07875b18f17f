import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** Reads lines "KEY tab PARTITIONS" (the key in hex), and prints the key's hash, a tab, and its partition. */
public class KeyPartitions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            byte[] key = HexFormat.of().parseHex(fields[0]);
            int partition = BuiltInPartitioner.partitionForKey(key, Integer.parseInt(fields[1]));
            out.append(Utils.murmur2(key)).append('\t').append(partition).append('\n');
        }
        System.out.print(out);
    }
}
