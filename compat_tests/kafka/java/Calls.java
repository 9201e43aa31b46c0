import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.KafkaMetric;

/** The results of calls of a client, and which of its methods were called. A result is a line "name=text". */
final class Calls {
    private static final long PATIENCE_MS = 30_000;
    private static final long PAUSE_MS = 50;
    private final Set<String> called = new TreeSet<>();
    private final Map<String, String> results = new TreeMap<>();

    /** Calls once. `name` is the method's, then "/" and a remark where a method is called more than once. */
    Object call(String name, Callable<?> body) {
        called.add(name.split("/")[0]);
        Object found = null;
        String text;
        try {
            found = body.call();
            text = String.valueOf(found);
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            text = "!" + cause.getClass().getSimpleName();
            System.err.println(name + ": " + cause);
        }
        results.put(name, text);
        return found;
    }

    /** Calls until the result is as it should be: some changes take effect after their answer. */
    void until(String name, Callable<?> body, Predicate<String> expected) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        do {
            call(name, body);
            if (expected.test(results.get(name))) return;
            Thread.sleep(PAUSE_MS);
        } while (System.currentTimeMillis() < end);
    }

    static KafkaMetric metric(Map<MetricName, ? extends Metric> metrics) {
        return (KafkaMetric) metrics.values().iterator().next();
    }

    /** The length of an id; "none" where a broker without telemetry gave none. */
    static String length(Uuid id) {
        return id == null ? "none" : String.valueOf(id.toString().length());
    }

    /** Prints all results, and as "uncalled" the methods of a client that were neither called nor left out. */
    void print(Class<?> client, String... leftOut) {
        Set<String> methods = new TreeSet<>();
        for (Method method : client.getMethods())
            if (!Modifier.isStatic(method.getModifiers())) methods.add(method.getName());
        methods.removeAll(called);
        methods.removeAll(Arrays.asList(leftOut));
        methods.remove("close");
        results.put("uncalled", String.join(",", methods));
        results.forEach((name, text) -> System.out.println(name + "=" + text));
    }
}
