from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.api.config_entries import broker_config_entries
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import Catalog, Scope, Setting, SettingType, at_least, is_secret
from kqueue.config.catalog import CATALOG
from kqueue.config.properties import from_environment, keyword_name, parse_properties
from kqueue.tests.config.configs import read_config
from kqueue.tests.tables import for_each


def parse(text: str) -> dict[str, str]:
    return {name: value for _, name, value in parse_properties(text)}


@for_each(
    "text, properties",
    [
        ("a=b", {"a": "b"}),
        ("  a = b  ", {"a": "b  "}),
        ("a:b\r\nc d\re\tf", {"a": "b", "c": "d", "e": "f"}),
        ("# comment\n! comment\n   # comment\n\n  \na=#b", {"a": "#b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=one,\\\n    two,\\\n# three", {"a": "one,two,# three"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\t\\n\\u00e9\\q", {"a": "\t\néq"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_file_format_is_that_of_java(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=6))
def test_escaped_text_is_read_back(values: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else letter for letter in text)

    assert parse("\n".join(f"{escaped(name)}={escaped(value)}" for name, value in values.items())) == values


@given(st.text(alphabet="ab=: \\\t\n\r#!u0", max_size=60))
def test_any_text_is_parsed(text: str) -> None:
    assert all(number >= 1 for number, _, _ in parse_properties(text))


def test_line_numbers_are_those_where_a_setting_begins() -> None:
    assert [number for number, _, _ in parse_properties("# x\na=1\\\n2\n\nb=3")] == [2, 5]


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.dirs=/a,/b\nnode.id=5\nlog.segment.bytes=2000\n")
    config = read_config(
        file,
        {"KQUEUE_NUM_PARTITIONS": "3", "KQUEUE_LOG_SEGMENT_BYTES": "3000", "KQUEUE_NODE_ID": "6", "PATH": "/bin"},
        ["log.segment.bytes=4000", "node.id = 7"],
        {"node.id": 8},
    )
    assert (config["log.dirs"], config["num.partitions"], config["log.segment.bytes"], config["node.id"]) == (
        ["/a", "/b"],
        3,
        4000,
        8,
    )


def test_no_source_gives_the_defaults() -> None:
    config = read_config()
    assert not any(config.is_set(name) for name in config)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "num.partitions=0",
            "line 1: Invalid value 0 for configuration num.partitions: Value must be at least 1; expected a 32",
        ),
        (
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "it kept ACLs in ZooKeeper, and Kafka 4 removed it; use org.apache.kafka.metadata.authorizer.Standard",
        ),
        ("authorizer.class.name=org.example.Nobody", "no authorizer is called 'org.example.Nobody'"),
        (
            "super.users=ann",
            "line 1: Invalid value ann for configuration super.users: expected text, Type:name, separated by semi",
        ),
        (
            "ssl.client.auth=yes",
            "line 1: Invalid value yes for configuration ssl.client.auth: String must be one of: required, req",
        ),
    ],
)
def test_mistakes_are_refused_with_line_and_expectation(content: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(content)
    with pytest.raises(SettingError, match=words):
        read_config(file)


def test_mistakes_in_other_sources_name_the_source() -> None:
    with pytest.raises(SettingError, match="--set num.partitions: Invalid value x for configuration num.partitions"):
        read_config(pairs=["num.partitions=x"])
    with pytest.raises(
        SettingError, match="--set num.part: .*'num.partitions'.*; --set a.b: no setting is called 'a.b'"
    ):
        read_config(pairs=["num.part=1", "a.b=1", "num.partitions=2"])
    with pytest.raises(SettingError, match="expected name=value, found 'log.dirs'"):
        read_config(pairs=["log.dirs"])


def test_unknown_names_of_a_file_are_left_out_with_the_nearest_right_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("\nlog.segment.byte=3\nconfluent.metrics.enable=x\nsegment.bytes=100\nnode.id=3\n")
    with caplog.at_level(logging.WARNING, "kqueue"):
        config = read_config(file)
    assert (config["node.id"], config.is_set("log.segment.bytes")) == (3, False)
    assert [record.getMessage() for record in caplog.records] == [
        f"{file} line 2 is left out: no setting is called 'log.segment.byte'; did you mean 'log.segment.bytes'?",
        f"{file} line 3 is left out: no setting is called 'confluent.metrics.enable'",
        (
            f"{file} line 4 is left out: segment.bytes is a setting of topics, not of the broker; the default of all "
            "topics is set by log.segment.bytes"
        ),
    ]


def test_unknown_variables_are_left_out_with_the_nearest_right_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kqueue"):
        read_config(environment={"KQUEUE_NUM_PARTITION": "5"})
    assert [record.getMessage() for record in caplog.records] == [
        (
            "environment variable KQUEUE_NUM_PARTITION: no setting is called 'num.partition'; did you mean "
            "KQUEUE_NUM_PARTITIONS (num.partitions)?: it is left out"
        )
    ]


SECRETS = "listeners=A-B://127.0.0.1:0\nlistener.security.protocol.map=A-B:SASL_PLAINTEXT\n"


def test_listeners_of_a_file_are_found_in_names_of_variables(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SECRETS)
    config = read_config(file, {"KQUEUE_LISTENER_NAME_A_B_SCRAM_SHA_512_SASL_JAAS_CONFIG": "x"})
    assert config.is_set("listener.name.a-b.scram-sha-512.sasl.jaas.config")
    config = read_config(
        file,
        {"KQUEUE_LISTENERS": "X_Y://127.0.0.1:0", "KQUEUE_LISTENER_NAME_X_Y_SSL_CLIENT_AUTH": "required"},
        ["listener.security.protocol.map=X_Y:SSL"],
    )
    assert config.of_listener("X_Y", "ssl.client.auth") == "required"


def test_kafka_settings_without_effect_are_warned_of_in_one_line_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "create.topic.policy.class.name=\nmetadata.log.dir=/m\nrequest.timeout.ms=8\nnode.id=3\nrequest.timeout.ms=4\n"
    )
    with caplog.at_level(logging.WARNING, "kqueue"):
        assert read_config(file)["node.id"] == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"{file} line 1: create.topic.policy.class.name has no effect and is left out: its value requests no feature",
        (
            f"{file} line 2: metadata.log.dir has no effect and is left out: there is no controller quorum: "
            "metadata are in a store (kqueue.metadata, kqueue.cluster.store)"
        ),
        (
            f"{file} line 5: request.timeout.ms has no effect and is left out: connections between brokers have "
            "timeouts and buffers of their own"
        ),
    ]


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="none.properties can't be read: No such file"):
        read_config(tmp_path / "none.properties")
    (tmp_path / "binary").write_bytes(b"a=\xff")
    with pytest.raises(SettingError, match="no text in UTF-8"):
        read_config(tmp_path / "binary")
    (tmp_path / "huge").write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(SettingError, match="at most 1048576 bytes"):
        read_config(tmp_path / "huge")


