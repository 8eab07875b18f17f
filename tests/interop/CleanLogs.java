import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's log cleaner behind a pipe. A line asks for one round in the folder of a partition, a line answers:
 *
 *   FOLDER NOW_MS CHECKPOINT MEMORY LOAD_FACTOR IO_BUFFER NAME=VALUE...
 *     ->  ok FIRST_DIRTY END CLEAN_BYTES CLEANABLE_BYTES NEXT_DIRTY MILLISECONDS CPU_MILLISECONDS
 *     ->  error WORDS
 *
 * The folder is opened as after an unclean stop, so that Kafka builds the indexes and the producer state.
 */
public final class CleanLogs {
    private record At(long milliseconds) implements Time {
        @Override
        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
        }

        @Override
        public void waitObject(Object obj, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class Never implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return (ScheduledFuture<?>) Proxy.newProxyInstance(CleanLogs.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class},
                (proxy, method, arguments) -> method.getReturnType() == boolean.class ? false : null);
        }

        @Override
        public void resizeThreadPool(int newSize) {
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println("ok " + clean(line.split("\t")));
            } catch (Throwable thrown) {
                out.println("error " + thrown.toString().replace('\n', ' ') + " at " + thrown.getStackTrace()[0]);
            }
            out.flush();
        }
    }

    private static String clean(String[] words) throws Exception {
        File folder = new File(words[0]);
        Time time = new At(Long.parseLong(words[1]));
        Optional<Long> checkpoint = words[2].equals("-") ? Optional.empty() : Optional.of(Long.parseLong(words[2]));
        Properties properties = new Properties();
        for (int at = 6; at < words.length; at++) {
            String[] setting = words[at].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        LogConfig config = new LogConfig(properties);
        try (UnifiedLogHandle handle = open(folder, config, time)) {
            UnifiedLog log = handle.log;
            log.updateHighWatermark(log.logEndOffset());
            Method plan = LogCleanerManager.class.getDeclaredMethod("cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
            plan.setAccessible(true);
            Object offsets = plan.invoke(null, log, checkpoint, time.milliseconds());
            LogToClean cleanable = new LogToClean(log, get(offsets, "firstDirtyOffset"), get(offsets, "firstUncleanableDirtyOffset"), false);
            int ioBuffer = Integer.parseInt(words[5]);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(words[3])), ioBuffer, ioBuffer,
                Double.parseDouble(words[4]), new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM),
                time, partition -> { });
            long began = System.nanoTime();
            long cpuBegan = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            long next = cleanable.firstDirtyOffset();
            if (cleanable.cleanableBytes() > 0) {
                Map.Entry<Long, CleanerStats> done = cleaner.doClean(cleanable, time.milliseconds());
                next = done.getKey();
            }
            long took = (System.nanoTime() - began) / 1_000_000;
            long cpu = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - cpuBegan) / 1_000_000;
            return cleanable.firstDirtyOffset() + " " + cleanable.firstUncleanableOffset() + " " + cleanable.cleanBytes()
                + " " + cleanable.cleanableBytes() + " " + next + " " + took + " " + cpu;
        }
    }

    private static long get(Object offsets, String name) throws Exception {
        Method getter = offsets.getClass().getDeclaredMethod(name);
        getter.setAccessible(true);
        return (Long) getter.invoke(offsets);
    }

    private record UnifiedLogHandle(UnifiedLog log) implements AutoCloseable {
        @Override
        public void close() {
            log.close();
        }
    }

    private static UnifiedLogHandle open(File folder, LogConfig config, Time time) throws Exception {
        return new UnifiedLogHandle(UnifiedLog.create(folder, config, 0L, 0L, new Never(), new BrokerTopicStats(), time,
            900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE, new LogDirFailureChannel(1),
            false, Optional.empty()));
    }
}
