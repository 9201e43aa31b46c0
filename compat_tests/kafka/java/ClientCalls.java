import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Every call of Kafka's producer and of its consumer in classic groups; "producer" or "consumer", then the broker. */
public final class ClientCalls {
    private static final String SOURCE = "java-source";
    private static final String TARGET = "java-target";
    private static final TopicPartition FIRST = new TopicPartition(SOURCE, 0);
    private static final TopicPartition SECOND = new TopicPartition(SOURCE, 1);
    private static final Duration WAIT = Duration.ofSeconds(20);

    private final Calls calls = new Calls();
    private final Map<String, Object> client = new HashMap<>();

    private ClientCalls(String bootstrap) {
        client.put("bootstrap.servers", bootstrap);
        client.put("key.serializer", StringSerializer.class);
        client.put("value.serializer", StringSerializer.class);
        client.put("key.deserializer", StringDeserializer.class);
        client.put("value.deserializer", StringDeserializer.class);
        client.put("auto.offset.reset", "earliest");
        client.put("enable.auto.commit", false);
        client.put("isolation.level", "read_committed");
        client.put("max.block.ms", 30_000);
    }

    public static void main(String[] arguments) throws Exception {
        ClientCalls one = new ClientCalls(arguments[arguments.length - 1]);
        try (Admin admin = Admin.create(one.client)) {
            String prefix = arguments[0];
            admin.createTopics(List.of(new NewTopic(SOURCE + prefix, 2, (short) 1), new NewTopic(TARGET + prefix, 2, (short) 1)))
                .all().get();
        }
        if (arguments[0].equals("producer")) one.producer(arguments[0]);
        else one.consumer(arguments[0]);
    }

    interface Step {
        void run() throws Exception;
    }

    private void step(String name, Step body) {
        calls.call(name, () -> {
            body.run();
            return "done";
        });
    }

    private KafkaProducer<String, String> transactional(String id) {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("transactional.id", id);
        return new KafkaProducer<>(settings);
    }

    private KafkaConsumer<String, String> consumer(String group, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("group.id", group);
        settings.putAll(more);
        return new KafkaConsumer<>(settings);
    }