def test_names_with_underscores_in_the_environment_are_found_by_their_own_spelling() -> None:
    settings = from_environment(
        {"KQUEUE_ADVERTISED_LISTENERS": "A", "KQUEUE_KQUEUE_FLUSH": "kafka", "KQUEUE_ZOOKEEPER_CONNECT": "z"}
    )
    assert {name: given.value for name, given in settings.items()} == {
        "advertised.listeners": "A",
        "kqueue.flush": "kafka",
        "zookeeper.connect": "z",
    }


def test_two_variables_with_different_values_of_one_setting_are_refused() -> None:
    same = {"KQUEUE_KQUEUE_FLUSH": "kafka", "KQUEUE_FLUSH": "kafka"}
    assert {name: given.value for name, given in from_environment(same).items()} == {"kqueue.flush": "kafka"}
    with pytest.raises(SettingError, match=r"KQUEUE_KQUEUE_FLUSH and KQUEUE_FLUSH give kqueue\.flush different values"):
        from_environment({"KQUEUE_KQUEUE_FLUSH": "kafka", "KQUEUE_FLUSH": "group"})


def test_foreign_variables_are_ignored() -> None:
    others = [
        "KQUEUE_BOOTSTRAP",
        "KQUEUE_COMMAND_CONFIG",
        "KQUEUE_CLIENT_SECURITY_PROTOCOL",
        "KQUEUE_SERVICE_HOST",
        "KQUEUE_SERVICE_PORT_KAFKA",
        "KQUEUE_PORT",
        "KQUEUE_PORT_9092_TCP_ADDR",
        "HOME",
    ]
    assert from_environment(dict.fromkeys(others, "x")) == {}


