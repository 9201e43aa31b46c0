from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from click.testing import Result

Kq = Callable[..., Result]
Done = Callable[..., str]


def test_create_list_describe_delete(done: Done, kq: Kq, fresh: str) -> None:
    assert (
        done("topics", "create", fresh, "-p", "2", "-c", "retention.ms=5000")
        == f"Created topic {fresh} with 2 partitions.\n"
    )
    assert fresh in done("topics", "list").splitlines()
    head, first, second = done("topics", "describe", fresh).splitlines()
    assert re.fullmatch(
        rf"Topic: {fresh}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: "
        r"\S*retention\.ms=5000\S*",
        head,
    )
    assert re.match(rf"\tTopic: {fresh}\tPartition: 0\tLeader: (\d+)\tReplicas: \1\tIsr: \1\tElr: ", first)
    assert second.startswith(f"\tTopic: {fresh}\tPartition: 1\t")
    assert done("topics", "delete", fresh) == f"Deleted topic {fresh}.\n"
    assert fresh not in done("topics", "list").splitlines()
    result = kq("topics", "describe", fresh)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: there is no topic {fresh!r}")


def test_several_at_once_do_what_is_possible(kq: Kq, done: Done, topic: str, fresh: str) -> None:
    result = kq("topics", "create", topic, f"{topic}-2", "no good")
    assert result.exit_code == 1
    assert f"Created topic {topic}-2 " in result.stdout
    assert re.search(rf"Error: topic '{topic}' already exists", result.stderr)
    assert "Error: topic 'no good': " in result.stderr
    result = kq("topics", "delete", f"{topic}-2", f"{topic}-3")
    assert (result.exit_code, result.stdout) == (1, f"Deleted topic {topic}-2.\n")
    assert f"Error: there is no topic '{topic}-3'; did you mean " in result.stderr


def test_if_exists_and_if_not_exists(done: Done, topic: str) -> None:
    assert done("topics", "create", topic, "--if-not-exists") == f"Topic {topic} exists already.\n"
    assert done("topics", "delete", f"{topic}-x", "--if-exists") == f"Topic {topic}-x does not exist.\n"


def test_internal_topics_are_shown_on_request(done: Done, topic: str) -> None:
    done("produce", topic, input="x\n")
    done("consume", topic, "-g", topic, "--from-beginning", "-n", "1")  # committing makes the offsets topic
    for option in ("--internal", "--all"):
        assert "__consumer_offsets" in done("topics", "list", option).splitlines()
        assert "Topic: __consumer_offsets\t" in done("topics", "describe", option)
    assert "__consumer_offsets" not in done("topics", "list")
    assert "__consumer_offsets" not in done("topics", "list", "-o", "json")
    assert "__consumer_offsets" not in done("topics", "describe")
    assert "__consumer_offsets" in done("topics", "describe", "__consumer_offsets")


def test_partitions_can_grow_and_not_shrink(kq: Kq, done: Done, topic: str) -> None:
    assert done("topics", "alter", topic, "-p", "5") == f"Topic {topic} now has 5 partitions.\n"
    assert done("topics", "describe", topic).count("\tPartition: ") == 5
    result = kq("topics", "alter", topic, "-p", "2")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {topic}: ")
    assert kq("topics", "alter", f"{topic}-x", "-p", "2").exit_code == 1


