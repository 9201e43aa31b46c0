import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Every operation of Kafka's clients as users who may do little: topic t, group g, transactional id tx. Each line of the
 * file is a name and the settings of a client, separated by tabs. Prints "[name]" and the results, as Calls does.
 */
public final class DeniedCalls {
    private static final String[] LEFT_OUT = {
        // a second controller
        "addRaftVoter", "removeRaftVoter",
        // nothing to allow
        "clientInstanceId", "metrics", "registerMetricForSubscription", "unregisterMetricFromSubscription",
    };
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static final long WHOLE_S = 50;
    private static final Duration PAUSE = Duration.ofMillis(100);
    private static final Duration WAIT = Duration.ofSeconds(5);

    private final Calls calls = new Calls();
    private final Map<String, Object> client = new HashMap<>();
    private Admin admin;

    private DeniedCalls(List<String> settings) {
        client.put("request.timeout.ms", 4_000);
        client.put("default.api.timeout.ms", 5_000);
        client.put("max.block.ms", 5_000);
        client.put("delivery.timeout.ms", 5_000);
        client.put("key.serializer", StringSerializer.class);
        client.put("value.serializer", StringSerializer.class);
        client.put("key.deserializer", StringDeserializer.class);
        client.put("value.deserializer", StringDeserializer.class);
        client.put("enable.metrics.push", false);
        for (String setting : settings) {
            String[] pair = setting.split("=", 2);
            client.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Calls> found = new ConcurrentSkipListMap<>();
        ExecutorService threads = Executors.newCachedThreadPool();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            List<String> words = Arrays.asList(line.split("\t"));
            DeniedCalls one = new DeniedCalls(words.subList(1, words.size()));
            found.put(words.get(0), one.calls);
            threads.execute(one::run);
        }
        threads.shutdown();
        threads.awaitTermination(WHOLE_S, TimeUnit.SECONDS);
        found.forEach((name, calls) -> {
            System.out.println("[" + name + "]");
            calls.print(Admin.class, LEFT_OUT);
        });
    }

    private void run() {
        try (Admin own = Admin.create(client)) {
            admin = own;
            topics();
            configs();
            cluster();
            groups();
            transactions();
            security();
            produce();
            consume();
        } catch (Exception error) {
            calls.call("the rest", () -> {
                throw error;
            });
        }
    }

    private static String keys(Map<?, ?> map) {
        return map.keySet().stream().map(String::valueOf).sorted().toList().toString();
    }

