from __future__ import annotations

import re

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.metrics_listener import MetricsListener, metrics_listener
from kqueue.config.properties import SourcedValue, make_config
from kqueue.tests.tables import for_each


def listener(text: str, **more: str) -> MetricsListener | None:
    values = {"kqueue.metrics.listener": text} | {name.replace("_", "."): value for name, value in more.items()}
    return metrics_listener(make_config({name: SourcedValue(value, "test") for name, value in values.items()}))


@for_each(
    "text, told",
    [
        ("127.0.0.1:9404", "http://127.0.0.1:9404"),
        ("localhost:0", "http://127.0.0.1:0"),
        ("http://[::1]:9404", "http://[::1]:9404"),
        ("https://0.0.0.0:9404", "https://0.0.0.0:9404"),
    ],
)
def test_addresses(text: str, told: str) -> None:
    assert str(listener(text)) == told


def test_without_the_setting_there_is_none() -> None:
    assert metrics_listener(make_config({})) is None


@for_each("text", ["9404", "127.0.0.1", "127.0.0.1:70000", "ftp://127.0.0.1:1", "http://127.0.0.1:9404/metrics"])
def test_what_is_no_address_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(SettingError, match=rf"kqueue.metrics.listener: expected HOST:PORT.*found '{re.escape(text)}'"):
        listener(text)


def test_other_machines_need_tls_or_leave() -> None:
    with pytest.raises(SettingError, match="other machines could read metrics without TLS: listen on loopback"):
        listener("0.0.0.0:9404")
    assert str(listener("0.0.0.0:9404", kqueue_allow_insecure="true")) == "http://0.0.0.0:9404"


def test_workers_have_the_ports_that_follow() -> None:
    given, free = listener("127.0.0.1:9404"), listener("127.0.0.1:0")
    assert given is not None
    assert free is not None
    assert [str(given.shifted(number)) for number in range(2)] == ["http://127.0.0.1:9404", "http://127.0.0.1:9405"]
    assert free.shifted(3).port == 0
