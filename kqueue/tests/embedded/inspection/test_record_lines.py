from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kqueue
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.cli.formats import formatter
from kqueue.embedded.inspection.record_lines import partitions_of, read_record_lines

FIRST = {
    "topic": "orders",
    "partition": 1,
    "offset": 7,
    "timestamp": 1700000000000,
    "key": "a",
    "value": "1",
    "headers": [["trace", "x"], ["empty", None]],
}
LINES = [
    json.dumps(FIRST),
    "",
    '{"topic": "orders", "partition": 0, "key": null, "value": {"base64": "/w=="}, "headers": {"h": "v"}}',
    '{"topic": "mails", "key": "b", "value": null}',
    '{"topic": "mails", "value": {"coffees": 2}}',
]


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        yield broker


@pytest.mark.parametrize("form", ["file", "text", "bytes", "objects", "stream"])
def test_records_of_lines_are_appended_as_they_are(broker: kqueue.Broker, tmp_path: Path, form: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text("\n".join(LINES) + "\n")
    sources: dict[str, Any] = {
        "file": file,
        "text": LINES,
        "bytes": (line.encode() for line in LINES),
        "objects": [json.loads(line) for line in LINES if line],
        "stream": io.StringIO(file.read_text()),
    }
    loaded = broker.load_records(sources[form])
    assert [(one.where, one.key, one.value) for one in loaded] == [
        ("orders-1@0", b"a", b"1"),
        ("orders-0@0", None, b"\xff"),
        ("mails-0@0", b"b", None),
        ("mails-0@1", None, b'{"coffees": 2}'),
    ]
    assert (loaded[0].timestamp, loaded[0].headers) == (1700000000000, (("trace", b"x"), ("empty", None)))
    assert loaded[1].headers == (("h", b"v"),)
    assert broker.topics["orders"].partitions == 2
    assert broker.topics["orders"].records() == [loaded[1], loaded[0]]


def test_lines_printed_by_consume_are_loaded_unchanged(broker: kqueue.Broker) -> None:
    broker.create_topic("orders", 2)
    made = [
        broker.topics["orders"].produce(b"\xff\x00", key="é", headers=[("h", b"\xfe"), ("h", "x")], partition=1),
        broker.topics["orders"].produce(None, key="gone", partition=0, timestamp=5),
    ]
    form = formatter("json")
    lines = [form(SimpleNamespace(**asdict(record), timestamp_type=0)) for record in made]  # type: ignore[arg-type]
    copied = broker.load_records(lines, topic="copy")
    parts = ("partition", "timestamp", "key", "value", "headers")
    assert [[getattr(one, part) for part in parts] for one in copied] == [
        [getattr(one, part) for part in parts] for one in made
    ]
    broker.load_records(lines)
    assert len(broker.topics["orders"].records()) == 4


def test_new_topics_have_the_partitions_of_the_broker_or_of_the_lines() -> None:
    with kqueue.Broker(num_partitions=3) as broker:
        broker.load_records([{"topic": "a", "value": "x"}, {"topic": "b", "value": "x", "partition": 5}])
        assert [broker.topics[name].partitions for name in "ab"] == [3, 6]
        with pytest.raises(UnknownTopicOrPartition, match="topic a has 3 partitions, expected 10"):
            broker.load_records([{"value": "y"}, {"value": "z", "partition": 9}], topic="a")
        assert len(broker.topics["a"].records()) == 1


def test_a_record_without_a_timestamp_has_none(broker: kqueue.Broker) -> None:
    (loaded,) = broker.load_records([{"topic": "t", "value": "x", "timestamp": -1}])
    assert loaded.timestamp is None
    assert broker.topics["t"].records() == [loaded]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (['{"topic": "t", "value": "x"}', "{"], ValueError, "records, line 2: this is not JSON"),
        ([{"topic": "t", "valeu": "x"}], ValueError, 'line 1: expected an object with "value" or "key"'),
        ([{"value": "x"}], ValueError, "names no topic: expected .* topic="),
        ([{"topic": "t", "value": 5}], ValueError, '"value" must be a text, null'),
        ([{"topic": "t", "value": {"base64": "!"}}], ValueError, "no base64"),
        ([{"topic": "t", "value": "x", "headers": ["a"]}], ValueError, '"headers" must be'),
        ([{"topic": "t", "value": "x", "partition": -1}], ValueError, '"partition" must be'),
        (["[1]"], ValueError, "expected an object"),
        ('{"topic": "t", "value": "x"}', TypeError, "splitlines"),
        (5, TypeError, "source=5: expected a file, or a list of lines"),
        ("no-such-file.jsonl", FileNotFoundError, "no-such-file"),
    ],
)
def test_malformed_line_is_refused_before_anything_is_appended(
    broker: kqueue.Broker, source: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        broker.load_records(source)
    assert list(broker.topics) == []


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 5)), max_size=6))
def test_partitions_suffice_for_all_lines(rows: list[tuple[str, int | None]]) -> None:
    lines = read_record_lines([{"topic": topic, "partition": index, "value": "x"} for topic, index in rows], None)
    least = partitions_of(lines)
    assert set(least) == {topic for topic, _ in rows}
    assert all(index is None or index < least[topic] for topic, index in rows)


def test_a_cluster_appends_to_the_leaders() -> None:
    with kqueue.Cluster(brokers=3, num_partitions=3) as cluster:
        rows = [{"topic": "orders", "value": str(number), "partition": number % 3} for number in range(6)]
        loaded = cluster.load_records([*rows, {"topic": "orders", "value": "6", "key": "k"}])
        assert [one.value for one in loaded] == [b"%d" % number for number in range(7)]
        cluster.assert_produced("orders", [str(number) for number in range(7)])
        assert {one.partition for one in loaded[:3]} == {0, 1, 2}
