from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import Prefix
from kqueue.config.catalog import CATALOG
from kqueue.security.tls_config import SETTINGS
from kqueue.tests.tables import for_each


@for_each(
    "name, value, words",
    [
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2", "TLSv1.1 is not secure, expected TLSv1.2 or TLSv1.3"),
        ("ssl.enabled.protocols", "", "expected a comma-separated list, TLSv1.2, TLSv1.3, or both"),
        ("ssl.client.auth", "maybe", "one of required, requested, none"),
        ("ssl.principal.mapping.rules", "RULE:x", "expected DEFAULT or RULE:pattern/replacement/"),
        ("listener.name.a.ssl.enabled.protocols", "SSLv3", "SSLv3 is not secure"),
    ],
)
def test_insecure_and_malformed_values_are_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Config(CATALOG, {name: value})


def test_settings_of_kafka_hold_for_single_listeners() -> None:
    rows = [row for row in SETTINGS if row.name.startswith("ssl.") and not row.name.startswith("ssl.allow.")]
    assert {row.prefix for row in rows} == {Prefix.LISTENER}
