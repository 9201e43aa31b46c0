import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Every call of Kafka's Admin that needs no second broker, no security and no streams group. */
public final class AdminCalls {
    private static final String[] LEFT_OUT = {
        // security
        "describeAcls", "createAcls", "deleteAcls",
        "createDelegationToken", "renewDelegationToken", "expireDelegationToken", "describeDelegationToken",
        "describeUserScramCredentials", "alterUserScramCredentials", "describeClientQuotas", "alterClientQuotas",
        // streams groups
        "describeStreamsGroups", "listStreamsGroupOffsets", "deleteStreamsGroups",
        "deleteStreamsGroupOffsets", "alterStreamsGroupOffsets",
        // a second controller
        "addRaftVoter", "removeRaftVoter",
    };
    private static final String TOPIC = "java-admin";
    private static final String GROUP = "java-admin-group";
    private static final String SHARE = "java-admin-share";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final TopicPartition SECOND = new TopicPartition(TOPIC, 1);

    private final Calls calls = new Calls();
    private final Admin admin;
    private final Map<String, Object> client = new HashMap<>();

    private AdminCalls(String bootstrap) {
        client.put("bootstrap.servers", bootstrap);
        client.put("key.serializer", StringSerializer.class);
        client.put("value.serializer", StringSerializer.class);
        client.put("key.deserializer", StringDeserializer.class);
        client.put("value.deserializer", StringDeserializer.class);
        client.put("default.api.timeout.ms", 30_000);
        client.put("transaction.timeout.ms", 40_000);
        client.put("enable.metrics.push", true);
        admin = Admin.create(client);
    }

    private interface Part {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        AdminCalls one = new AdminCalls(arguments[arguments.length - 1]);
        try (one.admin) {
            List<Part> parts = List.of(one::cluster, one::topics, one::configs, one::records, one::folders, one::replicas,
                one::groups, one::shareGroups, one::transactions, one::deletions);
            for (int number = 0; number < parts.size(); number++) {
                try {
                    parts.get(number).run();
                } catch (Exception error) { // the calls of the other parts are worth seeing
                    one.calls.call("part " + number, () -> {
                        throw error;
                    });
                }
            }
            one.calls.print(Admin.class, LEFT_OUT);
        }
    }

