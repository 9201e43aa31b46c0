"""Kafka's command line tools: what they print of Kafka, they print of kqueue."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from compat_tests.clients import protocol_client
from compat_tests.kafka import clients, jvm
from compat_tests.kafka.clients import Writer, sample
from compat_tests.kafka.tool_host import ToolHost, ToolResult
from compat_tests.waits import look_until

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
Tool = Callable[..., ToolResult]
END_S = 40
DESCRIBE_ACLS = 29


NEEDS = {
    "test_topics": 75,
    "test_configs_of_topics": 44,
    "test_configs_of_brokers": 44,
    "test_configs_of_groups": 44,
    "test_configs_of_client_metrics": 44,
    "test_log_levels": 44,
    "test_transactions": 65,
    "test_leader_election": 43,
    "test_reassignments": 45,
    "test_features": 44,
    "test_metadata_quorum": 55,
    "test_cluster": 26,
    "test_transactional_message_copier": 26,
    "test_performance_tools": 26,
}


@pytest.fixture(autouse=True)
def _served(request: pytest.FixtureRequest, either: str) -> None:
    wanted = NEEDS.get(request.function.__name__)
    if wanted is not None and wanted not in protocol_client.served_apis(either):
        pytest.skip(f"the broker does not serve API {wanted}")


@pytest.fixture
def tool(tools: ToolHost, either: str) -> Tool:
    """Run a tool: ``tool("TopicCommand", "--list")``; its status must be `status`."""

    def run(name: str, *arguments: object, status: int = 0, option: str = "--bootstrap-server") -> ToolResult:
        full = name if name.startswith("kafka.") else TOOLS + name
        where = (option, either)
        done = tools.run(full, *(where + arguments if option == "--bootstrap-server" else arguments + where))
        assert done.status == status, f"{name} {arguments}: {done.status}\n{done.stdout}\n{done.stderr[:4000]}"
        return done

    return run


def configs(tool: Tool, action: str, kind: str, name: str | None, *arguments: str, status: int = 0) -> str:
    entity = ["--entity-default"] if name is None else ["--entity-name", name]
    done = tool(CONFIGS, f"--{action}", "--entity-type", kind, *entity, *arguments, status=status)
    return done.stderr if status else done.stdout


def until_described(tool: Tool, kind: str, name: str | None, *expected: str) -> str:
    """Describe until all of these are there: Kafka answers before a change takes effect."""
    return look_until(
        lambda: configs(tool, "describe", kind, name),
        lambda described: all(text in described for text in expected),
        expected,
    )


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table with a header line."""
    header, *lines = [re.split(r"\s*\t", line.rstrip()) for line in text.splitlines() if line.strip()]
    return [dict(zip(header, line, strict=False)) for line in lines]


def test_topics(tool: Tool) -> None:
    assert tool("TopicCommand", "--create", "--topic", "t", "--partitions", 3).stdout == "Created topic t.\n"
    again = tool("TopicCommand", "--create", "--topic", "t", "--partitions", 3, status=1).stdout
    assert "already exists" in again
    assert "already exists" not in tool("TopicCommand", "--create", "--topic", "t", "--if-not-exists").stderr
    described = tool("TopicCommand", "--describe", "--topic", "t").stdout
    assert re.search(r"Topic: t\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs:", described)
    for partition in range(3):
        row = f"\tTopic: t\tPartition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
        assert row in described.splitlines()
    tool("TopicCommand", "--alter", "--topic", "t", "--partitions", 5)
    assert "PartitionCount: 5" in tool("TopicCommand", "--describe", "--topic", "t").stdout
    tool("TopicCommand", "--alter", "--topic", "t", "--partitions", 2, status=1)
    assert "t" in tool("TopicCommand", "--list").stdout.split()
    tool("TopicCommand", "--create", "--topic", "other", "--replica-assignment", "1,1", "--config", "retention.ms=9")
    assert "retention.ms=9" in tool("TopicCommand", "--describe", "--topics-with-overrides").stdout
    for flag in ("--under-replicated-partitions", "--unavailable-partitions", "--at-min-isr-partitions"):
        tool("TopicCommand", "--describe", flag)
    tool("TopicCommand", "--delete", "--topic", "t|other")
    assert not {"t", "other"} & set(tool("TopicCommand", "--list").stdout.split())
    tool("TopicCommand", "--describe", "--topic", "t", status=1)