def test_variables_of_installed_plugins_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match=r"no setting is called 'sample.key'"):
        read_config(environment={"KQUEUE_SAMPLE_KEY": "x"})
    installed = tmp_path / "sample-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[kqueue.variables]\nKQUEUE_SAMPLE_KEY = sample:KEY\n")
    monkeypatch.syspath_prepend(tmp_path)
    read_config(environment={"KQUEUE_SAMPLE_KEY": "x"})
    with pytest.raises(SettingError, match=r"no setting is called 'sample.keys'"):
        read_config(environment={"KQUEUE_SAMPLE_KEYS": "x"})


def test_keywords_of_python_mean_names_with_dots() -> None:
    assert keyword_name("log_segment_bytes") == "log.segment.bytes"


KAFKAS_PASSWORDS = [
    "delegation.token.secret.key",
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "password.encoder.secret",
    "password.encoder.old.secret",
]
SECRET = "hunter2"


@for_each(
    "name", [*KAFKAS_PASSWORDS, "listener.name.internal.ssl.key.password", "listener.name.a.plain.sasl.jaas.config"]
)
def test_kafkas_settings_of_type_password_are_secret(name: str) -> None:
    """Source: the type PASSWORD in Kafka 4.3's and 3.9's broker configuration."""
    assert is_secret(name)


@for_each("name", ["log.dirs", "kqueue.flush", "compression.type", "max.connections.per.ip", "kqueue.partitioner"])
def test_settings_of_ours_are_shown(name: str) -> None:
    assert not is_secret(name)


def test_no_setting_of_ours_is_hidden_by_accident() -> None:
    rows = (*CATALOG.broker.values(), *CATALOG.topic.values())
    assert [row.name for row in rows if is_secret(row.name) and row.kind is not SettingType.PASSWORD] == []


@pytest.mark.parametrize("row", [row for row in CATALOG.broker.values() if row.kind is SettingType.PASSWORD])
def test_no_declared_secret_is_shown(row: Setting, caplog: pytest.LogCaptureFixture) -> None:
    config = read_config(pairs=[f"{row.name}={SECRET}"])
    assert config[row.name] == SECRET
    assert row.is_secret
    assert SECRET not in caplog.text + repr(config)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in KAFKAS_PASSWORDS if name not in CATALOG.broker),
        "ssl.keystore.pasword",
        "my.own.setting",
        "num.partition",
        "create.topic.policy.class.name",
        "sasl.kerberos.service.name",
    ],
)
@pytest.mark.parametrize("source", ["file", "environment", "pairs", "keywords"])
def test_values_of_secrets_and_of_unknown_settings_are_never_shown(
    name: str, source: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arguments: dict[str, Any] = {
        "file": {"file": tmp_path / "p"},
        "environment": {"environment": {"KQUEUE_" + name.upper().replace(".", "_"): SECRET}},
        "pairs": {"pairs": [f"{name}={SECRET}"]},
        "keywords": {"keywords": {name: SECRET}},
    }[source]
    (tmp_path / "p").write_text(f"{name}={SECRET}\n")
    said = ""
    try:
        read_config(**arguments)
    except SettingError as error:
        said = "".join(traceback.format_exception(error))
    assert said or caplog.text or name in CATALOG.broker
    assert SECRET not in said + caplog.text


@for_each("pair", [SECRET, f"={SECRET}", f"ssl.key.password:{SECRET}", f"ssl.key.password {SECRET}"])
def test_malformed_pair_is_not_shown(pair: str) -> None:
    with pytest.raises(SettingError, match="--set: expected name=value, found no name before a =") as caught:
        read_config(pairs=[pair])
    assert SECRET not in str(caught.value)


def test_the_value_of_a_declared_secret_is_in_no_message_and_in_no_response() -> None:
    row = Setting("my.password", SettingType.INT, 1, at_least(1), Scope.BROKER, "A number that nobody may know.")
    for value in ("x4711", -4711):
        with pytest.raises(
            SettingError,
            match=r"Invalid value \[hidden\] for configuration my.password: .*expected a 32-bit number, at least 1",
        ) as caught:
            row.parse(value)
        assert "4711" not in str(caught.value)
    (told,) = broker_config_entries(Config(Catalog([row]), {"my.password": 4711}))
    assert told.is_sensitive
    assert told.value is None
    assert {one.value for one in told.synonyms} == {None}
