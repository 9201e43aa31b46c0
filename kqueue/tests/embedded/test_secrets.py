"""Secrets stay where they belong: markers in every place that takes one are in no log, exception,
description, `repr` or file.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry
from confluent_kafka.admin._config import ConfigResource as ConfluentResource
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

import kqueue
from kqueue.base.errors import KqueueError, SettingError
from kqueue.base.key_stores import StoreSettings
from kqueue.cli.app import kqueue as main

MARK = "M4rk3r"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS: dict[str, object] = {
    "listeners": "SASL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required password="{MARK}own" user_ann="{MARK}plain";',
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f'{SCRAM} required user_bob="{MARK}scram";',
    "ssl.keystore.password": f"{MARK}store",
    "ssl.key.password": f"{MARK}key",
    "ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\n{MARK}pem\n-----END PRIVATE KEY-----",
    "ssl.truststore.password": f"{MARK}trust",
    "connection.failed.authentication.delay.ms": 1,
}


def client_of(broker: kqueue.Broker, user: str, password: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def node_of(broker: kqueue.Broker) -> str:
    return str(broker._server.broker.identity.node_id)


def files_with_marker(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()]


def holders(broker: kqueue.Broker) -> str:
    """The `repr` of what holds secrets, and of what is reached from a connection."""
    server = broker._server
    objects: list[object] = [broker, server, server.config, server.broker, server.broker.security, server._listeners]
    objects += vars(server._listeners).values()
    for session in server.connections.sessions:
        names = [name for cls in type(session).__mro__ for name in getattr(cls, "__slots__", ())]
        objects += [session, *(getattr(session, name, None) for name in names)]
    return "\n".join(map(repr, objects))


@pytest.mark.long
def test_no_secret_of_authentication_leaves_the_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kqueue")
    with kqueue.Broker(tmp_path, settings=SETTINGS) as broker:
        for user, secret, mechanism in (("ann", "plain", "PLAIN"), ("bob", "scram", "SCRAM-SHA-512")):
            with pytest.raises(KafkaError):
                KafkaProducer(**client_of(broker, user, f"{MARK}wrong", mechanism), bootstrap_timeout_ms=3_000)
            producer = KafkaProducer(**client_of(broker, user, MARK + secret, mechanism))
            producer.send("t", b"x").get(60)
            assert MARK not in holders(broker)
            producer.close()
        admin = KafkaAdminClient(**client_of(broker, "ann", f"{MARK}plain"))
        described = admin.describe_configs(
            [ConfigResource(ConfigResourceType.BROKER, node_of(broker))], config_filter="all"
        )
        admin.close()
        assert "ssl.keystore.password" in repr(described)
        assert MARK not in repr(described)
        requests = broker.requests()
        assert any(request.api == "SaslAuthenticate" for request in requests)
        assert MARK not in repr(requests) + repr([request.body for request in requests])
        assert files_with_marker(tmp_path) == []
        texts = [repr(record.__dict__) + "".join(map(repr, record.args or ())) for record in caplog.records
                 if record.name.startswith("kqueue")]  # fmt: skip
        assert texts
        assert MARK not in "\n".join(texts)
    assert files_with_marker(tmp_path) == []


def test_a_sensitive_setting_altered_at_run_time_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kqueue")
    with kqueue.Broker(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        entry = ConfigEntry("listener.name.plaintext.ssl.key.password", f"{MARK}key",
                            incremental_operation=AlterConfigOpType.SET)  # fmt: skip
        resource = ConfluentResource(ConfluentResource.Type.BROKER, node_of(broker), incremental_configs=[entry])
        [altered] = admin.incremental_alter_configs([resource]).values()
        assert MARK not in repr(altered.exception(60))
        [described] = admin.describe_configs(
            [ConfluentResource(ConfluentResource.Type.BROKER, node_of(broker))]
        ).values()
        assert MARK not in repr({name: setting.value for name, setting in described.result(60).items()})
        bodies = [request.body for request in broker.requests() if "AlterConfigs" in request.api]
        assert bodies
        assert MARK not in repr(bodies)
        assert not any(MARK in repr(record.__dict__) for record in caplog.records if record.name.startswith("kqueue"))


@pytest.mark.parametrize(
    "settings",
    [
        {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required user_ann="{MARK}'},
        {"listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN} {MARK}"},
        {"listener.name.sasl.plain.sasl.jaas.config": f'{SCRAM} required user_ann="{MARK}";'},
    ],
)
def test_errors_of_a_start_name_no_secret(settings: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    broker = kqueue.Broker(settings=SETTINGS | settings)
    with pytest.raises(KqueueError) as raised, broker:
        pass
    assert MARK not in "".join(traceback.format_exception(raised.value))
    assert MARK not in caplog.text


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_errors_of_key_stores_name_no_secret(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "store").write_text(f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----\n")
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(tmp_path / "store"),
        "ssl.key.password": f"{MARK}key",
    }
    if kind == "PKCS12":
        settings["ssl.keystore.password"] = f"{MARK}store"
    broker = kqueue.Broker(settings=settings)
    with pytest.raises(KqueueError) as raised, broker:
        pass
    assert MARK not in "".join(traceback.format_exception(raised.value))
    assert MARK not in caplog.text


def test_settings_of_a_store_show_no_secret() -> None:
    store = StoreSettings("ssl.keystore", "PEM", None, f"{MARK}1", f"{MARK}2", f"{MARK}3", f"{MARK}4")
    assert MARK not in repr(store)
    assert "ssl.keystore" in repr(store)


def test_a_password_for_a_stored_user_is_only_kept_salted(tmp_path: Path) -> None:
    args = ["users", "add", "ann", "--folder", str(tmp_path)]
    added = CliRunner().invoke(main, args, input=f"{MARK}stored\n")
    assert added.exit_code == 0, added.output
    assert MARK not in added.output
    assert files_with_marker(tmp_path) == []
    settings = {name: SETTINGS[name] for name in ("listeners", "listener.security.protocol.map")}
    with kqueue.Broker(tmp_path, settings=settings | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": f"{MARK}stored",
        }
        producer = Producer(config)
        producer.produce("t", b"x")
        assert producer.flush(60) == 0
        assert MARK not in holders(broker) + repr(broker.requests())
    assert files_with_marker(tmp_path) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN"},
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
                'org.apache.kafka.common.security.scram.ScramLoginModule required user_ann="secret";'
            ),
        },
    ],
)
def test_a_refused_start_says_why_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, str]
) -> None:
    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with pytest.raises(SettingError, match="of listener SASL_PLAINTEXT has no"), caplog.at_level("WARNING"):
        kqueue.Broker(tmp_path, settings={**listeners, **settings}).start()
    assert not caplog.records
