import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Answers questions about Avro schemas with Apache Avro's own classes: a line of JSON in, a line of JSON out. */
public class AvroOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                if (question.has("writer")) {
                    compare(question, answer);
                } else {
                    write(question, answer);
                }
            } catch (Exception | StackOverflowError error) {
                answer.put("error", String.valueOf(error));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Schema.Parser parser(JsonNode question) {
        boolean strict = question.path("strict").asBoolean(true);
        Schema.Parser parser = new Schema.Parser(strict ? NameValidator.STRICT_VALIDATOR : NameValidator.NO_VALIDATION);
        parser.setValidateDefaults(strict);
        return parser;
    }

    /** What `AvroSchema.canonicalString` of Confluent's client does: the text with references left as names. */
    private static void write(JsonNode question, ObjectNode answer) {
        Schema.Parser parser = parser(question);
        List<Schema> references = new ArrayList<>();
        for (JsonNode reference : question.path("references")) {
            references.add(parser.parse(reference.asText()));
        }
        Schema schema = parser.parse(question.get("text").asText());
        answer.put("text", schema.toString(references, false));
        answer.put("resolved", schema.toString());
        answer.put("logical", schema.getLogicalType() == null ? null : schema.getLogicalType().getName());
    }

    private static void compare(JsonNode question, ObjectNode answer) {
        Schema reader = parser(question).parse(question.get("reader").asText());
        Schema writer = parser(question).parse(question.get("writer").asText());
        ArrayNode found = answer.putArray("found");
        for (SchemaCompatibility.Incompatibility one :
                SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
            found.addArray().add(one.getType().toString()).add(one.getLocation()).add(one.getMessage());
        }
    }
}
