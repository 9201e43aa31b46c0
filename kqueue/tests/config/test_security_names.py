"""A broker does not start without a setting of security that a source misspells."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.security_names import STOPS, is_misspelt
from kqueue.tests.config.configs import read_config
from kqueue.tests.tables import for_each

SECURED = """listeners=CLIENTS://127.0.0.1:0,PLAIN_ONE://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,PLAIN_ONE:PLAINTEXT,CONTROLLER:PLAINTEXT,LATER:SASL_SSL
controller.listener.names=CONTROLLER,OTHER
sasl.enabled.mechanisms=SCRAM-SHA-256
"""
PREFIX = "listener.name.clients"


@for_each(
    "name",
    [
        "authoriser.class.name",
        "super.user",
        "superusers",
        "ssl.client.authentication",
        "sasl.enabled.mechanism",
        "sals.enabled.mechanisms",
        "ssl.foo",
        "allow.everyone.if.no.acl",
        "delegation.token.master.key",
        "kqueue.sasl.user.file",
        "secuirty.inter.broker.protocol",
        "principal.bulder.class",
        "listner",
    ],
)
def test_misspelt_names_of_security_are_recognised(name: str) -> None:
    assert is_misspelt(name)


@for_each(
    "name",
    [
        "confluent.license.topic.replication.factor",
        "confluent.metadata.server.authentication.method",
        "confluent.ssl.key.password",
        "confluent.metrics.reporter.sasl.jaas.config",
        "cruise.control.metrics.reporter.sasl.jaas.config",
        "strimzi.authorization.grants",
        "remote.log.metadata.security.protocol",
        "kafka.rest.ssl.keystore.location",
        "oauth.jwks.endpoint.uri",
        "log.retention.hour",
        "num.partition",
        "max.request.size",
    ],
)
def test_names_of_plugins_and_of_other_settings_are_not(name: str) -> None:
    assert not is_misspelt(name)


def test_a_file_that_misspells_security_is_refused_with_all_its_names(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("authoriser.class.name=x\nconfluent.license=y\nsuper.user=User:ann\nsasl.enabled.mechanism=PLAIN\n")
    with pytest.raises(SettingError) as raised:
        read_config(file)
    assert str(raised.value) == (
        f"{file} line 1: no setting is called 'authoriser.class.name'; did you mean 'authorizer.class.name'?; "
        f"{file} line 3: no setting is called 'super.user'; did you mean 'super.users'?; "
        f"{file} line 4: no setting is called 'sasl.enabled.mechanism'; did you mean 'sasl.enabled.mechanisms'? {STOPS}"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "listener.name.client.scram-sha-256.sasl.jaas.config",
            "no listener is called 'client' .*: clients, controller",
        ),
        (f"{PREFIX}.scram-sha256.sasl.jaas.config", "no mechanism is called 'scram-sha256'"),
        (
            f"{PREFIX}.scram-sha-256.sasl.jas.config",
            "no setting 'scram-sha-256.sasl.jas.config'; did you mean 'sasl.jaas.",
        ),
        (f"{PREFIX}.ssl.client.authentication", "no setting 'ssl.client.authentication'"),
        (f"{PREFIX}.super.users", "super.users can't be set for one listener"),
        (
            "listener.name.CLIENTS.SCRAM-SHA-256.sasl.jaas.config",
            f"in lower case: {PREFIX}.scram-sha-256.sasl.jaas.config",
        ),
        (f"{PREFIX}.principal.builder.class", "asks for principals that a class builds"),
    ],
)
@pytest.mark.parametrize("source", ["file", "pair"])
def test_a_setting_of_a_listener_that_would_be_left_out_is_refused(
    source: str, name: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SECURED + (f"{name}=x\n" if source == "file" else ""))
    with pytest.raises(SettingError, match=words):
        read_config(file, pairs=[] if source == "file" else [f"{name}=x"])


def test_a_variable_whose_setting_no_listener_has_is_refused() -> None:
    variables = {"KQUEUE_LISTENERS": "CLIENTS://127.0.0.1:0", "KQUEUE_LISTENER_NAME_CLIENTS_SUPER_USERS": "User:ann"}
    with pytest.raises(SettingError, match=r"SUPER_USERS: .*super.users can't be set for one listener"):
        read_config(environment=variables)


@pytest.mark.parametrize("listener", ["clients", "controller", "other", "later"])
def test_listeners_of_controllers_and_those_with_a_protocol_may_have_settings(listener: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    name = f"listener.name.{listener}.scram-sha-256.sasl.jaas.config"
    file.write_text(f"{SECURED}{name}=x\n")
    assert read_config(file).is_set(name)


def test_users_of_a_mechanism_that_is_not_enabled_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"{SECURED}listener.name.plain_one.sasl.enabled.mechanisms=PLAIN\n"
        f"{PREFIX}.plain.sasl.jaas.config=x\nlistener.name.plain_one.plain.sasl.jaas.config=x\n"
    )
    with caplog.at_level(logging.WARNING, "kqueue"):
        read_config(file)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{file} line 6: {PREFIX}.plain.sasl.jaas.config has no effect: PLAIN is not in sasl.enabled.mechanisms of "
        "this listener"
    )


def test_the_brokers_own_login_at_others_is_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "server.properties"
    cluster = "kqueue.cluster.store=sqlite:x.db\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
    file.write_text(f"{SECURED}{cluster}{PREFIX}.plain.sasl.jaas.config=x\n")
    with caplog.at_level(logging.WARNING, "kqueue"):
        read_config(file)
    assert caplog.records == []
