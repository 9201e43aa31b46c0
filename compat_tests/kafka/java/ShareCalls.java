import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Share groups with Kafka's own client: one line for each thing that it sees. */
public final class ShareCalls {
    private final Map<String, Object> client = new HashMap<>();
    private final Admin admin;

    private ShareCalls(String bootstrap) {
        client.put("bootstrap.servers", bootstrap);
        client.put("key.serializer", StringSerializer.class);
        client.put("value.serializer", StringSerializer.class);
        client.put("key.deserializer", StringDeserializer.class);
        client.put("value.deserializer", StringDeserializer.class);
        admin = Admin.create(client);
    }

    public static void main(String[] arguments) throws Exception {
        ShareCalls one = new ShareCalls(arguments[0]);
        if (arguments.length > 1) {
            one.travel(Integer.parseInt(arguments[1]), List.of(arguments).subList(2, arguments.length));
            one.admin.close();
            return;
        }
        one.implicit();
        one.explicit();
        one.batches();
        one.left();
        one.limit();
        one.renewed();
        one.lock();
        one.tools();
        one.admin.close();
    }

    /** Make a topic with records 0 to count - 1, and a group that begins at the first. */
    private void prepare(String name, int count, String... settings) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
        List<AlterConfigOp> changes = new ArrayList<>();
        changes.add(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET));
        for (int each = 0; each < settings.length; each += 2)
            changes.add(new AlterConfigOp(new ConfigEntry(settings[each], settings[each + 1]), AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), changes)).all().get();
        send(name, 0, count);
    }

    private void send(String topic, int first, int count) throws Exception {
        try (Producer<String, String> producer = new KafkaProducer<>(client)) {
            for (int each = first; each < first + count; each++)
                producer.send(new ProducerRecord<>(topic, "value" + each)).get();
        }
    }

    private ShareConsumer<String, String> consumer(String name, boolean explicit) {
        Map<String, Object> own = new HashMap<>(client);
        own.put("group.id", name);
        own.put("share.acknowledgement.mode", explicit ? "explicit" : "implicit");
        ShareConsumer<String, String> consumer = new KafkaShareConsumer<>(own);
        consumer.subscribe(List.of(name));
        return consumer;
    }

    /**
     * Poll until there are count records; fewer if the time is over, or if they come one after the other to a consumer
     * that acknowledges explicitly: it may not poll again before it has.
     */
    private static List<ConsumerRecord<String, String>> poll(ShareConsumer<String, String> consumer, int count, int seconds) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + 1000L * seconds;
        try {
            while (found.size() < count && System.currentTimeMillis() < end)
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) found.add(each);
        } catch (IllegalStateException error) {
            if (found.isEmpty()) throw error;
        }
        return found;
    }

    private static String shown(List<ConsumerRecord<String, String>> records) {
        TreeSet<String> lines = new TreeSet<>();
        for (ConsumerRecord<String, String> each : records) lines.add(each.offset() + "=" + each.value() + "x" + each.deliveryCount().orElse((short) 0));
        return String.join(" ", lines);
    }

    private static String committed(Map<TopicIdPartition, Optional<KafkaException>> results) {
        TreeSet<String> lines = new TreeSet<>();
        results.forEach((partition, error) -> lines.add(partition.partition() + ":" + error.map(each -> each.getClass().getSimpleName()).orElse("ok")));
        return String.join(" ", lines);
    }

    private void implicit() throws Exception {
        prepare("share-implicit", 5);
        try (ShareConsumer<String, String> consumer = consumer("share-implicit", false)) {
            System.out.println("implicit " + shown(poll(consumer, 5, 20)));
            System.out.println("implicit commit " + committed(consumer.commitSync()));
            send("share-implicit", 5, 2);
            System.out.println("implicit next " + shown(poll(consumer, 2, 20)));
        }
        try (ShareConsumer<String, String> consumer = consumer("share-implicit", false)) {
            System.out.println("implicit again " + shown(poll(consumer, 1, 8)));
        }
    }

    private void explicit() throws Exception {
        prepare("share-explicit", 4);
        try (ShareConsumer<String, String> consumer = consumer("share-explicit", true)) {
            List<ConsumerRecord<String, String>> records = poll(consumer, 4, 20);
            System.out.println("explicit " + shown(records));
            consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            consumer.acknowledge(records.get(1), AcknowledgeType.RELEASE);
            consumer.acknowledge(records.get(2), AcknowledgeType.REJECT);
            consumer.acknowledge(records.get(3), AcknowledgeType.RELEASE);
            System.out.println("explicit commit " + committed(consumer.commitSync()));
            records = poll(consumer, 2, 20);
            System.out.println("explicit released " + shown(records));
            for (ConsumerRecord<String, String> each : records) consumer.acknowledge(each);
            System.out.println("explicit accepted " + committed(consumer.commitSync()));
            System.out.println("explicit rest " + shown(poll(consumer, 1, 2)));
        }
    }

    private void batches() throws Exception {
        prepare("share-two", 0);
        try (ShareConsumer<String, String> one = consumer("share-two", false); ShareConsumer<String, String> two = consumer("share-two", false)) {
            poll(one, 1, 2);
            poll(two, 1, 2);
            TreeSet<Long> seen = new TreeSet<>();
            int count = 0;
            long end = System.currentTimeMillis() + 60_000;
            for (int round = 0; seen.size() < 40 && System.currentTimeMillis() < end; round++) {
                if (round < 20) send("share-two", 2 * round, 2);
                for (ShareConsumer<String, String> each : List.of(one, two))
                    for (ConsumerRecord<String, String> record : each.poll(Duration.ofMillis(100))) {
                        seen.add(record.offset());
                        count++;
                    }
            }
            System.out.println("two members " + seen.size() + " records, " + count + " deliveries");
        }
    }

    /** A member that closes without an acknowledgement leaves its records to the next. */
    private void left() throws Exception {
        prepare("share-left", 3);
        try (ShareConsumer<String, String> consumer = consumer("share-left", true)) {
            System.out.println("left " + shown(poll(consumer, 3, 20)));
        }
        try (ShareConsumer<String, String> consumer = consumer("share-left", true)) {
            System.out.println("left again " + shown(poll(consumer, 3, 20)));
        }
    }

    private void limit() throws Exception {
        prepare("share-limit", 1, "share.delivery.count.limit", "2");
        try (ShareConsumer<String, String> consumer = consumer("share-limit", true)) {
            for (int round = 0; round < 2; round++) {
                List<ConsumerRecord<String, String>> records = poll(consumer, 1, 20);
                System.out.println("limit " + shown(records));
                for (ConsumerRecord<String, String> each : records) consumer.acknowledge(each, AcknowledgeType.RELEASE);
                consumer.commitSync();
            }
            System.out.println("limit rest " + shown(poll(consumer, 1, 2)));
        }
    }

    private void renewed() throws Exception {
        prepare("share-renewed", 1, "share.record.lock.duration.ms", "9000");
        try (ShareConsumer<String, String> consumer = consumer("share-renewed", true)) {
            List<ConsumerRecord<String, String>> records = poll(consumer, 1, 20);
            System.out.println("renewed " + shown(records));
            for (int round = 0; round < 2; round++) {
                Thread.sleep(5_000);
                consumer.acknowledge(records.get(0), AcknowledgeType.RENEW);
                System.out.println("renewed commit " + committed(consumer.commitSync()));
                records = poll(consumer, 1, 10);
            }
            consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            System.out.println("renewed accepted " + shown(records) + " " + committed(consumer.commitSync()));
        }
    }

    private void lock() throws Exception {
        prepare("share-lock", 1, "share.record.lock.duration.ms", "8000");
        try (ShareConsumer<String, String> slow = consumer("share-lock", true); ShareConsumer<String, String> next = consumer("share-lock", true)) {
            List<ConsumerRecord<String, String>> records = poll(slow, 1, 20);
            System.out.println("lock " + shown(records));
            System.out.println("lock over " + shown(poll(next, 1, 40)));
            slow.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            System.out.println("lock too late " + committed(slow.commitSync()));
        }
    }

    /** Accept the named offsets, release the others, and leave; the next broker on the folder goes on. */
    private void travel(int count, List<String> accepted) throws Exception {
        if (count == 6) prepare("share-travel", 6);
        try (ShareConsumer<String, String> consumer = consumer("share-travel", true)) {
            List<ConsumerRecord<String, String>> records = poll(consumer, count, 20);
            System.out.println(shown(records));
            for (ConsumerRecord<String, String> each : records)
                consumer.acknowledge(each, accepted.contains(Long.toString(each.offset())) ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
            System.out.println(committed(consumer.commitSync()));
        }
    }

    private void tools() throws Exception {
        admin.describeShareGroups(List.of("share-explicit")).all().get()
            .forEach((name, group) -> System.out.println("group " + name + " " + group.groupState() + " " + group.members().size()));
        TreeSet<String> names = new TreeSet<>();
        admin.listGroups().all().get().forEach(each -> {
            if (each.groupId().startsWith("share-")) names.add(each.groupId() + "/" + each.type().get() + "/" + each.protocol());
        });
        System.out.println("groups " + String.join(" ", names));
        admin.deleteShareGroups(List.of("share-explicit")).all().get();
        System.out.println("deleted");
    }
}
