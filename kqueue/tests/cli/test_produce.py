from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest
from click.testing import Result

from kqueue.cli.direct_producer import DirectProducer
from kqueue.cli.formats import RecordToSend
from kqueue.cli.produce import _records, _RecordSender

Kq = Callable[..., Result]
Done = Callable[..., str]


def read_back(done: Done, topic: str, count: int) -> list[dict[str, object]]:
    lines = done(
        "consume", topic, "--from-beginning", "-n", str(count), "--timeout-ms", "10000", "--format", "json"
    ).splitlines()
    return [json.loads(line) for line in lines]


def test_lines_become_records(kq: Kq, done: Done, topic: str) -> None:
    result = kq("produce", topic, input="a\n\nc\r\nlast without an end")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith(f"Sent 4 records to {topic} in ")
    assert sorted(str(row["value"]) for row in read_back(done, topic, 4)) == ["", "a", "c", "last without an end"]


def test_keys_and_headers(done: Done, topic: str) -> None:
    done("produce", topic, "-k", ":", "-H", "from=test", "-H", "from=again", input="a:1:2\n")
    (row,) = read_back(done, topic, 1)
    assert (row["key"], row["value"], row["headers"]) == ("a", "1:2", [["from", "test"], ["from", "again"]])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(done: Done, topic: str, codec: str) -> None:
    done("produce", topic, "--codec", codec, input="".join(f"line {n}\n" for n in range(2000)))
    rows = read_back(done, topic, 2000)
    assert {row["value"] for row in rows} == {f"line {n}" for n in range(2000)}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(done: Done, topic: str, acks: str) -> None:
    done("produce", topic, "--acks", acks, input="a\n")
    assert len(read_back(done, topic, 1)) == 1


def test_records_go_to_the_given_partition(kq: Kq, done: Done, topic: str) -> None:
    done("produce", topic, "-p", "2", "-k", ":", input="a:1\nb:2\nc:3\n")
    assert {row["partition"] for row in read_back(done, topic, 3)} == {2}
    result = kq("produce", topic, "-p", "3", input="a\n")
    assert result.exit_code == 2
    assert f"{topic} has the partitions 0 to 2" in result.stderr


def test_partitioners_by_name(kq: Kq, done: Done, topic: str) -> None:
    done("produce", topic, "--partitioner", "round_robin", "-k", ":", input="k:\n" * 6)
    assert sorted(str(row["partition"]) for row in read_back(done, topic, 6)) == ["0", "0", "1", "1", "2", "2"]
    result = kq("produce", topic, "--partitioner", "round_robbin", input="a\n")
    assert result.exit_code == 2
    assert "did you mean 'round_robin'" in result.stderr


def test_a_partitioner_by_its_path(done: Done, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "class Last:",
        "    def __init__(self, rng): ...",
        "    def partition(self, key, count, **_): return count - 1",
    )
    (tmp_path / "partitioner_of_produce.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    done("produce", topic, "--partitioner", "partitioner_of_produce:Last", "-k", ":", input="a:\nb:\nc:\n")
    assert [row["partition"] for row in read_back(done, topic, 3)] == [2, 2, 2]


def test_a_partitioner_that_fails_is_named(kq: Kq, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "class Astray:",
        "    def __init__(self, rng): ...",
        "    def partition(self, key, count, **_): return count",
    )
    (tmp_path / "failing_partitioner_of_produce.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    result = kq("produce", topic, "--partitioner", "failing_partitioner_of_produce:Astray", input="a\n")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "Error: record 1 can't be sent: partitioner 'failing_partitioner_of_produce:Astray'"
    )
    assert "partition returned 3, expected an int from 0 to 2" in result.stderr


def test_the_topics_own_partitioner_unless_another_is_named(done: Done, fresh: str) -> None:
    done("topics", "create", fresh, "-p", "3", "-c", "kqueue.partitioner=round_robin")
    done("produce", fresh, "-k", ":", input="k:\n" * 6)
    assert sorted(str(row["partition"]) for row in read_back(done, fresh, 6)) == ["0", "0", "1", "1", "2", "2"]
    done("topics", "delete-records", fresh, "--all")
    done("produce", fresh, "-k", ":", "--partitioner", "murmur2", input="k:\n" * 6)
    assert len({row["partition"] for row in read_back(done, fresh, 6)}) == 1


def test_json_lines_go_round(done: Done, kq: Kq, topic: str) -> None:
    lines = [
        {"key": "k", "value": None, "partition": 1, "timestamp": 1_700_000_000_000},
        {"key": {"base64": "/w=="}, "value": "ü", "headers": [["h", "1"]]},
    ]
    done("produce", topic, "--format", "json", input="\n".join(map(json.dumps, lines)) + "\n\n")
    rows = {str(row["key"]): row for row in read_back(done, topic, 2)}
    assert rows["k"]["value"] is None
    assert (rows["k"]["partition"], rows["k"]["timestamp"]) == (1, 1_700_000_000_000)
    other = rows["{'base64': '/w=='}"]
    assert (other["value"], other["headers"]) == ("ü", [["h", "1"]])


def test_a_file(done: Done, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"\xff\x00\nb\n")
    done("produce", topic, "--file", str(file))
    assert {str(row["value"]) for row in read_back(done, topic, 2)} == {"{'base64': '/wA='}", "b"}


def test_a_bad_line_is_named_and_what_came_before_is_sent(kq: Kq, done: Done, topic: str) -> None:
    result = kq("produce", topic, "-k", ":", input="a:1\nb:2\nno separator\n")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: line 3 can't be sent: no key separator ':' in it (the records of the 2 lines before it were sent)\n"
    )
    assert len(read_back(done, topic, 2)) == 2
    assert kq("produce", topic, "--format", "json", input="x\n").stderr.startswith(
        "Error: line 1 can't be sent: this is not JSON"
    )


