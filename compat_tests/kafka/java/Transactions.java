import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One step of a transaction of Kafka's own producer (transactions V2). The producers stay between calls:
 * init NAME ID BOOTSTRAP TIMEOUT_MS; begin NAME; send NAME TOPIC PARTITION VALUE...; offsets NAME GROUP TOPIC PARTITION OFFSET;
 * commit NAME; abort NAME; forget NAME (without a word to the broker).
 */
public final class Transactions {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] words) throws Exception {
        String name = words[1];
        KafkaProducer<String, String> producer = PRODUCERS.get(name);
        switch (words[0]) {
            case "init" -> {
                Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", words[3], "transactional.id", words[2],
                    "transaction.timeout.ms", words[4], "key.serializer", StringSerializer.class,
                    "value.serializer", StringSerializer.class, "reconnect.backoff.max.ms", 500));
                producer = new KafkaProducer<>(settings);
                PRODUCERS.put(name, producer);
                producer.initTransactions();
            }
            case "begin" -> producer.beginTransaction();
            case "send" -> {
                for (int at = 4; at < words.length; at++)
                    producer.send(new ProducerRecord<>(words[2], Integer.parseInt(words[3]), "key", words[at])).get();
            }
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(words[3], Integer.parseInt(words[4])), new OffsetAndMetadata(Long.parseLong(words[5]))),
                new ConsumerGroupMetadata(words[2]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "forget" -> PRODUCERS.remove(name).close(Duration.ZERO);
            default -> throw new IllegalArgumentException(List.of(words).toString());
        }
    }
}
