from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from click.testing import Result
from kafka import KafkaProducer

from kqueue import Broker
from kqueue.tests.spark.value_formats.registry_server import RegistryServer
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually

Kq = Callable[..., Result]
Done = Callable[..., str]
QUIET = ("--timeout-ms", "400")


def fill(done: Done, topic: str, count: int, first: int = 0) -> None:
    done("produce", topic, input="".join(f"{number}\n" for number in range(first, first + count)))


def numbers(text: str) -> list[int]:
    return sorted(map(int, text.splitlines()))


def committed(done: Done, group: str) -> int:
    rows = [line.split() for line in done("groups", "describe", group).splitlines()[1:]]
    return sum(int(row[3]) for row in rows if row[3] != "-")


def test_from_beginning_reads_all_again_and_again(done: Done, topic: str) -> None:
    fill(done, topic, 50)
    for _ in range(2):
        assert numbers(done("consume", topic, "-g", topic, "--from-beginning", "-n", "50")) == list(range(50))


def test_group_continues_after_its_committed_offset(done: Done, topic: str) -> None:
    fill(done, topic, 30)
    seen = numbers(done("consume", topic, "-g", topic, "--from-beginning", "-n", "20"))
    assert committed(done, topic) == 20, "and each partition has a committed offset, 0 where nothing was read"
    rest = numbers(done("consume", topic, "-g", topic, "-n", "10"))
    assert sorted(seen + rest) == list(range(30))
    assert committed(done, topic) == 30
    assert done("consume", topic, "-g", topic, *QUIET) == ""


def test_new_group_starts_at_the_end_and_misses_nothing_afterwards(done: Done, topic: str) -> None:
    fill(done, topic, 5)
    assert done("consume", topic, "-g", topic, *QUIET) == ""
    fill(done, topic, 5, first=5)
    assert numbers(done("consume", topic, "-g", topic, "-n", "5")) == [5, 6, 7, 8, 9]


def test_without_a_group_all_partitions_are_read_and_nothing_is_committed(done: Done, topic: str) -> None:
    fill(done, topic, 30)
    before = done("groups", "list")
    for _ in range(2):
        assert numbers(done("consume", topic, "--from-beginning", "-n", "30")) == list(range(30))
    assert done("groups", "list") == before
    assert done("consume", topic, *QUIET) == "", "it starts at the end"


def test_exit_eof_ends_at_the_end_of_all_partitions(done: Done, topic: str) -> None:
    assert done("consume", topic, "--from-beginning", "--exit-eof") == ""
    fill(done, topic, 50)
    assert numbers(done("consume", topic, "--from-beginning", "-e")) == list(range(50))
    assert done("consume", topic, "--exit-eof") == "", "from the end there is nothing"
    assert numbers(done("consume", topic, "-g", topic, "--from-beginning", "-e")) == list(range(50))
    assert committed(done, topic) == 50
    fill(done, topic, 5, first=50)
    assert numbers(done("consume", topic, "-g", topic, "-e")) == [50, 51, 52, 53, 54]


