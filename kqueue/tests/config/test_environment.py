"""Tests of `kqueue.config.environment`: which settings environment variables mean."""

from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.environment import setting_names
from kqueue.config.security_names import MECHANISMS
from kqueue.security.sasl.mechanisms import SUPPORTED
from kqueue.tests.tables import for_each

LISTENERS = ("SASL_PLAINTEXT", "MY-OWN", "A", "A_PLAIN")


def meant(stem: str, listeners: tuple[str, ...] = LISTENERS) -> str | None:
    return setting_names([f"KQUEUE_{stem}"], listeners).get(f"KQUEUE_{stem}")


@for_each(
    "spelling",
    ["SASL_PLAINTEXT_SCRAM_SHA_256", "SASL__PLAINTEXT_SCRAM___SHA___256", "SASL___PLAINTEXT_SCRAM__SHA__256"],
)
def test_listener_and_mechanism_are_found_in_every_spelling(spelling: str) -> None:
    name = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
    assert meant(f"LISTENER_NAME_{spelling}_SASL_JAAS_CONFIG") == name


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("LOG_DIRS", "log.dirs"),
        ("KQUEUE_FLUSH", "kqueue.flush"),
        ("FLUSH", "kqueue.flush"),
        ("METRICS_LISTENER", "kqueue.metrics.listener"),
        ("LISTENER_NAME_MY_OWN_SSL_CLIENT_AUTH", "listener.name.my-own.ssl.client.auth"),
        ("LISTENER_NAME_MY___OWN_SSL_CLIENT_AUTH", "listener.name.my-own.ssl.client.auth"),
        ("LISTENER_NAME_A_SASL_ENABLED_MECHANISMS", "listener.name.a.sasl.enabled.mechanisms"),
        ("LISTENER_NAME_A_MAX_CONNECTION_CREATION_RATE", "listener.name.a.max.connection.creation.rate"),
        ("LISTENER_NAME_A_SSL_ENGINE_FACTORY_CLASS", "listener.name.a.ssl.engine.factory.class"),
        ("LISTENER_NAME_A_PLAIN_SSL_CLIENT_AUTH", "listener.name.a_plain.ssl.client.auth"),
        ("CONFIG_PROVIDERS_MY__OWN_PARAM_ALLOWED_PATHS", "config.providers.my_own.param.allowed.paths"),
        ("ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
    ],
)
def test_variables_mean_settings(stem: str, name: str) -> None:
    assert meant(stem) == name


def test_names_that_differ_in_hyphens_only_take_escapes() -> None:
    listeners = ("A_B", "A-B")
    assert meant("LISTENER_NAME_A__B_SSL_CLIENT_AUTH", ("A_B", "C")) == "listener.name.a_b.ssl.client.auth"
    with pytest.raises(SettingError, match=r"may mean listener.name.a-b.ssl.client.auth or listener.name.a_b.ssl"):
        meant("LISTENER_NAME_A_B_SSL_CLIENT_AUTH", listeners)
    # a listener and a mechanism, or another listener
    assert meant("LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG") == "listener.name.a.plain.sasl.jaas.config"
    assert meant("LISTENER_NAME_A__PLAIN_SASL_JAAS_CONFIG") == "listener.name.a_plain.sasl.jaas.config"


@for_each(
    "stem, words",
    [
        ("SASL_ENABLED_MECHANISM", "did you mean KQUEUE_SASL_ENABLED_MECHANISMS .* looks like a setting of security"),
        ("SALS_ENABLED_MECHANISMS", "did you mean KQUEUE_SASL_ENABLED_MECHANISMS"),
        ("AUTHORISER_CLASS_NAME", "did you mean KQUEUE_AUTHORIZER_CLASS_NAME"),
        ("SUPERUSERS", "did you mean KQUEUE_SUPER_USERS"),
        ("SSL_FOO", "no setting is called 'ssl.foo'"),
        ("MY_PASSWORD", "no setting is called 'my.password'"),
        ("LISTENER_NAME_NONE_SSL_CLIENT_AUTH", r"no listener \(of SASL_PLAINTEXT, MY-OWN, A, A_PLAIN\)"),
        ("LISTENER_NAME_A_SCRAM_SHA_257_SASL_JAAS_CONFIG", "names a setting of a listener, sasl.jaas.config"),
        ("LISTENER_NAME_A_SSL_CLIENT_AUT", "looks like a setting of security"),
    ],
)
def test_a_setting_of_security_that_would_be_left_out_is_refused(stem: str, words: str) -> None:
    with pytest.raises(SettingError, match=f"environment variable KQUEUE_{stem}.*{words}"):
        meant(stem)


def test_others_are_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert meant("LOG_RETENTION_MINUTE") is None
    assert meant("FOO_BAR") is None
    assert [record.getMessage() for record in caplog.records] == [
        (
            "environment variable KQUEUE_LOG_RETENTION_MINUTE: no setting is called 'log.retention.minute'; did you "
            "mean KQUEUE_LOG_RETENTION_MINUTES (log.retention.minutes)?: it is left out"
        ),
        "environment variable KQUEUE_FOO_BAR: no setting is called 'foo.bar': it is left out",
    ]


def test_every_mechanism_is_found_in_names() -> None:
    assert set(SUPPORTED) <= set(MECHANISMS)