def test_configs_of_topics(tool: Tool, either: str) -> None:
    clients.create_topic(either, "configs")
    done = configs(tool, "alter", "topics", "configs", "--add-config", "retention.ms=77,cleanup.policy=[compact]")
    assert done == "Completed updating config for topic configs.\n"
    described = configs(tool, "describe", "topics", "configs")
    assert re.search(
        r"^  retention.ms=77 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=77, ", described, re.M
    )
    assert re.search(
        r"^  cleanup.policy=compact sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:cleanup", described, re.M
    )
    everything = configs(tool, "describe", "topics", "configs", "--all")
    assert re.search(r"^  segment.bytes=1073741824 sensitive=false synonyms=\{DEFAULT_CONFIG:log.seg", everything, re.M)
    configs(tool, "alter", "topics", "configs", "--delete-config", "retention.ms")
    assert "retention.ms=77" not in configs(tool, "describe", "topics", "configs")
    assert "cleanup.policy=compact" in configs(tool, "describe", "topics", "configs")
    assert "InvalidConfig" in configs(tool, "alter", "topics", "configs", "--add-config", "retention.ms=x", status=1)
    assert "InvalidConfig" in configs(tool, "alter", "topics", "configs", "--add-config", "no.such=1", status=1)
    assert "The topic 'nowhere' doesn't exist" in configs(tool, "describe", "topics", "nowhere")


def test_configs_of_brokers(tool: Tool) -> None:
    done = configs(tool, "alter", "brokers", "1", "--add-config", "log.retention.bytes=123456789")
    assert done == "Completed updating config for broker 1.\n"
    until_described(tool, "brokers", "1", "  log.retention.bytes=123456789 sensitive=false")
    configs(tool, "alter", "brokers", None, "--add-config", "log.retention.bytes=99999999")
    until_described(
        tool,
        "brokers",
        "1",
        "log.retention.bytes=123456789 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.bytes=123456789, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.bytes=99999999, DEFAULT_CONFIG:log.retention.bytes=-1}",
    )
    until_described(tool, "brokers", None, "  log.retention.bytes=99999999 sensitive=false")
    for name in ("1", None):
        configs(tool, "alter", "brokers", name, "--delete-config", "log.retention.bytes")
        assert "log.retention.bytes" not in configs(tool, "describe", "brokers", name)
    refused = configs(tool, "alter", "brokers", "1", "--add-config", "node.id=7", status=1)
    assert "InvalidRequest" in refused
    assert "node.id" in refused
    assert "node.id=1" in configs(tool, "describe", "brokers", "1", "--all")


def test_configs_of_groups(tool: Tool) -> None:
    setting = "consumer.session.timeout.ms"
    done = configs(tool, "alter", "groups", "readers", "--add-config", f"{setting}=50000")
    assert done == "Completed updating config for group readers.\n"
    assert f"  {setting}=50000 sensitive=false" in configs(tool, "describe", "groups", "readers")
    assert "InvalidConfig" in configs(tool, "alter", "groups", "readers", "--add-config", "no.such=1", status=1)
    configs(tool, "alter", "groups", "readers", "--delete-config", setting)
    assert setting not in configs(tool, "describe", "groups", "readers")


def test_configs_of_client_metrics(tool: Tool) -> None:
    given = "interval.ms=1000,metrics=[org.apache.kafka.producer.],match=[client_id=.*]"
    done = configs(tool, "alter", "client-metrics", "all", "--add-config", given)
    assert done == "Completed updating config for client-metric all.\n"
    described = configs(tool, "describe", "client-metrics", "all")
    for line in ("interval.ms=1000", "match=client_id=.*", "metrics=org.apache.kafka.producer."):
        assert f"  {line} sensitive=false synonyms={{DYNAMIC_CLIENT_METRICS_CONFIG:{line}}}" in described
    assert tool("ClientMetricsCommand", "--list").stdout == "all\n"
    assert "interval.ms=1000" in tool("ClientMetricsCommand", "--describe", "--name", "all").stdout
    refused = configs(tool, "alter", "client-metrics", "all", "--add-config", "interval.ms=1", status=1)
    assert re.search(r"interval must be between 100|interval\.ms.* from 100 to 3600000", refused)
    tool("ClientMetricsCommand", "--delete", "--name", "all")
    assert tool("ClientMetricsCommand", "--list").stdout.strip() == ""


def test_log_levels(tool: Tool) -> None:
    """The names of loggers are the broker's own; only their levels can be altered."""
    before = configs(tool, "describe", "broker-loggers", "1")
    names = re.findall(r"^  (\S+)=(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) sensitive=false", before, re.M)
    assert names
    name = next(one for one in names if one != "root")
    configs(tool, "alter", "broker-loggers", "1", "--add-config", f"{name}=DEBUG")
    assert f"  {name}=DEBUG sensitive=false" in configs(tool, "describe", "broker-loggers", "1")
    configs(tool, "alter", "broker-loggers", "1", "--add-config", f"{name}=LOUD", status=1)
    configs(tool, "alter", "broker-loggers", "1", "--delete-config", name)


