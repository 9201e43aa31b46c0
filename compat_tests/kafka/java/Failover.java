import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.ArrayList;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A client of Kafka's that works while brokers are killed, with Kafka's defaults but for the time between connections:
 * stream BOOTSTRAP TOPIC COUNT; transactions BOOTSTRAP TOPIC COUNT; classic|consumer|share BOOTSTRAP TOPIC GROUP COUNT;
 * rack BOOTSTRAP TOPIC RACK COUNT. Consumers print the values that they read, each once, in order.
 */
public final class Failover {
    private static final int PER_TRANSACTION = 5;
    private static final Duration POLL = Duration.ofMillis(200);

    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", words[1], "reconnect.backoff.max.ms", 200));
        switch (words[0]) {
            case "stream" -> stream(settings, words[2], Integer.parseInt(words[3]));
            case "transactions" -> transactions(settings, words[2], Integer.parseInt(words[3]));
            case "share" -> share(settings, words[2], words[3], Integer.parseInt(words[4]));
            default -> consume(words[0], settings, words[2], words[3], Integer.parseInt(words[4]));
        }
    }

    private static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static void stream(Map<String, Object> settings, String topic, int count) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(settings)) {
            for (int number = 0; number < count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, String.valueOf(number))));
                Thread.sleep(1);
            }
            for (Future<?> one : sent) one.get();
        }
    }

    private static void transactions(Map<String, Object> settings, String topic, int count) throws Exception {
        settings.put("transactional.id", topic);
        try (KafkaProducer<String, String> producer = producer(settings)) {
            producer.initTransactions();
            for (int number = 0; number < count; number++) {
                producer.beginTransaction();
                for (int at = 0; at < PER_TRANSACTION; at++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, number + "." + at)).get();
                    Thread.sleep(2);
                }
                if (number % 4 == 3) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
    }

    private static void consume(String how, Map<String, Object> settings, String topic, String name, int count) {
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        if (how.equals("rack")) settings.put("client.rack", name);
        else settings.putAll(Map.of("group.protocol", how, "group.id", name));
        Set<String> found = new LinkedHashSet<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            if (how.equals("rack")) consumer.assign(List.of(new TopicPartition(topic, 0)));
            else consumer.subscribe(List.of(topic));
            while (found.size() < count) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                for (ConsumerRecord<String, String> record : records) found.add(record.value());
                if (!how.equals("rack") && !records.isEmpty()) consumer.commitSync();
            }
        }
        System.out.println(String.join(" ", found));
    }

    private static void share(Map<String, Object> settings, String topic, String group, int count) {
        settings.putAll(Map.of("group.id", group, "share.acknowledgement.mode", "implicit"));
        Set<String> found = new LinkedHashSet<>();
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (found.size() < count)
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) found.add(record.value());
            consumer.commitSync();
        }
        System.out.println(String.join(" ", found));
    }
}
