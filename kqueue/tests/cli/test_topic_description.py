from __future__ import annotations

import json
import re
from collections.abc import Callable

from click.testing import Result

from kqueue.cli.topic_description import describe_text

Kq = Callable[..., Result]
Done = Callable[..., str]


def test_describe_prints_the_line_format_of_kafkas_tool() -> None:
    topic = {
        "name": "orders",
        "topic_id": "1dbb428a-9b92-47c2-9e63-5cf1d696a128",
        "partitions": [
            {
                "partition_index": 1,
                "leader_id": -1,
                "replica_nodes": [2, 3],
                "isr_nodes": [],
                "eligible_leader_replicas": [2],
                "last_known_elr": [],
            },
            {"partition_index": 0, "leader_id": 3, "replica_nodes": [3, 1], "isr_nodes": [3, 1]},
        ],
    }
    assert describe_text(topic, {"b": "2", "a": "1"}) == (
        "Topic: orders\tTopicId: HbtCipuSR8KeY1zx1pahKA\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: a=1,b=2\n"
        "\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3,1\tElr: N/A\tLastKnownElr: N/A\n"
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 2,3\tIsr: \tElr: 2\tLastKnownElr: "
    )


def test_describe_without_names_shows_all(done: Done, topic: str) -> None:
    assert f"Topic: {topic}\t" in done("topics", "describe")


def test_describe_shows_the_backlog_of_a_topic_with_a_bound(done: Done, kq: Kq, fresh: str) -> None:
    done("topics", "create", fresh, "-p", "2", "-c", "kqueue.backlog.messages.max=2")
    done("produce", fresh, "-p", "1", input="one\ntwo\n")
    head, backlog, first, second = done("topics", "describe", fresh).splitlines()
    assert head.endswith("Configs: kqueue.backlog.messages.max=2")
    assert re.fullmatch(
        rf"\tTopic: {fresh}\tBacklog: refusing\tUnread: 2\tUnreadBytes: \d+\tSlowestGroup: none", backlog
    )
    assert first.endswith("\tUnread: 0\tUnreadBytes: 0\tSlowestGroup: none")
    assert re.search(r"\tUnread: 2\tUnreadBytes: [1-9]\d+\tSlowestGroup: none$", second)
    refused = kq("produce", fresh, input="three\n")
    assert refused.exit_code == 1
    assert "takes no more records until its consumers have caught up" in refused.stderr
    done("consume", fresh, "--from-beginning", "-n", "2", "-g", "shop")
    (shown,) = json.loads(done("topics", "describe", fresh, "-o", "json"))
    assert shown["backlog"]["state"] == "open"
    assert shown["backlog"]["group"] == "shop"
    assert "kqueue.backlog" not in shown["configs"]


def test_partitions_are_chosen_by_their_condition(done: Done, topic: str) -> None:
    assert done("topics", "describe", topic, "--under-replicated", "--unavailable-partitions") == ""
    assert json.loads(done("topics", "describe", topic, "--under-replicated-partitions", "-o", "json")) == []
    assert done("topics", "describe", topic, "--under-min-isr-partitions") == ""
    lines = done("topics", "describe", topic, "--at-min-isr-partitions").splitlines()
    assert [line.split("\t")[1:3] for line in lines] == [
        [f"Topic: {topic}", f"Partition: {index}"] for index in range(3)
    ]
    done("topics", "alter", topic, "-c", "min.insync.replicas=2")
    assert done("topics", "describe", topic, "--at-min-isr-partitions") == ""
    assert done("topics", "describe", topic, "--under-min-isr-partitions").splitlines() == lines


def test_describe_prints_what_a_reassignment_adds_and_removes() -> None:
    row = {
        "partition_index": 0,
        "leader_id": 1,
        "replica_nodes": [4, 1, 2],
        "isr_nodes": [1, 2],
        "adding_replicas": [4],
        "removing_replicas": [2],
    }
    head, line = describe_text({"name": "t", "topic_id": "", "partitions": [row]}, {}).splitlines()
    assert "\tReplicationFactor: 2\t" in head
    assert line == (
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 4,1,2\tIsr: 1,2"
        "\tAdding Replicas: 4\tRemoving Replicas: 2\tElr: N/A\tLastKnownElr: N/A"
    )
