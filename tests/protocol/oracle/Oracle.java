import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Apache Kafka's own codecs behind a pipe. A line asks, a line answers:
 *
 *   bytes NAME VERSION HEX    ->  ok HEX JSON    read by Apache, written again, and as Apache's JSON
 *   json NAME VERSION JSON    ->  ok HEX         read from Apache's JSON, written
 *   anything that fails       ->  error WORDS
 */
public final class Oracle {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData", "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s", "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s", "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
    };
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 4);
            try {
                out.println("ok " + answer(words[0], words[1], Short.parseShort(words[2]), words.length > 3 ? words[3] : ""));
            } catch (Throwable thrown) {
                Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
                out.println("error " + cause.toString().replace('\n', ' '));
            }
            out.flush();
        }
    }

    private static String answer(String kind, String name, short version, String rest) throws Exception {
        Class<?> cls = find(name);
        if (kind.equals("json")) {
            return hex(write(converter(cls, "read", JsonNode.class, short.class).invoke(null, JSON.readTree(rest), version), version));
        }
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(rest));
        Object message = cls.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException(bytes.remaining() + " bytes are left over");
        }
        Object json = converter(cls, "write", cls, short.class).invoke(null, message, version);
        return hex(write(message, version)) + " " + JSON.writeValueAsString(json);
    }

    private static byte[] write(Object message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(((Message) message).size(cache, version));
        ((Message) message).write(new ByteBufferAccessor(bytes), cache, version);
        return bytes.array();
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static Method converter(Class<?> cls, String method, Class<?>... types) throws Exception {
        return Class.forName(cls.getName() + "JsonConverter").getMethod(method, types);
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        Class<?> known = CLASSES.get(name);
        if (known != null) {
            return known;
        }
        for (String place : PLACES) {
            try {
                Class<?> found = Class.forName(String.format(place, name));
                CLASSES.put(name, found);
                return found;
            } catch (ClassNotFoundException next) {
                // the next place may have it
            }
        }
        throw new ClassNotFoundException(name);
    }
}