def test_exit_eof_passes_aborted_records_and_markers(done: Done, topic: str, bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send(topic, end.__name__.encode(), partition=0).get(timeout=60)
        end()
    producer.close()
    read = ("consume", topic, "--from-beginning", "--exit-eof")
    assert done(*read, "--read-committed") == "commit_transaction\n"
    assert done(*read) == "commit_transaction\nabort_transaction\n"


def test_an_offset_beyond_the_end_is_reported(kq: Kq, done: Done, topic: str) -> None:
    done("produce", topic, "-p", "1", input="a\nb\n")
    beyond = kq("consume", topic, "-p", "1", "-o", "3")
    assert (beyond.exit_code, beyond.stdout) == (2, "")
    assert f"3 is beyond the end of {topic}-1: it holds the offsets 0 to 1, and the next one is 2" in beyond.stderr
    assert "it holds no records" in kq("consume", topic, "-p", "0", "-o", "1").stderr
    assert done("consume", topic, "-p", "1", "-o", "2", "-e") == "", "the end itself is where the next record comes"


def test_an_offset_that_is_deleted_is_reported(kq: Kq, done: Done, topic: str) -> None:
    done("produce", topic, "-p", "1", input="a\nb\nc\n")
    done("topics", "delete-records", topic, "-p", "1", "--before-offset", "2")
    result = kq("consume", topic, "-p", "1", "-o", "1", "-n", "1")
    assert (result.exit_code, result.stdout) == (0, "c\n")
    assert result.stderr == f"Offset 1 of {topic}-1 is deleted; reading starts at its first record, 2.\n"


def test_partitions_and_offsets_without_a_group(kq: Kq, done: Done, topic: str) -> None:
    done("produce", topic, "-p", "1", input="a\nb\nc\n")
    done("produce", topic, "-p", "2", input="x\n")
    before = done("groups", "list")
    assert done("consume", topic, "-p", "1", "-o", "earliest", "-n", "3") == "a\nb\nc\n"
    assert done("consume", topic, "-p", "1", "-o", "2", "-n", "1") == "c\n"
    assert done("consume", topic, "-p", "1", *QUIET) == ""
    assert sorted(done("consume", topic, "-p", "1", "-p", "2", "-o", "earliest", "-n", "4").split()) == [
        "a",
        "b",
        "c",
        "x",
    ]
    assert done("groups", "list") == before
    result = kq("consume", topic, "-p", "7")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        f"Error: Invalid value for --partition: {topic} has the partitions 0 to 2",
    )


def test_consume_begins_at_the_given_time(done: Done, topic: str) -> None:
    first = 1_700_000_000_000
    lines = [{"value": str(n), "partition": n % 3, "timestamp": first + n * 1000} for n in range(9)]
    done("produce", topic, "--format", "json", input="\n".join(map(json.dumps, lines)))
    moment = datetime.fromtimestamp((first + 4000) / 1000, UTC).isoformat()
    assert numbers(done("consume", topic, "-g", topic, "--timestamp", moment, "-n", "5")) == [4, 5, 6, 7, 8]
    assert numbers(done("consume", topic, "-p", "0", "--timestamp", str(first + 4000), "-n", "1")) == [6]
    assert done("consume", topic, "-g", f"{topic}-2", "--timestamp", str(first + 60_000), *QUIET) == ""


def test_formats(done: Done, topic: str) -> None:
    done("produce", topic, "-p", "1", "-k", "=", "-H", "h=1", input="k=v\n")
    read = ("consume", topic, "-p", "1", "-o", "earliest", "-n", "1", "--format")
    assert done(*read, "{topic}/{partition}/{offset} {key}={value} [{headers}]") == f"{topic}/1/0 k=v [h=1]\n"
    row = json.loads(done(*read, "json"))
    assert (row["key"], row["value"], row["headers"]) == ("k", "v", [["h", "1"]])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-o", "3"], "--offset needs --partition"),
        (["-p", "0", "-g", "x"], "--partition reads in no group"),
        (["-p", "0", "-o", "x"], "'x' is no offset"),
        (["-o", "json"], "--format json prints records as JSON"),
        (["--from-beginning", "--timestamp", "1"], "exclude each other"),
        (["-p", "0", "--from-beginning"], "--offset earliest"),
        (["--timestamp", "soon"], "'soon' is not a time"),
        (["--format", "{x}"], "there is no field {x}"),
        (["-n", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage_is_exit_status_2(kq: Kq, topic: str, args: list[str], words: str) -> None:
    result = kq("consume", topic, *args)
    assert result.exit_code == 2
    assert words in result.stderr


def test_missing_topic_is_not_created(kq: Kq, done: Done, fresh: str) -> None:
    result = kq("consume", fresh, "--from-beginning")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: there is no topic {fresh!r}")
    assert fresh not in done("topics", "list")


def start(bootstrap: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kqueue.cli", "consume", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KQUEUE_BOOTSTRAP": bootstrap},
    )


@pytest.mark.parametrize("number", corners([signal.SIGINT, signal.SIGTERM]))
def test_ctrl_c_commits_what_was_printed_and_leaves(
    done: Done, bootstrap: str, topic: str, number: signal.Signals
) -> None:
    fill(done, topic, 5)
    with start(bootstrap, topic, "-g", topic, "--from-beginning") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130 if number is signal.SIGINT else 0, "", "")
    assert numbers("".join(lines)) == list(range(5))
    assert committed(done, topic) == 5
    assert [topic, "classic", "Empty", "0"] in [line.split() for line in done("groups", "list").splitlines()]