def test_transactions(tool: Tool, either: str) -> None:
    clients.create_topic(either, "txn")
    done = Writer(either, **{"transactional.id": "done"}).init()
    done.transaction("txn", sample("done", 5), commit=True)
    aborted = Writer(either, **{"transactional.id": "aborted"}).init()
    aborted.transaction("txn", sample("aborted", 5), commit=False)
    opened = Writer(either, **{"transactional.id": "opened", "transaction.timeout.ms": 50_000}).init()
    opened.begin()
    opened.write("txn", sample("opened", 5))
    listed = {row["TransactionalId"]: row for row in rows(tool("TransactionsCommand", "list").stdout)}
    assert {name: listed[name]["TransactionState"] for name in ("done", "aborted", "opened")} == {
        "done": "CompleteCommit",
        "aborted": "CompleteAbort",
        "opened": "Ongoing",
    }
    assert {row["Coordinator"] for row in listed.values()} == {"1"}
    old = rows(tool("TransactionsCommand", "list", "--duration-filter", 600_000).stdout)
    assert old == []
    matching = rows(tool("TransactionsCommand", "list", "--transactional-id-pattern", "d.*").stdout)
    assert [row["TransactionalId"] for row in matching] == ["done"]
    (described,) = rows(tool("TransactionsCommand", "describe", "--transactional-id", "opened").stdout)
    assert {name: described[name] for name in ("CoordinatorId", "TransactionState", "TransactionTimeoutMs")} == {
        "CoordinatorId": "1",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "50000",
    }
    assert described["TopicPartitions"] == "txn-0"
    assert int(described["CurrentTransactionStartTimeMs"]) > 0
    unknown = tool("TransactionsCommand", "describe", "--transactional-id", "nobody", status=1).stderr
    assert "the ID could not be found" in unknown
    producers = rows(tool("TransactionsCommand", "describe-producers", "--topic", "txn", "--partition", 0).stdout)
    starts = {row["ProducerId"]: row["CurrentTransactionStartOffset"] for row in producers}
    assert starts[described["ProducerId"]] == "12"
    assert len(starts) == 3
    assert sum(start != "None" for start in starts.values()) == 1
    # the partition takes the marker, as it would for a transaction that no coordinator knows
    tool("TransactionsCommand", "abort", "--topic", "txn", "--partition", 0, "--start-offset", 12)
    (row,) = [
        row
        for row in rows(tool("TransactionsCommand", "describe-producers", "--topic", "txn", "--partition", 0).stdout)
        if row["ProducerId"] == described["ProducerId"]
    ]
    assert row["CurrentTransactionStartOffset"] == "None"
    assert len(clients.read(either, ["txn"], committed=True)["txn"]) == 5
    assert rows(tool("TransactionsCommand", "find-hanging", "--broker-id", 1).stdout) == []
    tool("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", "opened")
    with pytest.raises(KafkaException, match="(?i)fenced"):
        opened.end(commit=True)


def test_leader_election(tool: Tool, either: str) -> None:
    clients.create_topic(either, "elections", 2)
    one = tool("LeaderElectionCommand", "--election-type", "PREFERRED", "--topic", "elections", "--partition", 0).stdout
    assert one == "Valid replica already elected for partitions elections-0\n"
    tool("LeaderElectionCommand", "--election-type", "UNCLEAN", "--all-topic-partitions")
    tool("LeaderElectionCommand", "--election-type", "PREFERRED", "--topic", "none", "--partition", 0, status=1)


