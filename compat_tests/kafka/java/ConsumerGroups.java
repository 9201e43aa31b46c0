import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Members of consumer groups with group.protocol=consumer: prints what they hold after each step. */
public final class ConsumerGroups {
    private static final long PATIENCE_MS = 30_000;
    private static String bootstrap;
    private static final List<KafkaConsumer<String, String>> members = new ArrayList<>();
    private static int read;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        members.clear();
        read = 0;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(topic("java-a", 4), topic("java-static", 2), topic("jp-1", 2))).all().get();
            joinAndLeave();
            die();
            comeBack();
            followPattern(admin);
            System.out.println("state=" + admin.describeConsumerGroups(List.of("java-group")).all().get()
                .get("java-group").groupState());
            admin.deleteConsumerGroups(List.of("java-group")).all().get();
        }
    }

    private static void joinAndLeave() throws Exception {
        KafkaConsumer<String, String> one = member("java-group", Map.of());
        one.subscribe(List.of("java-a"));
        until("first", () -> held(one).size() == 4);
        KafkaConsumer<String, String> two = member("java-group", Map.of());
        two.subscribe(List.of("java-a"));
        until("shared", () -> held(one).size() == 2 && held(two).size() == 2);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties(Map.of(
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer")))) {
            for (int number = 0; number < 40; number++)
                producer.send(new ProducerRecord<>("java-a", number % 4, null, "v" + number));
        }
        until("read", () -> read == 40);
        one.commitSync();
        two.commitSync();
        System.out.println("committed=" + one.committed(Set.of(new TopicPartition("java-a", 0))).values().iterator()
            .next().offset());
        leave(two);
        until("left", () -> held(one).size() == 4);
        System.out.println("again=" + (read - 40));
        leave(one);
    }

    private static void die() throws Exception {
        KafkaConsumer<String, String> alive = member("java-dying", Map.of());
        KafkaConsumer<String, String> dying = member("java-dying", Map.of("max.poll.interval.ms", "2000"));
        alive.subscribe(List.of("java-a"));
        dying.subscribe(List.of("java-a"));
        until("before", () -> held(alive).size() == 2 && held(dying).size() == 2);
        members.remove(dying);
        until("died", () -> held(alive).size() == 4);
        dying.close(Duration.ofSeconds(1));
        leave(alive);
    }

    private static void comeBack() throws Exception {
        KafkaConsumer<String, String> one = member("java-static", Map.of("group.instance.id", "a"));
        KafkaConsumer<String, String> two = member("java-static", Map.of("group.instance.id", "b"));
        one.subscribe(List.of("java-static"));
        two.subscribe(List.of("java-static"));
        until("static", () -> held(one).size() == 1 && held(two).size() == 1);
        Set<String> before = held(one);
        leave(one);
        KafkaConsumer<String, String> again = member("java-static", Map.of("group.instance.id", "a"));
        again.subscribe(List.of("java-static"));
        until("came back", () -> held(again).equals(before) && held(two).size() == 1);
        leave(again);
        until("stayed away", () -> held(two).size() == 2);
        leave(two);
    }

    private static void followPattern(Admin admin) throws Exception {
        KafkaConsumer<String, String> one = member("java-pattern", Map.of());
        one.subscribe(new SubscriptionPattern("jp-[0-9]+"));
        until("pattern", () -> held(one).equals(Set.of("jp-1-0", "jp-1-1")));
        admin.createTopics(List.of(topic("jp-2", 1), topic("jp-x", 1))).all().get();
        until("new topic", () -> held(one).equals(Set.of("jp-1-0", "jp-1-1", "jp-2-0")));
        leave(one);
    }

    private static NewTopic topic(String name, int partitions) {
        return new NewTopic(name, partitions, (short) 1);
    }

    private static Properties properties(Map<String, String> own) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(own);
        return properties;
    }

    private static KafkaConsumer<String, String> member(String group, Map<String, String> own) {
        Properties properties = properties(own);
        properties.put("group.id", group);
        properties.put("group.protocol", "consumer");
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        KafkaConsumer<String, String> made = new KafkaConsumer<>(properties);
        members.add(made);
        return made;
    }

    private static void leave(KafkaConsumer<String, String> member) {
        members.remove(member);
        member.close(Duration.ofSeconds(5));
    }

    private static Set<String> held(KafkaConsumer<String, String> member) {
        Set<String> names = new TreeSet<>();
        member.assignment().forEach(partition -> names.add(partition.toString()));
        return names;
    }

    private static void until(String step, BooleanSupplier reached) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!reached.getAsBoolean() && System.currentTimeMillis() < end)
            for (KafkaConsumer<String, String> member : members) read += member.poll(Duration.ofMillis(50)).count();
        System.out.println(step + "=" + (reached.getAsBoolean() ? "reached" : "missed"));
        for (KafkaConsumer<String, String> member : members) System.err.println(step + " " + held(member));
    }
}