    private static List<String> take(Consumer<String, String> consumer, int count) {
        List<String> found = new ArrayList<>();
        long end = System.currentTimeMillis() + WAIT.toMillis();
        while (found.size() < count && System.currentTimeMillis() < end)
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) found.add(one.value());
        return found;
    }

    private void producer(String suffix) throws Exception {
        String source = SOURCE + suffix;
        String target = TARGET + suffix;
        try (Producer<String, String> producer = transactional("java-calls");
             KafkaConsumer<String, String> reader = consumer("java-readers", Map.of());
             KafkaConsumer<String, String> committed = consumer("java-committed", Map.of())) {
            step("initTransactions", producer::initTransactions);
            calls.call("partitionsFor", () -> producer.partitionsFor(source).size());
            step("beginTransaction", producer::beginTransaction);
            calls.call("send", () -> producer.send(new ProducerRecord<>(source, 0, "k", "one")).get().offset());
            calls.call("send/callback", () -> producer.send(new ProducerRecord<>(source, 0, "k", "two"), (found, error) -> { }).get().offset());
            step("flush", producer::flush);
            step("commitTransaction", producer::commitTransaction);
            step("beginTransaction/second", producer::beginTransaction);
            producer.send(new ProducerRecord<>(source, 0, "k", "aborted"));
            step("abortTransaction", producer::abortTransaction);
            reader.subscribe(List.of(source));
            calls.call("send/read", () -> take(reader, 2));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(target, 1, "k", "copy of two"));
            TopicPartition from = new TopicPartition(source, 0);
            step("sendOffsetsToTransaction",
                () -> producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(2, "seen")), reader.groupMetadata()));
            step("commitTransaction/offsets", producer::commitTransaction);
            calls.until("sendOffsetsToTransaction/committed", () -> {
                OffsetAndMetadata found = reader.committed(Set.of(from)).get(from);
                return found == null ? null : found.offset() + " " + found.metadata();
            }, "2 seen"::equals);
            committed.assign(List.of(new TopicPartition(target, 1)));
            calls.call("commitTransaction/read", () -> take(committed, 1));
            try (Producer<String, String> successor = transactional("java-calls")) {
                successor.initTransactions();
                step("beginTransaction/fenced", () -> {
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(source, 0, "k", "late")).get();
                });
                step("commitTransaction/fenced", producer::commitTransaction);
            }
            calls.call("metrics", () -> producer.metrics().size() > 10);
            step("registerMetricForSubscription", () -> producer.registerMetricForSubscription(Calls.metric(producer.metrics())));
            step("unregisterMetricFromSubscription", () -> producer.unregisterMetricFromSubscription(Calls.metric(producer.metrics())));
            calls.call("clientInstanceId", () -> Calls.length(producer.clientInstanceId(Duration.ofSeconds(1))));
        }
        calls.print(Producer.class);
    }

    private void consumer(String suffix) throws Exception {
        String source = SOURCE + suffix;
        TopicPartition first = new TopicPartition(source, 0);
        TopicPartition second = new TopicPartition(source, 1);
        Set<TopicPartition> both = Set.of(first, second);
        try (Producer<String, String> producer = new KafkaProducer<>(client)) {
            for (int number = 0; number < 20; number++)
                producer.send(new ProducerRecord<>(source, number % 2, 1_000L + number, "k", "v" + number)).get();
        }
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) { }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) { }
        };
        Map<String, Object> some = Map.of("group.instance.id", "java-member", "max.poll.records", 5);
        try (KafkaConsumer<String, String> consumer = consumer("java-calls", some)) {
            step("subscribe/listener", () -> consumer.subscribe(List.of(source), listener));
            calls.call("poll", () -> take(consumer, 20).size());
            calls.call("assignment", () -> consumer.assignment().equals(both));
            calls.call("subscription", consumer::subscription);
            step("commitSync", consumer::commitSync);
            step("commitSync/timeout", () -> consumer.commitSync(WAIT));
            step("commitSync/offsets", () -> consumer.commitSync(Map.of(first, new OffsetAndMetadata(3))));
            step("commitAsync", consumer::commitAsync);
            calls.until("committed", () -> {
                consumer.poll(Duration.ofMillis(10));
                return new TreeMap<>(Map.of(0, consumer.committed(both).get(first).offset(), 1,
                    consumer.committed(both, WAIT).get(second).offset()));
            }, "{0=10, 1=10}"::equals);
            calls.call("groupMetadata", () -> consumer.groupMetadata().groupId() + " " + consumer.groupMetadata().groupInstanceId().get()
                + " " + (consumer.groupMetadata().generationId() > 0));
            step("enforceRebalance", () -> consumer.enforceRebalance("a test"));
            calls.call("currentLag", () -> consumer.currentLag(first).orElse(-1));
            step("unsubscribe", consumer::unsubscribe);
            step("subscribe/pattern", () -> consumer.subscribe(Pattern.compile("java-sourceconsumer.*"), listener));
            calls.until("poll/pattern", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().equals(both);
            }, "true"::equals);
            consumer.unsubscribe();
            step("assign", () -> consumer.assign(both));
            calls.call("beginningOffsets", () -> new HashSet<>(consumer.beginningOffsets(both).values()));
            calls.call("endOffsets", () -> new HashSet<>(consumer.endOffsets(both, WAIT).values()));
            calls.call("offsetsForTimes", () -> consumer.offsetsForTimes(Map.of(first, 1_004L)).get(first).offset());
            step("seekToBeginning", () -> consumer.seekToBeginning(both));
            calls.call("position", () -> consumer.position(first));
            step("seekToEnd", () -> consumer.seekToEnd(both));
            calls.call("position/end", () -> consumer.position(first, WAIT));
            step("seek", () -> consumer.seek(first, new OffsetAndMetadata(7)));
            step("pause", () -> consumer.pause(Set.of(second)));
            calls.call("paused", () -> consumer.paused().equals(Set.of(second)));
            calls.call("poll/seek", () -> take(consumer, 3));
            step("resume", () -> consumer.resume(Set.of(second)));
            calls.call("partitionsFor", () -> consumer.partitionsFor(source).size());
            calls.call("listTopics", () -> consumer.listTopics(WAIT).containsKey(source));
            step("wakeup", consumer::wakeup);
            step("poll/woken", () -> consumer.poll(WAIT));
            calls.call("metrics", () -> consumer.metrics().size() > 10);
            step("registerMetricForSubscription", () -> consumer.registerMetricForSubscription(Calls.metric(consumer.metrics())));
            step("unregisterMetricFromSubscription", () -> consumer.unregisterMetricFromSubscription(Calls.metric(consumer.metrics())));
            calls.call("clientInstanceId", () -> Calls.length(consumer.clientInstanceId(Duration.ofSeconds(1))));
        }
        calls.print(Consumer.class);
    }
}
