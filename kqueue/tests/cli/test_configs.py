from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

import kqueue

Kq = Callable[..., Result]
Done = Callable[..., str]


@pytest.fixture
def alone(kq: Kq) -> Done:
    """Runs commands that must succeed against a broker of their own."""
    with kqueue.Broker() as broker:

        def run(*args: str) -> str:
            result = kq(*args, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
            assert result.exit_code == 0, result.output
            return result.stdout

        yield run  # type: ignore[misc]


def test_a_topics_settings_are_changed_and_shown(topic: str, done: Done) -> None:
    assert "nothing is set (--all shows all in force)" in done("configs", "describe", "topics", topic)
    changed = done(
        "configs", "alter", "topics", topic, "--add", "retention.ms=7", "--append", "cleanup.policy=compact",
    )  # fmt: skip
    assert changed == f"Changed: topic {topic}: retention.ms, cleanup.policy.\n"
    assert done("configs", "describe", "topics", topic).splitlines() == [
        f"topic {topic}: 2 settings (--all shows all in force)",
        "SETTING         VALUE           SOURCE  CHANGES",
        "cleanup.policy  delete,compact  topic   at run time",
        "retention.ms    7               topic   at run time",
    ]
    done("configs", "alter", "topics", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")
    assert "cleanup.policy  compact" in done("configs", "describe", "topics", topic)
    assert "segment.bytes" in done("configs", "describe", "topics", topic, "--all")


def test_the_deletion_of_a_setting_that_is_not_set_says_so(topic: str, done: Done) -> None:
    alter = ("configs", "alter", "topics", topic, "--delete", "retention.ms")
    unset = f"Nothing to delete: topic {topic}: retention.ms was not set there.\n"
    assert done(*alter) == unset
    assert done(*alter, "--add", "segment.ms=9") == f"Changed: topic {topic}: segment.ms.\n{unset}"
    done("configs", "alter", "topics", topic, "--add", "retention.ms=8")
    assert done(*alter) == f"Changed: topic {topic}: retention.ms.\n"


@pytest.mark.parametrize(
    ("target", "setting"),
    [
        (["brokers", "1"], "log.retention.ms"),
        (["brokers", "--default"], "log.retention.ms"),
        (["groups", "g"], "consumer.session.timeout.ms"),
        (["client-metrics", "m"], "interval.ms"),
    ],
)
def test_a_setting_is_deleted_once(alone: Done, target: list[str], setting: str) -> None:
    alone("configs", "alter", *target, "--add", f"{setting}=50000")
    assert "Changed: " in alone("configs", "alter", *target, "--delete", setting)
    assert "Nothing to delete: " in alone("configs", "alter", *target, "--delete", setting)


def test_a_change_can_be_checked_only(topic: str, done: Done) -> None:
    assert "The changes are valid" in done(
        "configs", "alter", "topics", topic, "--add", "retention.ms=7", "--validate-only"
    )
    assert "nothing is set" in done("configs", "describe", "topics", topic)


def test_json_has_kafkas_sources_and_the_explanation(topic: str, done: Done) -> None:
    done("configs", "alter", "topics", topic, "--add", "retention.ms=7")
    [described] = json.loads(done("configs", "describe", "topics", topic, "-o", "json"))
    [setting] = described["settings"]
    assert (described["type"], described["name"]) == ("topics", topic)
    assert (setting["value"], setting["source"], setting["read_only"]) == ("7", "DYNAMIC_TOPIC_CONFIG", False)
    assert [synonym["source"] for synonym in setting["synonyms"]] == ["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"]
    assert "retention" in setting["synonyms"][1]["name"]
    assert setting["documentation"]


def test_brokers_have_their_own_values_and_defaults_of_all(alone: Done) -> None:
    assert alone("configs", "describe", "brokers", "--default") == "all brokers: nothing is set\n"
    alone("configs", "alter", "brokers", "--default", "--add", "log.retention.ms=8")
    alone("configs", "alter", "brokers", "1", "--add", "log.cleaner.threads=2")
    text = alone("configs", "describe", "brokers")
    assert "all brokers: 1 setting" in text
    assert "broker 1: " in text
    shown = dict(line.split(maxsplit=1) for line in text[text.index("broker 1: ") :].splitlines()[2:])
    assert shown["log.retention.ms"].split(maxsplit=1)[1] == "all brokers     at run time"
    assert shown["log.cleaner.threads"].split(maxsplit=1)[1] == "broker          at run time"
    one = alone("configs", "describe", "brokers", "1", "-s", "log.retention.ms", "-s", "node.id").splitlines()[2:]
    assert [line.split(maxsplit=2) for line in one] == [
        ["log.retention.ms", "8", "all brokers  at run time"],
        ["node.id", "1", "default      at a restart"],
    ]


def test_a_setting_that_the_broker_does_not_know_is_stored_with_a_hint(kq: Kq) -> None:
    with kqueue.Broker() as broker:
        for target, shown in ((["1"], "broker 1"), (["--default"], "all brokers")):
            alter = ["configs", "alter", "brokers", *target, "--add", "log.retention.mss=5"]
            result = kq(*alter, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
            assert (result.exit_code, result.stdout) == (0, f"Changed: {shown}: log.retention.mss.\n")
            assert result.stderr == (
                "log.retention.mss is stored and has no effect: the broker does not know it; did you mean "
                "'log.retention.ms'?\n"
            )


def test_settings_of_the_brokers_start_are_shown(kq: Kq) -> None:
    with kqueue.Broker(settings={"log.retention.ms": 3600000, "num.partitions": 2}) as broker:
        broker.create_topic("t")
        env = {"KQUEUE_BOOTSTRAP": broker.bootstrap}
        text = kq("configs", "describe", "brokers", "1", env=env).stdout
        rows = dict(line.split(maxsplit=1) for line in text.splitlines())
        assert rows["log.retention.ms"].startswith("3600000 ")
        assert "broker's start" in rows["log.retention.ms"]
        assert "broker's start" in rows["num.partitions"]
        assert "default" not in text
        assert "(--all shows all in force)" in text
        for source in ("--default", "1"):
            kq("configs", "alter", "brokers", source, "--add", "log.segment.bytes=2000000", env=env)
        topic = kq("configs", "describe", "topics", "t", env=env).stdout
        assert topic == "topic t: nothing is set (--all shows all in force)\n"


def test_long_values_are_cut_in_tables_of_many_settings(alone: Done) -> None:
    name = "listener.security.protocol.map"
    lines = alone("configs", "describe", "brokers", "1", "--all").splitlines()
    assert max(map(len, lines)) < 135
    assert any(line.startswith(name) and "…" in line for line in lines)
    [*_, one] = alone("configs", "describe", "brokers", "1", "-s", name).splitlines()
    assert "SASL_SSL:SASL_SSL" in one


def test_groups_and_client_metrics(alone: Done) -> None:
    assert alone("configs", "describe", "groups") == "No groups have settings.\n"
    alone("configs", "alter", "groups", "g", "--add", "consumer.session.timeout.ms=46000")
    alone("configs", "alter", "client-metrics", "m", "--add", "metrics=*", "--add", "interval.ms=1000")
    assert "consumer.session.timeout.ms  46000  group   at run time" in alone("configs", "describe", "groups")
    assert "client metrics m: 2 settings" in alone("configs", "describe", "client-metrics")


def test_levels_of_loggers(alone: Done) -> None:
    alone("configs", "alter", "broker-loggers", "1", "--add", "root=FATAL")
    text = alone("configs", "describe", "broker-loggers")
    assert text.splitlines()[2].split() == ["root", "FATAL", "logger", "at", "run", "time"]
    assert "kqueue.broker" in text


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["alter", "topics", "{topic}", "--add", "retention.mss=1"], 1, "did you mean 'retention.ms'"),
        (["alter", "topics", "{topic}", "--add", "retention.ms=x"], 1, "expected a 64-bit number"),
        (
            ["alter", "topics", "{topic}", "--delete", "retention.mss"],
            1,
            "'retention.mss'; did you mean 'retention.ms'",
        ),
        (["alter", "topics", "none", "--delete", "retention.ms"], 1, "`kqueue topics list` shows all topics"),
        (["alter", "groups", "g", "--delete", "session.timeout.ms"], 1, "no setting of groups"),
        (["alter", "brokers", "--default", "--delete", "log.retention.m"], 1, "did you mean 'log.retention.ms'"),
        (["alter", "broker-loggers", "1", "--delete", "nobody"], 1, "there is no logger 'nobody'"),
        (
            ["alter", "topics", "{topic}", "--append", "retention.ms=1"],
            1,
            "--append is for lists, and retention.ms has one value (LONG): use --add",
        ),
        (
            ["alter", "broker-loggers", "1", "--append", "root=INFO"],
            1,
            "--append is not for loggers, expected --add or",
        ),
        (
            ["alter", "topics", "none", "--add", "retention.ms=1"],
            1,
            "there is no topic 'none'; `kqueue topics list` shows",
        ),
        (["alter", "brokers", "x", "--add", "log.retention.ms=1"], 2, "'x' is no broker's id; `kqueue cluster info`"),
        (["describe", "broker-loggers", "x"], 2, "'x' is no broker's id"),
        (["alter", "topics", "{topic}", "--add", "cleanup.policy='SET'"], 1, "SET"),
        (["alter", "brokers", "1", "--add", "log.dirs=/x"], 1, "log.dirs can't be changed at run time"),
        (["alter", "brokers", "8", "--add", "log.retention.ms=1"], 1, "the cluster has no broker 8"),
        (["describe", "topics", "none"], 1, "there is no topic 'none'"),
        (["describe", "topics", "{topic}", "-s", "nope"], 1, "no setting of topics is called 'nope'"),
        (["describe", "topics", "{topic}", "-s", "segment.byte"], 1, "did you mean 'segment.bytes'?"),
        (["describe", "brokers", "-s", "log.retntion.ms"], 1, "did you mean 'log.retention.ms'?"),
        (["alter", "topics", "{topic}"], 2, "nothing to change"),
        (["alter", "topics", "--add", "retention.ms=1"], 2, "name what to change"),
        (["alter", "topics", "--default", "--add", "retention.ms=1"], 2, "only brokers have defaults"),
        (["alter", "topics", "{topic}", "--add", "retention.ms"], 2, "write NAME=VALUE"),
        (["describe", "groups", "--default"], 2, "--default is for brokers"),
        (["describe", "users"], 2, "'users' is not one of"),
    ],
)
def test_errors_say_what_to_do(kq: Kq, topic: str, args: list[str], status: int, words: str) -> None:
    result = kq("configs", *[arg.format(topic=topic) for arg in args])
    assert (result.exit_code, words in result.stderr) == (status, True), result.stderr


def test_no_broker_is_one_sentence(kq: Kq) -> None:
    result = kq("configs", "describe", "topics", env={"KQUEUE_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "no broker answers at 127.0.0.1:1" in result.stderr