def test_settings_change_or_it_is_said_that_they_can_not(kq: Kq, done: Done, topic: str) -> None:
    result = kq("topics", "alter", topic, "-c", "retention.ms=7777")
    if result.exit_code:
        assert "does not serve IncrementalAlterConfigs" in result.stderr
        return
    assert "retention.ms=7777" in done("topics", "describe", topic)
    done("topics", "alter", topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in done("topics", "describe", topic)
    result = kq("topics", "alter", topic, "-c", "retention.mss=7777")
    assert result.exit_code == 1
    assert "retention.mss" in result.stderr


def test_a_bad_setting_is_refused_with_the_brokers_words(kq: Kq, fresh: str) -> None:
    result = kq("topics", "create", fresh, "-c", "retention.mss=1")
    assert result.exit_code == 1
    assert "retention.mss" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["create"], "Missing argument"),
        (["create", "a", "-p", "0"], "0 is not in the range"),
        (["create", "a", "-c", "x"], "write NAME=VALUE"),
        (["alter", "a"], "nothing to change"),
        (
            ["alter", "a", "-c", "retention.ms=1", "--delete-config", "retention.ms"],
            "retention.ms is named more than once",
        ),
        (["alter", "a", "-c", "retention.ms=1", "-c", "retention.ms=2"], "retention.ms is named more than once"),
        (["creat", "a"], "No such command"),
    ],
)
def test_wrong_usage_is_exit_status_2(kq: Kq, args: list[str], words: str) -> None:
    result = kq("topics", *args)
    assert result.exit_code == 2
    assert words in result.output


def test_delete_records_moves_the_beginning(kq: Kq, done: Done, fresh: str) -> None:
    """S5.1"""
    done("topics", "create", fresh)
    done("produce", fresh, input="a\nb\nc\nd\n")
    assert done("topics", "delete-records", fresh, "--before-offset", "3") == f"{fresh}-0 now starts at offset 3.\n"
    assert done("consume", fresh, "--from-beginning", "-n", "1", "--format", "value") == "d\n"
    assert done("topics", "delete-records", fresh, "--all", "-p", "0") == f"{fresh}-0 now starts at offset 4.\n"
    result = kq("topics", "delete-records", fresh, "--before-offset", "5")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {fresh}-0: the partition ends before that offset\n"


def test_delete_records_goes_through_all_partitions(kq: Kq, done: Done, topic: str) -> None:
    result = kq("topics", "delete-records", topic, "--all", "-p", "2", "-p", "7")
    assert (result.exit_code, result.stdout) == (1, f"{topic}-2 now starts at offset 0.\n")
    assert f"Error: {topic}-7: " in result.stderr
    assert done("topics", "delete-records", topic, "--all").count("now starts at offset 0.") == 3


def test_delete_records_is_refused_where_keys_are_kept(kq: Kq, done: Done, fresh: str) -> None:
    done("topics", "create", fresh, "-c", "cleanup.policy=compact")
    result = kq("topics", "delete-records", fresh, "--all")
    assert result.exit_code == 1
    assert "cleanup.policy=compact" in result.stderr


@pytest.mark.parametrize("args", [[], ["--all", "--before-offset", "3"]])
def test_delete_records_wants_to_know_how_far(kq: Kq, args: list[str]) -> None:
    result = kq("topics", "delete-records", "t", *args)
    assert result.exit_code == 2
    assert "--before-offset N, or --all" in result.output


def test_topics_say_how_they_are_cleaned_and_unknown_ways_are_refused(kq: Kq, done: Done, fresh: str) -> None:
    """S5.4: policies by name, those of plugins too"""
    assert "keeps the last" in done("topics", "create", "--help")
    assert "consumed" in done("topics", "create", "--help")
    done("topics", "create", fresh, "-c", "cleanup.policy=delete,consumed", "-c", "kqueue.consumed.groups=mail,billing")
    text = done("topics", "describe", fresh)
    assert "cleanup.policy=delete,consumed" in text
    assert "kqueue.consumed.groups=mail,billing" in text
    result = kq("topics", "create", f"{fresh}-2", "-c", "cleanup.policy=shred")
    assert result.exit_code == 1
    assert "no cleanup policy is called 'shred'" in result.stderr
    assert "compact, consumed, delete" in result.stderr


def test_all_but_the_last_records_can_be_deleted(done: Done, topic: str) -> None:
    done("produce", topic, "--partition", "0", input="a\nb\nc\n")
    assert (
        done("topics", "delete-records", topic, "-p", "0", "--before-offset", "-1")
        == f"{topic}-0 now starts at offset 2.\n"
    )
    assert (
        done("topics", "delete-records", topic, "-p", "0", "--before-offset", "-5")
        == f"{topic}-0 now starts at offset 2.\n"
    )