    private void cluster() throws Exception {
        calls.call("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster();
            return ids(found.nodes().get()) + " " + found.controller().get().id() + " " + found.clusterId().get().length();
        });
        calls.call("describeFeatures", () -> {
            FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
            FinalizedVersionRange level = found.finalizedFeatures().get("transaction.version");
            SupportedVersionRange range = found.supportedFeatures().get("transaction.version");
            return range.minVersion() + "-" + range.maxVersion() + " " + level.maxVersionLevel();
        });
        FeatureUpdate down = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
        FeatureUpdate tooHigh = new FeatureUpdate((short) 9, FeatureUpdate.UpgradeType.UPGRADE);
        UpdateFeaturesOptions only = new UpdateFeaturesOptions().validateOnly(true);
        calls.call("updateFeatures", () -> admin.updateFeatures(Map.of("transaction.version", down), only).all().get());
        calls.call("updateFeatures/unsupported",
            () -> admin.updateFeatures(Map.of("transaction.version", tooHigh), only).all().get());
        calls.call("describeMetadataQuorum", () -> {
            QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
            return found.leaderId() + " " + found.voters().size() + " " + found.observers().size() + " "
                + (found.highWatermark() >= 0) + " " + (found.leaderEpoch() >= 0);
        });
        calls.call("unregisterBroker/unknown", () -> admin.unregisterBroker(99).all().get());
        calls.call("metrics", () -> admin.metrics().size() > 10);
        calls.call("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(Calls.metric(admin.metrics()));
            return null;
        });
        calls.call("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(Calls.metric(admin.metrics()));
            return null;
        });
        calls.call("clientInstanceId", () -> Calls.length(admin.clientInstanceId(Duration.ofSeconds(1))));
    }

    private void topics() throws Exception {
        NewTopic wanted = new NewTopic(TOPIC, 2, (short) 1).configs(Map.of("retention.ms", "-1"));
        calls.call("createTopics/validate", () -> {
            CreateTopicsResult found = admin.createTopics(List.of(wanted), new CreateTopicsOptions().validateOnly(true));
            found.all().get();
            return found.numPartitions(TOPIC).get() + " " + found.replicationFactor(TOPIC).get();
        });
        calls.call("createTopics", () -> {
            CreateTopicsResult found = admin.createTopics(List.of(wanted, new NewTopic("java-assigned", Map.of(0, List.of(1)))));
            found.all().get();
            return found.numPartitions(TOPIC).get() + " " + found.replicationFactor(TOPIC).get() + " "
                + found.topicId(TOPIC).get().toString().length() + " "
                + found.config(TOPIC).get().get("retention.ms").value();
        });
        calls.call("createTopics/exists", () -> admin.createTopics(List.of(wanted)).all().get());
        NewTopic elsewhere = new NewTopic("java-elsewhere", Map.of(0, List.of(2)));
        calls.call("createTopics/unknown broker", () -> admin.createTopics(List.of(elsewhere)).all().get());
        calls.until("listTopics", () -> only(admin.listTopics().names().get()), "java-admin java-assigned"::equals);
        calls.until("describeTopics", () -> describe(TopicCollection.ofTopicNames(List.of(TOPIC))), "0:1[1][1] 1:1[1][1]"::equals);
        calls.call("describeTopics/by id", () -> describe(TopicCollection.ofTopicIds(List.of(
            admin.listTopics().namesToListings().get().get(TOPIC).topicId()))));
        calls.call("createPartitions/validate", () -> admin.createPartitions(
            Map.of(TOPIC, NewPartitions.increaseTo(3)), new CreatePartitionsOptions().validateOnly(true)).all().get());
        calls.call("createPartitions", () -> admin.createPartitions(
            Map.of(TOPIC, NewPartitions.increaseTo(3, List.of(List.of(1))))).all().get());
        calls.call("createPartitions/fewer", () -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(2))).all().get());
        calls.until("describeTopics/three", () -> describe(TopicCollection.ofTopicNames(List.of(TOPIC))),
            "0:1[1][1] 1:1[1][1] 2:1[1][1]"::equals);
    }

    private String describe(TopicCollection topics) throws Exception {
        DescribeTopicsResult found = admin.describeTopics(topics, new DescribeTopicsOptions().partitionSizeLimitPerResponse(1));
        TopicDescription one = topics instanceof TopicCollection.TopicNameCollection
            ? found.allTopicNames().get().get(TOPIC) : found.allTopicIds().get().values().iterator().next();
        return one.partitions().stream()
            .map(part -> part.partition() + ":" + part.leader().id() + ids(part.replicas()) + ids(part.isr()))
            .collect(Collectors.joining(" "));
    }

    private void configs() throws Exception {
        ConfigResource topic = new ConfigResource(Type.TOPIC, TOPIC);
        ConfigResource broker = new ConfigResource(Type.BROKER, "1");
        ConfigResource brokers = new ConfigResource(Type.BROKER, "");
        ConfigResource group = new ConfigResource(Type.GROUP, GROUP);
        ConfigResource metrics = new ConfigResource(Type.CLIENT_METRICS, "java-metrics");
        alter("topic", topic, set("cleanup.policy", "compact"), set("segment.ms", "600000"));
        calls.until("describeConfigs/topic", () -> entry(topic, "cleanup.policy"),
            "compact DYNAMIC_TOPIC_CONFIG [DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG] LIST true false"::equals);
        alter("append", topic, op("cleanup.policy", "delete", OpType.APPEND));
        calls.until("describeConfigs/append", () -> value(topic, "cleanup.policy"), "compact,delete"::equals);
        alter("subtract", topic, op("cleanup.policy", "compact", OpType.SUBTRACT), op("segment.ms", null, OpType.DELETE));
        calls.until("describeConfigs/subtract", () -> value(topic, "cleanup.policy") + value(topic, "segment.ms"),
            "delete604800000"::equals);
        alter("append to a number", topic, op("segment.ms", "7", OpType.APPEND));
        alter("unknown", topic, set("no.such.setting", "1"));
        alter("invalid", topic, set("segment.ms", "soon"));
        alter("unknown topic", new ConfigResource(Type.TOPIC, "nowhere"), set("segment.ms", "600000"));
        calls.call("incrementalAlterConfigs/validate", () -> admin.incrementalAlterConfigs(
            Map.of(topic, List.of(set("segment.ms", "1000"))), new AlterConfigsOptions().validateOnly(true)).all().get());
        calls.call("describeConfigs/validated", () -> value(topic, "segment.ms"));
        alter("broker", broker, set("message.max.bytes", "2000000"));
        calls.until("describeConfigs/broker", () -> entry(broker, "message.max.bytes"),
            "2000000 DYNAMIC_BROKER_CONFIG [DYNAMIC_BROKER_CONFIG, DEFAULT_CONFIG] INT true false"::equals);
        alter("all brokers", brokers, set("message.max.bytes", "3000000"));
        calls.until("describeConfigs/all brokers", () -> value(brokers, "message.max.bytes"), "3000000"::equals);
        alter("broker back", broker, op("message.max.bytes", null, OpType.DELETE));
        calls.until("describeConfigs/of all brokers", () -> entry(broker, "message.max.bytes"),
            "3000000 DYNAMIC_DEFAULT_BROKER_CONFIG [DYNAMIC_DEFAULT_BROKER_CONFIG, DEFAULT_CONFIG] INT true false"::equals);
        alter("all brokers back", brokers, op("message.max.bytes", null, OpType.DELETE));
        calls.until("describeConfigs/default", () -> value(broker, "message.max.bytes"), "1048588"::equals);
        alter("read only", broker, set("node.id", "7"));
        alter("group", group, set("consumer.heartbeat.interval.ms", "6000"));
        calls.until("describeConfigs/group", () -> value(group, "consumer.heartbeat.interval.ms"), "6000"::equals);
        alter("metrics", metrics, set("interval.ms", "5000"), set("metrics", "*"));
        calls.until("describeConfigs/metrics", () -> value(metrics, "interval.ms"), "5000"::equals);
        calls.until("listConfigResources", () -> admin.listConfigResources(
                Set.of(Type.CLIENT_METRICS, Type.GROUP), new ListConfigResourcesOptions()).all().get().stream()
                .map(one -> one.type() + ":" + one.name()).filter(one -> one.contains("java")).sorted()
                .collect(Collectors.joining(" ")), "CLIENT_METRICS:java-metrics GROUP:java-admin-group"::equals);
        calls.call("listConfigResources/all", () -> admin.listConfigResources().all().get().stream()
            .filter(one -> one.type() == Type.TOPIC && one.name().equals(TOPIC)).count());
        calls.call("listClientMetricsResources", () -> admin.listClientMetricsResources().all().get().stream()
            .map(ClientMetricsResourceListing::name).filter(one -> one.contains("java")).collect(Collectors.joining(" ")));
        alter("metrics back", metrics, op("interval.ms", null, OpType.DELETE), op("metrics", null, OpType.DELETE));
        alter("group back", group, op("consumer.heartbeat.interval.ms", null, OpType.DELETE));
        ConfigResource loggers = new ConfigResource(Type.BROKER_LOGGER, "1");
        calls.call("describeConfigs/loggers", () -> admin.describeConfigs(List.of(loggers)).all().get()
            .get(loggers).entries().stream().allMatch(one -> !one.isReadOnly() && one.value() != null));
        alter("loggers", loggers, set("root", "INFO"));
        alter("log level", loggers, set("root", "LOUD"));
    }

    private static AlterConfigOp op(String name, String value, OpType kind) {
        return new AlterConfigOp(new ConfigEntry(name, value), kind);
    }

    private static AlterConfigOp set(String name, String value) {
        return op(name, value, OpType.SET);
    }

    private void alter(String remark, ConfigResource resource, AlterConfigOp... changes) {
        calls.call("incrementalAlterConfigs/" + remark,
            () -> admin.incrementalAlterConfigs(Map.of(resource, Arrays.asList(changes))).all().get());
    }

    private String value(ConfigResource resource, String name) throws Exception {
        ConfigEntry found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return found == null ? "absent" : found.value();
    }

    private String entry(ConfigResource resource, String name) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        ConfigEntry found = admin.describeConfigs(List.of(resource), options).all().get().get(resource).get(name);
        List<String> synonyms = found.synonyms().stream().map(one -> one.source().toString()).collect(Collectors.toList());
        return found.value() + " " + found.source() + " " + synonyms + " " + found.type() + " "
            + (found.documentation() != null && !found.documentation().isEmpty()) + " " + found.isReadOnly();
    }

    private void records() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(client)) {
            for (int number = 0; number < 10; number++)
                producer.send(new ProducerRecord<>(TOPIC, 0, 1_000L + number, "key", "value " + number)).get();
            producer.send(new ProducerRecord<>(TOPIC, 1, 2_000L, "key", "value")).get();
        }
        Map<String, OffsetSpec> specs = new TreeMap<>(Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
            "time", OffsetSpec.forTimestamp(1_004), "max", OffsetSpec.maxTimestamp(),
            "local", OffsetSpec.earliestLocal(), "tiered", OffsetSpec.latestTiered()));
        specs.forEach((name, spec) -> calls.call("listOffsets/" + name,
            () -> admin.listOffsets(Map.of(FIRST, spec)).all().get().get(FIRST).offset()));
        calls.call("deleteRecords", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(4))).all().get()
            + " " + admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(FIRST).get().lowWatermark());
        calls.call("deleteRecords/too many",
            () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(40))).all().get());
        calls.call("listOffsets/deleted", () -> admin.listOffsets(Map.of(FIRST, OffsetSpec.earliest())).all().get().get(FIRST).offset());
    }

    private void folders() throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 1);
        calls.call("describeLogDirs", () -> {
            LogDirDescription found = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().iterator().next();
            ReplicaInfo info = found.replicaInfos().get(FIRST);
            return found.error() + " " + (info.size() > 0) + " " + info.offsetLag() + " " + info.isFuture() + " "
                + (found.totalBytes().orElse(-1) > 0) + " " + (found.usableBytes().orElse(-1) > 0);
        });
        calls.call("describeReplicaLogDirs", () -> {
            DescribeReplicaLogDirsResult.ReplicaLogDirInfo found =
                admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
            return (found.getCurrentReplicaLogDir() != null) + " " + found.getFutureReplicaLogDir();
        });
        calls.call("alterReplicaLogDirs", () -> {
            String here = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).keySet().iterator().next();
            return admin.alterReplicaLogDirs(Map.of(replica, here)).all().get();
        });
        calls.call("alterReplicaLogDirs/unknown", () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all().get());
    }

    private void replicas() throws Exception {
        calls.call("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(FIRST)).partitions().get()
            .get(FIRST).map(error -> error.getClass().getSimpleName()));
        calls.call("electLeaders/unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(FIRST)).partitions().get()
            .get(FIRST).map(error -> error.getClass().getSimpleName()));
        TopicPartition unknown = new TopicPartition("nowhere", 0);
        calls.call("electLeaders/unknown", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(unknown)).partitions().get()
            .get(unknown).map(error -> error.getClass().getSimpleName()));
        calls.call("electLeaders/all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions().get().size());
        reassign("", FIRST, Optional.of(new NewPartitionReassignment(List.of(1))));
        reassign("/cancel", FIRST, Optional.empty());
        reassign("/unknown broker", FIRST, Optional.of(new NewPartitionReassignment(List.of(2))));
        reassign("/unknown topic", unknown, Optional.of(new NewPartitionReassignment(List.of(1))));
        calls.call("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
        calls.call("listPartitionReassignments/one", () -> admin.listPartitionReassignments(Set.of(FIRST)).reassignments().get());
    }

    private void reassign(String remark, TopicPartition partition, Optional<NewPartitionReassignment> wanted) {
        calls.call("alterPartitionReassignments" + remark,
            () -> admin.alterPartitionReassignments(Map.of(partition, wanted)).all().get());
    }

    private void groups() throws Exception {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("group.id", GROUP);
        settings.put("group.instance.id", "java-instance");
        settings.put("session.timeout.ms", 10_000);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(TOPIC));
            long end = System.currentTimeMillis() + 30_000;
            for (int found = 0; found < 7 && System.currentTimeMillis() < end;) found += consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
            calls.call("describeConsumerGroups", () -> {
                ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(GROUP)).all().get().get(GROUP);
                MemberDescription member = found.members().iterator().next();
                return found.groupState() + " " + found.partitionAssignor() + " " + member.groupInstanceId().get() + " "
                    + member.assignment().topicPartitions().size() + " " + found.coordinator().id();
            });
            calls.call("describeClassicGroups", () ->
                admin.describeClassicGroups(List.of(GROUP)).all().get().get(GROUP).state());
            calls.call("deleteConsumerGroups/in use", () -> admin.deleteConsumerGroups(List.of(GROUP)).all().get());
            calls.call("deleteConsumerGroupOffsets/subscribed",
                () -> admin.deleteConsumerGroupOffsets(GROUP, Set.of(FIRST)).all().get());
            calls.call("alterConsumerGroupOffsets/in use",
                () -> admin.alterConsumerGroupOffsets(GROUP, Map.of(FIRST, new OffsetAndMetadata(5))).all().get());
            calls.call("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(GROUP,
                new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("java-instance")))).all().get());
        }
        calls.call("listGroups", () -> admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(GROUP))
            .map(one -> one.protocol() + " " + one.type().get() + " " + one.groupState().get()).collect(Collectors.joining()));
        calls.call("listGroups/none", () -> admin.listGroups(ListGroupsOptions.forShareGroups()).all().get().size());
        calls.call("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream()
            .filter(one -> one.groupId().equals(GROUP)).count());
        calls.call("listConsumerGroupOffsets", this::offsets);
        calls.call("alterConsumerGroupOffsets",
            () -> admin.alterConsumerGroupOffsets(GROUP, Map.of(FIRST, new OffsetAndMetadata(5, "moved"))).all().get());
        calls.call("listConsumerGroupOffsets/altered", this::offsets);
        calls.call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(GROUP, Set.of(FIRST, SECOND)).all().get());
        calls.call("listConsumerGroupOffsets/deleted", this::offsets);
        calls.call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(GROUP)).all().get());
        calls.call("deleteConsumerGroups/unknown", () -> admin.deleteConsumerGroups(List.of(GROUP)).all().get());
        calls.call("describeConsumerGroups/unknown", () -> admin.describeConsumerGroups(List.of(GROUP)).all().get());
        calls.call("removeMembersFromConsumerGroup/unknown", () -> admin.removeMembersFromConsumerGroup(GROUP,
            new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("java-instance")))).all().get());
    }

    private void shareGroups() throws Exception {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("group.id", SHARE);
        try (ShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(TOPIC));
            calls.until("describeShareGroups", () -> {
                consumer.poll(Duration.ofMillis(200));
                ShareGroupDescription found = admin.describeShareGroups(List.of(SHARE)).all().get().get(SHARE);
                int partitions = found.members().stream().mapToInt(one -> one.assignment().topicPartitions().size()).sum();
                return found.groupState() + " " + found.members().size() + " " + partitions + " " + found.coordinator().id();
            }, "Stable 1 3 1"::equals);
            calls.call("deleteShareGroups/in use", () -> admin.deleteShareGroups(List.of(SHARE)).all().get());
            calls.call("alterShareGroupOffsets/in use",
                () -> admin.alterShareGroupOffsets(SHARE, Map.of(FIRST, 5L)).all().get());
        }
        calls.call("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets(SHARE, Map.of(FIRST, 5L, SECOND, 1L)).all().get());
        calls.until("listShareGroupOffsets", this::shareOffsets, one -> one.contains("java-admin-0=5") && one.contains("java-admin-1=1"));
        calls.call("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets(SHARE, Set.of(TOPIC)).all().get());
        calls.call("listShareGroupOffsets/deleted", this::shareOffsets);
        calls.call("deleteShareGroups", () -> admin.deleteShareGroups(List.of(SHARE)).all().get());
        calls.call("deleteShareGroups/unknown", () -> admin.deleteShareGroups(List.of(SHARE)).all().get());
        calls.call("describeShareGroups/unknown", () -> admin.describeShareGroups(List.of(SHARE)).all().get());
    }

    private String shareOffsets() throws Exception {
        Map<String, Long> found = new TreeMap<>();
        admin.listShareGroupOffsets(Map.of(SHARE, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(SHARE).get()
            .forEach((partition, info) -> found.put(partition.toString(), info == null ? null : info.startOffset()));
        return found.toString();
    }

    private String offsets() throws Exception {
        return new TreeMap<>(admin.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata().get().entrySet().stream()
            .filter(one -> one.getValue() != null).collect(Collectors.toMap(one -> one.getKey().toString(),
                one -> one.getValue().offset() + one.getValue().metadata()))).toString();
    }

    private KafkaProducer<String, String> begun(String id) throws Exception {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("transactional.id", id);
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        if (id.equals("java-empty")) return producer;
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(TOPIC, 2, "key", id)).get();
        return producer;
    }

    private void transactions() throws Exception {
        TopicPartition third = new TopicPartition(TOPIC, 2);
        begun("java-empty").close(Duration.ofSeconds(0));
        try (KafkaProducer<String, String> open = begun("java-open"); KafkaProducer<String, String> fenced = begun("java-fenced");
             KafkaProducer<String, String> ended = begun("java-ended")) {
            calls.call("listTransactions", () -> mine(new ListTransactionsOptions()));
            calls.call("listTransactions/state",
                () -> mine(new ListTransactionsOptions().filterStates(Set.of(TransactionState.COMPLETE_ABORT))));
            calls.call("listTransactions/duration", () -> mine(new ListTransactionsOptions().filterOnDuration(3_600_000)));
            calls.call("listTransactions/pattern",
                () -> mine(new ListTransactionsOptions().filterOnTransactionalIdPattern("java-[of].*")));
            calls.call("listTransactions/invalid pattern",
                () -> mine(new ListTransactionsOptions().filterOnTransactionalIdPattern("(")));
            calls.call("describeTransactions", () -> {
                TransactionDescription found = admin.describeTransactions(List.of("java-open")).all().get().get("java-open");
                return found.state() + " " + found.transactionTimeoutMs() + " " + found.topicPartitions() + " " + found.coordinatorId()
                    + " " + (found.transactionStartTimeMs().orElse(0) > 0);
            });
            calls.call("describeTransactions/unknown", () -> admin.describeTransactions(List.of("java-none")).all().get());
            calls.call("listOffsets/stable", () -> admin.listOffsets(Map.of(third, OffsetSpec.latest()),
                new ListOffsetsOptions(org.apache.kafka.common.IsolationLevel.READ_COMMITTED)).all().get().get(third).offset());
            calls.call("describeProducers", () -> admin.describeProducers(List.of(third)).all().get().get(third).activeProducers()
                .stream().map(one -> one.currentTransactionStartOffset().orElse(-1) + ":" + one.lastSequence()).sorted()
                .collect(Collectors.joining(" ")));
            calls.call("fenceProducers", () -> admin.fenceProducers(List.of("java-fenced")).all().get());
            calls.call("fenceProducers/producer", () -> {
                fenced.commitTransaction();
                return null;
            });
            calls.call("forceTerminateTransaction", () -> admin.forceTerminateTransaction("java-ended").result().get());
            calls.call("forceTerminateTransaction/producer", () -> {
                ended.commitTransaction();
                return null;
            });
            calls.call("abortTransaction", () -> {
                ProducerState found = admin.describeProducers(List.of(third)).all().get().get(third).activeProducers().stream()
                    .filter(one -> one.currentTransactionStartOffset().isPresent()).findFirst().get();
                return admin.abortTransaction(new AbortTransactionSpec(third, found.producerId(), (short) found.producerEpoch(),
                    found.coordinatorEpoch().orElse(0))).all().get();
            });
            calls.until("listOffsets/nothing open", () -> admin.listOffsets(Map.of(third, OffsetSpec.latest()),
                new ListOffsetsOptions(org.apache.kafka.common.IsolationLevel.READ_COMMITTED)).all().get().get(third).offset(),
                "6"::equals);
        }
    }

    private String mine(ListTransactionsOptions options) throws Exception {
        return admin.listTransactions(options).all().get().stream().filter(one -> one.transactionalId().startsWith("java-"))
            .map(one -> one.transactionalId() + ":" + one.state()).sorted().collect(Collectors.joining(" "));
    }

    private void deletions() throws Exception {
        calls.call("deleteTopics", () -> admin.deleteTopics(List.of("java-assigned")).all().get());
        calls.call("deleteTopics/unknown", () -> admin.deleteTopics(List.of("java-assigned")).all().get());
        calls.call("deleteTopics/by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(
            admin.listTopics().namesToListings().get().get(TOPIC).topicId()))).all().get());
        calls.until("listTopics/deleted", () -> only(admin.listTopics().names().get()), ""::equals);
    }

    private static String only(Set<String> names) {
        return new TreeSet<>(names).stream().filter(one -> one.startsWith("java-")).collect(Collectors.joining(" "));
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toList());
    }
}