def test_a_record_that_is_too_large(kq: Kq, topic: str) -> None:
    result = kq("produce", topic, input="x" * 2_000_000 + "\n")
    assert result.exit_code == 1
    assert "larger than the topic allows" in result.stderr


def test_batches_that_are_too_large_are_halved_until_they_fit(kq: Kq, done: Done, fresh: str) -> None:
    done("topics", "create", fresh, "-c", "max.message.bytes=300")
    result = kq("produce", fresh, input="".join(f"{n}\n" for n in range(500)) + "x" * 400 + "\n")
    assert result.exit_code == 1
    assert (
        result.stderr
        == "Error: 1 of 501 records refused: a record is larger than the topic allows (max.message.bytes)\n"
    )
    assert {row["value"] for row in read_back(done, fresh, 500)} == {str(n) for n in range(500)}


def test_refused_records_are_counted(kq: Kq, done: Done, fresh: str) -> None:
    done("topics", "create", fresh, "-c", "cleanup.policy=compact")
    result = kq("produce", fresh, input="no key\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: 1 of 1 record refused: ")
    assert "Traceback" not in result.output


LINES: list[dict[str, Any]] = [
    {"key": "a", "value": "1", "headers": [], "timestamp": 1_700_000_000_000},
    {"key": "a", "value": "2", "headers": [["h", None], ["h", ""], ["i", {"base64": "/w=="}]], "timestamp": -1},
    {"key": None, "value": None, "headers": [], "timestamp": 5},
    {"key": "", "value": "", "headers": [], "timestamp": -1},
    {"key": {"base64": "/w=="}, "value": None, "headers": [], "timestamp": 0},
    {"key": None, "value": {"base64": "gIE="}, "headers": [["", "x"]], "timestamp": 1_700_000_000_001},
]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_json_pipe_copies_each_record_as_it_is(done: Done, topic: str, codec: str) -> None:
    lines = [{**line, "partition": number % 2} for number, line in enumerate(LINES * 2)]
    done("produce", topic, "--format", "json", "--codec", codec, input="\n".join(map(json.dumps, lines)))
    read = ("consume", "--from-beginning", "--exit-eof", "--format", "json")
    first = done(*read, topic)
    done("topics", "create", f"{topic}-copy", "-p", "3")
    done("produce", f"{topic}-copy", "--format", "json", input=first)
    for text in (first, done(*read, f"{topic}-copy")):
        rows = [json.loads(line) for line in text.splitlines()]
        for partition in range(2):
            own = sorted((row for row in rows if row["partition"] == partition), key=lambda row: row["offset"])
            assert [row["offset"] for row in own] == list(range(len(LINES)))
            assert [{key: row[key] for key in LINES[0]} for row in own] == [
                {key: line[key] for key in LINES[0]} for line in lines if line["partition"] == partition
            ]


def test_partitions_of_json_lines_can_be_ignored(kq: Kq, done: Done, topic: str) -> None:
    lines = "\n".join(json.dumps({**line, "partition": 7}) for line in LINES)
    refused = kq("produce", topic, "--format", "json", input=lines)
    assert refused.exit_code == 1
    assert "it names the partition 7" in refused.stderr
    assert "--ignore-partitions" in refused.stderr
    done("produce", topic, "--format", "json", "--ignore-partitions", input=lines)
    text = done("consume", topic, "--from-beginning", "--exit-eof", "--format", "json")
    assert len(text.splitlines()) == len(LINES)


def test_key_option_applies_to_every_record(kq: Kq, done: Done, topic: str) -> None:
    done("produce", topic, "--key", "k", input="1\n2\n")
    read = ("consume", topic, "--from-beginning", "--exit-eof", "--format", "{key}={value}")
    assert done(*read).splitlines() == ["k=1", "k=2"]
    assert kq("produce", topic, "--key", "k", "--key-separator", ":", input="1\n").exit_code == 2


def test_an_impossible_name_of_a_topic(kq: Kq) -> None:
    result = kq("produce", "no good", input="x\n")
    assert result.exit_code == 2
    assert "topic 'no good': only letters, digits" in result.stderr


class Producer:
    """Remembers what was sent, as a real producer that is never answered."""

    config: ClassVar[dict[str, int]] = {"delivery_timeout_ms": 1000}

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self.flushed = 0

    def send(self, topic: str, value: bytes | None, key: bytes | None, **kwargs: object) -> Producer:
        self.sent.append(value)
        return self

    def add_errback(self, call: object) -> None:
        pass

    def flush(self) -> None:
        self.flushed += 1


def test_ctrl_c_sends_what_was_read_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def records() -> Iterator[RecordToSend]:
        yield RecordToSend(b"a")
        raise KeyboardInterrupt

    producer = Producer()
    sending = _RecordSender(producer, "orders", RecordToSend(None))
    sending.direct = DirectProducer("nowhere:1", "orders", "none", "all", sending.refuse)
    sending.run(records())
    assert (producer.sent, producer.flushed) == ([b"a"], 1)
    with pytest.raises(click.exceptions.Exit) as stop:
        sending.report()
    assert stop.value.exit_code == 130
    assert "Sent 1 record to orders" in capsys.readouterr().err


def test_lines_are_read_one_by_one() -> None:
    records = _records(io.BytesIO(b"a\nb\n"), "lines", None)
    assert next(records) == RecordToSend(b"a")
    assert list(records) == [RecordToSend(b"b")]
