import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a version of Kafka's Java client does with the broker at an address; topics begin with a prefix. Prints lines "feature=result". */
public final class Features {
    private static final int RECORDS = 50;
    private static final String[] NEWER = {
        "describeProducers", "describeTransactions", "listTransactions", "fenceProducers", "abortTransaction",
        "describeMetadataQuorum", "listConfigResources",
    };
    private final String bootstrap;
    private final String prefix;
    private final Admin admin;

    private Features(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.admin = Admin.create(Collections.singletonMap("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) {
        Features features = new Features(arguments[0], arguments[1]);
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"})
            print("codec " + codec, () -> features.codec(codec));
        print("transactions", features::transactions);
        for (String assignor : new String[] {"Range", "RoundRobin", "Sticky", "CooperativeSticky"})
            print("group " + assignor, () -> features.group(assignor));
        print("settings", features::settings);
        print("partitions", features::partitions);
        print("deleted records", features::deletedRecords);
        TreeSet<String> lacks = new TreeSet<>(List.of(NEWER));
        for (java.lang.reflect.Method method : Admin.class.getMethods()) lacks.remove(method.getName());
        System.out.println("lacks=" + String.join(",", lacks));
        features.admin.close();
    }

    private static void print(String feature, Callable<?> body) {
        String text;
        try {
            text = String.valueOf(body.call());
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            text = "!" + cause;
        }
        System.out.println(feature + "=" + text);
    }

    private KafkaProducer<String, String> producer(Map<String, Object> own) {
        Map<String, Object> settings = new HashMap<>(own);
        settings.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> own) {
        Map<String, Object> settings = new HashMap<>(own);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private String create(String name) throws Exception {
        String topic = prefix + name;
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        return topic;
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String prefix) {
        for (int number = 0; number < RECORDS; number++) producer.send(new ProducerRecord<>(topic, prefix + number));
        producer.flush();
    }

    private static List<String> read(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long end = System.currentTimeMillis() + 20_000;
        while (values.size() < count && System.currentTimeMillis() < end)
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) values.add(record.value());
        return values;
    }

    private static String shape(List<String> values) {
        return values.size() + " from " + values.get(0) + " to " + values.get(values.size() - 1);
    }

    private String codec(String codec) throws Exception {
        String topic = create("codec-" + codec);
        try (KafkaProducer<String, String> producer =
                        producer(Map.of("compression.type", codec, "linger.ms", 20, "enable.idempotence", true));
                KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            send(producer, topic, "v");
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return shape(read(consumer, RECORDS));
        }
    }

    private String transactions() throws Exception {
        String topic = create("transactions");
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", topic));
                KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, "aborted");
            producer.abortTransaction();
            producer.beginTransaction();
            send(producer, topic, "committed");
            producer.commitTransaction();
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return shape(read(consumer, RECORDS));
        }
    }

    private String group(String assignor) throws Exception {
        String topic = create("group-" + assignor);
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, Object> settings = Map.of(
                "group.id", topic, "group.instance.id", "static", "enable.auto.commit", false,
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor + "Assignor");
        try (KafkaProducer<String, String> producer = producer(Map.of());
                KafkaConsumer<String, String> consumer = consumer(settings)) {
            send(producer, topic, "v");
            consumer.subscribe(List.of(topic));
            String found = shape(read(consumer, RECORDS));
            consumer.commitSync();
            OffsetAndMetadata committed = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(partition);
            return found + ", committed " + committed.offset();
        }
    }

    private String settings() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, create("settings"));
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all().get();
        return admin.describeConfigs(List.of(topic)).all().get().get(topic).get("retention.ms").value();
    }

    private Object partitions() throws Exception {
        String topic = create("partitions");
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            return consumer.partitionsFor(topic).size();
        }
    }

    private Object deletedRecords() throws Exception {
        TopicPartition partition = new TopicPartition(prefix + "codec-none", 0);
        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(20))).all().get();
        return admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get().get(partition).offset();
    }
}
