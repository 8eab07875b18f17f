// Runs main methods of Kafka's command-line tools and of other programs one after the other in one JVM; java_tools.py
// drives it.
//
// A line of input is: class, or class@folder for one that is not in the class path, what the tool reads as standard input (hex, "-" for nothing), arguments (hex), by tabs.
// A line of output is: exit code, what it printed (hex), standard error (hex). Other threads than the tool's own, such as
// those of clients that earlier tools have left behind, print to the standard error of this process.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    private static final HexFormat HEX = HexFormat.of();

    private static final Map<String, ClassLoader> LOADERS = new HashMap<>();

    private static Integer status; // of the first exit: tools take that one's exception for a failure, and exit again

    private static final class Exited extends RuntimeException {
    }

    /** Keeps what the thread that makes it prints. */
    private static final class Complaints extends ByteArrayOutputStream {
        private final Thread owner = Thread.currentThread();
        private final PrintStream others;

        Complaints(PrintStream others) {
            this.others = others;
        }

        @Override
        public void write(int one) {
            if (Thread.currentThread() == owner) {
                super.write(one);
            } else {
                others.write(one);
            }
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            if (Thread.currentThread() == owner) {
                super.write(bytes, offset, length);
            } else {
                others.write(bytes, offset, length);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err); // what threads print that a tool has left behind is no answer
        Exit.Procedure leave = (code, message) -> {
            status = status == null ? Integer.valueOf(code) : status;
            throw new Exited();
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            String[] given = Stream.of(fields).skip(2)
                .map(field -> new String(HEX.parseHex(field), StandardCharsets.UTF_8)).toArray(String[]::new);
            output.println(run(fields[0], fields[1].equals("-") ? new byte[0] : HEX.parseHex(fields[1]), given));
            output.flush();
        }
        Runtime.getRuntime().halt(0); // tools leave threads behind
    }

    private static Class<?> named(String tool) throws Exception {
        int at = tool.indexOf('@');
        if (at < 0) {
            return Class.forName(tool);
        }
        String folder = tool.substring(at + 1);
        if (!LOADERS.containsKey(folder)) {
            LOADERS.put(folder, new URLClassLoader(new URL[] {Path.of(folder).toUri().toURL()}));
        }
        return LOADERS.get(folder).loadClass(tool.substring(0, at));
    }

    private static String run(String tool, byte[] input, String[] arguments) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new Complaints(System.err);
        InputStream usualInput = System.in;
        PrintStream usualOutput = System.out;
        PrintStream usualErrors = System.err;
        System.setIn(new ByteArrayInputStream(input));
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        status = null;
        try {
            named(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (java.lang.reflect.InvocationTargetException failure) {
            if (status == null) {
                status = -1;
                StringWriter trace = new StringWriter();
                failure.getCause().printStackTrace(new PrintWriter(trace));
                complained.write(trace.toString().getBytes(StandardCharsets.UTF_8));
            }
        } finally {
            System.out.flush();
            System.setIn(usualInput);
            System.setOut(usualOutput);
            System.setErr(usualErrors);
        }
        return (status == null ? 0 : status) + "\t" + HEX.formatHex(printed.toByteArray()) + "\t" + HEX.formatHex(complained.toByteArray());
    }
}
