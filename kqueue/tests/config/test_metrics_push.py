from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.metrics_push import MetricsPush, metrics_push
from kqueue.config.properties import SourcedValue, make_config
from kqueue.tests.tables import for_each


def push(endpoint: str, **more: str) -> MetricsPush:
    values = {"kqueue.metrics.otlp.endpoint": endpoint}
    values |= {name.replace("_", "."): value for name, value in more.items()}
    target = metrics_push(make_config({name: SourcedValue(value, "test") for name, value in values.items()}))
    assert target is not None
    return target


@for_each(
    "endpoint, url",
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
        ("http://localhost:4318/", "http://localhost:4318/v1/metrics"),
        ("http://[::1]:4318/otlp", "http://[::1]:4318/otlp"),
        ("https://collector.example", "https://collector.example:443/v1/metrics"),
    ],
)
def test_urls(endpoint: str, url: str) -> None:
    assert str(push(endpoint)) == url


def test_without_the_setting_nothing_is_pushed() -> None:
    assert metrics_push(make_config({})) is None


@for_each(
    "endpoint",
    [
        "collector:4318", "127.0.0.1", "ftp://127.0.0.1", "http://", "http://127.0.0.1:0", "http://127.0.0.1:70000",
        "http://127.0.0.1:4318/v1?x=1", "http://127.0.0.1:4318/a b", "http://127.0.0.1/\r\nX: y", "http://[::1",
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(SettingError, match=r"kqueue.metrics.otlp.endpoint: expected http://HOST:PORT or https"):
        push(endpoint)


def test_a_password_in_the_url_is_refused_and_not_told() -> None:
    with pytest.raises(SettingError, match="found 'https://collector.example'") as refused:
        push("https://ann:secret@collector.example")
    assert "secret" not in str(refused.value)


def test_other_machines_need_https_or_leave() -> None:
    with pytest.raises(SettingError, match="others on the way could read and change metrics: use https"):
        push("http://collector.example:4318")
    assert not push("http://collector.example:4318", kqueue_allow_insecure="true").uses_tls


def test_headers_are_percent_encoded() -> None:
    target = push("https://c.example", kqueue_metrics_otlp_headers="authorization=Bearer%20a%3Db, x-tenant=7,")
    assert target.headers == {"authorization": "Bearer a=b", "x-tenant": "7"}
    assert "Bearer" not in str(target)


@for_each("headers", ["authorization", "=x", "a b=c", "a=%0d%0ab", "ä=x", "a=%e4"])
def test_what_is_no_header_is_refused_and_not_told(headers: str) -> None:
    with pytest.raises(SettingError, match=r"kqueue.metrics.otlp.headers: expected name=value") as refused:
        push("https://c.example", kqueue_metrics_otlp_headers=headers)
    assert headers not in str(refused.value)
