import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Kafka's clients see of a secured broker. Each line of the file is a client, its words separated by tabs: a name,
 * "connect", "renew", "produce" or "fetch", a topic, and settings as name=value. All run side by side.
 *
 * Prints "name=result" for each, sorted. Results of "connect": what producer, consumer and admin did ("ok", or the class of
 * the error); of "renew": how many records a producer could not send, and whether it authenticated again; of "produce" and
 * "fetch": bytes per second.
 */
public final class SecurityCalls {
    private static final long WHOLE_S = 50;
    private static final int THREADS = 16;
    private static final int VALUE_BYTES = 5_000;
    private static final int BUFFER_BYTES = 20_000;
    private static final int FETCHED = 200;
    private static final long PATIENCE_MS = 10_000;
    private static final long SETTLE_S = 2;
    private static final long MEASURE_S = 12;
    private static final long PACE_NS = 70_000_000;
    private static final long LATE_NS = 300_000_000;
    private final Map<String, Object> client = new HashMap<>();
    private final TopicPartition partition;

    private SecurityCalls(String topic, List<String> settings) {
        partition = new TopicPartition(topic, 0);
        client.put("request.timeout.ms", 8_000);
        client.put("default.api.timeout.ms", 10_000);
        client.put("delivery.timeout.ms", 10_000);
        client.put("max.block.ms", 10_000);
        client.put("reconnect.backoff.max.ms", 100);
        for (String setting : settings) {
            String[] pair = setting.split("=", 2);
            client.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", arguments[1]);
        Map<String, String> results = new ConcurrentSkipListMap<>();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            List<String> words = Arrays.asList(line.split("\t"));
            SecurityCalls one = new SecurityCalls(words.get(2), words.subList(3, words.size()));
            threads.execute(() -> results.put(words.get(0), result(() -> switch (words.get(1)) {
                case "connect" -> one.connect();
                case "renew" -> one.renew();
                case "produce" -> one.produce();
                default -> one.fetch();
            })));
        }
        threads.shutdown();
        threads.awaitTermination(WHOLE_S, TimeUnit.SECONDS);
        results.forEach((name, result) -> System.out.println(name + "=" + result));
    }

    private static String result(Callable<?> body) {
        try {
            return String.valueOf(body.call());
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            if (cause.getClass() == KafkaException.class && cause.getCause() != null) cause = cause.getCause();
            System.err.println(cause);
            return cause.getClass().getSimpleName();
        }
    }

    private String connect() {
        String written = result(() -> {
            try (KafkaProducer<byte[], byte[]> producer = producer()) {
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, new byte[10])).get();
                return "ok";
            }
        });
        String read = result(() -> {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofSeconds(10));
                return found.isEmpty() ? "nothing" : "ok";
            }
        });
        String administered = result(() -> {
            try (Admin admin = Admin.create(client)) {
                return admin.describeTopics(List.of(partition.topic())).allTopicNames().get().size() == 1 ? "ok" : "nothing";
            }
        });
        return String.join(" ", written, read, administered);
    }

    private KafkaProducer<byte[], byte[]> producer() {
        return new KafkaProducer<>(client, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("max.partition.fetch.bytes", VALUE_BYTES);
        settings.put("fetch.max.bytes", VALUE_BYTES);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(Set.of(partition));
        consumer.seekToBeginning(Set.of(partition));
        return consumer;
    }

    private String renew() throws Exception {
        int failed = 0;
        boolean renewed = false;
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            long end = System.currentTimeMillis() + PATIENCE_MS;
            for (int number = 0; !renewed && System.currentTimeMillis() < end; number++) {
                try {
                    producer.send(new ProducerRecord<>(partition.topic(), 0, null, new byte[10])).get();
                } catch (ExecutionException error) {
                    failed++;
                }
                Thread.sleep(5);
                if (number % 20 == 0) renewed = counted(producer, "successful-reauthentication-total") > 0;
            }
            for (int number = 0; number < 20; number++)
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, new byte[10])).get();
            return failed + " " + renewed + " " + counted(producer, "failed-authentication-total");
        }
    }

    private static long counted(KafkaProducer<?, ?> producer, String name) {
        return producer.metrics().entrySet().stream()
            .filter(one -> one.getKey().group().equals("producer-metrics") && one.getKey().name().equals(name))
            .mapToLong(one -> ((Double) one.getValue().metricValue()).longValue()).sum();
    }

    private long produce() throws Exception {
        client.put("buffer.memory", BUFFER_BYTES);
        AtomicInteger written = new AtomicInteger();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            return rate(() -> {
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, new byte[VALUE_BYTES]),
                    (found, error) -> written.addAndGet(error == null ? VALUE_BYTES : 0));
                return written.getAndSet(0);
            });
        }
    }

    private long fetch() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int number = 0; number < FETCHED; number++)
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, new byte[VALUE_BYTES]));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            return rate(() -> {
                int bytes = 0;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10)))
                    bytes += record.serializedValueSize();
                return bytes;
            });
        }
    }

    /** Bytes per second of calls that return bytes, made a third faster than they may be: bursts would take long to even out. */
    private static long rate(Callable<Integer> body) throws Exception {
        long begin = System.nanoTime() + SETTLE_S * 1_000_000_000;
        long end = begin + MEASURE_S * 1_000_000_000;
        long due = System.nanoTime();
        for (long bytes = 0; ; ) {
            int more = body.call();
            long now = System.nanoTime();
            if (now >= end) return bytes / MEASURE_S;
            if (now >= begin) bytes += more;
            due = Math.max(due + PACE_NS, now - LATE_NS);
            if (due > now) TimeUnit.NANOSECONDS.sleep(due - now);
        }
    }
}
