import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Reads bytes with Apache Avro's or Google's own classes and writes them again: a line of JSON in, a line out. */
public class ValueOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                byte[] data = Base64.getDecoder().decode(question.get("data").asText());
                byte[] made = question.has("file") ? protobuf(question, data) : avro(question, data);
                answer.put("data", Base64.getEncoder().encodeToString(made));
            } catch (Exception | StackOverflowError error) {
                answer.put("error", String.valueOf(error));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    /** Resolves what `writer` wrote to `reader`, and writes it with `reader`. */
    private static byte[] avro(JsonNode question, byte[] data) throws Exception {
        Schema writer = new Schema.Parser().parse(question.get("writer").asText());
        Schema reader = new Schema.Parser().parse(question.get("reader").asText());
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
        Object value = new GenericDatumReader<Object>(writer, reader).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalStateException("bytes are left");
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<Object>(reader).write(value, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    private static byte[] protobuf(JsonNode question, byte[] data) throws Exception {
        FileDescriptorProto proto = FileDescriptorProto.parseFrom(Base64.getDecoder().decode(question.get("file").asText()));
        FileDescriptor file = FileDescriptor.buildFrom(proto, new FileDescriptor[0]);
        Descriptor message = null;
        for (JsonNode index : question.get("indexes")) {
            message = message == null ? file.getMessageTypes().get(index.asInt()) : message.getNestedTypes().get(index.asInt());
        }
        DynamicMessage value = DynamicMessage.parseFrom(message, data);
        if (!value.getUnknownFields().asMap().isEmpty()) {
            throw new IllegalStateException("unknown fields");
        }
        return value.toByteArray();
    }
}
