import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's server-side assignors on the groups of a file. Each group is lines of words:
 *
 * <pre>
 * group uniform|range
 * topic ID COUNT RACKS         racks of each partition: a+b,c or -
 * member ID INSTANCE RACK TOPICS CURRENT      - for none; topics ID,ID; current ID=0+1,ID=2
 * end
 * </pre>
 *
 * Prints for each group its members' assignments, "ID CURRENT", and "end".
 */
public final class Assignors {
    private final Map<Uuid, Integer> counts = new LinkedHashMap<>();
    private final Map<Uuid, String[]> racks = new HashMap<>();
    private final Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
    private final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    private final ConsumerGroupPartitionAssignor assignor;

    private Assignors(String name) {
        assignor = name.equals("uniform") ? new UniformAssignor() : new RangeAssignor();
    }

    public static void main(String[] arguments) throws Exception {
        Assignors group = null;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "group" -> group = new Assignors(words[1]);
                case "topic" -> group.topic(words);
                case "member" -> group.member(words);
                default -> group.print();
            }
        }
    }

    private void topic(String[] words) {
        Uuid id = Uuid.fromString(words[1]);
        counts.put(id, Integer.parseInt(words[2]));
        racks.put(id, words[3].equals("-") ? new String[0] : words[3].split(","));
    }

    private void member(String[] words) {
        Set<Uuid> topics = new HashSet<>();
        for (String topic : listed(words[4])) topics.add(Uuid.fromString(topic));
        Map<Uuid, Set<Integer>> current = new HashMap<>();
        for (String entry : listed(words[5])) {
            String[] sides = entry.split("=");
            for (String index : sides[1].split("\\+")) {
                Uuid topic = Uuid.fromString(sides[0]);
                current.computeIfAbsent(topic, ignored -> new HashSet<>()).add(Integer.valueOf(index));
                owners.computeIfAbsent(topic, ignored -> new HashMap<>()).put(Integer.valueOf(index), words[1]);
            }
        }
        members.put(words[1], new MemberSubscriptionAndAssignmentImpl(
            given(words[3]), given(words[2]), topics, new Assignment(current)));
    }

    private void print() {
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        members.values().forEach(member -> subscriptions.add(member.subscribedTopicIds()));
        SubscriptionType type = subscriptions.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, MemberAssignment> result =
            assignor.assign(new GroupSpecImpl(members, type, owners), new Topics()).members();
        for (String member : members.keySet()) {
            Map<String, String> topics = new TreeMap<>();
            if (result.containsKey(member)) {
                result.get(member).partitions().forEach((topic, indexes) -> {
                    StringBuilder text = new StringBuilder();
                    for (int index : new TreeSet<>(indexes)) text.append(text.isEmpty() ? "" : "+").append(index);
                    if (!text.isEmpty()) topics.put(topic.toString(), topic + "=" + text);
                });
            }
            System.out.println(member + " " + (topics.isEmpty() ? "-" : String.join(",", topics.values())));
        }
        System.out.println("end");
    }

    private static String[] listed(String word) {
        return word.equals("-") ? new String[0] : word.split(",");
    }

    private static Optional<String> given(String word) {
        return word.equals("-") ? Optional.empty() : Optional.of(word);
    }

    private final class Topics implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            String[] all = racks.get(topic);
            return partition < all.length ? new HashSet<>(Arrays.asList(all[partition].split("\\+"))) : Set.of();
        }
    }
}