@pytest.mark.long
def test_a_closed_pipe_ends_it_quietly(done: Done, bootstrap: str, topic: str) -> None:
    fill(done, topic, 20_000)
    with start(bootstrap, topic, "-g", topic, "--from-beginning") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert committed(done, topic) < 20_000, "unread records are not committed"


@pytest.mark.long
def test_ctrl_c_ends_it_when_the_broker_has_gone(done: Done) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        done("produce", "orders", "-b", broker.bootstrap, input="one\n")
        alone = start(broker.bootstrap, "orders", "-p", "0", "-o", "earliest")
        member = start(broker.bootstrap, "orders", "-g", "readers", "--from-beginning")
        for reader in (alone, member):
            assert reader.stdout is not None
            assert reader.stdout.readline() == "one\n"
        committed = r" 0 +1 +1 +0 "  # partition, committed, end, lag
        eventually(lambda: re.search(committed, done("groups", "describe", "readers", "-b", broker.bootstrap)))
    for reader in (alone, member):
        with reader:
            reader.send_signal(signal.SIGINT)
            out, errors = reader.communicate(timeout=60)
        errors = re.sub("^waiting for the broker .*\n", "", errors)  # on a busy machine
        assert out == ""
        if reader is member and errors:  # the broker had its commit and was gone before the answer was read
            assert errors.startswith(
                "Error: what was printed last could not be committed and will be delivered again: "
            )
            assert (errors.count("\n"), reader.returncode) == (1, 1)
        else:
            assert (errors, reader.returncode) == ("", 130)


@pytest.mark.long
def test_two_consumers_of_a_group_share_the_records(done: Done, bootstrap: str, topic: str) -> None:
    def members() -> set[str]:
        return {line.split()[6] for line in done("groups", "describe", topic).splitlines()[1:]}

    with (
        start(bootstrap, topic, "-g", topic, "--from-beginning") as one,
        start(bootstrap, topic, "-g", topic, "--from-beginning") as two,
    ):
        eventually(lambda: topic in done("groups", "list").split() and len(members() - {"-"}) == 2, "both members")
        output_lines: list[str] = []
        threads = [
            threading.Thread(target=lambda process=process: output_lines.extend(process.stdout))
            for process in (one, two)
        ]
        for thread in threads:
            thread.start()
        done("produce", topic, "--partitioner", "round_robin", input="".join(f"{n}\n" for n in range(90)))
        eventually(lambda: len(output_lines) >= 90, "90 lines")
        for process in (one, two):
            process.send_signal(signal.SIGINT)
        for thread in threads:
            thread.join(timeout=60)
        for process in (one, two):
            assert process.stderr is not None
            said = [line for line in process.stderr if not line.startswith("waiting for the broker")]  # it is busy
            assert (process.wait(timeout=60), said) == (130, [])
    assert numbers("".join(output_lines)) == list(range(90))
    assert committed(done, topic) == 90


@pytest.mark.parametrize(
    ("offset", "values"), [("-2", ["3", "4"]), ("-99", ["0", "1", "2", "3", "4"]), ("2", ["2", "3", "4"])]
)
def test_a_negative_offset_counts_back_from_the_end(done: Done, topic: str, offset: str, values: list[str]) -> None:
    done("produce", topic, "--partition", "0", input="".join(f"{number}\n" for number in range(5)))
    assert done("consume", topic, "-p", "0", "--offset", offset, "-n", str(len(values))).split() == values


def test_a_time_before_1970_is_no_time(kq: Kq, topic: str) -> None:
    result = kq("consume", topic, "--timestamp", "-1")
    assert result.exit_code == 2
    assert "'-1' is not a time" in result.stderr


def test_values_of_a_schema_registry_are_printed_as_json(done: Done, kq: Kq, topic: str, bootstrap: str) -> None:
    with RegistryServer() as registry:
        schema_id = registry.register(f"{topic}-value", '"string"')
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        producer.send(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x06abc").get(10)
        producer.close()
        arguments = ("consume", topic, "--from-beginning", "--exit-eof")
        assert done(*arguments, "--schema-registry", registry.url) == '"abc"\n'
    assert kq(*arguments, "--schema-registry-ca", "x").exit_code == 2