def test_reassignments(tool: Tool, either: str, tmp_path: Path) -> None:
    clients.create_topic(either, "moves", 2)
    plan = {"version": 1, "partitions": [{"topic": "moves", "partition": one, "replicas": [1]} for one in (0, 1)]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    command = "reassign.ReassignPartitionsCommand"
    done = tool(command, "--execute", "--reassignment-json-file", file).stdout
    assert "Successfully started partition reassignments for moves-0,moves-1" in done
    verified = tool(command, "--verify", "--reassignment-json-file", file).stdout
    assert "Reassignment of partition moves-0 is completed." in verified
    assert tool(command, "--list").stdout.strip() == "No partition reassignments found."
    tool(command, "--cancel", "--reassignment-json-file", file)
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": "moves"}]}))
    generated = tool(command, "--generate", "--topics-to-move-json-file", wanted, "--broker-list", 1).stdout
    assert '"replicas":[1]' in generated
    plan["partitions"] = [{"topic": "moves", "partition": 0, "replicas": [1, 2]}]
    file.write_text(json.dumps(plan))
    refused = tool(command, "--execute", "--reassignment-json-file", file, status=1)
    assert "Unknown broker id 2" in refused.stdout + refused.stderr


def test_features(tool: Tool) -> None:
    described = tool("FeatureCommand", "describe").stdout
    features = {
        match[1]: (match[2], match[3], match[4])
        for match in re.finditer(
            r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)",
            described,
        )
    }
    assert features["transaction.version"] == ("0", "2", "2")
    assert features["metadata.version"][2] == "4.3-IV0"
    tool("FeatureCommand", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    refused = tool("FeatureCommand", "upgrade", "--feature", "transaction.version=7", status=1)
    assert "transaction.version" in refused.stdout + refused.stderr
    refused = tool("FeatureCommand", "upgrade", "--feature", "no.such=1", status=1)
    assert "no.such" in refused.stdout + refused.stderr


def test_metadata_quorum(tool: Tool) -> None:
    status = tool("MetadataQuorumCommand", "describe", "--status").stdout
    assert re.search(r"^LeaderId: +1$", status, re.M)
    assert re.search(r"^MaxFollowerLag: +0$", status, re.M)
    assert re.search(r'^CurrentVoters: +\[\{"id": 1', status, re.M)
    (row,) = rows(tool("MetadataQuorumCommand", "describe", "--replication").stdout)
    assert (row["NodeId"], row["Lag"], row["Status"]) == ("1", "0", "Leader")


def test_log_dirs(tool: Tool, either: str) -> None:
    clients.create_topic(either, "dirs", 2)
    clients.write(either, "dirs", sample("dirs", 20))
    described = tool("LogDirsCommand", "--describe", "--topic-list", "dirs").stdout
    (broker,) = json.loads(described.splitlines()[-1])["brokers"]
    assert broker["broker"] == 1
    (folder,) = broker["logDirs"]
    assert folder["error"] is None
    sizes = {one["partition"]: one["size"] for one in folder["partitions"]}
    assert sizes.keys() == {"dirs-0", "dirs-1"}
    assert sizes["dirs-0"] > sizes["dirs-1"] == 0


def test_delete_records(tool: Tool, either: str, tmp_path: Path) -> None:
    clients.create_topic(either, "short")
    clients.write(either, "short", sample("short", 20))
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "short", "partition": 0, "offset": 15}]}))
    done = tool("DeleteRecordsCommand", "--offset-json-file", file).stdout
    assert "partition: short-0\tlow_watermark: 15" in done
    assert tool("GetOffsetShell", "--topic", "short", "--time", "earliest").stdout == "short:0:15\n"
    assert tool("GetOffsetShell", "--topic", "short").stdout == "short:0:20\n"


def test_groups(tool: Tool, either: str) -> None:
    clients.create_topic(either, "grouped", 2)
    clients.write(either, "grouped", sample("grouped", 40, partitions=2))
    clients.commit(either, "tools", {("grouped", 0): 7, ("grouped", 1): 9})
    groups = [line.split() for line in tool("GroupsCommand", "--list").stdout.splitlines()[1:]]
    assert ["tools", "Classic", "consumer"] in groups or ["tools", "Classic"] in groups
    command = "consumer.group.ConsumerGroupCommand"
    assert "tools" in tool(command, "--list").stdout.split()
    described = tool(command, "--describe", "--group", "tools").stdout
    lags = {tuple(line.split()[1:6]) for line in described.splitlines() if line.startswith("tools")}
    assert (
        lags == {("grouped", "0", "7", "20", "13"), ("grouped", "1", "9", "20", "11")}
        or {row[:5] for row in lags} == lags
    )
    assert "Empty" in tool(command, "--describe", "--group", "tools", "--state").stdout
    tool(command, "--describe", "--group", "tools", "--members")
    reset = ("--reset-offsets", "--group", "tools", "--topic", "grouped:0", "--to-offset", 3, "--execute")
    tool(command, *reset)
    assert clients.committed(either, "tools", [("grouped", 0)]) == {("grouped", 0): 3}
    tool(command, "--delete-offsets", "--group", "tools", "--topic", "grouped:1")
    assert clients.committed(either, "tools", [("grouped", 0), ("grouped", 1)]) == {("grouped", 0): 3}
    tool(command, "--delete", "--group", "tools")
    assert "tools" not in tool(command, "--list").stdout.split()