    private void topics() {
        calls.call("createTopics", () -> admin.createTopics(List.of(new NewTopic("mine", 1, (short) 1))).all().get());
        calls.call("listTopics", () -> admin.listTopics().names().get().contains("t"));
        calls.call("describeTopics", () -> admin.describeTopics(List.of("t")).allTopicNames().get().get("t").partitions().size());
        calls.call("describeTopics/unknown", () -> admin.describeTopics(List.of("nowhere")).allTopicNames().get());
        calls.call("createPartitions", () -> admin.createPartitions(Map.of("t", NewPartitions.increaseTo(9))).all().get());
        calls.call("deleteRecords", () -> admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(0))).all().get());
        calls.call("deleteTopics", () -> admin.deleteTopics(List.of("t")).all().get());
        calls.call("deleteTopics/unknown", () -> admin.deleteTopics(List.of("nowhere")).all().get());
        calls.call("listOffsets", () -> admin.listOffsets(Map.of(PARTITION, OffsetSpec.earliest())).all().get().get(PARTITION).offset());
        calls.call("describeProducers", () -> keys(admin.describeProducers(List.of(PARTITION)).all().get()));
    }

    private void configs() {
        for (ConfigResource one : List.of(new ConfigResource(Type.TOPIC, "t"), new ConfigResource(Type.BROKER, "1"),
                new ConfigResource(Type.GROUP, "g"), new ConfigResource(Type.CLIENT_METRICS, "m"),
                new ConfigResource(Type.BROKER_LOGGER, "1"))) {
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry("any", "1"), AlterConfigOp.OpType.SET);
            calls.call("describeConfigs/" + one.type(), () -> keys(admin.describeConfigs(List.of(one)).all().get()));
            calls.call("incrementalAlterConfigs/" + one.type(),
                () -> admin.incrementalAlterConfigs(Map.of(one, List.of(change))).all().get());
        }
        calls.call("listConfigResources", () -> admin.listConfigResources().all().get().size() > 0);
        calls.call("listClientMetricsResources", () -> admin.listClientMetricsResources().all().get());
    }

    private void cluster() {
        calls.call("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            return found.nodes().get().size() + " " + found.authorizedOperations().get();
        });
        calls.call("describeFeatures", () -> admin.describeFeatures().featureMetadata().get() != null);
        calls.call("updateFeatures", () -> admin.updateFeatures(Map.of("transaction.version",
            new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all().get());
        calls.call("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        calls.call("unregisterBroker", () -> admin.unregisterBroker(99).all().get());
        calls.call("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).size());
        TopicPartitionReplica replica = new TopicPartitionReplica("t", 0, 1);
        calls.call("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir() != null);
        calls.call("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all().get());
        calls.call("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(PARTITION)).partitions().get());
        calls.call("alterPartitionReassignments",
            () -> admin.alterPartitionReassignments(Map.of(PARTITION, Optional.of(new NewPartitionReassignment(List.of(1))))).all().get());
        calls.call("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
    }

    private void groups() {
        List<String> group = List.of("g");
        Set<TopicPartition> partitions = Set.of(PARTITION);
        calls.call("listGroups", () -> admin.listGroups().all().get().stream().anyMatch(one -> one.groupId().equals("g")));
        calls.call("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream().anyMatch(one -> one.groupId().equals("g")));
        calls.call("describeConsumerGroups", () -> keys(admin.describeConsumerGroups(group).all().get()));
        calls.call("describeClassicGroups", () -> keys(admin.describeClassicGroups(group).all().get()));
        calls.call("describeShareGroups", () -> keys(admin.describeShareGroups(group).all().get()));
        calls.call("describeStreamsGroups", () -> keys(admin.describeStreamsGroups(group).all().get()));
        calls.call("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets("g").partitionsToOffsetAndMetadata().get().keySet());
        calls.call("listStreamsGroupOffsets", () -> keys(admin.listStreamsGroupOffsets(
            Map.of("g", new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata("g").get()));
        calls.call("listShareGroupOffsets", () -> keys(admin.listShareGroupOffsets(
            Map.of("g", new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo("g").get()));
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(PARTITION, new OffsetAndMetadata(0));
        calls.call("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets("g", offsets).all().get());
        calls.call("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("g", offsets).all().get());
        calls.call("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("g", Map.of(PARTITION, 0L)).all().get());
        calls.call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("g", partitions).all().get());
        calls.call("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("g", partitions).all().get());
        calls.call("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("g", Set.of("t")).all().get());
        calls.call("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup("g",
            new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody")))).all().get());
        calls.call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(group).all().get());
        calls.call("deleteStreamsGroups", () -> admin.deleteStreamsGroups(group).all().get());
        calls.call("deleteShareGroups", () -> admin.deleteShareGroups(group).all().get());
    }

    private void transactions() {
        calls.call("listTransactions", () -> admin.listTransactions().all().get().stream().anyMatch(one -> one.transactionalId().equals("tx")));
        calls.call("describeTransactions", () -> keys(admin.describeTransactions(List.of("tx")).all().get()));
        calls.call("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(PARTITION, 1, (short) 0, 0)).all().get());
        calls.call("fenceProducers", () -> admin.fenceProducers(List.of("tx")).all().get());
        calls.call("forceTerminateTransaction", () -> admin.forceTerminateTransaction("tx").result().get());
    }

    private void security() throws Exception {
        calls.call("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().size() > 5);
        calls.call("createAcls", () -> admin.createAcls(List.of(new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
            new AccessControlEntry("User:eve", "*", AclOperation.ALL, AclPermissionType.ALLOW)))).all().get());
        calls.call("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
        calls.call("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        calls.call("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of("user", "eve")), List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).all().get());
        calls.call("describeUserScramCredentials", () -> keys(admin.describeUserScramCredentials().all().get()));
        calls.call("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
            "eve", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "own"))).all().get());
        calls.call("createDelegationToken", () -> admin.createDelegationToken().delegationToken().get().tokenInfo().owner());
        calls.call("createDelegationToken/of another", () -> admin.createDelegationToken(
            new CreateDelegationTokenOptions().owner(new KafkaPrincipal("User", "ann"))).delegationToken().get());
        calls.call("renewDelegationToken", () -> admin.renewDelegationToken(new byte[64]).expiryTimestamp().get());
        calls.call("expireDelegationToken", () -> admin.expireDelegationToken(new byte[64]).expiryTimestamp().get());
        calls.until("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get().stream()
            .map(one -> one.tokenInfo().ownerAsString()).distinct().toList(), found -> !found.equals("[]"));
    }

    private void step(String name, Runnable body) {
        calls.call(name, () -> {
            body.run();
            return null;
        });
    }

    private void with(String name, Object value, String call, Callable<?> body) {
        client.put(name, value);
        calls.call(call, body);
        client.remove(name);
    }

    private void produce() {
        for (boolean idempotent : new boolean[] {true, false})
            with("enable.idempotence", idempotent, "send/" + (idempotent ? "idempotent" : "plain"), () -> {
                try (KafkaProducer<String, String> producer = new KafkaProducer<>(client)) {
                    return producer.send(new ProducerRecord<>("t", 0, "k", "v")).get().offset();
                }
            });
        with("transactional.id", "tx", "initTransactions", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(client)) {
                producer.initTransactions();
                return null;
            }
        });
    }

    private void consume() {
        for (String protocol : List.of("classic", "consumer")) {
            client.put("group.protocol", protocol);
            client.put("group.id", "g-" + protocol);
            calls.call("poll/" + protocol, () -> {
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(client)) {
                    consumer.subscribe(List.of("t"));
                    return consumer.poll(WAIT).count();
                }
            });
            client.put("group.id", "g");
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(client)) {
                consumer.assign(Set.of(PARTITION));
                step("commitSync/" + protocol, () -> consumer.commitSync(Map.of(PARTITION, new OffsetAndMetadata(0))));
                calls.call("committed/" + protocol, () -> consumer.committed(Set.of(PARTITION)).get(PARTITION) != null);
                calls.call("beginningOffsets/" + protocol, () -> consumer.beginningOffsets(Set.of(PARTITION)).get(PARTITION));
                calls.call("partitionsFor/" + protocol, () -> consumer.partitionsFor("t").size());
                consumer.seek(PARTITION, 0);
                calls.call("poll/assigned " + protocol, () -> consumer.poll(WAIT).count());
            }
            client.remove("group.protocol");
        }
        calls.call("poll/share", () -> {
            KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(client);
            try {
                consumer.subscribe(List.of("t"));
                long end = System.currentTimeMillis() + WAIT.toMillis();
                int found = 0;
                while (System.currentTimeMillis() < end) found += consumer.poll(PAUSE).count(); // it tells of errors between polls
                return found;
            } finally {
                consumer.close(Duration.ZERO); // it waits to leave the group
            }
        });
    }
}
