from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import EARLIEST, LATEST
from kqueue.spark.source.options import IGNORED, OPTIONS, REFUSED, parse_options
from kqueue.tests.tables import for_each

WIRE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_option_names_are_unique_and_documented() -> None:
    names = [option.name.lower() for option in OPTIONS] + [name.lower() for name in IGNORED] + list(REFUSED)
    assert len(set(names)) == len(names)
    for option in OPTIONS:
        assert option.doc.endswith("."), option.name
        assert option.of in ("both", "batch", "stream")


def test_options_left_out_have_their_defaults() -> None:
    batch, stream = (parse_options(WIRE, streaming=streaming) for streaming in (False, True))
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert batch.topics.names == ("orders",)
    assert batch.fail_on_data_loss
    assert not batch["includeHeaders"]
    assert batch.isolation == "read_uncommitted"
    assert batch.client.bootstrap == "localhost:9092"
    assert pickle.loads(pickle.dumps(stream)) == stream


def test_names_and_values_are_accepted_in_any_case() -> None:
    given = {name.lower(): value for name, value in WIRE.items()}
    parsed = parse_options(
        given | {"startingoffsets": "EARLIEST", "failondataloss": "False", "maxtriggerdelay": "5 MIN"}, streaming=True
    )
    assert parsed.starting.everywhere == EARLIEST
    assert not parsed.fail_on_data_loss
    assert parsed["maxTriggerDelay"] == 300_000


def test_times_come_before_offsets() -> None:
    offsets = {"startingOffsets": '{"orders":{"0":5}}'}
    assert parse_options(WIRE | offsets, streaming=True).starting.listed == {("orders", 0): 5}
    by_stamp = offsets | {"startingOffsetsByTimestamp": '{"orders":{"0":70}}'}
    assert parse_options(WIRE | by_stamp, streaming=True).starting.times == {("orders", 0): 70}
    assert parse_options(WIRE | by_stamp | {"startingTimestamp": "99"}, streaming=True).starting.time == 99


def test_a_path_is_absolute_and_needs_no_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("data", str(tmp_path / "data"), f"file:{tmp_path}/data", f"file://{tmp_path}/data"):
        parsed = parse_options({"path": text}, streaming=False)
        assert parsed["path"] == str((tmp_path / "data").resolve())
    assert (parsed.topics.names, parsed.topics.pattern, parsed.topics.assigned) == (None, None, None)


def test_the_path_of_a_tier_shows_no_secrets() -> None:
    given = {**WIRE, "path": "S3://bucket/tier?access_key_id=me&secret_access_key=hidden", "groupId": "g"}
    parsed = parse_options(given, streaming=True)
    assert parsed.tier == given["path"]
    assert parsed["path"] == "S3://bucket/tier"
    assert "hidden" not in repr(parsed)
    assert pickle.loads(pickle.dumps(parsed)).tier == given["path"]


def test_a_folder_is_a_tier_if_it_has_the_record_of_one(tmp_path: Path) -> None:
    assert parse_options({"path": str(tmp_path)}, streaming=False).tier is None
    (tmp_path / "kqueue-tier.json").write_text("{}")
    for text in (str(tmp_path), tmp_path.as_uri()):
        parsed = parse_options({**WIRE, "path": text}, streaming=False)
        assert (parsed["path"], parsed.tier) == (str(tmp_path), tmp_path.as_uri())


@for_each(
    "name",
    [
        "kafka.group.id",
        "kafka.group.protocol",
        "kafka.share.acquire.mode",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
    ],
)
def test_options_without_a_meaning_are_ignored(name: str) -> None:
    assert parse_options(WIRE | {name: "5"}, streaming=False) == parse_options(WIRE, streaming=False)
    assert parse_options(WIRE | {"kafka.security.protocol": "plaintext"}, streaming=False)


MISTAKES = [
    ({"subscrbe": "orders"}, "there is no option 'subscrbe'; did you mean 'subscribe'?"),
    ({"startingofset": "x"}, "did you mean 'startingOffsets'"),
    ({"kafka.grp.id": "x"}, "did you mean 'kafka.group.id'"),
    ({"zzzzzz": "x"}, "there is no option 'zzzzzz'"),
    ({"subscribePattern": "o.*"}, "subscribe and subscribePattern contradict each other"),
    ({"subscribe": " , "}, "subscribe: no topic is named"),
    ({"path": "data"}, "two ways to the data"),
    ({"kafka.bootstrap.servers": "host:port"}, "kafka.bootstrap.servers: "),
    ({"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
    ({"kafka.security.protocol": "SASL_SSL"}, "GSSAPI"),
    ({"startingOffsets": "soon"}, "startingOffsets: expected earliest, latest or"),
    ({"startingOffsets": "{"}, "startingOffsets: '{' is no JSON"),
    ({"startingTimestamp": "-1"}, "startingTimestamp: expected a whole number from 0 on"),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "a time is in ms since 1970"),
    ({"minPartitions": "0"}, "minPartitions: expected a whole number from 1 on"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss: expected true or false"),
    ({"kafka.isolation.level": "serializable"}, "expected read_uncommitted or read_committed"),
    ({"decoder": "slow"}, "decoder: expected auto, python or fast"),
]


@for_each("given, words", MISTAKES)
@for_each("streaming", [False, True])
def test_wrong_options_are_refused_with_the_reason(given: dict[str, str], words: str, streaming: bool) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(WIRE | given, streaming=streaming)
    assert words in str(caught.value)


@for_each(
    "given, streaming, words",
    [
        ({"endingOffsets": "latest"}, True, "endingOffsets is for batch queries only"),
        ({"groupId": "g"}, False, "groupId is for streams only"),
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            True,
            "has to be at most maxOffsetsPerTrigger, which is 5",
        ),
        ({"maxTriggerDelay": "5 weeks"}, True, "maxTriggerDelay: expected a time such as"),
        ({"startingOffsets": "latest"}, False, "can't begin at the end"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, False, "can't begin at the end"),
        ({"endingOffsets": "earliest"}, False, "can't end at the beginning"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, False, "can't end at the beginning"),
    ],
)
def test_options_of_the_other_kind_of_query_are_refused(given: dict[str, str], streaming: bool, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(WIRE | given, streaming=streaming)
    assert words in str(caught.value)


def test_limits_of_streams_are_passed_over_by_batch_queries(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "kafka.bootstrap.servers": "localhost",
        "subscribe": "t",
        "maxoffsetspertrigger": "5",
        "maxTriggerDelay": "1m",
    }
    with caplog.at_level("WARNING", "kqueue.spark"):
        parse_options(given, streaming=False)
    names = ("maxOffsetsPerTrigger", "maxTriggerDelay")
    assert caplog.messages == [f"{name} has no meaning in a batch query, which reads all there is" for name in names]
    caplog.clear()
    parse_options(given, streaming=True)
    assert not caplog.messages


@for_each(
    "given, words",
    [
        ({}, "say where the data is"),
        ({"kafka.bootstrap.servers": "localhost"}, "say what to read"),
        ({"path": "data", "groupId": "g"}, "groupId needs a broker"),
        ({"path": "hdfs://host/data"}, "not on a local file system"),
        ({"path": "memory://tier"}, "not on a local file system, and no tier either"),
        ({"kafka.bootstrap.servers": "localhost", "subscribePattern": "("}, "is no regular expression"),
    ],
)
def test_missing_options_are_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(given, streaming=True)
    assert words in str(caught.value)