def test_cluster(tool: Tool) -> None:
    assert re.fullmatch(r"Cluster ID: \S{22}\n", tool("ClusterTool", "cluster-id", option="-b").stdout)
    assert "unfenced" in tool("ClusterTool", "list-endpoints", option="-b").stdout
    assert "EndTxn(26): 0 to 5 [usable: 5]" in tool("BrokerApiVersionsCommand").stdout


@pytest.fixture
def lines(tool: Tool) -> Callable[..., list[dict]]:
    def run(name: str, *arguments: object, option: str = "--bootstrap-server") -> list[dict]:
        text = tool(name, *arguments, option=option).stdout
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    return run


def test_verifiable_producer_and_consumer(lines: Callable[..., list[dict]], either: str) -> None:
    clients.create_topic(either, "verified", 2)
    # it writes its report in a hook of its JVM's end
    arguments = ("--topic", "verified", "--max-messages", "200", "--throughput", "-1")
    out, _ = jvm.run(TOOLS + "VerifiableProducer", "--bootstrap-server", either, *arguments)
    sent = [json.loads(line) for line in out.splitlines()]
    acked = {one["value"] for one in sent if one["name"] == "producer_send_success"}
    assert len(acked) == 200
    assert sent[-1]["name"] == "tool_data"
    assert (sent[-1]["sent"], sent[-1]["acked"]) == (200, 200)
    options = ("--group-id", "verifiers", "--max-messages", 200, "--reset-policy", "earliest", "--verbose")
    events = lines("VerifiableConsumer", "--topic", "verified", *options)
    values = {one["value"] for one in events if one["name"] == "record_data"}
    assert values == acked
    commits = [one for one in events if one["name"] == "offsets_committed"]
    assert commits
    assert all(one["success"] for one in commits)


def test_transactional_message_copier(lines: Callable[..., list[dict]], either: str) -> None:
    for topic in ("original", "copied"):
        clients.create_topic(either, topic)
    records = [one for one in sample("original", 100) if one.value]
    clients.write(either, "original", records)
    arguments = ("--transactional-id", "copier", "--consumer-group", "copiers", "--input-topic", "original")
    arguments += ("--input-partition", "0", "--output-topic", "copied", "--transaction-size", "10")
    events = lines(
        "TransactionalMessageCopier", *arguments, "--max-messages", len(records), "--enable-random-aborts",
        option="--broker-list",
    )  # fmt: skip
    assert events[-1]["stage"] == "ShutdownComplete"
    assert events[-1]["totalProcessed"] == len(records)
    copies = [row.value for row in clients.read(either, ["copied"], committed=True)["copied"]]
    assert copies == [one.value for one in records]
    assert clients.committed(either, "copiers", [("original", 0)]) == {("original", 0): len(records)}


def test_performance_tools(tool: Tool, either: str) -> None:
    clients.create_topic(either, "speed", 3)
    options = ("--topic", "speed", "--num-records", 3_000, "--record-size", 100, "--throughput", -1)
    done = tool("ProducerPerformance", *options, "--transactional-id", "perf", "--transaction-duration-ms", 100).stdout
    assert re.search(r"^3000 records sent, ", done, re.M)
    assert len(clients.read(either, ["speed"], committed=True)["speed"]) == 3_000
    report = tool("ConsumerPerformance", "--topic", "speed", "--num-records", 3_000, "--timeout", END_S * 1000).stdout
    assert "WARNING" not in report
    assert report.splitlines()[1].split(", ")[4] == "3000"
    tool("EndToEndLatency", "--topic", "speed", "--num-records", 20, "--producer-acks", "all", "--record-size", 20)


def test_client_compatibility(tool: Tool, either: str) -> None:
    """Kafka's own judge of a broker: all that a client may find supported is, but ACLs."""
    served = protocol_client.served_apis(either)
    supported = {
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "expect-record-too-large-exception": "false",
        "create-topics-supported": "true",
        "describe-acls-supported": str(DESCRIBE_ACLS in served).lower(),
        "describe-configs-supported": "true",
        "idempotent-producer-supported": "true",
    }
    tool("TopicCommand", "--create", "--topic", "compat")
    options = [word for name, value in supported.items() for word in (f"--{name}", value)]
    done = tool("ClientCompatibilityTest", "--topic", "compat", "--num-cluster-nodes", 1, *options)
    assert "All tests passed." in done.stdout + done.stderr or done.status == 0
